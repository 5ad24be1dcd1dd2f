package txn

import "time"

type FailedStep struct {
	Reason   string
	Began    int64
	Reported bool // by its worker: a failure that no breaker counts is an answer
}

// OutcomeStats are outcomes of a queue's steps: what they say about the other side that its jobs
// call. The gates of the queue evaluate them at the end of the request that has ended the steps.
type OutcomeStats struct {
	Answered []int64       // start times of steps that got an answer
	Failed   []FailedStep  // and of steps that failed
	Hold     time.Duration // of a handler; 0 = none
	Reason   string        // of the hold
}

// NoteLost records an attempt that ended without a report of its worker: timeouts, lost leases,
// error responses.
func (t *Tx) NoteLost(queue string, began int64, reason string) {
	if reason != "" {
		s := t.StatsFor(queue)
		s.Failed = append(s.Failed, FailedStep{Reason: reason, Began: began})
	}
}

// StatsFor returns the outcomes of a queue's steps, to be added to.
func (t *Tx) StatsFor(queue string) *OutcomeStats {
	if t.Queues.Stats == nil {
		t.Queues.Stats = map[string]*OutcomeStats{}
	}
	s := t.Queues.Stats[queue]
	if s == nil {
		s = &OutcomeStats{}
		t.Queues.Stats[queue] = s
	}
	return s
}

// Poll is the next poll step of a job.
type Poll struct {
	QueueKind
	At int64
}
