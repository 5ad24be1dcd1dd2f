package operate

import (
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/upkeep"
	"github.com/sojourn-queue/sojourn/rules"
)

// endByHand makes any live job final at once; the worker of a running one learns it with its next
// call.
func endByHand(t *txn.Tx, j *sojourn.Job, r *editRequest, event rules.EventType, to sojourn.State) (sojourn.State, bool, error) {
	e := &r.edit
	switch {
	case j.State == to:
		return to, false, nil
	case j.State.Final():
		return j.State, false, sojourn.Conflict("job %d is %s already, and final jobs do not change; %s", j.ID, j.State, toRunAgain(j))
	case j.State == sojourn.Running && e.Refuse:
		return j.State, false, sojourn.Conflict("job %d is running", j.ID)
	}
	was, err := loadFound(t, j)
	if err != nil {
		return j.State, false, err
	}
	if was.Dependents && to == sojourn.Cancelled { // a failed job is commonly redriven, so its dependents go on waiting
		if _, err := r.ending(j.ID, false).Clear(t); err != nil {
			return j.State, false, err
		}
	}
	reason := e.Reason
	if reason == "" && to == sojourn.Failed {
		reason = "operator"
	}
	tr, err := rules.Decide(was.Row, rules.Event{Type: event, Reason: reason})
	if err != nil {
		return j.State, false, err
	}
	_, err = lifecycle.Apply(t, was, tr, lifecycle.Change{By: e.By})
	return to, true, err
}

// release ends the lease of a running job, whose attempt stays open. What follows is what follows a
// worker's own release.
func release(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit) (sojourn.State, bool, error) {
	switch {
	case j.State.Final():
		return j.State, false, sojourn.Conflict("job %d is %s, and only running jobs are released; %s", j.ID, j.State, toRunAgain(j))
	case j.State != sojourn.Running:
		return j.State, false, sojourn.Conflict("job %d is %s, and only running jobs are released: no worker has it; \"sojourn why %d\" tells what it waits for", j.ID, j.State, j.ID)
	}
	was, err := loadFound(t, j)
	if err != nil {
		return j.State, false, err
	}
	tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventRelease, Reason: e.Reason})
	if err != nil {
		return j.State, false, err
	}
	l, err := lifecycle.Apply(t, was, tr, lifecycle.Change{By: e.By})
	if err == nil && l.State == sojourn.Awaiting {
		l, err = lifecycle.BeginWait(t, l)
	}
	if err == nil {
		l, err = lifecycle.Match(t, l)
	}
	if err != nil {
		return j.State, false, err
	}
	return l.State, true, nil
}

// ending is the end of a job of the call.
func (r *editRequest) ending(id sojourn.ID, gone bool) edge.Ending {
	return edge.Ending{Job: id, Gone: gone, Besides: r.found, Queue: r.queue, Dependents: r.edit.Dependents, Caller: r.caller}
}

// purge deletes a final job. The dependents of one that has not completed are decided as after a
// cancel.
func purge(t *txn.Tx, j *sojourn.Job, r *editRequest) (sojourn.State, bool, error) {
	if !j.State.Final() {
		return j.State, false, sojourn.Conflict("job %d is %s; only final jobs are purged (cancel it first)", j.ID, j.State)
	}
	if t.Now-j.CreatedAt.UnixMicro() <= sojourn.IDLife.Microseconds() { // the id is good at the end of IDLife too
		return j.State, false, sojourn.Conflict("job %d was enqueued less than %v ago: somebody may still repeat the call; purge it later", j.ID, sojourn.IDLife)
	}
	var err error
	if j.State != sojourn.Completed { // the outbox releases the dependents of a completed job, if any are left
		var open bool
		if open, err = r.ending(j.ID, true).Clear(t); err == nil && open {
			err = edge.Post(t, map[sojourn.ID]sojourn.State{j.ID: sojourn.Cancelled})
		}
	}
	if err == nil {
		err = edge.Forget(t, sqldb.Ints{int64(j.ID)})
	}
	if err != nil {
		return j.State, false, err
	}
	n, err := upkeep.Remove(t, upkeep.Final{ID: int64(j.ID), FinishedAt: j.FinishedAt.UnixMicro(), Generation: int64(j.Generation), Queue: j.Queue, Kind: j.Kind, Key: j.Key, State: j.State, Member: j.Member != ""})
	return j.State, n == 1, err
}

// toRunAgain tells the operator how to run a job once more.
func toRunAgain(j *sojourn.Job) string {
	switch j.State {
	case sojourn.Completed:
		return fmt.Sprintf("to run it again, make a new job of it (sojourn job clone %d)", j.ID)
	case sojourn.Failed, sojourn.Cancelled:
		return fmt.Sprintf("to run it again, redrive it (sojourn job redrive %d)", j.ID)
	}
	return "it has not ended yet"
}
