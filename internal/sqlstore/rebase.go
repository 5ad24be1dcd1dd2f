package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// A lease is stored as its end time. A step of the clock changes its meaning: after a step forward,
// the leases of living workers look expired; after a step back, jobs of killed processes stay
// running for as long as the step was. So the first process that notices shifts the leases by the
// step, in one transaction with the record of it that all processes share (docs/decisions/046).

const (
	// markEvery is the maximum age of the mark while leases are granted and sweeps run.
	markEvery = 2 * time.Second
	// shiftMost bounds the waiting jobs whose delays are shifted back with the clock.
	shiftMost = 10_000
)

const (
	qLockClock = `select m.value from sj_meta m where m.name = $1 /*lock m*/`
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
