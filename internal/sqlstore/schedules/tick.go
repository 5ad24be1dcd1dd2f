package schedules

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/schedule"
)

const (
	qDue     = `select name from sj_schedule where due_us <= $1 and due_us < 9223372036854775807 order by due_us, name limit $2`
	qAddTick = `insert into sj_tick (schedule, tick_us, job) values ($1, $2, $3)`
	// qTicksFrom finds ticks that have a job already: of an earlier schedule with this name, before
	// the clock was set back, or of runs at this moment.
	qTicksFrom = `select tick_us from sj_tick where schedule = $1 and tick_us >= $2 and tick_us <= $3`
	// qEndHold and qEndHolds make the schedules of a queue, or of all queues, look at their ticks.
	qEndHold  = `update sj_schedule set due_us = next_us where queue = $1 and paused = 0 and next_us > 0 and due_us > next_us`
	qEndHolds = `update sj_schedule set due_us = next_us where paused = 0 and next_us > 0 and due_us > next_us`
	// qLiveJobs finds the jobs of a schedule that have not ended, among the last ones. The bound
	// keeps the cost of a tick independent of how many final jobs are kept.
	qLiveJobs = `select l.id from (select job from sj_tick where schedule = $1 order by tick_us desc limit $2) k join sj_live l on l.id = k.job order by l.id`
)

// When a schedule that something holds back is looked at again.
const (
	heldAgain    = 10 * time.Second // by a pause of its queue or kind; the end of the pause comes sooner
	refusedAgain = time.Minute      // by its token
	overlapFirst = 100 * time.Millisecond
	overlapLast  = 10 * time.Second // by an earlier job: after a tenth of the time that it waits
)

// perTx bounds the schedules of one transaction, so that other requests run in between.
const perTx = 100

// Tick handles the ticks that are due, of up to limit schedules, and reports of how many.
func (s *Scheduler) Tick(ctx context.Context, limit int) (n int, err error) {
	if s.core.Cfg.NoRoom != nil && s.core.Cfg.NoRoom() != nil {
		return 0, nil // the ticks wait until there is space
	}
	for n < limit {
		some, err := txn.Do(ctx, s.core, s.tickOp, perTx, min(limit-n, perTx))
		if n += some; err != nil || some < perTx {
			return n, err
		}
	}
	return n, nil
}

// tick handles the due ticks of up to limit schedules, in one order in all transactions.
func (s *Scheduler) tick(t *txn.Tx, limit int) (int, error) {
	var names []string
	if err := t.Read(qDue, func(r sqldb.Row) error { names = append(names, r.Text(0)); return nil }, t.Now, limit); err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, name := range names {
		d, err := lock(t, name)
		if err != nil {
			return 0, err
		}
		if d == nil || d.due > t.Now || d.due == jobrow.Never { // another process was first
			continue
		}
		if err := s.tickOne(t, d); err != nil {
			return 0, err
		}
		if err := d.update(t); err != nil {
			return 0, err
		}
	}
	return len(names), nil
}

// tickOne makes the jobs of the ticks that have come, and moves the schedule to the next one. Its
// row is locked.
func (s *Scheduler) tickOne(t *txn.Tx, d *row) error {
	held, err := pausedIn(t, d.queue, d.kind)
	if err != nil {
		return err
	}
	if held {
		d.due = later(t.Now, heldAgain)
		return nil
	}
	c, problem, err := ownerOf(t, d)
	if err != nil {
		return err
	}
	if problem != "" {
		d.problem, d.due = problem, later(t.Now, refusedAgain)
		return nil
	}
	live, err := s.liveJobs(t, d)
	if err != nil {
		return err
	}
	if d.def.Overlap == schedule.OverlapQueue && len(live) > 0 {
		waits := time.Duration(t.Now-d.next) * time.Microsecond
		d.due = later(t.Now, min(max(waits/10, overlapFirst), overlapLast))
		return nil
	}
	due, err := d.def.DueAt(jobrow.Time(d.next), jobrow.Time(t.Now))
	if err != nil {
		return err
	}
	run, rest := overlapping(d.def.Overlap, due.Run, len(live) > 0)
	if d.next, d.problem = 0, ""; !due.Next.IsZero() {
		d.next = due.Next.UnixMicro()
	}
	d.skipped += due.Skipped + int64(len(due.Run)-len(run)-len(rest))
	if !due.Last.IsZero() {
		d.lastTick = due.Last.UnixMicro()
	}
	if len(rest) > 0 {
		d.next, d.lastTick = rest[0].UnixMicro(), run[len(run)-1].UnixMicro()
	}
	d.setDue()
	if len(rest) > 0 {
		d.due = later(t.Now, overlapFirst)
	}
	if d.def.Overlap == schedule.OverlapCancelPrevious && len(run) > 0 {
		if err := cancel(t, live, d.name); err != nil {
			return err
		}
	}
	return s.make(t, d, run, c)
}

// overlapping chooses the ticks that make jobs now, and those that wait for the end of the first of
// them. Ticks in neither make none.
func overlapping(o schedule.Overlap, ticks []time.Time, live bool) (run, rest []time.Time) {
	switch {
	case len(ticks) == 0:
		return nil, nil
	case o == schedule.OverlapQueue:
		return ticks[:1], ticks[1:]
	case o == schedule.OverlapSkip && live:
		return nil, nil
	case o == schedule.OverlapSkip, o == schedule.OverlapCancelPrevious:
		return ticks[len(ticks)-1:], nil
	}
	return ticks, nil
}

// make stores the jobs of ticks. A tick that meets a live key, or whose job is refused, is skipped,
// and the schedule goes on.
func (s *Scheduler) make(t *txn.Tx, d *row, ticks []time.Time, c *access.Caller) error {
	all := len(ticks)
	ticks, err := withoutJob(t, d.name, ticks)
	d.skipped += int64(all - len(ticks))
	if len(ticks) == 0 || err != nil {
		return err
	}
	jobs := make([]sojourn.Job, len(ticks))
	for i, tick := range ticks {
		jobs[i] = *d.def.Job
		jobs[i].Tags = slices.Clone(jobs[i].Tags)
		jobs[i].Schedule, jobs[i].ScheduledFor = d.name, tick
		if d.def.Jitter > 0 {
			jobs[i].RunAt = tick.Add(jitter(d.name, tick, d.def.Jitter))
		}
	}
	stored, err := s.enqueuer.StoreTicks(t, jobs, c)
	if err != nil {
		return err
	}
	for i, e := range stored {
		switch {
		case e.Err != nil:
			d.problem = sojourn.Cut(e.Err.Error(), sojourn.MaxReason)
			d.skipped++
			continue
		case e.Duplicate && !e.Replaced:
			d.skipped++
			continue
		case e.Replaced: // the job was made for an earlier tick, and never started
			d.skipped++
			continue
		}
		if _, err := t.Write(qAddTick, d.name, ticks[i].UnixMicro(), int64(e.ID)); err != nil {
			return err
		}
		d.lastJob, d.runs = int64(e.ID), d.runs+1
	}
	return nil
}

// withoutJob leaves out the ticks that have a job.
func withoutJob(t *txn.Tx, name string, ticks []time.Time) ([]time.Time, error) {
	if len(ticks) == 0 {
		return nil, nil
	}
	made := map[int64]bool{}
	err := t.Read(qTicksFrom, func(r sqldb.Row) error { made[r.Int(0)] = true; return nil }, name, ticks[0].UnixMicro(), ticks[len(ticks)-1].UnixMicro())
	return slices.DeleteFunc(ticks, func(tick time.Time) bool { return made[tick.UnixMicro()] }), err
}

// EndHold makes the schedules of a queue (* for all) look at their ticks at once, after a pause of
// the queue or of kinds in it.
func EndHold(t *txn.Tx, queue string) error {
	if queue == sojourn.AllQueues {
		_, err := t.Write(qEndHolds)
		return err
	}
	_, err := t.Write(qEndHold, queue)
	return err
}

// jitter is the delay of one tick's job, the same in every process.
func jitter(name string, tick time.Time, most time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(name + tick.UTC().Format(time.RFC3339)))
	part := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
	return time.Duration(part * float64(most))
}

// pausedIn reports whether a queue, all queues, or a kind in it hand out no jobs.
func pausedIn(t *txn.Tx, queue, kind string) (bool, error) {
	rows, err := t.ReadQueues(sqldb.Texts{queue, sojourn.AllQueues})
	if err != nil {
		return false, err
	}
	for _, q := range rows {
		if q.Paused || slices.Contains(q.PausedKinds, kind) {
			return true, nil
		}
	}
	return false, nil
}

// ownerOf is the caller on whose behalf a schedule runs, with the grants that its token has now.
// problem says why it may not run.
func ownerOf(t *txn.Tx, d *row) (_ *access.Caller, problem string, _ error) {
	c, good, err := txn.OwnerOf(t, d.owner)
	switch {
	case err != nil:
	case !good:
		problem = "the access token " + d.owner + " that has set this schedule does not exist, is revoked or has expired; set it again with another one"
	case !c.Allows(access.VerbEnqueue, d.queue, d.kind):
		problem = "the access token " + d.owner + " that has set this schedule has no grant to enqueue in queue " + d.queue + " any more"
	}
	return c, problem, err
}

// liveJobs lists the jobs of the schedule that have not ended, if its Overlap asks for them.
func (s *Scheduler) liveJobs(t *txn.Tx, d *row) (ids []int64, err error) {
	if d.def.Overlap == schedule.OverlapAllow {
		return nil, nil
	}
	err = t.Read(qLiveJobs, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, d.name, schedule.MaxOverlap)
	return ids, err
}

// cancel ends live jobs.
func cancel(t *txn.Tx, ids []int64, name string) error {
	for _, id := range ids {
		was, err := t.LoadOne(sojourn.ID(id))
		if err != nil {
			return err
		}
		if was == nil { // it has ended meanwhile
			continue
		}
		tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventCancel, Reason: "the next run of schedule " + name})
		if err != nil {
			return err
		}
		if _, err := lifecycle.Apply(t, was, tr, lifecycle.Change{By: "schedule:" + name}); err != nil {
			return err
		}
	}
	return nil
}
