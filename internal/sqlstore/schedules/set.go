package schedules

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/schedule"
)

// setRequest stores a schedule for a caller.
type setRequest struct {
	schedule schedule.Schedule
	mode     schedule.Mode
	text     string // of the definition
	caller   *access.Caller
}

// SetSchedule stores a schedule; see schedule.Store.
func (s *Scheduler) SetSchedule(ctx context.Context, d schedule.Schedule, mode schedule.Mode) (schedule.Schedule, error) {
	if mode != schedule.ModeSet && mode != schedule.ModeDeclare && mode != schedule.ModeTest {
		return schedule.Schedule{}, sojourn.Invalid("mode", "%.64q is none of set, declare and test", string(mode))
	}
	if err := d.Validate(s.core.Cfg.MaxBytes); err != nil {
		return schedule.Schedule{}, err
	}
	if err := sojourn.ValidJSON("job.args", d.Job.ContentType, d.Job.Args); err != nil {
		return schedule.Schedule{}, err
	}
	c := access.CallerOf(ctx)
	if !c.Allows(access.VerbEnqueue, d.Job.Queue, d.Job.Kind) {
		return schedule.Schedule{}, forbidden("enqueue", d.Job.Queue, d.Job.Kind)
	}
	if len(d.Job.Tags) > 0 { // the store resolves a copy
		j := *d.Job
		j.Tags = append([]string(nil), j.Tags...)
		d.Job = &j
	}
	text, err := encode(&d)
	if err != nil {
		return schedule.Schedule{}, sojourn.Invalid("job", "does not encode: %v", err)
	}
	if mode == schedule.ModeTest {
		var out schedule.Schedule
		err := s.core.View(ctx, func(t *txn.Tx) (err error) {
			r := fresh(setRequest{d, mode, text, c}, t.Now)
			out, err = r.show(t.Now, c)
			out.CreatedAt, out.UpdatedAt, out.Revision = d.CreatedAt, d.UpdatedAt, 0
			return err
		})
		return out, err
	}
	a, err := txn.Do(ctx, s.core, s.setOp, 1, setRequest{d, mode, text, c})
	if err == nil {
		err = a.Err
	}
	return a.schedule, err
}

// codeForbidden is the code with which servers refuse what a token has no grant for.
const codeForbidden = "insufficient_scope"

func forbidden(verb, queue, kind string) error {
	return &sojourn.Error{Code: codeForbidden, Index: -1, Message: "this token has no grant to " + verb + " in queue " + queue + ", kind " + kind}
}

// fresh is the row of a schedule that does not exist yet.
func fresh(r setRequest, now int64) *row {
	d := &row{name: r.schedule.Name, queue: r.schedule.Job.Queue, kind: r.schedule.Job.Kind, owner: r.caller.Owner(), text: r.text,
		revision: 1, created: now, updated: now, def: r.schedule}
	if r.mode == schedule.ModeDeclare {
		d.declared = r.text
	}
	return d
}

// set stores a schedule. One that has not changed keeps its next tick, and writes nothing; one with
// other times begins with the first tick after now, so that no change makes a burst (inv:E4).
func (s *Scheduler) set(t *txn.Tx, r setRequest) (answer, error) {
	was, err := lock(t, r.schedule.Name)
	if err != nil {
		return answer{}, err
	}
	if was == nil {
		return s.add(t, r)
	}
	if !allowed(r.caller, access.VerbEnqueue, was) {
		return refused(sojourn.Conflict("another schedule has the name %s; use another name", was.name))
	}
	same := was.text == r.text
	if r.mode == schedule.ModeDeclare {
		same = was.declared == r.text
	}
	if !same {
		d := fresh(r, t.Now)
		d.created, d.revision, d.paused, d.next, d.lastTick, d.lastJob, d.runs, d.skipped = was.created, was.revision+1, was.paused, was.next, was.lastTick, was.lastJob, was.runs, was.skipped
		if r.mode == schedule.ModeSet {
			d.declared = was.declared
		}
		if !d.def.SameTicks(&was.def) {
			if d.next, err = d.nextAfter(max(t.Now, was.lastTick)); err != nil {
				return answer{}, err
			}
		}
		d.setDue()
		if err := d.update(t); err != nil {
			return answer{}, err
		}
		was = d
	}
	out, err := was.show(t.Now, r.caller)
	return answer{schedule: out}, err
}

// add stores a schedule that does not exist yet.
func (s *Scheduler) add(t *txn.Tx, r setRequest) (answer, error) {
	if r.caller != nil {
		n, err := t.ReadInt(qOwned, r.caller.Owner(), schedule.MaxPerToken)
		if err != nil {
			return answer{}, err
		}
		if n >= schedule.MaxPerToken {
			return refused(sojourn.Conflict("this token has %d schedules, as many as it may; delete one first", n))
		}
	}
	d := fresh(r, t.Now)
	var err error
	if d.next, err = d.nextAfter(t.Now); err != nil {
		return answer{}, err
	}
	if d.next == 0 {
		return refused(sojourn.Invalid("end", "the schedule has no tick after now"))
	}
	d.setDue()
	if err := d.insert(t); err != nil { // a unique violation, if another process was first, runs the transaction again
		return answer{}, err
	}
	out, err := d.show(t.Now, r.caller)
	return answer{schedule: out}, err
}

// allowed reports whether a caller may use a verb on the jobs of a schedule.
func allowed(c *access.Caller, v access.Verb, d *row) bool { return c.Allows(v, d.queue, d.kind) }

// changeRequest carries out an action for a caller.
type changeRequest struct {
	name   string
	action schedule.Action
	caller *access.Caller
}

// ChangeSchedule pauses, resumes, runs or deletes a schedule; see schedule.Store.
func (s *Scheduler) ChangeSchedule(ctx context.Context, name string, a schedule.Action) (schedule.Schedule, error) {
	if err := sojourn.ValidName("name", name); err != nil {
		return schedule.Schedule{}, err
	}
	out, err := txn.Do(ctx, s.core, s.changeOp, 1, changeRequest{name, a, access.CallerOf(ctx)})
	if err == nil {
		err = out.Err
	}
	return out.schedule, err
}

func (s *Scheduler) change(t *txn.Tx, r changeRequest) (answer, error) {
	d, err := lock(t, r.name)
	if err != nil {
		return answer{}, err
	}
	if d == nil || !allowed(r.caller, access.VerbRead, d) && !allowed(r.caller, access.VerbEnqueue, d) && !allowed(r.caller, access.VerbOperate, d) {
		return refused(sojourn.NotFound("there is no schedule %.64q", r.name))
	}
	verb := access.VerbOperate
	if r.action == schedule.ActionRun {
		verb = access.VerbEnqueue
	}
	if !allowed(r.caller, verb, d) {
		return refused(forbidden(string(verb), d.queue, d.kind))
	}
	paused := d.paused
	switch r.action {
	case schedule.ActionPause:
		d.paused = true
	case schedule.ActionResume:
		d.paused = false
	case schedule.ActionRun:
		if refusal, err := s.runNow(t, d, r.caller); refusal != nil || err != nil {
			return answer{Refusal: txn.Refusal{Err: refusal}}, err
		}
	case schedule.ActionDelete:
		if _, err := t.Write(qDelete, d.name); err != nil {
			return answer{}, err
		}
	default:
		return refused(sojourn.Invalid("action", "%.64q is none of pause, resume, run and delete", string(r.action)))
	}
	if d.paused != paused {
		d.revision, d.updated = d.revision+1, t.Now
		d.setDue()
	}
	if d.paused != paused || r.action == schedule.ActionRun {
		if err := d.update(t); err != nil {
			return answer{}, err
		}
	}
	out, err := d.show(t.Now, r.caller)
	return answer{schedule: out}, err
}

// runNow makes a job with the present moment as its tick. The next tick stays.
func (s *Scheduler) runNow(t *txn.Tx, d *row, c *access.Caller) (refusal, err error) {
	moment, err := freeMoment(t, d.name)
	if err != nil {
		return nil, err
	}
	job := *d.def.Job
	job.Schedule, job.ScheduledFor = d.name, jobrow.Time(moment)
	stored, err := s.enqueuer.StoreTicks(t, []sojourn.Job{job}, c)
	if err != nil || stored[0].Err != nil {
		return stored0(stored), err
	}
	if stored[0].Duplicate {
		return sojourn.Conflict("job %d has the key %.64q of the schedule's jobs; cancel it, or wait for its end", stored[0].ID, job.Key), nil
	}
	if _, err := t.Write(qAddTick, d.name, moment, int64(stored[0].ID)); err != nil {
		return nil, err
	}
	d.lastJob, d.runs = int64(stored[0].ID), d.runs+1
	return nil, nil
}

// freeMoment is the first microsecond from now on that is no tick and has no job. Its row is
// locked, so no other transaction takes it.
//
// Ticks are whole seconds, so a moment within a second never takes the place of one, also not of a
// tick that has come and is not handled yet.
func freeMoment(t *txn.Tx, name string) (int64, error) {
	moment := t.Now
	taken := map[int64]bool{}
	err := t.Read(qTicksFrom, func(r sqldb.Row) error { taken[r.Int(0)] = true; return nil }, name, moment, moment+second)
	for moment%second == 0 || taken[moment] {
		moment++
	}
	return moment, err
}

const second = int64(time.Second / time.Microsecond)

func stored0(es []sojourn.Enqueued) error {
	if len(es) == 0 {
		return nil
	}
	return es[0].Err
}

const (
	qPage = `select ` + columns + ` from sj_schedule where name > $1 and name >= $2 order by name limit $3`
	qOne  = `select ` + columns + ` from sj_schedule where name = $1`
)

// Schedules lists schedules; see schedule.Store.
func (s *Scheduler) Schedules(ctx context.Context, prefix, after string, limit int, names ...string) (out []schedule.Schedule, err error) {
	if err := sojourn.ValidLimit(limit); err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = 100
	}
	c := access.CallerOf(ctx)
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = nil
		if len(names) > 0 {
			return named(t, c, names, &out)
		}
		return page(t, c, prefix, after, limit, &out)
	})
	return out, err
}

func named(t *txn.Tx, c *access.Caller, names []string, out *[]schedule.Schedule) error {
	for _, name := range names {
		var found *row
		if err := t.Read(qOne, func(r sqldb.Row) error {
			d, err := scan(r)
			found = &d
			return err
		}, name); err != nil {
			return err
		}
		if found == nil || !allowed(c, access.VerbRead, found) {
			return sojourn.NotFound("there is no schedule %.64q", name)
		}
		d, err := found.show(t.Now, c)
		if err != nil {
			return err
		}
		*out = append(*out, d)
	}
	return nil
}

// page reads on until the page is full, because a caller may see few of many schedules.
func page(t *txn.Tx, c *access.Caller, prefix, after string, limit int, out *[]schedule.Schedule) error {
	for {
		read, past := 0, false
		err := t.Read(qPage, func(r sqldb.Row) error {
			read++
			d, err := scan(r)
			if after = d.name; err != nil || len(*out) >= limit {
				return err
			}
			if past = past || len(d.name) < len(prefix) || d.name[:len(prefix)] != prefix; past || !allowed(c, access.VerbRead, &d) {
				return nil
			}
			shown, err := d.show(t.Now, c)
			*out = append(*out, shown)
			return err
		}, after, prefix, limit)
		if err != nil || past || read < limit || len(*out) >= limit {
			return err
		}
	}
}

const qNextOf = `select ` + columns + ` from sj_schedule where queue = $1 and (kind = $2 or $2 = '') and next_us > 0 and paused = 0 order by next_us, name limit $3`

// Peek shows the next ticks of the schedules of a queue as jobs that are not stored, for
// sojourn.Store's Find.
func Peek(t *txn.Tx, c *access.Caller, queue, kind string, limit int) (out []sojourn.Job, err error) {
	err = t.Read(qNextOf, func(r sqldb.Row) error {
		d, err := scan(r)
		if err != nil || !allowed(c, access.VerbRead, &d) {
			return err
		}
		j := sojourn.Job{Kind: d.kind, Queue: d.queue, Key: d.def.Job.Key, Group: d.def.Job.Group, Tags: d.def.Job.Tags, Meta: d.def.Job.Meta, Priority: d.def.Job.Priority,
			Weight: d.def.Job.Weight, State: sojourn.Scheduled, RunAt: jobrow.Time(d.next), Schedule: d.name, ScheduledFor: jobrow.Time(d.next), Virtual: true}
		out = append(out, j)
		return nil
	}, queue, kind, limit)
	return out, err
}
