package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/faulty"
)

func (r *run) extend(leases []sojourn.Lease) {
	attempt(r, fmt.Sprint("Extend ", leases), r.fault(faulty.Lost, faulty.Down, faulty.Twice),
		func() []string { return r.m.extend(leases) },
		func() ([]string, error) {
			answers, err := r.store.Extend(r.ctx, leases)
			var out []string
			for _, e := range answers {
				out = append(out, endOf(e.Until.UnixMicro(), e.Reason))
			}
			return out, err
		}, nil,
		func(got, want []string) string {
			if !slices.Equal(got, want) {
				return fmt.Sprintf("answered %v, want %v", got, want)
			}
			return ""
		})
	for _, l := range leases {
		if j := r.m.stands(l); j != nil {
			r.ledger.prolonged(l, j.leaseUntil)
		}
	}
}

// endOf is the answer for one lease as text: its end, or why it is lost.
func endOf(until int64, lost string) string {
	if lost != "" {
		return lost
	}
	return time.UnixMicro(until).UTC().Format("15:04:05.000000")
}

// extend predicts the answers of Extend.
func (m *model) extend(leases []sojourn.Lease) (answers []string) {
	for _, l := range leases {
		if j := m.stands(l); j == nil {
			answers = append(answers, endOf(0, m.whyLost(l)))
		} else {
			m.prolong(j)
			answers = append(answers, endOf(j.leaseUntil, ""))
		}
	}
	return answers
}

func (m *model) prolong(j *job) {
	if !j.Policy.Strict() {
		j.leaseUntil = max(j.leaseUntil, m.now+j.lease)
		j.updated = m.now
		m.touched[j.ID] = true
	}
}

func (m *model) whyLost(l sojourn.Lease) string {
	j := m.jobs[l.ID]
	if j == nil || !j.had(l) {
		return driver.LostEnded
	}
	if j.State.Live() && j.epoch > l.Epoch {
		return driver.LostTaken
	}
	for _, e := range j.history {
		if e.epoch == l.Epoch && (e.outcome == "cancelled" || e.outcome == "failed") {
			return driver.LostCancelled
		}
	}
	return driver.LostEnded
}

// had reports whether the worker of an invalid lease had it: only then it gets an answer about the
// job.
func (j *job) had(l sojourn.Lease) bool {
	return slices.ContainsFunc(j.history, func(e entry) bool { return e.epoch == l.Epoch && e.worker == l.Worker })
}
