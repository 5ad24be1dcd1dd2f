package lifecycle

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/throttle"
)

// QOverdue lists, and locks, the jobs whose wake-up time has come, the oldest first. The second
// condition is that of the index.
const QOverdue = `select id from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 order by wake_at_us, id limit $2 /*lock*/`

// SweepOverdue handles at most limit jobs whose wake-up time has come: due runs, expired leases,
// waits and deadlines. All kinds of times share one column and index, so that no job gets stuck.
func SweepOverdue(t *txn.Tx, limit int) (swept driver.Swept, err error) {
	var ids sqldb.Ints
	if err := t.Read(QOverdue, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, t.Now, limit); err != nil {
		return swept, err
	}
	return SweepRows(t, ids)
}

// SweepRows is SweepOverdue for jobs that QOverdue has found before.
func SweepRows(t *txn.Tx, ids sqldb.Ints) (swept driver.Swept, err error) {
	if len(ids) == 0 {
		return swept, nil
	}
	t.ReleaseInserts()
	found, err := t.Load(ids)
	if err != nil {
		return swept, err
	}
	for _, id := range ids {
		l := found[sojourn.ID(id)]
		if l == nil {
			continue // another process was faster
		}
		e, count, err := OverdueEvent(t, l, &swept)
		if err != nil {
			return swept, err
		}
		if count == nil { // nothing is overdue: the row only gets its correct wake_at
			moved := *l
			if err := t.Save(l, &moved); err != nil {
				return swept, err
			}
			continue
		}
		if err := ApplyEvent(t, l, e); err != nil {
			return swept, err
		}
		*count++
	}
	return swept, nil
}

// OverdueEvent returns the event of a job's clock that has run out, and the sweep's counter for it.
// count is nil if none has run out. l may have been changed even then: its caller saves it, which
// gives it the correct wake-up time.
func OverdueEvent(t *txn.Tx, l *jobrow.Row, swept *driver.Swept) (e rules.Event, count *int, err error) {
	past := func(us int64) bool { return us > 0 && us <= t.Now }
	deadline, timeout := l.Deadline, l.TimeoutAt
	if l.State == sojourn.Running {
		deadline, timeout = l.GraceAfterLease(deadline), l.GraceAfterLease(timeout)
	}
	if past(deadline) {
		return rules.Event{Type: rules.EventDeadline, Error: "sojourn: the deadline of the job has passed"}, &swept.Deadlines, nil
	}
	switch l.State {
	case sojourn.Blocked:
		if l.AttemptOpen && past(l.WaitUntil) {
			return timedOut("the wait for its children"), &swept.TimedOut, nil
		}
		if l.AttemptOpen && past(timeout) {
			return timedOut("the attempt"), &swept.TimedOut, nil
		}
	case sojourn.Scheduled:
		if past(l.RunAt) {
			return rules.Event{Type: rules.EventDue}, &swept.Due, nil
		}
	case sojourn.Running:
		if until, grace := t.InGrace(l); grace {
			l.LeaseUntil = max(l.LeaseUntil, until)
			if l.TimeoutAt > 0 {
				l.TimeoutAt += t.Gap
			}
			return e, nil, t.GrantGrace()
		}
		if past(l.LeaseUntil) {
			return rules.Event{Type: rules.EventLeaseEnded}, &swept.Lost, nil
		}
		if past(timeout) && l.Purpose != sojourn.PurposeDecide {
			return timedOut("the attempt"), &swept.TimedOut, nil
		}
		if l.Purpose == sojourn.PurposePoll && l.WaitEnd() <= t.Now {
			return waitOver(l), &swept.TimedOut, nil
		}
	case sojourn.Awaiting:
		if l.WaitEnd() <= t.Now {
			return waitOver(l), &swept.TimedOut, nil
		}
		if past(timeout) {
			return timedOut("the attempt"), &swept.TimedOut, nil
		}
	case sojourn.Ready:
		if l.Resumed && past(timeout) {
			return rules.Event{Type: rules.EventResumeOverdue}, &swept.Resumed, nil
		}
	case sojourn.Errored:
		if past(l.DecideBy) {
			paused, err := pausedFor(t, l.Queue, l.Kind)
			if paused { // the clock stands still while no worker may claim the job
				l.DecideBy = t.Now + l.Policy.DecideWithin.Microseconds()
				return e, nil, err
			}
			return rules.Event{Type: rules.EventDecideOverdue}, &swept.Decided, err
		}
	}
	return e, nil, nil
}

// waitOver is the end of a wait by its limit, or by its beat if that came first.
func waitOver(l *jobrow.Row) rules.Event {
	if l.WaitEnd() == l.WaitUntil {
		return timedOut("the wait for a response")
	}
	return rules.Event{Type: rules.EventTimedOut, Reason: sojourn.ReasonBeat,
		Error: "sojourn: no progress response has come for " + l.Wait.Beat.String()}
}

// timedOut is the event of a limit that has passed.
func timedOut(what string) rules.Event {
	return rules.Event{Type: rules.EventTimedOut, Reason: sojourn.ReasonTimeout, Error: "sojourn: " + what + " has timed out"}
}

// pausedFor reports whether a pause keeps workers from claiming a job of a kind.
func pausedFor(t *txn.Tx, queue, kind string) (bool, error) {
	q, err := t.ReadQueue(queue)
	if err != nil {
		return false, err
	}
	all, err := t.ReadQueue(sojourn.AllQueues)
	f := rules.Flow{Settings: q.QueueSettings, All: all.QueueSettings}
	return !f.Ask(&throttle.Candidate{Kind: kind, Purpose: sojourn.PurposeDecide}).Open, err
}

// ApplyEvent lets the rules decide an event that no worker has reported, and applies the result
// with all that follows from it.
func ApplyEvent(t *txn.Tx, was *jobrow.Row, e rules.Event) error {
	tr, err := rules.Decide(was.Row, e)
	if err != nil {
		return err
	}
	began := int64(0)
	if was.State == sojourn.Running {
		began = was.BeganAt
	}
	t.NoteLost(was.Queue, began, tr.Reason)
	l, err := Apply(t, was, tr, Change{})
	if err == nil && l.State == sojourn.Awaiting { // the lost poll step may have set the job's key
		l, err = BeginWait(t, l)
	}
	if err == nil {
		_, err = Match(t, l)
	}
	return err
}
