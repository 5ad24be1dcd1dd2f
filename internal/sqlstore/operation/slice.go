package operation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/operate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// sliceRows bounds the jobs of one transaction, so that other requests run in between.
	sliceRows = 200
	// leaseFor is how long a process keeps an operation without a slice. Another one goes on after.
	leaseFor = 15 * time.Second
	// lookAgain is when the canaries are looked at again.
	lookAgain = time.Second
	// catchUp bounds the time for which a slow operation makes up, within its rate.
	catchUp = 10 * time.Second
)

func (c canaries) ids() []sojourn.ID { return slices.Sorted(maps.Keys(c.Jobs)) }

// sliceRequest is the next slice of an operation, by the process that has its lease.
type sliceRequest struct{ id, runner string }

// slice changes the next jobs of an operation and moves its cursor, in one transaction. more
// reports whether the next slice may follow at once.
func (s *Runner) slice(t *txn.Tx, r sliceRequest) (more bool, err error) {
	t.ReleaseInserts()
	o, err := read(t, qLockOne, r.id)
	if err != nil || o == nil || o.runner != r.runner || o.state != running && o.state != canary || o.due > t.Now {
		return false, err
	}
	o.lease = t.Now + leaseFor.Microseconds()
	c, problem, err := callerOf(t, o)
	if err != nil {
		return false, err
	}
	if problem == "" && o.state == canary {
		var over bool
		if over, problem, err = canariesOver(t, o); err != nil {
			return false, err
		}
		if !over && problem == "" {
			o.due = t.Now + lookAgain.Microseconds()
			return false, o.update(t)
		}
		o.state = running
	}
	if problem != "" {
		o.state, o.problem = stopped, problem
		return false, o.update(t)
	}
	switch err := s.change(t, o, c); {
	case sojourn.ErrorCode(err) == sojourn.CodeUnavailable: // an index that is being built; the slice has changed nothing
		o.due = t.Now + lookAgain.Microseconds()
	case sojourn.ErrorCode(err) == sojourn.CodeInvalid: // an index that was removed
		o.state, o.problem = stopped, err.Error()
	case err != nil:
		return false, err
	}
	return o.state == running && o.due <= t.Now, o.update(t)
}

// change changes the next jobs.
func (s *Runner) change(t *txn.Tx, o *row, c *access.Caller) error {
	n := int64(sliceRows)
	if o.spec.Rate > 0 {
		n = min(n, max(int64(o.spec.Rate), 1))
	}
	if o.spec.Limit > 0 {
		n = min(n, o.spec.Limit-o.changed)
	}
	proving := o.spec.Canary > 0 && !o.canaries.Passed
	if proving {
		n = min(n, int64(o.spec.Canary)-o.changed)
	}
	last := true
	if n > 0 {
		f := o.spec.Filter
		f.Limit = int(n)
		if o.cursor > 0 {
			f.After = sojourn.ID(o.cursor).String()
		}
		out, cursor, err := operate.Slice(t, f, o.spec.Edit, c, verbOf(o.spec.Edit), s.members)
		if err != nil {
			return err
		}
		if cursor > 0 {
			o.cursor, last = int64(cursor), false
		}
		o.note(out, proving)
	}
	if o.spec.Rate > 0 {
		o.due = max(o.due, t.Now-catchUp.Microseconds()) + int64(float64(n)/o.spec.Rate*1e6)
	}
	switch {
	case proving && len(o.canaries.Jobs) > 0 && (last || int64(len(o.canaries.Jobs)) >= int64(o.spec.Canary) || o.spec.Limit > 0 && o.changed >= o.spec.Limit):
		o.state, o.due = canary, t.Now+lookAgain.Microseconds()
	case last, o.spec.Limit > 0 && o.changed >= o.spec.Limit:
		o.state = completed
	}
	return nil
}

// note counts the answers about jobs.
func (o *row) note(all []operate.Changed, proving bool) {
	for _, e := range all {
		switch {
		case e.Err != nil:
			o.refused++
			o.problem = fmt.Sprintf("job %d was refused: %v", e.ID, e.Err)
		case !e.Changed:
			o.unchanged++
		default:
			o.changed++
			if proving {
				if o.canaries.Jobs == nil {
					o.canaries.Jobs = map[sojourn.ID]int32{}
				}
				o.canaries.Jobs[e.ID] = e.Generation
			}
		}
	}
}

// canariesOver reports whether all canaries have completed, or why the operation stops: an attempt
// of one of them has failed, or it has ended otherwise.
func canariesOver(t *txn.Tx, o *row) (over bool, problem string, err error) {
	ids := o.canaries.ids()
	found, err := query.Find(t, sojourn.Filter{IDs: ids, Limit: len(ids)})
	if err != nil {
		return false, "", err
	}
	over = len(found) == len(ids)
	if !over {
		return false, "a canary was deleted before it has completed; resume the operation to go on without canaries", nil
	}
	for _, j := range found {
		switch {
		case j.Generation != o.canaries.Jobs[j.ID]:
			return false, fmt.Sprintf("canary job %d was redriven by somebody else; resume the operation to go on without canaries", j.ID), nil
		case j.State == sojourn.Failed || j.State == sojourn.Cancelled || j.Failures > 0:
			return false, sojourn.Cut(fmt.Sprintf("canary job %d has failed (%s): %s", j.ID, j.Reason, j.Error), sojourn.MaxReason), nil
		}
		over = over && j.State == sojourn.Completed
	}
	if over {
		o.canaries.Passed = true
	}
	return over, "", nil
}

// verbOf is what a token needs for a change.
func verbOf(e sojourn.Edit) access.Verb {
	if e.Action == sojourn.EditPurge {
		return access.VerbAdmin
	}
	return access.VerbOperate
}

// callerOf is the caller on whose behalf an operation runs, with the grants that its token has now.
// problem says why it may not go on.
func callerOf(t *txn.Tx, o *row) (c *access.Caller, problem string, err error) {
	if o.owner == "" {
		return nil, "", nil
	}
	token, err := tokenOf(t, o.owner)
	if err != nil {
		return nil, "", err
	}
	c = &access.Caller{Token: o.owner, Grants: token.Grants}
	if token.ID == "" || !token.Good(jobrow.Time(t.Now)) {
		return c, "the access token " + o.owner + " that has started this operation does not exist, is revoked or has expired", nil
	}
	if err := mayChange(c, o.spec); err != nil {
		return c, "the access token " + o.owner + " that has started this operation has lost a grant: " + err.Error(), nil
	}
	return c, "", nil
}

// mayChange checks the grants for the queue and kind of a filter, and for the queue to which jobs
// move. Jobs that are chosen by their ids are checked one by one.
func mayChange(c *access.Caller, s spec) error {
	verb, f := verbOf(s.Edit), s.Filter
	if f.IDs == nil && !c.Allows(verb, f.Queue, f.Kind) {
		return forbidden(verb, f.Queue, f.Kind)
	}
	if len(f.Fields) > 0 && !c.Allows(access.VerbReadArgs, f.Queue, f.Kind) { // who matches values learns them
		return forbidden(access.VerbReadArgs, f.Queue, f.Kind)
	}
	if f.ParentsOf+f.ChildrenOf+f.AwaitedBy > 0 && !c.Allows(verb, "", "") { // the other ends may be out of reach
		return forbidden(verb, "", "")
	}
	if q := s.Edit.Queue; q != nil && !c.Allows(verb, *q, f.Kind) {
		return forbidden(verb, *q, f.Kind)
	}
	return nil
}

func forbidden(verb access.Verb, queue, kind string) error {
	if queue == "" {
		queue = "*"
	}
	if kind == "" {
		kind = "*"
	}
	return &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant to " + string(verb) + " in queue " + queue + ", kind " + kind}
}
