package model

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Steps predicts the writes of workers under their leases.
type Steps struct{ *Model }

// StepsOf predicts the writes of workers under their leases on a model.
func StepsOf(m *Model) Steps { return Steps{m} }

// EndOf is the answer for one lease as text: its end, or why it is lost.
func EndOf(until int64, lost string) string {
	if lost != "" {
		return lost
	}
	return time.UnixMicro(until).UTC().Format("15:04:05.000000")
}

// Extend predicts the answers of Extend.
func (m Steps) Extend(leases []sojourn.Lease) (answers []string) {
	for _, l := range leases {
		if j := m.Stands(l); j == nil {
			answers = append(answers, EndOf(0, m.whyLost(l)))
		} else {
			m.prolong(j)
			answers = append(answers, EndOf(j.LeaseUntil, ""))
		}
	}
	return answers
}

func (m *Model) prolong(j *Job) {
	if !j.Policy.Strict() {
		j.LeaseUntil = max(j.LeaseUntil, m.Now+j.lease)
		j.updated = m.Now
		m.Touched[j.ID] = true
	}
}

func (m Steps) whyLost(l sojourn.Lease) string {
	j := m.Jobs[l.ID]
	if j == nil || !j.had(l) {
		return driver.LostEnded
	}
	if slices.ContainsFunc(j.History, func(e Entry) bool { return e.Epoch == l.Epoch && e.Outcome == "revoked" }) {
		return driver.LostRevoked
	}
	if j.State.Live() && j.Epoch > l.Epoch {
		return driver.LostTaken
	}
	for _, e := range j.History {
		if e.Epoch == l.Epoch && (e.Outcome == "cancelled" || e.Outcome == "failed") {
			return driver.LostCancelled
		}
	}
	return driver.LostEnded
}

// had reports whether the worker of an invalid lease had it: only then it gets an answer about the
// job.
func (j *Job) had(l sojourn.Lease) bool {
	return slices.ContainsFunc(j.History, func(e Entry) bool { return e.Epoch == l.Epoch && e.Worker == l.Worker })
}
