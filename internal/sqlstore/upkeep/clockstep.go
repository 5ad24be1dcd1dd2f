package upkeep

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
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
	// keep them locked for long. InGrace protects them.
	qRunning = `select id from sj_live where wake_at_us < 9223372036854775807 and state = 4 /*lock*/`
	// Delays that were counted from a time which is in the future now.
	qAhead = `select id from sj_live where wake_at_us < 9223372036854775807 and updated_us > $1
		and (state = 2 and attempt > 0 or state = 3 and resumed = 1 or state = 5 or state = 6) limit $2 /*lock*/`
)

// Update is DB.Update that shifts the leases first if fn finds that the clock was set.
func (s *Maintainer) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	for {
		err := s.core.DB.Update(ctx, fn)
		if !errors.Is(err, clock.ErrStep) || ctx.Err() != nil {
			return err
		}
		if err := s.rebase(ctx); err != nil {
			return err
		}
	}
}

// rebase shifts the leases by the step of the clock, unless another process has done so.
func (s *Maintainer) rebase(ctx context.Context) error {
	s.rebasing.Lock()
	defer s.rebasing.Unlock()
	if !s.core.Clock.HasStepped() {
		return nil
	}
	var done *txn.Tx
	var p clock.Step
	var r clock.Record
	err := s.core.DB.Update(ctx, func(c sqldb.Conn) error {
		t, err := s.core.Begin(c)
		if err != nil {
			return err
		}
		done = t
		if err := s.core.Caches.Local.Open(t); err != nil {
			return err
		}
		r = clock.Record{}
		if err := t.Read(qLockClock, func(row sqldb.Row) error { r = clock.ParseRecord(row.Text(0)); return nil }, clock.MetaName); err != nil {
			return err
		}
		p = s.core.Clock.PendingStep()
		if us := p.Remaining(r.Steps); us != 0 {
			if err := shift(t, us); err != nil {
				return err
			}
			r.Steps += us
			r = r.After(t.Now, us)
		}
		r.Mark = t.Now
		r.Text = r.String()
		if _, err := t.Write(txn.QSetMeta, clock.MetaName, r.Text); err != nil {
			return err
		}
		return t.End()
	})
	if err != nil {
		return err
	}
	s.core.Caches.Rows.Keep(done)
	s.core.Clock.Rebased(p, r)
	s.hub.Publish(done)
	s.core.NoteDead(done.Events.Dead)
	return nil
}

// shift moves times that were set before a step: leases and the timeouts of running steps, and
// after a step back also the delays of waiting jobs.
func shift(t *txn.Tx, us int64) error {
	var ids sqldb.Ints
	collect := func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }
	if err := t.Read(qRunning, collect); err != nil {
		return err
	}
	if us < 0 {
		if err := t.Read(qAhead, collect, t.Now+clock.MaxJump.Microseconds(), shiftMost); err != nil {
			return err
		}
	}
	slices.Sort(ids)
	for page := range slices.Chunk(ids, sojourn.MaxBatch) {
		found, err := t.Load(page)
		if err != nil {
			return err
		}
		for _, id := range page {
			was := found[sojourn.ID(id)]
			if was == nil {
				continue
			}
			l := *was
			shiftRow(t, &l, us)
			if err := t.Save(was, &l); err != nil {
				return err
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// shiftRow shifts a lease so that its remaining time stays the same. After a step back it changes
// only leases with more than a whole lease left, and never leaves more than that: so a lease that
// was shifted before, or was granted after the step, stays as it is.
func shiftRow(t *txn.Tx, l *jobrow.Row, us int64) {
	if whole := t.Now + l.LeaseUs; l.State == sojourn.Running && (us > 0 || l.LeaseUntil > whole) {
		l.LeaseUntil = min(max(l.LeaseUntil+us, min(l.LeaseUntil, t.Now)), whole)
	}
	if us < 0 && l.UpdatedAt <= t.Now+clock.MaxJump.Microseconds() {
		return // its other times were set before the clock was ahead
	}
	for _, at := range []*int64{&l.TimeoutAt, &l.WaitUntil, &l.BeatUntil, &l.PollAt, &l.ResumedAt, &l.DecideBy} {
		if *at > 0 {
			*at = max(*at+us, 1)
		}
	}
	if l.State == sojourn.Scheduled {
		l.RunAt = max(l.RunAt+us, t.Now)
	}
}

// keepMark refreshes the mark of the shared record after leases were granted. An idle store writes
// nothing.
func (s *Maintainer) keepMark(ctx context.Context, stored string, now int64) error {
	r := clock.ParseRecord(stored)
	if s.core.Cfg.Driven || stored == "" || !s.core.Clock.Load(r) || now-r.Mark < markEvery.Microseconds() || !s.core.Leasing.Swap(false) {
		return nil
	}
	r.Mark = now
	return s.core.DB.Update(ctx, func(c sqldb.Conn) error {
		t := s.core.NewTx(c)
		_, err := t.Write(txn.QSwapClock, r.String(), clock.MetaName, stored)
		return err
	})
}
