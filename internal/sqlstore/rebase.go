package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// A lease is stored as its end time. A step of the clock changes its meaning: after a step forward,
// the leases of living workers look expired; after a step back, jobs of killed processes stay
// running for as long as the step was. So the first process that notices shifts the leases by the
// step, in one transaction with the record of it that all processes share (docs/decisions/046).

// sharedClock is the record that all processes on one database share, in sj_meta.
type sharedClock struct {
	mark  int64 // the clock when the record was written
	steps int64 // the sum of all steps by which leases were shifted
	since int64 // leases that were written before this time may end too early,
	gap   int64 // by this much
	text  string
}

const (
	metaClock = "clock"
	// markEvery is the maximum age of the mark while leases are granted and sweeps run.
	markEvery = 2 * time.Second
	// shiftMost bounds the waiting jobs whose delays are shifted back with the clock.
	shiftMost = 10_000
)

// errClockStep ends a transaction that has read a clock that was set. It is run again after rebase.
var errClockStep = errors.New("the clock was set")

func readShared(text string) (r sharedClock) {
	fmt.Sscan(text, &r.mark, &r.steps, &r.since, &r.gap) // missing fields are 0
	r.text = text
	return r
}

func (r sharedClock) String() string { return fmt.Sprint(r.mark, r.steps, r.since, r.gap) }

// after returns the record after a step to now, or after a time without a process, which may have
// contained a step. An earlier gap counts as long as its grace is not over.
func (r sharedClock) after(now, step int64) sharedClock {
	gap := step
	if now-step < r.since+graceMost.Microseconds() {
		gap += r.gap
	}
	r.since, r.gap = now, max(gap, 0)
	return r
}

// open loads the shared record when the store opens. It cannot know how much of the time
// since the mark was a step of the clock: until a lease after the opening, all of it may be one. A
// mark in the future is certainly a step back.
func (c *clock) open(r sharedClock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.text == "" || c.driven || c.lone {
		return
	}
	switch gap := c.last - r.mark; {
	case gap > jump.Microseconds():
		r = r.after(c.last, gap)
	case gap < -jump.Microseconds():
		r = r.after(c.last, gap)
		c.stepped, c.before = true, span{c.offset.low - gap, c.offset.high - gap}
	}
	c.shared = r
}

// clockStep is a step of the clock by which the leases were not shifted yet.
type clockStep struct {
	to    span  // the offset after it
	us    int64 // its size
	known int64 // the sum of the steps before it
}

func (c *clock) pendingStep() clockStep {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stepped {
		return clockStep{to: c.offset}
	}
	return clockStep{c.offset, c.offset.middle() - c.before.middle(), c.shared.steps}
}

// remaining returns by how much the leases are still to be shifted if the record says steps: 0 if
// another process has done it. A step that differs from the recorded one is applied too, because
// shifting a correct lease extends it by one lease at most.
func (p clockStep) remaining(steps int64) int64 {
	left := p.us - (steps - p.known)
	switch near := jump.Microseconds(); {
	case max(left, -left) <= near, p.us < 0 && left < 0 && -left <= 10*near: // a mark is some seconds old
		return 0
	case left > 0 == (p.us > 0) && max(left, -left) < max(p.us, -p.us):
		return left
	}
	return p.us
}

// rebased records that the leases fit the clock at the offset to.
func (c *clock) rebased(p clockStep, r sharedClock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = r
	c.before = p.to
	c.stepped = c.offset.low > p.to.high+jump.Microseconds() || c.offset.high < p.to.low-jump.Microseconds()
}

func (c *clock) hasStepped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stepped
}

const (
	qLockClock = `select m.value from sj_meta m where m.name = $1 /*lock m*/`
	qSwapClock = `update sj_meta set value = $1 where name = $2 and value = $3`
	// Rows that another transaction has locked are left out, because one of the application may
	// keep them locked for long. inGrace protects them.
	qRunning = `select id from sj_live where wake_at_us < 9223372036854775807 and state = 4 /*lock*/`
	// Delays that were counted from a time which is in the future now.
	qAhead = `select id from sj_live where wake_at_us < 9223372036854775807 and updated_us > $1
		and (state = 2 and attempt > 0 or state = 3 and resumed = 1 or state = 5 or state = 6) limit $2 /*lock*/`
)

// update is DB.Update that shifts the leases first if fn finds that the clock was set.
func (s *operator) update(ctx context.Context, fn func(sqldb.Conn) error) error {
	for {
		err := s.core.db.Update(ctx, fn)
		if !errors.Is(err, errClockStep) || ctx.Err() != nil {
			return err
		}
		if err := s.rebase(ctx); err != nil {
			return err
		}
	}
}

// rebase shifts the leases by the step of the clock, unless another process has done so.
func (s *operator) rebase(ctx context.Context) error {
	s.rebasing.Lock()
	defer s.rebasing.Unlock()
	if !s.core.clock.hasStepped() {
		return nil
	}
	var done *tx
	var p clockStep
	var r sharedClock
	err := s.core.db.Update(ctx, func(c sqldb.Conn) error {
		t, err := s.core.timed(c)
		if err != nil {
			return err
		}
		done = t
		if err := s.core.recent.open(t); err != nil {
			return err
		}
		r = sharedClock{}
		if err := t.query(qLockClock, func(row sqldb.Row) error { r = readShared(row.Text(0)); return nil }, metaClock); err != nil {
			return err
		}
		p = s.core.clock.pendingStep()
		if us := p.remaining(r.steps); us != 0 {
			if err := t.shift(us); err != nil {
				return err
			}
			r.steps += us
			r = r.after(t.now, us)
		}
		r.mark = t.now
		r.text = r.String()
		if _, err := t.exec(qSetMeta, metaClock, r.text); err != nil {
			return err
		}
		return t.end()
	})
	if err != nil {
		return err
	}
	s.core.trusted.keep(done)
	s.core.clock.rebased(p, r)
	s.hub.tell(done)
	s.core.leave(done.dead)
	return nil
}

// shift moves times that were set before a step: leases and the timeouts of running steps, and
// after a step back also the delays of waiting jobs.
func (t *tx) shift(us int64) error {
	var ids sqldb.Ints
	collect := func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }
	if err := t.query(qRunning, collect); err != nil {
		return err
	}
	if us < 0 {
		if err := t.query(qAhead, collect, t.now+jump.Microseconds(), shiftMost); err != nil {
			return err
		}
	}
	slices.Sort(ids)
	for page := range slices.Chunk(ids, sojourn.MaxBatch) {
		found, err := t.load(page)
		if err != nil {
			return err
		}
		for _, id := range page {
			was := found[sojourn.ID(id)]
			if was == nil {
				continue
			}
			l := *was
			t.shiftRow(&l, us)
			if err := t.save(was, &l); err != nil {
				return err
			}
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// shiftRow shifts a lease so that its remaining time stays the same. After a step back it changes
// only leases with more than a whole lease left, and never leaves more than that: so a lease that
// was shifted before, or was granted after the step, stays as it is.
func (t *tx) shiftRow(l *live, us int64) {
	if whole := t.now + l.leaseUs; l.State == sojourn.Running && (us > 0 || l.leaseUntil > whole) {
		l.leaseUntil = min(max(l.leaseUntil+us, min(l.leaseUntil, t.now)), whole)
	}
	if us < 0 && l.updated <= t.now+jump.Microseconds() {
		return // its other times were set before the clock was ahead
	}
	for _, clock := range []*int64{&l.timeoutAt, &l.waitUntil, &l.beatUntil, &l.pollAt, &l.rested, &l.decideBy} {
		if *clock > 0 {
			*clock = max(*clock+us, 1)
		}
	}
	if l.State == sojourn.Scheduled {
		l.runAt = max(l.runAt+us, t.now)
	}
}

// grantGrace writes the present grace into the shared record, so that the next process that opens
// the store does not grant it again.
func (t *tx) grantGrace() error {
	r, ok := t.s.clock.unsaved(t.now)
	if !ok {
		return nil
	}
	_, err := t.exec(qSwapClock, r.String(), metaClock, r.text)
	return err
}

// unsaved returns the record to write if the stored one lacks the present grace.
func (c *clock) unsaved(now int64) (sharedClock, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.shared
	if r.text == "" || readShared(r.text).since >= r.since {
		return r, false
	}
	r.mark = now
	return r, true
}

// keepMark refreshes the mark of the shared record after leases were granted. An idle store writes
// nothing.
func (s *operator) keepMark(ctx context.Context, stored string, now int64) error {
	r := readShared(stored)
	if s.core.cfg.Driven || stored == "" || !s.core.clock.sync(r) || now-r.mark < markEvery.Microseconds() || !s.core.leasing.Swap(false) {
		return nil
	}
	r.mark = now
	return s.core.db.Update(ctx, func(c sqldb.Conn) error {
		t := s.core.newTx(c)
		_, err := t.exec(qSwapClock, r.String(), metaClock, stored)
		return err
	})
}

// sync loads the record of other processes; false while a step of this process is pending.
func (c *clock) sync(r sharedClock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepped || c.lone {
		return false
	}
	c.shared.steps, c.shared.text = r.steps, r.text
	return true
}
