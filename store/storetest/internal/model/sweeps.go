package model

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// Sweeper predicts sweeps.
type Sweeper struct{ *Model }

// Sweeps predicts sweeps on a model.
func Sweeps(m *Model) Sweeper { return Sweeper{m} }

// Sweep predicts the answer of Sweep.
func (m Sweeper) Sweep(limit int) driver.Swept {
	old := m.old(limit)
	s := m.SweepDue(limit)
	m.sweepInbox(limit, &s)
	for _, j := range old {
		m.remove(j)
		s.Pruned++
	}
	return s
}

// SweepDue handles overdue jobs, the longest overdue first.
func (m Sweeper) SweepDue(limit int) (s driver.Swept) {
	due := m.That(func(j *Job) bool { return j.WakeAt() <= m.Now })
	slices.SortStableFunc(due, func(a, b *Job) int { return cmp.Compare(a.WakeAt(), b.WakeAt()) })
	for _, j := range due[:min(len(due), limit)] {
		e, count := m.overdue(j, &s)
		if count == nil {
			continue
		}
		if err := m.happen(j, e, change{}); err != nil {
			panic(err) // it was overdue for this
		}
		*count++
	}
	return s
}

// overdue returns the event of a job's expired clock.
func (m Sweeper) overdue(j *Job, s *driver.Swept) (rules.Event, *int) {
	past := func(us int64) bool { return us > 0 && us <= m.Now }
	timedOut := rules.Event{Type: rules.EventTimedOut, Reason: sojourn.ReasonTimeout}
	waits := j.State == sojourn.Awaiting || j.Purpose == sojourn.PurposePoll && j.Kept == 0
	silent := timedOut
	silent.Reason = sojourn.ReasonBeat
	deadline := j.deadline
	if j.State == sojourn.Running {
		deadline = j.oneLeaseLater(deadline)
	}
	switch {
	case past(deadline):
		return rules.Event{Type: rules.EventDeadline}, &s.Deadlines
	case j.State == sojourn.Blocked && j.AttemptOpen && (past(j.waitUntil) || past(j.timeoutAt)):
		return timedOut, &s.TimedOut
	case j.State == sojourn.Scheduled && past(j.runAt):
		return rules.Event{Type: rules.EventDue}, &s.Due
	case j.State == sojourn.Running && past(j.LeaseUntil):
		return rules.Event{Type: rules.EventLeaseEnded}, &s.Lost
	case j.State == sojourn.Running && j.Purpose != sojourn.PurposeDecide && past(j.oneLeaseLater(j.timeoutAt)):
		return timedOut, &s.TimedOut
	case waits && past(j.beatUntil) && (j.waitUntil == 0 || j.beatUntil < j.waitUntil):
		return silent, &s.TimedOut
	case waits && past(j.waitUntil), j.State == sojourn.Awaiting && past(j.timeoutAt):
		return timedOut, &s.TimedOut
	case j.State == sojourn.Ready && j.Resumed && past(j.timeoutAt):
		return rules.Event{Type: rules.EventResumeOverdue}, &s.Resumed
	case j.State == sojourn.Errored && past(j.decideBy):
		if m.Queues[j.queue].Paused { // the clock stands while no worker may claim
			j.decideBy = m.Now + j.Policy.DecideWithin.Microseconds()
			j.updated = m.Now
			m.Touched[j.ID] = true
			return rules.Event{}, nil
		}
		return rules.Event{Type: rules.EventDecideOverdue}, &s.Decided
	}
	return rules.Event{}, nil
}

// old are the final jobs that retention wants gone.
func (m Sweeper) old(limit int) []*Job {
	var out []*Job
	for _, q := range slices.Sorted(maps.Keys(m.Queues)) {
		for _, state := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
			age, count, ok := rules.RetentionOf(m.Queues[q].Retention, state)
			if !ok {
				continue
			}
			ended := m.That(func(j *Job) bool { return j.queue == q && j.State == state })
			slices.SortFunc(ended, func(a, b *Job) int { return cmp.Or(cmp.Compare(b.finished, a.finished), cmp.Compare(b.ID, a.ID)) })
			for i, j := range ended { // the newest first
				h := m.keys[Name{j.Kind, j.Key}]
				keeps := h != nil && h.job == j.ID && h.until > m.Now
				tooOld := age < math.MaxInt64 && j.finished <= m.Now-age.Microseconds()
				if (tooOld || int64(i) >= count) && m.Now-j.finished >= sojourn.IDLife.Microseconds() && !keeps && len(m.Edges.children(j.ID)) == 0 && !m.isRead(j.ID) {
					out = append(out, j)
				}
			}
		}
	}
	return out[:min(len(out), limit)]
}

// isRead reports whether a live job may still read the result of a child.
func (m Sweeper) isRead(child sojourn.ID) bool {
	return slices.ContainsFunc(m.awaitedBy(child), func(id sojourn.ID) bool {
		p := m.Jobs[id]
		return p != nil && p.State.Live()
	})
}
