package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// sweep predicts the answer of Sweep.
func (m *model) sweep(limit int) driver.Swept {
	old := m.old(limit)
	s := m.sweepDue(limit)
	m.sweepInbox(limit, &s)
	for _, j := range old {
		m.remove(j)
		s.Pruned++
	}
	return s
}

// sweepDue handles overdue jobs, the longest overdue first.
func (m *model) sweepDue(limit int) (s driver.Swept) {
	due := m.that(func(j *job) bool { return j.wakeAt() <= m.now })
	slices.SortStableFunc(due, func(a, b *job) int { return cmp.Compare(a.wakeAt(), b.wakeAt()) })
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
func (m *model) overdue(j *job, s *driver.Swept) (rules.Event, *int) {
	past := func(us int64) bool { return us > 0 && us <= m.now }
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
	case j.State == sojourn.Scheduled && past(j.runAt):
		return rules.Event{Type: rules.EventDue}, &s.Due
	case j.State == sojourn.Running && past(j.leaseUntil):
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
		if m.queues[j.queue].Paused { // the clock stands while no worker may claim
			j.decideBy = m.now + j.Policy.DecideWithin.Microseconds()
			j.updated = m.now
			m.touched[j.ID] = true
			return rules.Event{}, nil
		}
		return rules.Event{Type: rules.EventDecideOverdue}, &s.Decided
	}
	return rules.Event{}, nil
}

// sweepInbox expires early responses that no live job with their key has taken in time, and deletes
// responses past their retention.
func (m *model) sweepInbox(limit int, s *driver.Swept) {
	expired := m.responses(func(r *message) bool { return r.expires > 0 && r.expires <= m.now })
	slices.SortStableFunc(expired, func(a, b *message) int { return cmp.Compare(a.expires, b.expires) })
	for _, r := range expired[:min(len(expired), limit)] {
		h := m.keys[name{r.r.Kind, r.r.Key}]
		switch {
		case r.outcome != sojourn.Early:
			delete(m.inbox, r.seq)
		case h != nil && h.live:
			r.expires = m.now + m.inboxTTL
		default:
			r.outcome, r.expires = sojourn.Unmatched, m.now+sojourn.DefaultInboxKeep.Microseconds()
			s.Unmatched++
		}
	}
}

// old are the final jobs that retention wants gone.
func (m *model) old(limit int) []*job {
	var out []*job
	for _, q := range slices.Sorted(maps.Keys(m.queues)) {
		for _, state := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
			age, count, ok := rules.RetentionOf(m.queues[q].Retention, state)
			if !ok {
				continue
			}
			ended := m.that(func(j *job) bool { return j.queue == q && j.State == state })
			slices.SortFunc(ended, func(a, b *job) int { return cmp.Or(cmp.Compare(b.finished, a.finished), cmp.Compare(b.ID, a.ID)) })
			for i, j := range ended { // the newest first
				h := m.keys[name{j.kind, j.key}]
				keeps := h != nil && h.job == j.ID && h.until > m.now
				tooOld := age < math.MaxInt64 && j.finished <= m.now-age.Microseconds()
				if (tooOld || int64(i) >= count) && m.now-j.finished >= sojourn.IDLife.Microseconds() && !keeps && len(m.edges.children(j.ID)) == 0 {
					out = append(out, j)
				}
			}
		}
	}
	return out[:min(len(out), limit)]
}
