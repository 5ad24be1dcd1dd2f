package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// Claimer predicts claims.
type Claimer struct{ *Model }

// Claims predicts claims of workers on a model.
func Claims(m *Model) Claimer { return Claimer{m} }

// Repeated predicts the answer to a claim that was executed before; fresh says that the claim is
// new and is to be executed.
func (m Claimer) Repeated(r driver.ClaimRequest) (jobs []*Job, fresh bool) {
	last := m.workers[r.Worker]
	if r.Number == 0 || last == nil || r.Number > last.number {
		return nil, true
	}
	if r.Number < last.number {
		return nil, false
	}
	for _, l := range last.leases {
		if j := m.Stands(l); j != nil {
			jobs = append(jobs, j)
		}
	}
	return jobs, len(jobs) == 0
}

// Claimable are the jobs that a claim may take, in the order in which it has to.
func (m Claimer) Claimable(r driver.ClaimRequest) []*Job {
	var out []*Job
	for _, q := range r.Queues {
		if m.Queues[q].Paused {
			continue
		}
		line := m.That(func(j *Job) bool {
			return j.queue == q && slices.Contains(r.Kinds, j.Kind) &&
				(j.State == sojourn.Ready && int64(j.Weight) <= r.Capacity || j.State == sojourn.Errored && slices.Contains(r.Decidable, j.Kind) ||
					j.PollAt > 0 && j.PollAt <= m.Now && slices.Contains(r.Pollable, j.Kind))
		})
		rank := func(j *Job) (int64, int64) {
			if j.State == sojourn.Awaiting { // polled in the order of started jobs
				return rules.ResumedRank, j.PollAt
			}
			return rules.Rank(m.Queues[q], j.priority, time.UnixMicro(j.runAt), j.Resumed)
		}
		slices.SortFunc(line, func(a, b *Job) int {
			a1, a2 := rank(a)
			b1, b2 := rank(b)
			return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2), cmp.Compare(a.ID, b.ID))
		})
		out = append(out, line...)
	}
	return out
}

// Next lists a queue in order, with the jobs that the next claim makes ready before it takes any.
func (m Claimer) Next(queue string) []*Job {
	resumed := map[sojourn.ID]bool{}
	line := m.That(func(j *Job) bool {
		if j.queue != queue || j.State != sojourn.Ready && j.State != sojourn.Scheduled && j.State != sojourn.Running {
			return false
		}
		resumed[j.ID] = j.Resumed
		if j.State == sojourn.Ready {
			return true
		}
		e, count := Sweeper(m).overdue(j, &driver.Swept{})
		if count == nil || j.WakeAt() > m.Now {
			return false
		}
		tr, err := rules.Decide(j.Row, e)
		resumed[j.ID] = tr.To.Resumed
		return err == nil && tr.To.State == sojourn.Ready
	})
	rank := func(j *Job) (int64, int64) {
		return rules.Rank(sojourn.QueueSettings{}, j.priority, time.UnixMicro(j.runAt), resumed[j.ID])
	}
	slices.SortFunc(line, func(a, b *Job) int {
		a1, a2 := rank(a)
		b1, b2 := rank(b)
		return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2), cmp.Compare(a.ID, b.ID))
	})
	return line
}

// Uses returns the part of a worker's capacity that a step of a job takes.
func Uses(j *Job) int64 {
	switch j.State {
	case sojourn.Errored:
		return 0
	case sojourn.Awaiting:
		return 1
	}
	return int64(j.Weight)
}

// Take leases the jobs that a claim has taken.
func (m Claimer) Take(r driver.ClaimRequest, jobs []*Job) {
	if len(jobs) == 0 {
		return
	}
	var leases []sojourn.Lease
	for _, j := range jobs {
		was := *j
		tr, err := rules.Decide(j.Row, rules.Event{Type: rules.EventClaimed, RetryHandler: slices.Contains(r.Decidable, j.Kind)})
		if err != nil {
			panic(err) // it was claimable
		}
		j.Row = tr.To
		j.Epoch, j.Worker, j.updated, j.began = j.Epoch+1, r.Worker, m.Now, m.Now
		j.lease = cmp.Or(r.Lease, sojourn.DefaultLease).Microseconds()
		j.LeaseUntil = m.Now + j.lease
		switch j.Purpose {
		case sojourn.PurposeStart:
			j.timeoutAt = m.Now + j.Policy.Timeout.Microseconds()
		case sojourn.PurposeResume:
			if j.timeoutAt += m.Now - was.rested; j.timeoutAt <= m.Now { // docs/concepts.md#the-clocks
				j.timeoutAt = m.Now + min(j.lease, j.Policy.Timeout.Microseconds())
			}
		}
		j.rested, j.decideBy, j.PollAt = 0, 0, 0
		m.Touched[j.ID] = true
		leases = append(leases, sojourn.Lease{ID: j.ID, Epoch: j.Epoch, Worker: j.Worker})
	}
	if r.Number > 0 {
		m.workers[r.Worker] = &asked{r.Number, leases}
	}
}

// Claimed is the model's answer to a claim.
func (m Claimer) Claimed(jobs []*Job) []driver.Claimed {
	out := make([]driver.Claimed, len(jobs))
	for i, j := range jobs {
		c := &out[i]
		c.Lease = sojourn.Lease{ID: j.ID, Epoch: j.Epoch, Worker: j.Worker}
		c.Job = sojourn.Job{ID: j.ID, Kind: j.Kind, Key: j.Key, Queue: j.queue, Attempt: j.Attempt, Generation: j.Generation, Failures: j.Failures,
			Crashes: j.Crashes, Args: []byte(j.args), Checkpoint: []byte(j.checkpoint)}
		c.Purpose, c.LeaseFor, c.Timeout, c.Deadline = j.Purpose, m.left(j.LeaseUntil), m.left(j.timeoutAt), m.left(j.deadline)
		if j.Purpose != sojourn.PurposeDecide {
			for _, r := range m.Inbox.inHand(j.ID) {
				c.Job.Responses = append(c.Job.Responses, &r.Response)
			}
		}
	}
	return out
}

func (m Claimer) left(us int64) time.Duration {
	if us == 0 {
		return 0
	}
	return max(time.Duration(us-m.Now)*time.Microsecond, 1)
}
