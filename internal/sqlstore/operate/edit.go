package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobview"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

type editAsk struct {
	f sojourn.Filter
	e sojourn.Edit
}

const qKnownIDs = `select id from sj_job where id in (ints($1))`

// addUnknown adds an item for each id of the filter that no job has. A job that the other
// conditions exclude gets none.
func addUnknown(t *txn.Tx, out *sojourn.Edited, f sojourn.Filter) error {
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
			out.Items = append(out.Items, sojourn.EditedItem{ID: sojourn.ID(id), Err: sojourn.NotFound("no job has the id %d", id)})
		}
	}
	slices.SortFunc(out.Items, func(a, b sojourn.EditedItem) int {
		if f.Newest {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return nil
}

// findLocked finds jobs and keeps other transactions from changing them.
func findLocked(t *txn.Tx, f sojourn.Filter) ([]sojourn.Job, error) {
	found, err := query.Find(t, f)
	if err != nil || len(found) == 0 || !t.Concurrent() {
		return found, err
	}
	ids := make(sqldb.Ints, len(found))
	f.IDs, f.Key = make([]sojourn.ID, len(found)), ""
	for i, j := range found {
		ids[i], f.IDs[i] = int64(j.ID), j.ID
	}
	for _, table := range []string{txn.QLockLive, txn.QLockFinal} {
		if err := t.Lock(table, ids); err != nil {
			return nil, err
		}
	}
	return query.Find(t, f) // in their present state, and only those that still match the filter
}

// loadFound loads a live job that find has found.
func loadFound(t *txn.Tx, j *sojourn.Job) (*jobrow.Row, error) {
	l, err := t.LoadOne(j.ID)
	if err == nil && (l == nil || l.State != j.State || l.Epoch != j.Epoch || l.Generation != j.Generation) {
		err = txn.Raced("job " + strconv.FormatInt(int64(j.ID), 10) + " changed meanwhile")
	}
	return l, err
}

// Edit changes jobs; see driver.Store.
func (s *Operator) Edit(ctx context.Context, f sojourn.Filter, e sojourn.Edit) (sojourn.Edited, error) {
	if err := f.Validate(); err != nil {
		return sojourn.Edited{}, err
	}
	if err := e.Validate(s.Core.Cfg.MaxBytes); err != nil {
		return sojourn.Edited{}, err
	}
	if err := rules.Chooses(f, e); err != nil {
		return sojourn.Edited{}, err
	}
	f.Full, f.Wait = false, 0
	if f.Limit == 0 {
		f.Limit = sojourn.MaxFind
	}
	if e.DryRun {
		var out sojourn.Edited
		err := s.Core.View(ctx, func(t *txn.Tx) (err error) {
			out.Matched, err = query.Count(t, f)
			return err
		})
		return out, err
	}
	return txn.Do(ctx, s.Core, editOp, 100, editAsk{f, e})
}

// editOne changes one job. Its refusals come before its first write, so that they need no rollback.
func editOne(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit) (state sojourn.State, changed bool, err error) {
	if e.Generation != 0 && e.Generation != j.Generation {
		return j.State, false, sojourn.Conflict("job %d is in generation %d, not %d", j.ID, j.Generation, e.Generation)
	}
	switch e.Action {
	case sojourn.EditCancel:
		return endByHand(t, j, e, rules.EventCancel, sojourn.Cancelled)
	case sojourn.EditFail:
		return endByHand(t, j, e, rules.EventFail, sojourn.Failed)
	case sojourn.EditRedrive:
		return redrive(t, j, e)
	case sojourn.EditPurge:
		return purge(t, j)
	}
	return alter(t, j, e)
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

// endByHand makes any live job final at once; the worker of a running one learns it with its next
// call.
func endByHand(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit, event rules.EventType, to sojourn.State) (sojourn.State, bool, error) {
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

const (
	qFinalRow    = `select worker, history, has_data, finished_us from sj_final where id = $1`
	qKeepLast    = `insert into sj_history (job, ` + jobview.HistoryColumns + `) select id, ` + jobview.LastColumns + ` from sj_final where id = $1 and outcome <> ''`
	qDeleteFinal = `delete from sj_final where id = $1 and finished_us = $2 and state in (8, 9)`
)

// redrive starts a new generation: the row goes back to the hot table in the next generation; the
// finished generation stays in the history.
func redrive(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit) (sojourn.State, bool, error) {
	tr, err := rules.Decide(rules.Row{ID: j.ID, State: j.State, Weight: j.Weight, Policy: j.Policy}, rules.Event{Type: rules.EventRedrive, Reason: e.Reason})
	if err != nil {
		return j.State, false, sojourn.Conflict("job %d is %s, and only failed and cancelled jobs are redriven; %s", j.ID, j.State, toRunAgain(j))
	}
	was := &jobrow.Row{Row: rules.Row{ID: j.ID, State: j.State, Attempt: j.Attempt}, Generation: j.Generation}
	l := &jobrow.Row{Row: tr.To, Queue: j.Queue, Kind: j.Kind, Key: j.Key, Group: j.Group, Priority: j.Priority, Generation: j.Generation + 1, Epoch: j.Epoch, RunAt: t.Now}
	if _, err := newValues(t, j, l, e.Change); err != nil {
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
	if j.Key != "" {
		taken, err := lifecycle.KeysTaken(t, l, []string{j.Key})
		if err == nil && taken {
			err = sojourn.Conflict("another job of kind %s has the key %.64q of job %d", j.Kind, j.Key, j.ID)
		}
		if err != nil {
			return j.State, false, err
		}
		if err := lifecycle.RememberHolder(t, j.Kind, j.Key, int64(j.ID)); err != nil {
			return j.State, false, err
		}
		took := false
		err = t.WriteBulk(lifecycle.QTakeKey, func(int64) { took = true }, sqldb.Ints{int64(j.ID)}, sqldb.Ints{1}, sqldb.Ints{1}, sqldb.Ints{0}, sqldb.Texts{j.Kind}, sqldb.Texts{j.Key})
		if err == nil && !took {
			err = txn.Raced("the key of job " + strconv.FormatInt(int64(j.ID), 10) + " was taken meanwhile")
		}
		if err != nil {
			return j.State, false, err
		}
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
	lifecycle.AddHistory(t, was, l, tr, lifecycle.Change{By: e.By})
	if err := alterJob(t, j, l, e.Change); err != nil {
		return j.State, false, err
	}
	l.UpdatedAt = finished
	q, err := t.ReadQueue(l.Queue)
	if err != nil {
		return j.State, false, err
	}
	t.AssumeSettings(l.Queue, q.Layout)
	l.SetRank(q.QueueSettings)
	t.InsertLive([]*jobrow.Row{l})
	return l.State, true, t.NoteQueue(l.Queue)
}

// purge deletes a final job.
func purge(t *txn.Tx, j *sojourn.Job) (sojourn.State, bool, error) {
	if !j.State.Final() {
		return j.State, false, sojourn.Conflict("job %d is %s; only final jobs are purged (cancel it first)", j.ID, j.State)
	}
	if t.Now-j.CreatedAt.UnixMicro() < sojourn.IDLife.Microseconds() {
		return j.State, false, sojourn.Conflict("job %d was enqueued less than %v ago: somebody may still repeat the call; purge it later", j.ID, sojourn.IDLife)
	}
	n, err := remove(t, expired{int64(j.ID), j.FinishedAt.UnixMicro(), j.Kind, j.Key})
	return j.State, n == 1, err
}

const (
	qAlterJob  = `update sj_job set grp = $1, tags = $2, policy = $3 where id = $4`
	qAlterArgs = `update sj_job set args = $1 where id = $2`
	qAlterTags = `update sj_job set tags = $1 where id = $2`
	qLockTags  = `select tags from sj_job where id = $1 /*lock*/`
)

// alter changes jobs that hold no weight and are not running, and the tags of any job.
func alter(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit) (sojourn.State, bool, error) {
	c := e.Change
	atRest := !j.State.Final() && j.State != sojourn.Running && j.State != sojourn.Awaiting && !j.Resumed
	if rules.OnlyTags(c) && j.State.Final() {
		return tagFinal(t, j, e)
	}
	if !atRest && !rules.OnlyTags(c) && !(j.State == sojourn.Awaiting && rules.WhileAwaiting(c)) {
		return j.State, false, sojourn.Conflict("job %d is %s; only blocked, scheduled, ready and errored jobs are changed, and the priority of awaiting ones", j.ID, stateText(j))
	}
	was, err := loadFound(t, j)
	if err != nil {
		return j.State, false, err
	}
	if c.Args != nil && was.Claimed {
		return j.State, false, sojourn.Conflict("job %d was started already; its args do not change any more", j.ID)
	}
	l := *was
	if changed, err := newValues(t, j, &l, c); err != nil || !changed {
		return j.State, false, err
	}
	tr := rules.Transition{Rule: "O5", To: l.Row, Outcome: "edited", Reason: e.Reason}
	stepless := *was
	stepless.State = sojourn.Ready // the entry ends no step of a running job: it has no epoch and no worker
	lifecycle.AddHistory(t, &stepless, &l, tr, lifecycle.Change{By: e.By})
	if err := alterJob(t, j, &l, c); err != nil {
		return j.State, false, err
	}
	if err := t.Save(was, &l); err != nil {
		return j.State, false, err
	}
	return l.State, true, t.NoteQueue(l.Queue)
}

// changeRow gives the row its new values. A new deadline counts from now.
func changeRow(t *txn.Tx, l *jobrow.Row, c sojourn.Change) error {
	if c.RunAt != nil {
		if err := sojourn.ValidRunAt(*c.RunAt, jobrow.Time(t.Now)); err != nil {
			return err
		}
	}
	if c.Priority != nil {
		l.Priority = *c.Priority
	}
	if c.Weight != nil {
		l.Weight = *c.Weight
	}
	if c.Queue != nil {
		l.Queue = *c.Queue
	}
	if c.Weight != nil || c.Queue != nil {
		q, err := t.ReadQueue(l.Queue)
		if err == nil {
			err = enqueue.CheckWeight(q.Limit, l.Weight)
		}
		if err != nil {
			return err
		}
	}
	if c.Group != nil {
		l.Group = *c.Group
	}
	l.Policy = c.Apply(l.Policy)
	if c.Policy != nil && c.Policy.Deadline != 0 {
		l.Deadline = enqueue.DeadlineOf(t, l.Policy)
	}
	if c.RunAt == nil && c.Delay == nil && (c.Policy == nil || c.Policy.Windows == nil) {
		return nil
	}
	if c.RunAt != nil {
		l.RunAt = max(c.RunAt.UnixMicro(), t.Now)
	}
	if c.Delay != nil {
		l.RunAt = t.Now + c.Delay.Microseconds()
	}
	if _, err := rules.NextOpening(jobrow.Time(max(l.RunAt, t.Now)), l.Policy.Windows...); err != nil {
		return err
	}
	l.RunAt = lifecycle.Opening(l.RunAt, l.Policy)
	if l.State == sojourn.Ready || l.State == sojourn.Scheduled {
		l.State = sojourn.Ready
		if l.RunAt > t.Now {
			l.State = sojourn.Scheduled
		}
	}
	return nil
}

// newTags reads the tags of a job under a lock, so that two changes of single tags at the same time
// do not undo each other, and puts the new ones into j. text is their stored form.
func newTags(t *txn.Tx, j *sojourn.Job, c sojourn.Change) (text string, changed bool, err error) {
	var was string
	if err := t.Read(qLockTags, func(r sqldb.Row) error { was = r.Text(0); return nil }, int64(j.ID)); err != nil {
		return "", false, err
	}
	var tags []string
	if was != "" {
		if err := json.Unmarshal([]byte(was), &tags); err != nil {
			return "", false, err
		}
	}
	if j.Tags, err = c.NewTags(tags); err == nil {
		text, err = tagText(j.Tags)
	}
	return text, err == nil && text != was, err
}

// alterJob writes the new values that are not in the row of sj_live; the caller writes that row.
func alterJob(t *txn.Tx, j *sojourn.Job, l *jobrow.Row, c sojourn.Change) error {
	if c == (sojourn.Change{}) {
		return nil
	}
	tags, err := tagText(j.Tags)
	if err != nil {
		return err
	}
	policy, err := jobrow.StoredPolicy(l.Policy)
	if err != nil {
		return err
	}
	if _, err := t.Write(qAlterJob, l.Group, tags, policy, int64(j.ID)); err != nil {
		return err
	}
	if c.Args != nil {
		if _, err := t.Write(qAlterArgs, *c.Args, int64(j.ID)); err != nil {
			return err
		}
	}
	switch {
	case c.Checkpoint != nil:
		return lifecycle.SaveData(t, l, append([]byte{}, *c.Checkpoint...), nil)
	case c.DropCheckpoint && l.HasData:
		return lifecycle.SaveData(t, l, []byte{}, nil)
	}
	return nil
}

func tagText(tags []string) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	return jobrow.JSONText(tags)
}

var editOp = txn.EachOp("edit", groupcommit.Finish, func(t *txn.Tx, ask editAsk) (sojourn.Edited, error) {
	found, err := findLocked(t, ask.f)
	if err != nil {
		return sojourn.Edited{}, err
	}
	out := sojourn.Edited{Items: make([]sojourn.EditedItem, len(found)), More: len(found) == ask.f.Limit && ask.f.IDs == nil}
	for i, j := range found {
		state, changed, err := editOne(t, &found[i], &ask.e)
		if err != nil && sojourn.ErrorCode(err) == "" {
			return out, err
		}
		out.Items[i] = sojourn.EditedItem{ID: j.ID, State: state, Changed: changed && err == nil, Err: err}
		if out.Items[i].Changed {
			out.Changed++
		}
	}
	return out, addUnknown(t, &out, ask.f)
})

// newValues gives a job and its row their new values, or refuses them. It writes nothing. changed
// is false if the tags are the same and nothing else is changed.
func newValues(t *txn.Tx, j *sojourn.Job, l *jobrow.Row, c sojourn.Change) (changed bool, err error) {
	if c.Args != nil {
		if err := sojourn.ValidJSON("args", j.ContentType, *c.Args); err != nil {
			return false, err
		}
	}
	if c.Checkpoint != nil {
		if err := sojourn.ValidJSON("checkpoint", j.ContentType, *c.Checkpoint); err != nil {
			return false, err
		}
	}
	changed = !rules.OnlyTags(c)
	if c.Tags != nil || c.AddTags != nil || c.RemoveTags != nil {
		_, other, err := newTags(t, j, c)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	return changed, changeRow(t, l, c)
}

const qLastKept = `update sj_final set history = history + 1, outcome = '', step_epoch = 0 where id = $1 returning history - 1`

// tagFinal changes the tags of a final job. The row of the job has the last entry of the history
// only, so the entry of the end of the job moves to the other entries.
func tagFinal(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit) (sojourn.State, bool, error) {
	text, changed, err := newTags(t, j, e.Change)
	if err != nil || !changed {
		return j.State, false, err
	}
	if _, err := t.Write(qKeepLast, int64(j.ID)); err != nil {
		return j.State, false, err
	}
	before, err := t.ReadInt(qLastKept, int64(j.ID))
	was := &jobrow.Row{Row: rules.Row{ID: j.ID, State: j.State, Attempt: j.Attempt}, Generation: j.Generation, History: int32(before), UpdatedAt: j.FinishedAt.UnixMicro()}
	lifecycle.AddHistory(t, was, was, rules.Transition{Outcome: "edited", Reason: e.Reason}, lifecycle.Change{By: e.By})
	if err == nil {
		_, err = t.Write(qAlterTags, text, int64(j.ID))
	}
	return j.State, true, err
}

func stateText(j *sojourn.Job) string {
	if j.Resumed {
		return "resumed"
	}
	return j.State.String()
}
