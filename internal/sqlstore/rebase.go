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

// A lease is stored as the time at which it ends. When the clock is set, this time means something
// else: after a step forward, the leases of living workers look ended; after a step back, the jobs
// of killed processes stay running for as long as the step was. So the first process that notices
// shifts the leases by the size of the step, in one transaction with the record of it that
// all processes share (docs/decisions/046).

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
	// markEvery is how old the mark may become while leases are granted, with a sweep at hand.
	markEvery = 2 * time.Second
	// shiftMost bounds the waiting jobs whose delays are shifted back with the clock.
	shiftMost = 10_000
)

// errClockStep ends a transaction that has read a clock that was set. It is run again after rebase.
var errClockStep = errors.New("the clock was set")

func readShared(text string) (r sharedClock) {
	fmt.Sscan(text, &r.mark, &r.steps, &r.since, &r.gap) // what is missing is 0
	r.text = text
	return r
}

func (r sharedClock) String() string { return fmt.Sprint(r.mark, r.steps, r.since, r.gap) }

// after is the record after a step to now, or after a time without a process that may have been
// one. An earlier gap counts as long as its grace is not over.
func (r sharedClock) after(now, step int64) sharedClock {
	gap := step
	if now-step < r.since+graceMost.Microseconds() {
		gap += r.gap
	}
	r.since, r.gap = now, max(gap, 0)
	return r
}

// open takes the shared record when the store opens. How much of the time since the mark has
// passed, and how much is a step, cannot be known: until a lease after the opening, all of it may
// be a step. A mark in the future is a step back for certain.
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

// clockStep is a step of the clock that was seen and to which the leases were not fitted yet.
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

// remaining is by how much the leases are still to be shifted when the record says steps: nothing
// if another process has done it. What differs from what others have seen is shifted all the same,
// because to shift a lease that is right grants it one lease at most.
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

// rebased says that the leases fit the clock at the offset to.
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

// rebase shifts the leases by the step of the clock, unless another process has done so.
func (s *Store) rebase(ctx context.Context) error {
	s.rebasing.Lock()
	defer s.rebasing.Unlock()
	if !s.clock.hasStepped() {
		return nil
	}
	var done *tx
	var p clockStep
	var r sharedClock
	err := s.db.Update(ctx, func(c sqldb.Conn) error {
		t, err := s.newTx(c, false)
		if err != nil {
			return err
		}
		done = t
		if err := s.recent.open(t); err != nil {
			return err
		}
		r = sharedClock{}
		if err := t.query(qLockClock, func(row sqldb.Row) error { r = readShared(row.Text(0)); return nil }, metaClock); err != nil {
			return err
		}
		p = s.clock.pendingStep()
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
	s.trusted.keep(done)
	s.clock.rebased(p, r)
	s.hub.tell(done)
	s.leave(done.dead)
	return nil
}

// shift moves what was counted before a step: leases and the timeouts of running steps, and after
// a step back also the delays of waiting jobs.
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

// shiftRow shifts a lease so that as much is left of it as before. After a step back it
// touches only leases of which more than a whole one is left, and it never leaves more than that:
// so a lease that was shifted before, or was granted after the step, stays as it is.
func (t *tx) shiftRow(l *live, us int64) {
	if whole := t.now + l.leaseUs; l.State == sojourn.Running && (us > 0 || l.leaseUntil > whole) {
		l.leaseUntil = min(max(l.leaseUntil+us, min(l.leaseUntil, t.now)), whole)
	}
	if us < 0 && l.updated <= t.now+jump.Microseconds() {
		return // what else it counts was counted before the clock was ahead
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

// unsaved is the record to write if the stored one does not know of the present grace.
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
func (s *Store) keepMark(ctx context.Context, stored string, now int64) error {
	r := readShared(stored)
	if s.cfg.Driven || stored == "" || !s.clock.sync(r) || now-r.mark < markEvery.Microseconds() || !s.leasing.Swap(false) {
		return nil
	}
	r.mark = now
	return s.db.Update(ctx, func(c sqldb.Conn) error {
		t := &tx{Conn: c, s: s, ready: map[place]int{}, freed: map[string]int{}}
		_, err := t.exec(qSwapClock, r.String(), metaClock, stored)
		return err
	})
}

// sync takes over what other processes have stored; false while a step of this process is pending.
func (c *clock) sync(r sharedClock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepped || c.lone {
		return false
	}
	c.shared.steps, c.shared.text = r.steps, r.text
	return true
}
