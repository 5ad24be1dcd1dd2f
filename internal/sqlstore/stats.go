package sqlstore

import "time"

type failedStep struct {
	reason   string
	began    int64
	reported bool // by its worker: a failure that no breaker counts is an answer
}

// outcomeStats are outcomes of a queue's steps: what they say about the other side that its jobs
// call. The gates of the queue evaluate them at the end of the request that has ended the steps.
type outcomeStats struct {
	answered []int64       // start times of steps that got an answer
	failed   []failedStep  // and of steps that failed
	hold     time.Duration // of a handler; 0 = none
	reason   string        // of the hold
}

// noteLost records an attempt that ended without a report of its worker: timeouts, lost leases,
// error responses.
func (t *tx) noteLost(queue string, began int64, reason string) {
	if reason != "" {
		s := t.statsFor(queue)
		s.failed = append(s.failed, failedStep{reason: reason, began: began})
	}
}

// statsFor returns the outcomes of a queue's steps, to be added to.
func (t *tx) statsFor(queue string) *outcomeStats {
	if t.stats == nil {
		t.stats = map[string]*outcomeStats{}
	}
	s := t.stats[queue]
	if s == nil {
		s = &outcomeStats{}
		t.stats[queue] = s
	}
	return s
}
