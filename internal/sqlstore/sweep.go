package sqlstore

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qOverdue    = `select id from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 order by wake_at_us, id limit $2 /*lock*/`
	qAnyOverdue = `select (select count(*) from (select 1 from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 limit 1) a)
		+ (select count(*) from (select 1 from sj_response where expires_us > 0 and expires_us <= $1 limit 1) b)`
)

var stepSweep = eachStep("sweep", func(t *tx, limit int) (driver.Swept, error) {
	swept, err := t.sweepDue(limit)
	if err == nil {
		err = t.sweepInbox(limit, &swept)
	}
	return swept, err
})

// Sweep handles overdue jobs; see driver.Store. It reads first, so that a sweep with nothing to do
// writes nothing.
func (s *Store) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	if limit < 1 || limit > 10*sojourn.MaxBatch {
		return driver.Swept{}, sojourn.Invalid("limit", "%d is out of range: 1 to %d", limit, 10*sojourn.MaxBatch)
	}
	swept, err := s.sweepOwners(ctx, limit)
	if err != nil {
		return swept, err
	}
	var due int64
	var old []expired
	var missed []kindKey
	var unshaped []string
	var clock string
	var now int64
	err = s.view(ctx, func(t *tx) (err error) {
		if due, err = t.num(qAnyOverdue, t.now); err != nil {
			return err
		}
		now = t.now
		if err := t.query(qMeta, func(r sqldb.Row) error { clock = r.Text(0); return nil }, metaClock); err != nil {
			return err
		}
		if err := t.query(qReshapings, func(r sqldb.Row) error { unshaped = append(unshaped, r.Text(0)); return nil }); err != nil {
			return err
		}
		if missed, err = t.missed(limit); err == nil {
			old, err = t.oldJobs(limit)
		}
		return err
	})
	if err != nil {
		return swept, err
	}
	s.lookAgain(ctx, missed)
	if err := s.keepMark(ctx, clock, now); err != nil {
		return swept, s.failed(err)
	}
	if due > 0 || s.clock.hasStepped() {
		more, err := do[driver.Swept](ctx, s, classClaim, stepSweep, limit, limit)
		if err != nil {
			return swept, err
		}
		more.Lost += swept.Lost
		swept = more
	}
	if swept.Pruned, err = s.prune(ctx, old); err != nil {
		return swept, err
	}
	for _, queue := range unshaped { // the process that changed the settings may have died before it finished; last, because it may wait
		if err := s.reshape(ctx, queue, 1+limit/piece); err != nil {
			return swept, err
		}
	}
	return swept, nil
}

// sweepDue ends overdue waits, leases and deadlines: one bounded page of the wake-up index, for all
// kinds of wake-up times.
func (t *tx) sweepDue(limit int) (swept driver.Swept, err error) {
	var ids sqldb.Ints
	if err := t.query(qOverdue, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, t.now, limit); err != nil {
		return swept, err
	}
	return t.sweepThese(ids)
}

// sweepThese ends the overdue waits, leases and deadlines of these rows.
func (t *tx) sweepThese(ids sqldb.Ints) (swept driver.Swept, err error) {
	if len(ids) == 0 {
		return swept, nil
	}
	t.release()
	found, err := t.load(ids)
	if err != nil {
		return swept, err
	}
	for _, id := range ids {
		l := found[sojourn.ID(id)]
		if l == nil {
			continue // another process was faster
		}
		e, count, err := t.overdue(l, &swept)
		if err != nil {
			return swept, err
		}
		if count == nil { // nothing is overdue: the row only gets its correct wake_at
			moved := *l
			if err := t.save(l, &moved); err != nil {
				return swept, err
			}
			continue
		}
		if err := t.happen(l, e); err != nil {
			return swept, err
		}
		*count++
	}
	return swept, nil
}

// happen applies an event that does not come from an outcome, and matches after it.
func (t *tx) happen(was *live, e rules.Event) error {
	tr, err := rules.Decide(was.Row, e)
	if err != nil {
		return err
	}
	t.noteLost(was.queue, was.began, tr.Reason)
	l, err := t.apply(was, tr, change{})
	if err == nil && l.State == sojourn.Awaiting { // the lost poll step may have set the job's key
		l, err = t.beginWait(l)
	}
	if err == nil {
		_, err = t.match(l)
	}
	return err
}

// overdue returns the event of the clock that has run out, and the counter of the sweep for it. A
// nil count means that none has; l may have been changed.
func (t *tx) overdue(l *live, swept *driver.Swept) (e rules.Event, count *int, err error) {
	past := func(us int64) bool { return us > 0 && us <= t.now }
	deadline, timeout := l.deadline, l.timeoutAt
	if l.State == sojourn.Running {
		deadline, timeout = l.oneLeaseLater(deadline), l.oneLeaseLater(timeout)
	}
	if past(deadline) {
		return rules.Event{Type: rules.EventDeadline, Error: "sojourn: the deadline of the job has passed"}, &swept.Deadlines, nil
	}
	switch l.State {
	case sojourn.Scheduled:
		if past(l.runAt) {
			return rules.Event{Type: rules.EventDue}, &swept.Due, nil
		}
	case sojourn.Running:
		if until, grace := t.inGrace(l); grace {
			l.leaseUntil = max(l.leaseUntil, until)
			if l.timeoutAt > 0 {
				l.timeoutAt += t.gap
			}
			return e, nil, t.grantGrace()
		}
		if past(l.leaseUntil) {
			return rules.Event{Type: rules.EventLeaseEnded}, &swept.Lost, nil
		}
		if past(timeout) && l.Purpose != sojourn.PurposeDecide {
			return timedOut("the attempt"), &swept.TimedOut, nil
		}
		if l.Purpose == sojourn.PurposePoll && l.waitEnd() <= t.now {
			return l.waitOver(), &swept.TimedOut, nil
		}
	case sojourn.Awaiting:
		if l.waitEnd() <= t.now {
			return l.waitOver(), &swept.TimedOut, nil
		}
		if past(timeout) {
			return timedOut("the attempt"), &swept.TimedOut, nil
		}
	case sojourn.Ready:
		if l.Resumed && past(timeout) {
			return rules.Event{Type: rules.EventResumeOverdue}, &swept.Resumed, nil
		}
	case sojourn.Errored:
		if past(l.decideBy) {
			paused, err := t.pausedFor(l.queue, l.kind)
			if paused { // the clock stands still while no worker may claim the job
				l.decideBy = t.now + l.Policy.DecideWithin.Microseconds()
				return e, nil, err
			}
			return rules.Event{Type: rules.EventDecideOverdue}, &swept.Decided, err
		}
	}
	return e, nil, nil
}

// waitOver is the end of a wait by its limit, or by its beat if that came first.
func (l *live) waitOver() rules.Event {
	if l.waitEnd() == l.waitUntil {
		return timedOut("the wait for a response")
	}
	return rules.Event{Type: rules.EventTimedOut, Reason: sojourn.ReasonBeat,
		Error: "sojourn: no progress response has come for " + l.Wait.Beat.String()}
}

func timedOut(what string) rules.Event {
	return rules.Event{Type: rules.EventTimedOut, Reason: sojourn.ReasonTimeout, Error: "sojourn: " + what + " has timed out"}
}

const qRunningOf = `select id from sj_live where wake_at_us < 9223372036854775807 and state = 4 and worker >= $1 and worker < $2 limit $3 /*lock*/`

// stepOwner ends leases of a dead process. Its workers are named owner.something.
var stepOwner = eachStep("owner", func(t *tx, owner string) (int, error) {
	var ids sqldb.Ints
	// "/" follows "." in every collation that compares bytes.
	if err := t.query(qRunningOf, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, owner+".", owner+"/", sojourn.MaxBatch); err != nil {
		return 0, err
	}
	found, err := t.load(ids)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := t.happen(found[sojourn.ID(id)], rules.Event{Type: rules.EventLeaseEnded}); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
})

// sweepOwners ends the leases of dead processes on this machine before they expire.
func (s *Store) sweepOwners(ctx context.Context, limit int) (swept driver.Swept, err error) {
	o, ok := s.db.(sqldb.Owners)
	if !ok {
		return swept, nil
	}
	err = o.EndDead(ctx, func(owner string) (finished bool, err error) {
		for swept.Lost < limit { // the rest with the next sweep
			if err := ctx.Err(); err != nil {
				return false, err
			}
			// The transaction completes even if ctx ends: the owner is known to be dead only until
			// this function returns.
			n, err := do[int](context.WithoutCancel(ctx), s, classClaim, stepOwner, 1, owner)
			if err != nil || n == 0 {
				return err == nil, err
			}
			swept.Lost += n
		}
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		return swept, ctx.Err()
	}
	if err != nil {
		return swept, s.failed(err)
	}
	return swept, nil
}

const (
	qExpired = `select seq, kind, key, outcome, job from sj_response where expires_us > 0 and expires_us <= $1 order by expires_us, seq limit $2`
	qExpire  = `update sj_response set outcome = $1, expires_us = $2 where seq = $3 and outcome = $4 and job = 0`
	qForget  = `delete from sj_response where seq in (ints($1)) and outcome > 2`
	qKeyLive = `select count(*) from sj_key where kind = $1 and key = $2 and live = 1`
)

// sweepInbox ends the time to live of early responses for which no job came, and deletes those
// whose retention is over. As long as a live job has the key, its Await may still match them.
func (t *tx) sweepInbox(limit int, swept *driver.Swept) error {
	type row struct {
		seq, outcome int64
		kind, key    string
	}
	var rows []row
	err := t.query(qExpired, func(r sqldb.Row) error {
		rows = append(rows, row{r.Int(0), r.Int(3), r.Text(1), r.Text(2)})
		return nil
	}, t.now, limit)
	if err != nil {
		return err
	}
	var gone sqldb.Ints
	for _, r := range rows {
		if r.outcome != outEarly {
			gone = append(gone, r.seq)
			continue
		}
		outcome, until := outUnmatched, t.now+sojourn.DefaultInboxKeep.Microseconds()
		live, err := t.num(qKeyLive, r.kind, r.key)
		if err != nil {
			return err
		}
		if live > 0 {
			outcome, until = outEarly, t.now+t.s.cfg.InboxTTL.Microseconds()
		} else {
			swept.Unmatched++
		}
		if _, err := t.exec(qExpire, outcome, until, r.seq, outEarly); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	_, err = t.exec(qForget, gone)
	return err
}
