package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

const qOverdue = `select id from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 order by wake_at_us, id limit $2 /*lock*/`

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

// pausedFor reports whether jobs of a kind are not handed out.
func (t *tx) pausedFor(queue, kind string) (bool, error) {
	q, err := t.queueRow(queue)
	if err != nil {
		return false, err
	}
	all, err := t.queueRow(sojourn.AllQueues)
	f := rules.Flow{Settings: q.QueueSettings, All: all.QueueSettings}
	return !f.Ask(&throttle.Candidate{Kind: kind, Purpose: sojourn.PurposeDecide}).Open, err
}
