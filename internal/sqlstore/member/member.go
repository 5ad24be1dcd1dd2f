// Package member counts the ends of the members of workflows, and finds out when a whole workflow
// has ended.
//
// The row of a live job has the number of its workflow. A transaction that ends members adds one
// row to sj_workflow_end for each of their workflows, whatever their number, and locks nothing: so
// members end concurrently. A fold locks the row of the workflow, takes these rows, and adds them
// up. The fold that finds that all members are final writes the state of the whole and enqueues its
// callback in the same transaction, so this happens once (inv:E5). A crash before it loses nothing:
// any sweep folds what it finds.
//
// The process that has ended members folds after its commit. It need not fold each time, see
// [Folder].
package member

import (
	"encoding/json"
	"maps"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// refusedAgain is when a callback that was refused is tried again.
const refusedAgain = time.Minute

const (
	qAddEnds  = `insert into sj_workflow_end (workflow, completed, failed, cancelled, failures) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint)`
	qTakeEnds = `delete from sj_workflow_end where workflow = $1 returning completed, failed, cancelled, failures`
	qAddScope = `insert into sj_workflow_scope (workflow, queue, kind) rows($1 bigint, $2 text, $3 text) on conflict (workflow, queue, kind) do nothing`
	qOf       = `select workflow from sj_member where job = $1`
)

// Counter counts the ends of members for one store. Safe for concurrent use.
type Counter struct {
	core     *txn.Core
	enqueuer *enqueue.Enqueuer
	folder   Folder
}

// New makes the counter of a store; e stores callbacks.
func New(c *txn.Core, e *enqueue.Enqueuer) *Counter {
	s := &Counter{core: c, enqueuer: e}
	s.folder.init(s)
	return s
}

// ends are changes of the counts of a workflow.
type ends struct{ completed, failed, cancelled, failures int64 }

// add counts n ends in a state; -1 takes one back.
func (e *ends) add(state sojourn.State, n int64) {
	switch state {
	case sojourn.Completed:
		e.completed += n
	case sojourn.Failed:
		e.failed += n
	case sojourn.Cancelled:
		e.cancelled += n
	}
	if n > 0 && state != sojourn.Completed {
		e.failures += n
	}
}

// Flush adds what this transaction has ended, and where it has moved members, to its write set. It
// runs before the transaction's end, and does nothing if no job belongs to a workflow.
func (s *Counter) Flush(t *txn.Tx) {
	if ended := s.flush(t); len(ended) > 0 {
		t.Events.After = append(t.Events.After, func() { s.folder.note(ended) })
	}
}

// FlushJoined is Flush in a transaction of the application, whose commit nobody reports. folds has
// to be called after the return of the call: it looks for the ends until they are committed.
func (s *Counter) FlushJoined(t *txn.Tx) (folds func()) {
	ended := s.flush(t)
	return func() {
		for id := range ended {
			s.folder.expect(id)
		}
	}
}

// flush returns how many members of each workflow have ended.
func (s *Counter) flush(t *txn.Tx) (ended map[int64]int64) {
	if len(t.Events.Members)+len(t.Events.Moved) == 0 {
		return nil
	}
	by := map[int64]*ends{}
	ended = map[int64]int64{}
	for _, l := range t.Events.Members {
		if by[l.Workflow] == nil {
			by[l.Workflow] = &ends{}
		}
		by[l.Workflow].add(l.State, 1)
		ended[l.Workflow]++
	}
	for id, e := range by {
		AddEnds(t, id, *e)
	}
	var ids sqldb.Ints
	var queues, kinds sqldb.Texts
	for _, l := range t.Events.Moved {
		ids, queues, kinds = append(ids, l.Workflow), append(queues, l.Queue), append(kinds, l.Kind)
	}
	AddScopes(t, ids, queues, kinds)
	t.Events.Members, t.Events.Moved = nil, nil
	return ended
}

// AddEnds adds changes of the counts of a workflow to the write set.
func AddEnds(t *txn.Tx, id int64, e ends) {
	c := jobrow.NewColumns(1, 4, 0, 0)
	c.Row(id).Ints(e.completed, e.failed, e.cancelled, e.failures)
	t.AddColumns(qAddEnds, 0, "", c)
}

// AddScopes notes in which queues and of which kinds members of workflows are.
func AddScopes(t *txn.Tx, ids sqldb.Ints, queues, kinds sqldb.Texts) {
	t.AddBulk(qAddScope, 0, "", ids, queues, kinds)
}

// TakeBack takes the ends of redriven members back.
func TakeBack(t *txn.Tx, id int64, states ...sojourn.State) {
	if len(states) == 0 {
		return
	}
	var e ends
	for _, state := range states {
		e.add(state, -1)
	}
	AddEnds(t, id, e)
}

// Reopen takes back the end of a member that is redriven by itself, and reopens its workflow if
// that has ended. It returns the number of the workflow; 0 if it is not kept any more.
func (s *Counter) Reopen(t *txn.Tx, job sojourn.ID, was sojourn.State) (int64, error) {
	id, err := t.ReadInt(qOf, int64(job))
	if err != nil || id == 0 {
		return 0, err
	}
	w, err := LockID(t, id)
	if err != nil || w == nil {
		return 0, err
	}
	if _, err := s.Fold(t, w); err != nil {
		return 0, err
	}
	if w.IsFinal() {
		w.reopen()
		if err := w.Update(t); err != nil {
			return 0, err
		}
	}
	TakeBack(t, id, was)
	return id, nil
}

// ReopenWhole begins another generation of a workflow that has ended. Its row is locked, and the
// caller writes it.
func ReopenWhole(w *Row) {
	if w.IsFinal() {
		w.reopen()
	}
}

// Fold adds the ends of members up, and does what follows: it ends the whole, and enqueues
// callbacks. The row is locked. It writes the row if it has changed.
func (s *Counter) Fold(t *txn.Tx, w *Row) (changed bool, err error) {
	var sum ends
	rows := 0
	if err := t.Read(qTakeEnds, func(r sqldb.Row) error {
		rows++
		sum.completed, sum.failed, sum.cancelled, sum.failures = sum.completed+r.Int(0), sum.failed+r.Int(1), sum.cancelled+r.Int(2), sum.failures+r.Int(3)
		return nil
	}, w.ID); err != nil {
		return false, err
	}
	if rows > 0 {
		t.Wrote = true
		w.Completed, w.Failed, w.Cancelled = w.Completed+sum.completed, w.Failed+sum.failed, w.Cancelled+sum.cancelled
	}
	if sum.failures > 0 && w.Fired < w.Generation {
		if w.Fired = w.Generation; w.OnFailure != "" {
			w.Owed |= owesFailure
		}
	}
	ended := w.State == StateRunning && w.Doing == 0 && w.Left() == 0
	if ended {
		w.State, w.Ended = w.over(), t.Now
		if w.OnEnd != "" {
			w.Owed |= owesEnd
		}
		t.Events.Final = append(t.Events.Final, sojourn.ID(w.ID))
	}
	late := w.Owed != 0 && w.Due <= t.Now
	if rows == 0 && !ended && !late {
		return false, nil
	}
	if w.Owed != 0 {
		if err := s.callBack(t, w); err != nil {
			return false, err
		}
	}
	return true, w.Update(t)
}

// callBack enqueues the callbacks that are due. A refusal is noted, and tried again later.
func (s *Counter) callBack(t *txn.Tx, w *Row) error {
	c, good, err := txn.OwnerOf(t, w.Owner)
	if err != nil {
		return err
	}
	problem := ""
	if !good {
		problem = "the access token " + w.Owner + " that has started this workflow does not exist, is revoked or has expired, so no callback is enqueued"
	}
	w.Problem = problem
	for _, cb := range []struct {
		bit  int64
		text string
		job  *int64
	}{{owesFailure, w.OnFailure, &w.FailureJob}, {owesEnd, w.OnEnd, &w.EndJob}} {
		if w.Owed&cb.bit == 0 || problem != "" {
			continue
		}
		var template jobrow.Template
		if err := json.Unmarshal([]byte(cb.text), &template); err != nil {
			return err
		}
		j := template.Job()
		j.Workflow, j.Meta = w.Name, w.meta(j.Meta)
		if !c.Allows(access.VerbEnqueue, j.Queue, j.Kind) {
			w.Problem = "the access token " + w.Owner + " that has started this workflow has no grant to enqueue in queue " + j.Queue + " any more"
			continue
		}
		stored, err := s.enqueuer.StoreTicks(t, []sojourn.Job{*j}, c)
		switch {
		case err != nil:
			return err
		case stored[0].Err != nil:
			w.Problem = sojourn.Cut(stored[0].Err.Error(), sojourn.MaxReason)
		case stored[0].Duplicate:
			w.Problem = sojourn.Cut("job "+stored[0].ID.String()+" has the key "+strconv.Quote(j.Key)+" of a callback, which waits for its end", sojourn.MaxReason)
		default:
			*cb.job, w.Owed = int64(stored[0].ID), w.Owed&^cb.bit
		}
	}
	return nil
}

// meta is the meta of a callback job, with the state of the whole.
func (w *Row) meta(given map[string]string) map[string]string {
	m := maps.Clone(given)
	if m == nil {
		m = map[string]string{}
	}
	m["workflow"], m["workflow_state"] = w.Name, string(stateNames[w.State])
	for name, n := range map[string]int64{"generation": w.Generation, "total": w.Total, "completed": w.Completed, "failed": w.Failed, "cancelled": w.Cancelled} {
		m["workflow_"+name] = strconv.FormatInt(n, 10)
	}
	return m
}
