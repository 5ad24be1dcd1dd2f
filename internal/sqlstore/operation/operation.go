// Package operation carries out stored operations, see the public package operation.
//
// An operation is a row with a filter, an edit and a cursor: the id of the last job that it has
// handled. A slice is one transaction that edits the next jobs and moves the cursor. So a crash
// loses no edit and repeats none. Each sweep continues the operations that are due. A process
// takes an operation under a lease in its row, so that two processes do not wait for each other's
// slices; the lease is not needed for correctness.
package operation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/failure"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/operation"
)

const (
	// dueAtOnce bounds the operations of one sweep, and slicesFor the time in which it begins
	// slices: a sweep has other things to do.
	dueAtOnce = 20
	slicesFor = 500_000 // microseconds
)

const (
	qAnyDue = `select count(*) from (select 1 from sj_operation where due_us <= $1 and due_us < 9223372036854775807 limit 1) a`
	qDue    = `select id, state from sj_operation where due_us <= $1 and due_us < 9223372036854775807 order by due_us, id limit $2`
	qTake   = `update sj_operation set runner = $1, lease_us = $2 where id = $3 and state in (1, 2) and (runner = $1 or lease_us <= $4)`
	qRemove = `delete from sj_operation where id = $1 and state not in (1, 2, 3) and due_us <= $2`
	qPage   = `select ` + columns + ` from sj_operation o where (o.created_us < $1 or o.created_us = $1 and o.id < $2) and (o.owner = $3 or $4 = 1)
		order by o.created_us desc, o.id desc limit $5`
	qCreated = `select created_us from sj_operation where id = $1`
	qLive    = `select count(*) from (select 1 from sj_operation where owner = $1 and state in (1, 2, 3) limit $2) a`
	qToken   = `select grants, expires_us, revoked_us from sj_access where id = $1`
)

// Runner keeps and carries out the operations of one store. Safe for concurrent use.
type Runner struct {
	core     *txn.Core
	members  *member.Counter
	name     string // of this process, for leases
	startOp  *txn.Op[startRequest, answer]
	changeOp *txn.Op[changeRequest, answer]
	takeOp   *txn.Op[sliceRequest, bool]
	sliceOp  *txn.Op[sliceRequest, bool]
}

// New makes the runner of a store; m counts redriven members of workflows.
func New(c *txn.Core, m *member.Counter) *Runner {
	s := &Runner{core: c, members: m, name: rand.Text()[:12]}
	s.startOp = txn.EachOp("start operation", groupcommit.Finish, s.start)
	s.changeOp = txn.EachOp("change operation", groupcommit.Finish, s.alter)
	s.takeOp = txn.EachOp("take operation", groupcommit.Finish, s.take)
	s.sliceOp = txn.EachOp("slice of operation", groupcommit.Enqueue, s.slice)
	return s
}

// answer is an operation, or the refusal of a call, which was found before any write.
type answer struct {
	row       *row
	duplicate bool
	txn.Refusal
}

func refused(err error) (answer, error) { return answer{Refusal: txn.Refusal{Err: err}}, nil }

func (s *Runner) answered(a answer, err error) (operation.Status, error) {
	if err == nil {
		err = a.Err
	}
	if err != nil {
		return operation.Status{}, err
	}
	out := a.row.status()
	out.Duplicate = a.duplicate
	return out, nil
}

// startRequest stores an operation for a caller.
type startRequest struct {
	id     string
	spec   spec
	digest [sha256.Size]byte
	total  int64
	caller *access.Caller
}

// StartOperation stores an operation; see operation.Store.
func (s *Runner) StartOperation(ctx context.Context, in operation.Spec) (operation.Status, error) {
	if err := in.Validate(s.core.Cfg.MaxBytes); err != nil {
		return operation.Status{}, err
	}
	if err := rules.Chooses(in.Filter, in.Edit); err != nil {
		return operation.Status{}, err
	}
	r := startRequest{id: in.ID, caller: access.CallerOf(ctx), spec: spec{in.Filter, in.Edit, in.Limit, in.Rate, in.Canary}}
	text, err := jobrow.JSONText(struct {
		Spec  spec
		Owner string
	}{r.spec, r.caller.Owner()})
	if err != nil {
		return operation.Status{}, sojourn.Invalid("operation", "does not encode: %v", err)
	}
	r.digest = sha256.Sum256([]byte(text))
	if r.spec.Filter.States == nil {
		r.spec.Filter.States = possible(in.Edit)
	}
	if err := s.resolve(ctx, &r); err != nil {
		return operation.Status{}, err
	}
	if in.Edit.DryRun {
		return operation.Status{ID: in.ID, Action: in.Edit.Action, Failure: in.Filter.Failure, Total: r.total, DryRun: true, Limit: in.Limit, Rate: in.Rate, Canary: in.Canary}, nil
	}
	if in.ID == "" {
		return operation.Status{}, sojourn.Invalid("operation", "has no id")
	}
	return s.answered(txn.Do(ctx, s.core, s.startOp, 1, r))
}

// resolve completes the filter of an operation, checks the grants, and counts its jobs. A filter by
// failure group is also one by the queue and the kind of the group.
func (s *Runner) resolve(ctx context.Context, r *startRequest) error {
	return s.core.View(ctx, func(t *txn.Tx) error {
		f := &r.spec.Filter
		if f.Failure != "" {
			queue, kind, err := failure.Scope(t, r.caller, f.Failure)
			if err != nil {
				return err
			}
			if f.Queue != "" && f.Queue != queue || f.Kind != "" && f.Kind != kind {
				return sojourn.Invalid("failure", "group %s belongs to queue %s and kind %s; leave both out of the filter", f.Failure, queue, kind)
			}
			f.Queue, f.Kind = queue, kind
		}
		if err := mayChange(r.caller, r.spec); err != nil {
			return err
		}
		if f.IDs == nil || r.caller == nil {
			n, err := query.Count(t, *f)
			r.total = int64(n)
			return err
		}
		ids := *f
		ids.Limit = sojourn.MaxFind
		found, err := query.Find(t, ids)
		r.total = int64(len(slices.DeleteFunc(found, func(j sojourn.Job) bool { return !r.caller.Allows(verbOf(r.spec.Edit), j.Queue, j.Kind) })))
		return err
	})
}

// possible are the states that an operation takes if its filter names none.
func possible(e sojourn.Edit) (out []sojourn.State) {
	for state := sojourn.Blocked; state <= sojourn.Cancelled; state++ {
		var ok bool
		switch e.Action {
		case sojourn.EditRedrive:
			ok = state == sojourn.Failed
		case sojourn.EditRelease:
			ok = state == sojourn.Running
		case sojourn.EditPurge:
			ok = state.Final()
		case sojourn.EditCancel, sojourn.EditFail:
			ok = state.Live()
		default:
			ok = state.Live() || rules.OnlyTags(e)
		}
		if ok {
			out = append(out, state)
		}
	}
	return out
}

// start stores an operation, or finds that it is stored.
func (s *Runner) start(t *txn.Tx, r startRequest) (answer, error) {
	was, err := read(t, qLockOne, r.id)
	if err != nil {
		return answer{}, err
	}
	if was != nil {
		if string(was.digest) != string(r.digest[:]) { // the digest contains the owner
			return refused(sojourn.Conflict("another operation has the id %s; use another one", r.id))
		}
		return answer{row: was, duplicate: true}, nil
	}
	if r.caller != nil {
		n, err := t.ReadInt(qLive, r.caller.Owner(), operation.MaxRunning)
		if err != nil {
			return answer{}, err
		}
		if n >= operation.MaxRunning {
			return refused(sojourn.Conflict("this token has %d operations that have not ended, as many as it may; cancel one first", n))
		}
	}
	now, f := jobrow.Time(t.Now+1), &r.spec.Filter
	if f.CreatedBefore.IsZero() || f.CreatedBefore.After(now) {
		f.CreatedBefore = now
	}
	onlyFinal := !slices.ContainsFunc(f.States, sojourn.State.Live)
	if onlyFinal && (f.EndedBefore.IsZero() || f.EndedBefore.After(now)) {
		f.EndedBefore = now
	}
	r.spec.Edit.All = false
	text, err := jobrow.JSONText(r.spec)
	if err != nil {
		return answer{}, err
	}
	if _, err := t.Write(qInsert, r.id, r.caller.Owner(), r.digest[:], text, running, r.total, t.Now, t.Now, t.Now); err != nil {
		return answer{}, err // a unique violation, if another process was first, runs the transaction again
	}
	o, err := read(t, qOne, r.id)
	return answer{row: o}, err
}

// sees reports whether a caller sees an operation.
func sees(c *access.Caller, o *row) bool {
	return c == nil || c.Token == o.owner || c.Allows(access.VerbOperate, "", "")
}

func notFound(id string) error { return sojourn.NotFound("there is no operation %.64q", id) }

// Operations lists operations; see operation.Store.
func (s *Runner) Operations(ctx context.Context, q operation.Query) (out []operation.Status, err error) {
	if err := sojourn.ValidLimit(q.Limit); err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	c := access.CallerOf(ctx)
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		if q.ID != "" {
			o, err := read(t, qOne, q.ID)
			if err == nil && (o == nil || !sees(c, o)) {
				err = notFound(q.ID)
			}
			if err == nil {
				out = append(out, o.status())
			}
			return err
		}
		created := int64(jobrow.Never)
		if q.After != "" {
			if created, err = t.ReadInt(qCreated, q.After); err != nil {
				return err
			}
		}
		all := 0
		if c == nil || c.Allows(access.VerbOperate, "", "") {
			all = 1
		}
		return t.Read(qPage, func(r sqldb.Row) error {
			o, err := scan(r)
			if err == nil {
				out = append(out, o.status())
			}
			return err
		}, created, q.After, c.Owner(), all, q.Limit)
	})
	return out, err
}

// changeRequest carries out an action for a caller.
type changeRequest struct {
	id     string
	action operation.Action
	caller *access.Caller
}

// ChangeOperation pauses, resumes or cancels an operation; see operation.Store.
func (s *Runner) ChangeOperation(ctx context.Context, id string, a operation.Action) (operation.Status, error) {
	if a != operation.ActionPause && a != operation.ActionResume && a != operation.ActionCancel {
		return operation.Status{}, sojourn.Invalid("action", "%.64q is none of pause, resume and cancel", string(a))
	}
	return s.answered(txn.Do(ctx, s.core, s.changeOp, 1, changeRequest{id, a, access.CallerOf(ctx)}))
}

func (s *Runner) alter(t *txn.Tx, r changeRequest) (answer, error) {
	o, err := read(t, qLockOne, r.id)
	if err != nil {
		return answer{}, err
	}
	if o == nil || !sees(r.caller, o) {
		return refused(notFound(r.id))
	}
	over := o.state == completed || o.state == cancelled
	switch {
	case over && (r.action != operation.ActionCancel || o.state == completed):
		return refused(sojourn.Conflict("operation %s is %s", o.id, stateNames[o.state]))
	case over, r.action == operation.ActionPause && o.state == paused, r.action == operation.ActionResume && (o.state == running || o.state == canary):
		return answer{row: o}, nil // it is so already
	case r.action == operation.ActionPause && o.state == stopped:
		return refused(sojourn.Conflict("operation %s has stopped: %s", o.id, o.problem))
	case r.action == operation.ActionPause:
		o.state = paused
	case r.action == operation.ActionCancel:
		o.state = cancelled
	case o.state == stopped:
		o.state, o.problem, o.canaries.Passed, o.due = running, "", true, t.Now
	default:
		o.state, o.due = running, t.Now
		if len(o.canaries.Jobs) > 0 && !o.canaries.Passed && len(o.canaries.Jobs) >= o.spec.Canary {
			o.state = canary
		}
	}
	return answer{row: o}, o.update(t)
}

// take takes the lease of an operation, and reports whether this process has it.
func (s *Runner) take(t *txn.Tx, r sliceRequest) (bool, error) {
	n, err := t.Write(qTake, r.runner, t.Now+leaseFor.Microseconds(), r.id, t.Now)
	return n == 1, err
}

// due is an operation that a sweep looks at.
type due struct {
	id    string
	state int64
}

// SweepOperations continues operations that are due, and deletes those that have ended long ago.
func (s *Runner) SweepOperations(ctx context.Context) error {
	var all []due
	if err := s.core.View(ctx, func(t *txn.Tx) error {
		all = nil
		n, err := t.ReadInt(qAnyDue, t.Now)
		if err != nil || n == 0 {
			return err
		}
		return t.Read(qDue, func(r sqldb.Row) error { all = append(all, due{r.Text(0), r.Int(1)}); return nil }, t.Now, dueAtOnce)
	}); err != nil {
		return err
	}
	for _, d := range all {
		r := sliceRequest{d.id, s.name}
		if d.state != running && d.state != canary {
			if err := s.remove(ctx, r); err != nil {
				return err
			}
			continue
		}
		more, err := txn.Do(ctx, s.core, s.takeOp, 1, r)
		for begun := s.core.Clock.Monotonic(); err == nil && more && s.core.Clock.Monotonic()-begun < slicesFor; {
			more, err = txn.Do(ctx, s.core, s.sliceOp, sliceRows, r)
		}
		if err != nil {
			return fmt.Errorf("operation %s: %w", d.id, err)
		}
	}
	return nil
}

// removeOp deletes an operation that is kept no longer.
var removeOp = txn.EachOp("remove operation", groupcommit.Enqueue, func(t *txn.Tx, r sliceRequest) (struct{}, error) {
	_, err := t.Write(qRemove, r.id, t.Now)
	return struct{}{}, err
})

func (s *Runner) remove(ctx context.Context, r sliceRequest) error {
	_, err := txn.Do(ctx, s.core, removeOp, 1, r)
	return err
}

// tokenOf reads an access token; one without an id if there is none.
func tokenOf(t *txn.Tx, id string) (token access.Token, err error) {
	err = t.Read(qToken, func(r sqldb.Row) error {
		token = access.Token{ID: id, ExpiresAt: jobrow.Time(r.Int(1)), RevokedAt: jobrow.Time(r.Int(2))}
		return json.Unmarshal([]byte(r.Text(0)), &token.Grants)
	}, id)
	return token, err
}
