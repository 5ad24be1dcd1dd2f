package operate

import (
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qFinalRow    = `select worker, history, has_data, finished_us from sj_final where id = $1`
	qKeepLast    = `insert into sj_history (job, ` + jobview.HistoryColumns + `) select id, ` + jobview.LastColumns + ` from sj_final where id = $1 and outcome <> ''`
	qDeleteFinal = `delete from sj_final where id = $1 and finished_us = $2 and state in (8, 9)`
)

// redrive starts a new generation of a failed or cancelled job: its row moves back from sj_final to
// sj_live, and the history keeps the generation that has ended.
//
// If the job is a member of a workflow, reopen takes its end back and returns the number of the
// workflow. block returns how many dependencies it waits for.
func redrive(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit, reopen func(t *txn.Tx, id sojourn.ID, was sojourn.State) (int64, error),
	block func(t *txn.Tx, id sojourn.ID) (int32, error)) (sojourn.State, bool, error) {
	tr, err := rules.Decide(rules.Row{ID: j.ID, State: j.State, Weight: j.Weight, Stage: j.Stage, Policy: j.Policy}, rules.Event{Type: rules.EventRedrive, Reason: e.Reason})
	if err != nil {
		return j.State, false, sojourn.Conflict("job %d is %s, and only failed and cancelled jobs are redriven; %s", j.ID, j.State, toRunAgain(j))
	}
	was := &jobrow.Row{Row: rules.Row{ID: j.ID, State: j.State, Attempt: j.Attempt, Stage: j.Stage}, Generation: j.Generation}
	l := &jobrow.Row{Row: tr.To, Queue: j.Queue, Kind: j.Kind, Key: j.Key, Group: j.Group, Priority: j.Priority, Generation: j.Generation + 1, Epoch: j.Epoch, RunAt: t.Now}
	if _, err := newValues(t, j, l, *e); err != nil {
		return j.State, false, err
	}
	l.RunAt, l.Deadline = lifecycle.Opening(l.RunAt, l.Policy), enqueue.DeadlineOf(t, l.Policy)
	if l.RunAt > t.Now {
		l.State = sojourn.Scheduled
	}
	var finished int64
	if err := t.Read(qFinalRow, func(r sqldb.Row) error {
		l.Worker, l.History, l.HasData, finished = r.Text(0), int32(r.Int(1)), r.Int(2) != 0, r.Int(3)
		return nil
	}, int64(j.ID)); err != nil {
		return j.State, false, err
	}
	if err := takeKey(t, l); err != nil {
		return j.State, false, err
	}
	if _, err := t.Write(lifecycle.QForgetJob, int64(j.ID)); err != nil { // it is no longer an earlier holder
		return j.State, false, err
	}
	if _, err := t.Write(qKeepLast, int64(j.ID)); err != nil {
		return j.State, false, err
	}
	n, err := t.Write(qDeleteFinal, int64(j.ID), finished)
	if err == nil && n != 1 {
		err = txn.ErrChanged(was.ID)
	}
	if err != nil {
		return j.State, false, err
	}
	t.Counts.Removed(j.Queue, j.Kind, j.State)
	if l.Dependents, err = edge.Resume(t, j.ID); err != nil {
		return j.State, false, err
	}
	if j.Member != "" {
		if l.Workflow, err = reopen(t, j.ID, j.State); err != nil {
			return j.State, false, err
		}
	}
	if l.WaitsFor, err = block(t, j.ID); err != nil {
		return j.State, false, err
	}
	if l.WaitsFor > 0 {
		l.State = sojourn.Blocked
	}
	lifecycle.AddHistory(t, was, l, tr, lifecycle.Change{By: e.By})
	if err := alterJob(t, j, l, *e); err != nil {
		return j.State, false, err
	}
	l.UpdatedAt = finished
	if err := insertRedriven(t, l); err != nil {
		return j.State, false, err
	}
	if l.Workflow != 0 && e.Queue != nil {
		t.Events.Moved = append(t.Events.Moved, l)
	}
	return l.State, true, t.NoteQueue(l.Queue)
}

// insertRedriven adds the row of a redriven job. The settings of its queue decide its place.
func insertRedriven(t *txn.Tx, l *jobrow.Row) error {
	q, err := t.ReadQueue(l.Queue)
	if err != nil {
		return err
	}
	t.AssumeSettings(l.Queue, q.Layout)
	l.SetRank(q.QueueSettings)
	t.InsertLive([]*jobrow.Row{l})
	return field.Set(t, l.Queue, q.Index, int64(l.ID))
}

// waitsForNone is for a job that is redriven by itself: it starts at once.
func waitsForNone(*txn.Tx, sojourn.ID) (int32, error) { return 0, nil }

// RedriveMembers redrives the failed and cancelled ones of some members of a workflow, whose row is
// locked and which is not over. ids are the members up to the one named last. They wait again for
// those that they depend on. refused is why one of them stays as it is, if one does.
func RedriveMembers(t *txn.Tx, workflow int64, last string, ids sqldb.Ints, by, reason string) (refused, err error) {
	f := sojourn.Filter{States: []sojourn.State{sojourn.Failed, sojourn.Cancelled}, Limit: len(ids)}
	for _, id := range ids {
		f.IDs = append(f.IDs, sojourn.ID(id))
	}
	found, err := findLocked(t, f)
	if err != nil {
		return nil, err
	}
	e := sojourn.Edit{Action: sojourn.EditRedrive, By: by, Reason: reason}
	r := edge.Redrive{Workflow: workflow, Last: last, Stayed: map[sojourn.ID]sojourn.State{}}
	var states []sojourn.State
	for i := range found {
		id, was := found[i].ID, found[i].State
		_, _, err := redrive(t, &found[i], &e, func(*txn.Tx, sojourn.ID, sojourn.State) (int64, error) { return workflow, nil }, r.Again)
		switch {
		case err == nil:
			states = append(states, was)
			delete(r.Stayed, id)
		case sojourn.ErrorCode(err) != "":
			refused, r.Stayed[id] = err, was
		default:
			return nil, err
		}
	}
	member.TakeBack(t, workflow, states...)
	return refused, edge.Post(t, r.Stayed)
}

// takeKey gives a redriven job its key again, unless another job has it.
func takeKey(t *txn.Tx, l *jobrow.Row) error {
	if l.Key == "" {
		return nil
	}
	taken, err := lifecycle.KeysTaken(t, l, []string{l.Key})
	if err == nil && taken {
		err = sojourn.Conflict("another job of kind %s has the key %.64q of job %d", l.Kind, l.Key, l.ID)
	}
	if err != nil {
		return err
	}
	if err := lifecycle.RememberHolder(t, l.Kind, l.Key, int64(l.ID)); err != nil {
		return err
	}
	took := false
	err = t.WriteBulk(lifecycle.QTakeKey, func(int64) { took = true }, sqldb.Ints{int64(l.ID)}, sqldb.Ints{1}, sqldb.Ints{1}, sqldb.Ints{0}, sqldb.Texts{l.Kind}, sqldb.Texts{l.Key})
	if err == nil && !took {
		err = txn.Raced("the key of job " + strconv.FormatInt(int64(l.ID), 10) + " was taken meanwhile")
	}
	return err
}
