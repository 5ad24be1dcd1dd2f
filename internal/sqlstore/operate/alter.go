package operate

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/tag"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qAlterJob  = `update sj_job set grp = $1, tags = $2, policy = $3 where id = $4`
	qAlterArgs = `update sj_job set args = $1 where id = $2`
	qAlterTags = `update sj_job set tags = $1 where id = $2`
	qLockTags  = `select tags from sj_job where id = $1 /*lock*/`
	qEmptyLast = `update sj_final set history = history + 1, outcome = '', step_epoch = 0 where id = $1 returning history - 1`
)

// alter changes a job that holds no weight and is not running, the priority of one that awaits, and
// the tags of any job. A change that changes nothing writes nothing.
func alter(t *txn.Tx, j *sojourn.Job, r *editRequest) (sojourn.State, bool, error) {
	e := &r.edit
	c := *e
	edges := c.DependOn != nil || c.Undepend != nil
	if edges && j.State != sojourn.Blocked {
		return j.State, false, sojourn.Conflict("job %d is %s; only the dependencies of blocked jobs are changed", j.ID, stateText(j))
	}
	idle := !j.State.Final() && j.State != sojourn.Running && j.State != sojourn.Awaiting && !j.Resumed
	if rules.OnlyTags(c) && j.State.Final() {
		return tagFinal(t, j, e)
	}
	if !idle && !rules.OnlyTags(c) && !(j.State == sojourn.Awaiting && rules.WhileAwaiting(c)) {
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
	var links *edge.Change
	if edges {
		var add []sojourn.Dependency
		if c.DependOn != nil {
			add = *c.DependOn
		}
		if links, err = edge.Plan(t, was, add, c.Undepend, r.caller); err != nil {
			return j.State, false, err
		}
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
	if c.Args != nil || c.Queue != nil {
		q, err := t.ReadQueue(l.Queue)
		if err == nil {
			err = field.Set(t, l.Queue, q.Index, int64(l.ID))
		}
		if err != nil {
			return j.State, false, err
		}
	}
	now := &l
	if edges {
		if now, err = links.Apply(t, &l, e.By); err != nil {
			return j.State, false, err
		}
	}
	return now.State, true, t.NoteQueue(l.Queue)
}

// tagFinal changes the tags of a final job. Its row holds one entry of the history, that of its
// end; so that entry moves to sj_history, and the entry of this change follows it there.
func tagFinal(t *txn.Tx, j *sojourn.Job, e *sojourn.Edit) (sojourn.State, bool, error) {
	text, changed, err := newTags(t, j, *e)
	if err != nil || !changed {
		return j.State, false, err
	}
	if _, err := t.Write(qKeepLast, int64(j.ID)); err != nil {
		return j.State, false, err
	}
	before, err := t.ReadInt(qEmptyLast, int64(j.ID))
	was := &jobrow.Row{Row: rules.Row{ID: j.ID, State: j.State, Attempt: j.Attempt, Stage: j.Stage}, Generation: j.Generation, History: int32(before), UpdatedAt: j.FinishedAt.UnixMicro()}
	lifecycle.AddHistory(t, was, was, rules.Transition{Outcome: "edited", Reason: e.Reason}, lifecycle.Change{By: e.By})
	if err == nil {
		_, err = t.Write(qAlterTags, text, int64(j.ID))
	}
	if err == nil {
		err = tag.Set(t, j.ID, j.Tags)
	}
	return j.State, true, err
}

// newValues gives a job and its row their new values, or refuses them. It writes nothing. changed
// is false if the tags are the same and nothing else is changed.
func newValues(t *txn.Tx, j *sojourn.Job, l *jobrow.Row, c sojourn.Edit) (changed bool, err error) {
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
	if changesTags(c) {
		_, other, err := newTags(t, j, c)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	return changed, changeRow(t, l, c)
}

// changeRow gives the row its new values. A new deadline counts from now.
func changeRow(t *txn.Tx, l *jobrow.Row, c sojourn.Edit) error {
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
	l.Policy = l.Policy.Changed(c.Policy)
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

func changesTags(c sojourn.Edit) bool {
	return c.Tags != nil || c.AddTags != nil || c.RemoveTags != nil
}

// newTags reads the tags of a job under a lock, so that two changes of single tags at the same time
// do not undo each other, and puts the new ones into j. text is their stored form.
func newTags(t *txn.Tx, j *sojourn.Job, c sojourn.Edit) (text string, changed bool, err error) {
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
	if j.Tags, err = rules.NewTags(tags, c); err == nil {
		text, err = tagText(j.Tags)
	}
	return text, err == nil && text != was, err
}

// alterJob writes the new values that are not in the row of sj_live; the caller writes that row.
func alterJob(t *txn.Tx, j *sojourn.Job, l *jobrow.Row, c sojourn.Edit) error {
	if c.Values() == (sojourn.Edit{}) {
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
	if changesTags(c) {
		if err := tag.Set(t, j.ID, j.Tags); err != nil {
			return err
		}
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

// tagText returns the stored form of tags.
func tagText(tags []string) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	return jobrow.JSONText(tags)
}

// stateText returns the state for messages, where a resumed job is not just ready.
func stateText(j *sojourn.Job) string {
	if j.Resumed {
		return "resumed"
	}
	return j.State.String()
}
