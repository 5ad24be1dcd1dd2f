package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

type editAsk struct {
	f sojourn.Filter
	e sojourn.Edit
}

const qKnownIDs = `select id from sj_job where id in (ints($1))`

// addUnknown adds an item for each id of the filter that no job has. A job that the other
// conditions exclude gets none.
func (t *tx) addUnknown(out *sojourn.Edited, f sojourn.Filter) error {
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
	if err := t.query(qKnownIDs, func(r sqldb.Row) error { known[r.Int(0)] = true; return nil }, ids); err != nil {
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
func (t *tx) findLocked(f sojourn.Filter) ([]sojourn.Job, error) {
	found, err := t.find(f)
	if err != nil || len(found) == 0 || !t.concurrent() {
		return found, err
	}
	ids := make(sqldb.Ints, len(found))
	f.IDs, f.Key = make([]sojourn.ID, len(found)), ""
	for i, j := range found {
		ids[i], f.IDs[i] = int64(j.ID), j.ID
	}
	if err := t.lock(qLockLive, ids); err != nil {
		return nil, err
	}
	if err := t.lock(qLockFinal, ids); err != nil {
		return nil, err
	}
	return t.find(f) // in their present state, and only those that still match the filter
}

// loadFound loads a live job that find has found.
func (t *tx) loadFound(j *sojourn.Job) (*live, error) {
	l, err := t.loadOne(j.ID)
	if err == nil && (l == nil || l.State != j.State || l.epoch != j.Epoch || l.generation != j.Generation) {
		err = raced("job " + strconv.FormatInt(int64(j.ID), 10) + " changed meanwhile")
	}
	return l, err
}

// Edit changes jobs; see driver.Store.
func (s *operator) Edit(ctx context.Context, f sojourn.Filter, e sojourn.Edit) (sojourn.Edited, error) {
	if err := f.Validate(); err != nil {
		return sojourn.Edited{}, err
	}
	if err := e.Validate(s.core.cfg.MaxBytes); err != nil {
		return sojourn.Edited{}, err
	}
	if err := e.Chooses(f); err != nil {
		return sojourn.Edited{}, err
	}
	f.Full, f.Wait = false, 0
	if f.Limit == 0 {
		f.Limit = sojourn.MaxFind
	}
	if e.DryRun {
		var out sojourn.Edited
		err := s.core.view(ctx, func(t *tx) (err error) {
			out.Matched, err = t.count(f)
			return err
		})
		return out, err
	}
	return do(ctx, s.core, editOp, 100, editAsk{f, e})
}

// editOne changes one job. Its refusals come before its first write, so that they need no rollback.
func (t *tx) editOne(j *sojourn.Job, e *sojourn.Edit) (state sojourn.State, changed bool, err error) {
	if e.Generation != 0 && e.Generation != j.Generation {
		return j.State, false, sojourn.Conflict("job %d is in generation %d, not %d", j.ID, j.Generation, e.Generation)
	}
	switch e.Action {
	case sojourn.EditCancel:
		return t.endByHand(j, e, rules.EventCancel, sojourn.Cancelled)
	case sojourn.EditFail:
		return t.endByHand(j, e, rules.EventFail, sojourn.Failed)
	case sojourn.EditRedrive:
		return t.redrive(j, e)
	case sojourn.EditPurge:
		return t.purge(j)
	}
	return t.alter(j, e)
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
func (t *tx) endByHand(j *sojourn.Job, e *sojourn.Edit, event rules.EventType, to sojourn.State) (sojourn.State, bool, error) {
	switch {
	case j.State == to:
		return to, false, nil
	case j.State.Final():
		return j.State, false, sojourn.Conflict("job %d is %s already, and final jobs do not change; %s", j.ID, j.State, toRunAgain(j))
	case j.State == sojourn.Running && e.Refuse:
		return j.State, false, sojourn.Conflict("job %d is running", j.ID)
	}
	was, err := t.loadFound(j)
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
	_, err = t.apply(was, tr, change{by: e.By})
	return to, true, err
}

const (
	qFinalRow    = `select worker, history, has_data, finished_us from sj_final where id = $1`
	qKeepLast    = `insert into sj_history (job, ` + historyColumns + `) select id, ` + lastColumns + ` from sj_final where id = $1 and outcome <> ''`
	qDeleteFinal = `delete from sj_final where id = $1 and finished_us = $2 and state in (8, 9)`
)

// redrive starts a new generation: the row goes back to the hot table in the next generation; the
// finished generation stays in the history.
func (t *tx) redrive(j *sojourn.Job, e *sojourn.Edit) (sojourn.State, bool, error) {
	tr, err := rules.Decide(rules.Row{ID: j.ID, State: j.State, Weight: j.Weight, Policy: j.Policy}, rules.Event{Type: rules.EventRedrive, Reason: e.Reason})
	if err != nil {
		return j.State, false, sojourn.Conflict("job %d is %s, and only failed and cancelled jobs are redriven; %s", j.ID, j.State, toRunAgain(j))
	}
	if err := validCheckpoint(j, e.Change); err != nil {
		return j.State, false, err
	}
	was := &live{Row: rules.Row{ID: j.ID, State: j.State, Attempt: j.Attempt}, generation: j.Generation}
	l := &live{Row: tr.To, queue: j.Queue, kind: j.Kind, key: j.Key, group: j.Group, priority: j.Priority, generation: j.Generation + 1, epoch: j.Epoch,
		runAt: opening(t.now, j.Policy), deadline: t.deadlineOf(j.Policy)}
	if l.runAt > t.now {
		l.State = sojourn.Scheduled
	}
	var finished int64
	if err := t.query(qFinalRow, func(r sqldb.Row) error {
		l.worker, l.history, l.hasData, finished = r.Text(0), int32(r.Int(1)), r.Int(2) != 0, r.Int(3)
		return nil
	}, int64(j.ID)); err != nil {
		return j.State, false, err
	}
	if j.Key != "" {
		taken, err := t.keysTaken(l, []string{j.Key})
		if err == nil && taken {
			err = sojourn.Conflict("another job of kind %s has the key %.64q of job %d", j.Kind, j.Key, j.ID)
		}
		if err != nil {
			return j.State, false, err
		}
		if err := t.rememberHolder(j.Kind, j.Key, int64(j.ID)); err != nil {
			return j.State, false, err
		}
		took := false
		err = t.bulk(qTakeKey, func(int64) { took = true }, sqldb.Ints{int64(j.ID)}, sqldb.Ints{1}, sqldb.Ints{1}, sqldb.Ints{0}, sqldb.Texts{j.Kind}, sqldb.Texts{j.Key})
		if err == nil && !took {
			err = raced("the key of job " + strconv.FormatInt(int64(j.ID), 10) + " was taken meanwhile")
		}
		if err != nil {
			return j.State, false, err
		}
	}
	if _, err := t.exec(qForgetJob, int64(j.ID)); err != nil { // it is no longer an earlier holder
		return j.State, false, err
	}
	if _, err := t.exec(qKeepLast, int64(j.ID)); err != nil {
		return j.State, false, err
	}
	n, err := t.exec(qDeleteFinal, int64(j.ID), finished)
	if err == nil && n != 1 {
		err = errChanged(was.ID)
	}
	if err != nil {
		return j.State, false, err
	}
	t.addHistory(was, l, tr, change{by: e.By})
	if err := t.setCheckpoint(l, e.Change); err != nil {
		return j.State, false, err
	}
	l.updated = finished
	q, err := t.queueRow(l.queue)
	if err != nil {
		return j.State, false, err
	}
	t.rely(l.queue, q.shape)
	l.put(q.QueueSettings)
	t.insertLive([]*live{l})
	return l.State, true, t.seeQueue(l.queue)
}

// validCheckpoint refuses a new checkpoint that does not parse as its job's content type.
func validCheckpoint(j *sojourn.Job, c sojourn.Change) error {
	if c.Checkpoint == nil {
		return nil
	}
	return sojourn.ValidJSON("checkpoint", j.ContentType, *c.Checkpoint)
}

// setCheckpoint replaces or drops the checkpoint of a job that is not running. The caller saves the
// row.
func (t *tx) setCheckpoint(l *live, c sojourn.Change) error {
	switch {
	case c.Checkpoint != nil:
		return t.saveData(l, append([]byte{}, *c.Checkpoint...), nil)
	case c.DropCheckpoint && l.hasData:
		return t.saveData(l, []byte{}, nil)
	}
	return nil
}

// purge deletes a final job.
func (t *tx) purge(j *sojourn.Job) (sojourn.State, bool, error) {
	if !j.State.Final() {
		return j.State, false, sojourn.Conflict("job %d is %s; only final jobs are purged (cancel it first)", j.ID, j.State)
	}
	if t.now-j.CreatedAt.UnixMicro() < sojourn.IDLife.Microseconds() {
		return j.State, false, sojourn.Conflict("job %d was enqueued less than %v ago: somebody may still repeat the call; purge it later", j.ID, sojourn.IDLife)
	}
	n, err := t.remove(expired{int64(j.ID), j.FinishedAt.UnixMicro(), j.Kind, j.Key})
	return j.State, n == 1, err
}

const (
	qAlterJob  = `update sj_job set grp = $1, tags = $2, policy = $3 where id = $4`
	qAlterArgs = `update sj_job set args = $1 where id = $2`
	qAlterTags = `update sj_job set tags = $1 where id = $2`
	qLockTags  = `select tags from sj_job where id = $1 /*lock*/`
)

// alter changes jobs that hold no weight and are not running.
func (t *tx) alter(j *sojourn.Job, e *sojourn.Edit) (sojourn.State, bool, error) {
	c := e.Change
	atRest := !j.State.Final() && j.State != sojourn.Running && j.State != sojourn.Awaiting && !j.Resumed
	if c.OnlyTags() && !atRest {
		text, changed, err := t.newTags(j, c)
		if err == nil && changed {
			_, err = t.exec(qAlterTags, text, int64(j.ID))
		}
		return j.State, changed, err
	}
	if !atRest {
		return j.State, false, sojourn.Conflict("job %d is %s; only blocked, scheduled, ready and errored jobs are changed", j.ID, stateText(j))
	}
	was, err := t.loadFound(j)
	if err != nil {
		return j.State, false, err
	}
	if c.Tags != nil || c.AddTags != nil || c.RemoveTags != nil {
		if _, changed, err := t.newTags(j, c); err != nil || !changed && c.OnlyTags() {
			return j.State, false, err
		}
	}
	if c.Args != nil {
		if err := sojourn.ValidJSON("args", j.ContentType, *c.Args); err != nil {
			return j.State, false, err
		}
	}
	if c.Args != nil && was.Claimed {
		return j.State, false, sojourn.Conflict("job %d was started already; its args do not change any more", j.ID)
	}
	if err := validCheckpoint(j, c); err != nil {
		return j.State, false, err
	}
	l := *was
	if err := t.changeRow(&l, c); err != nil { // refuses before it writes
		return j.State, false, err
	}
	tr := rules.Transition{Rule: "O5", To: l.Row, Outcome: "edited", Reason: e.Reason}
	t.addHistory(was, &l, tr, change{by: e.By})
	err = t.alterJob(j, &l, c)
	if err == nil {
		err = t.setCheckpoint(&l, c)
	}
	if err != nil {
		return j.State, false, err
	}
	if err := t.save(was, &l); err != nil {
		return j.State, false, err
	}
	return l.State, true, t.seeQueue(l.queue)
}

// changeRow gives the row its new values. A new deadline counts from now.
func (t *tx) changeRow(l *live, c sojourn.Change) error {
	if c.RunAt != nil {
		if err := sojourn.ValidRunAt(*c.RunAt, at(t.now)); err != nil {
			return err
		}
	}
	set32(&l.priority, c.Priority)
	set32(&l.Weight, c.Weight)
	if c.Queue != nil {
		l.queue = *c.Queue
	}
	if c.Weight != nil || c.Queue != nil {
		q, err := t.queueRow(l.queue)
		if err == nil {
			err = oversize(q.Limit, l.Weight)
		}
		if err != nil {
			return err
		}
	}
	if c.Group != nil {
		l.group = *c.Group
	}
	l.Policy = c.Apply(l.Policy)
	if c.Policy != nil && c.Policy.Deadline != 0 {
		l.deadline = t.deadlineOf(l.Policy)
	}
	if c.RunAt == nil && c.Delay == nil && (c.Policy == nil || c.Policy.Windows == nil) {
		return nil
	}
	if c.RunAt != nil {
		l.runAt = max(c.RunAt.UnixMicro(), t.now)
	}
	if c.Delay != nil {
		l.runAt = t.now + c.Delay.Microseconds()
	}
	if _, err := rules.NextOpening(at(max(l.runAt, t.now)), l.Policy.Windows...); err != nil {
		return err
	}
	l.runAt = opening(l.runAt, l.Policy)
	if l.State == sojourn.Ready || l.State == sojourn.Scheduled {
		l.State = sojourn.Ready
		if l.runAt > t.now {
			l.State = sojourn.Scheduled
		}
	}
	return nil
}

// newTags reads the tags of a job under a lock, so that two changes of single tags at the same time
// do not undo each other, and puts the new ones into j. text is their stored form.
func (t *tx) newTags(j *sojourn.Job, c sojourn.Change) (text string, changed bool, err error) {
	var was string
	if err := t.query(qLockTags, func(r sqldb.Row) error { was = r.Text(0); return nil }, int64(j.ID)); err != nil {
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

func (t *tx) alterJob(j *sojourn.Job, l *live, c sojourn.Change) error {
	if c.Group != nil {
		j.Group = *c.Group
	}
	tags, err := tagText(j.Tags)
	if err != nil {
		return err
	}
	policy, err := storedPolicy(l.Policy)
	if err != nil {
		return err
	}
	if _, err := t.exec(qAlterJob, j.Group, tags, policy, int64(j.ID)); err != nil {
		return err
	}
	if c.Args == nil {
		return nil
	}
	_, err = t.exec(qAlterArgs, *c.Args, int64(j.ID))
	return err
}

func tagText(tags []string) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	return jsonText(tags)
}

func stateText(j *sojourn.Job) string {
	if j.Resumed {
		return "resumed"
	}
	return j.State.String()
}

func set32(dst *int32, v *int32) {
	if v != nil {
		*dst = *v
	}
}

var editOp = eachOp("edit", groupcommit.Finish, func(t *tx, ask editAsk) (sojourn.Edited, error) {
	found, err := t.findLocked(ask.f)
	if err != nil {
		return sojourn.Edited{}, err
	}
	out := sojourn.Edited{Items: make([]sojourn.EditedItem, len(found)), More: len(found) == ask.f.Limit && ask.f.IDs == nil}
	for i, j := range found {
		state, changed, err := t.editOne(&found[i], &ask.e)
		if err != nil && sojourn.ErrorCode(err) == "" {
			return out, err
		}
		out.Items[i] = sojourn.EditedItem{ID: j.ID, State: state, Changed: changed && err == nil, Err: err}
		if out.Items[i].Changed {
			out.Changed++
		}
	}
	return out, t.addUnknown(&out, ask.f)
})
