package lifecycle

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// setTimes sets the times that a transition starts and ends, by the table of the four clocks in
// docs/concepts.md.
func setTimes(t *txn.Tx, was, l *jobrow.Row, tr rules.Transition, v sojourn.Verdict) {
	switch tr.RunAt {
	case rules.RunAtNow:
		l.RunAt = t.Now
	case rules.RunAtDelay:
		l.RunAt = t.Now + tr.Delay.Microseconds()
		if !v.RunAt.IsZero() {
			l.RunAt = max(v.RunAt.UnixMicro(), t.Now)
		}
		l.RunAt = Opening(l.RunAt, l.Policy)
	case rules.RunAtOpening:
		l.RunAt = putOffUntil(t, was)
	}
	if v.Priority != nil {
		l.Priority = *v.Priority
	}
	if was.State == sojourn.Running {
		l.LeaseUntil = 0
	}
	switch {
	case l.State == sojourn.Running:
	case l.State != sojourn.Ready || l.Resumed || was.State == sojourn.Scheduled || tr.RunAt != rules.KeepRunAt:
		l.BeganAt = 0
	case was.State != sojourn.Ready || was.Resumed: // it comes back to the place of its old run_at
		l.BeganAt = max(t.Now, was.UpdatedAt)
	}
	if l.State == sojourn.Awaiting && was.State == sojourn.Running && was.Purpose != sojourn.PurposePoll {
		l.WaitedAt = max(t.Now, was.UpdatedAt)
	}
	l.WaitUntil, l.BeatUntil, l.PollAt, l.DecideBy, l.ResumedAt = 0, 0, 0, 0, 0
	switch {
	case l.State == sojourn.Awaiting && was.State == sojourn.Awaiting, l.State == sojourn.Awaiting && was.Purpose == sojourn.PurposePoll:
		l.WaitUntil, l.BeatUntil = was.WaitUntil, was.BeatUntil
	case l.State == sojourn.Blocked && was.State == sojourn.Blocked:
		l.WaitUntil = was.WaitUntil
	case l.State == sojourn.Blocked:
		l.WaitUntil = TimeAfter(t, tr.Within)
	case l.State == sojourn.Awaiting:
		l.WaitUntil, l.BeatUntil = TimeAfter(t, l.Wait.Within), TimeAfter(t, l.Wait.Beat)
	case l.State == sojourn.Errored:
		l.DecideBy = t.Now + l.Policy.DecideWithin.Microseconds()
	case l.State == sojourn.Ready && l.Resumed:
		l.ResumedAt = t.Now // the attempt's clock stands still until a worker takes it
		if was.ResumedAt > 0 {
			l.ResumedAt = was.ResumedAt
		}
	}
	if l.State == sojourn.Awaiting && l.Wait.Poll.First > 0 && !l.NoPoll {
		l.PollAt = t.Now + tr.Poll.Microseconds()
	}
	if !l.AttemptOpen {
		l.TimeoutAt = 0
	}
}

// TimeAfter is d from now, in microseconds; 0 for a d of 0, which means no limit.
func TimeAfter(t *txn.Tx, d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return t.Now + d.Microseconds()
}

// TimeLeft is the time from now until us, more than 0 even if it has passed; 0 for a time that is
// not set.
func TimeLeft(t *txn.Tx, us int64) time.Duration {
	if us == 0 {
		return 0
	}
	return max(time.Duration(us-t.Now)*time.Microsecond, 1)
}

// Opening is us, or the first moment after it at which the windows of a policy allow a start.
func Opening(us int64, p sojourn.Policy) int64 {
	if len(p.Windows) == 0 {
		return us
	}
	opens, err := rules.NextOpening(jobrow.Time(us), p.Windows...)
	if err != nil {
		return us + closedFor.Microseconds()
	}
	return max(opens.UnixMicro(), us)
}

// closedFor is the delay before the next check of a job whose windows never open again (because of
// their exceptions, or a new release of the zone rules).
const closedFor = 24 * time.Hour

// putOffUntil is the time at which a job outside its windows, or its queue's, may start. Jobs of
// one queue are spread over the beginning of the window.
func putOffUntil(t *txn.Tx, l *jobrow.Row) int64 {
	q, err := t.ReadQueue(l.Queue)
	if err != nil {
		return Opening(t.Now, l.Policy) // without the spread
	}
	until, err := rules.PutOff(l.ID, jobrow.Time(t.Now), l.Policy.Windows, q.Windows)
	if err != nil {
		return t.Now + closedFor.Microseconds()
	}
	return max(until.UnixMicro(), t.Now)
}
