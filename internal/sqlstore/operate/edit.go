package operate

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// editRows is about how many rows an edit counts in its group. It locks all jobs that it matches,
// so it should not share a transaction with many other calls.
const editRows = 100

const qKnownIDs = `select id from sj_job where id in (ints($1))`

// editRequest changes the jobs that a filter matches.
type editRequest struct {
	filter  sojourn.Filter
	edit    sojourn.Edit
	caller  *access.Caller
	members *member.Counter     // reopens the workflows of redriven members
	found   map[sojourn.ID]bool // the jobs that the call edits
	queue   string              // all of its jobs end; "" for edits
}

// Edit changes jobs; see driver.Store.
func (s *Operator) Edit(ctx context.Context, f sojourn.Filter, e sojourn.Edit) (sojourn.Page[sojourn.Edited], error) {
	if err := f.Validate(); err != nil {
		return sojourn.Page[sojourn.Edited]{}, err
	}
	if err := e.Validate(s.core.Cfg.MaxBytes); err != nil {
		return sojourn.Page[sojourn.Edited]{}, err
	}
	if err := rules.Chooses(f, e); err != nil {
		return sojourn.Page[sojourn.Edited]{}, err
	}
	f.Full, f.Wait = false, 0
	if f.Limit == 0 {
		f.Limit = sojourn.MaxFind
	}
	if e.DryRun {
		var out sojourn.Page[sojourn.Edited]
		err := s.core.View(ctx, func(t *txn.Tx) (err error) {
			out.Total, err = query.Count(t, f)
			return err
		})
		return out, err
	}
	rows := editRows
	if e.DependOn != nil {
		rows = txn.Alone
	}
	return txn.Do(ctx, s.core, editOp, rows, editRequest{filter: f, edit: e, caller: access.CallerOf(ctx), members: s.members})
}

// editOp edits each job by itself: the refusal of one does not stop the others.
var editOp = txn.EachOp("edit", groupcommit.Finish, func(t *txn.Tx, r editRequest) (sojourn.Page[sojourn.Edited], error) {
	if r.edit.DependOn != nil {
		err := edge.LockCycles(t) // before all locks of rows
		if err == nil {
			err = edge.LockParents(t, *r.edit.DependOn)
		}
		if err != nil {
			return sojourn.Page[sojourn.Edited]{}, err
		}
	}
	found, err := findLocked(t, r.filter)
	if err != nil {
		return sojourn.Page[sojourn.Edited]{}, err
	}
	out := sojourn.Page[sojourn.Edited]{Items: make([]sojourn.Edited, len(found))}
	if len(found) == r.filter.Limit && r.filter.IDs == nil {
		out.Next = found[len(found)-1].ID.String()
	}
	r.found = make(map[sojourn.ID]bool, len(found))
	for i := range found {
		if r.edit.Generation == 0 || r.edit.Generation == found[i].Generation {
			r.found[found[i].ID] = true
		}
	}
	for i, j := range found {
		state, changed, err := editOne(t, &found[i], &r)
		if err != nil && sojourn.ErrorCode(err) == "" {
			return out, err
		}
		out.Items[i] = sojourn.Edited{ID: j.ID, State: state, Changed: changed && err == nil, Err: err}
	}
	return out, addUnknown(t, &out, r.filter)
})

// editOne changes one job. Its refusals come before its first write, so that they need no rollback.
func editOne(t *txn.Tx, j *sojourn.Job, r *editRequest) (state sojourn.State, changed bool, err error) {
	e := &r.edit
	if e.Generation != 0 && e.Generation != j.Generation {
		return j.State, false, sojourn.Conflict("job %d is in generation %d, not %d", j.ID, j.Generation, e.Generation)
	}
	switch e.Action {
	case sojourn.EditCancel:
		return endByHand(t, j, r, rules.EventCancel, sojourn.Cancelled)
	case sojourn.EditFail:
		return endByHand(t, j, r, rules.EventFail, sojourn.Failed)
	case sojourn.EditRedrive:
		return redrive(t, j, e, r.members.Reopen, waitsForNone)
	case sojourn.EditRelease:
		return release(t, j, e)
	case sojourn.EditPurge:
		return purge(t, j, r)
	}
	return alter(t, j, r)
}

// findLocked finds jobs and locks their rows, so that no other transaction changes them.
func findLocked(t *txn.Tx, f sojourn.Filter) ([]sojourn.Job, error) {
	found, _, err := findPage(t, f)
	return found, err
}

// findPage is findLocked; last is the id of the last job that it has found before it has locked
// them. Jobs that another transaction has changed meanwhile are not among the found ones.
func findPage(t *txn.Tx, f sojourn.Filter) (found []sojourn.Job, last sojourn.ID, err error) {
	found, err = query.Find(t, f)
	if err != nil || len(found) == 0 {
		return nil, 0, err
	}
	last = found[len(found)-1].ID
	if !t.Concurrent() {
		return found, last, nil
	}
	ids := make(sqldb.Ints, len(found))
	f.IDs, f.Key = make([]sojourn.ID, len(found)), ""
	for i, j := range found {
		ids[i], f.IDs[i] = int64(j.ID), j.ID
	}
	for _, table := range []string{txn.QLockLive, txn.QLockFinal} {
		if err := t.Lock(table, ids); err != nil {
			return nil, 0, err
		}
	}
	found, err = query.Find(t, f) // in their present state, and only those that still match the filter
	return found, last, err
}

// Changed is the answer of Slice about one job.
type Changed struct {
	ID         sojourn.ID
	Generation int32 // after it
	Changed    bool
	Err        error // why it was refused
}

// Slice edits the next jobs of a stored operation, of those that its caller may use the verb on. It
// returns the id of the last one that it has looked at; 0 if the filter finds no more.
func Slice(t *txn.Tx, f sojourn.Filter, e sojourn.Edit, c *access.Caller, verb access.Verb, m *member.Counter) (out []Changed, last sojourn.ID, err error) {
	found, last, err := findPage(t, f)
	if err != nil {
		return nil, 0, err
	}
	r := editRequest{filter: f, edit: e, caller: c, members: m, found: make(map[sojourn.ID]bool, len(found))}
	found = slices.DeleteFunc(found, func(j sojourn.Job) bool { return !c.Allows(verb, j.Queue, j.Kind) })
	for i := range found {
		r.found[found[i].ID] = true
	}
	for i := range found {
		_, changed, err := editOne(t, &found[i], &r)
		if err != nil && sojourn.ErrorCode(err) == "" {
			return nil, 0, err
		}
		next := found[i].Generation
		if e.Action == sojourn.EditRedrive {
			next++
		}
		out = append(out, Changed{found[i].ID, next, changed && err == nil, err})
	}
	return out, last, nil
}

// addUnknown adds an item for each id of the filter that no job has. A job that the other
// conditions exclude gets none.
func addUnknown(t *txn.Tx, out *sojourn.Page[sojourn.Edited], f sojourn.Filter) error {
	answered := map[sojourn.ID]bool{}
	for _, item := range out.Items {
		answered[item.ID] = true
	}
	var ids sqldb.Ints
	for _, id := range f.IDs {
		if !answered[id] {
			answered[id], ids = true, append(ids, int64(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	known := map[int64]bool{}
	if err := t.Read(qKnownIDs, func(r sqldb.Row) error { known[r.Int(0)] = true; return nil }, ids); err != nil {
		return err
	}
	for _, id := range ids {
		if !known[id] {
			out.Items = append(out.Items, sojourn.Edited{ID: sojourn.ID(id), Err: sojourn.NotFound("no job has the id %d", id)})
		}
	}
	slices.SortFunc(out.Items, func(a, b sojourn.Edited) int {
		if f.Newest {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return nil
}

// loadFound loads the row of a live job that query.Find has found.
func loadFound(t *txn.Tx, j *sojourn.Job) (*jobrow.Row, error) {
	l, err := t.LoadOne(j.ID)
	if err == nil && (l == nil || l.State != j.State || l.Epoch != j.Epoch || l.Generation != j.Generation) {
		err = txn.Raced("job " + strconv.FormatInt(int64(j.ID), 10) + " changed meanwhile")
	}
	return l, err
}
