package txn

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Events is what happens after the commit: hints for blocked calls, work that needs the committed
// rows, and counts.
type Events struct {
	Ready    map[QueueKind]int      // jobs that became claimable
	Freed    map[string]int         // weight that was returned, by queue
	Final    []sojourn.ID           // jobs that became final
	Ended    [][2]*jobrow.Row       // those of them with edges: their rows before and after; see package edge
	Cascades map[sojourn.ID]Cascade // ends whose call says what becomes of dependents
	Members  []*jobrow.Row          // members of workflows that have ended; see package member
	Moved    []*jobrow.Row          // members of workflows that are in other queues now
	Polls    []Poll                 // poll steps that were planned
	Due      int64                  // the earliest wake_at that was written, microseconds; 0 = none
	Recheck  []KindKey              // see NoteRecheck
	After    []func()               // functions to call
	Ending   []func(*Tx)            // functions that add to the write set, called before it is sent at the end
	Failures any                    // counts of failures; see package failure
	Dead     int                    // dead tuples that it leaves in sj_live
	Counted  int                    // rows that it adds to sj_count_change
	Measured int                    // rows that it adds to sj_stat_change
	Followed bool                   // it writes transitions for followers
	Foreign  bool                   // another connection has committed since the transaction before
}

// Cascade is what a cancel or purge says about dependents that would wait for ever. It counts for
// the dependents of each job that ends by it.
type Cascade struct {
	Dependents string // as in sojourn.Edit
	Caller     *access.Caller
}

// Poll is the next poll step of a job, at a time in microseconds.
type Poll struct {
	QueueKind
	At int64
}

// NoteChange adds the events of a row that is written.
func (t *Tx) NoteChange(l *jobrow.Row) {
	if l.State == sojourn.Ready || l.State == sojourn.Errored {
		t.Events.Ready[QueueKind{l.Queue, l.Kind}]++
	}
	if l.PollAt > 0 {
		t.Events.Polls = append(t.Events.Polls, Poll{QueueKind{l.Queue, l.Kind}, l.PollAt})
	}
	if l.WakeAt < jobrow.Never && (t.Events.Due == 0 || l.WakeAt < t.Events.Due) {
		t.Events.Due = l.WakeAt
	}
}

// NoteRecheck records a key under which a response and the job that waits for it may have missed
// each other, because both are written by concurrent transactions that share no row: a response to
// a key without a job, and a wait that registered a key.
func (t *Tx) NoteRecheck(kind, key string) {
	if key != "" && t.Concurrent() {
		t.Events.Recheck = append(t.Events.Recheck, KindKey{kind, key})
	}
}

// OutcomeStats are the outcomes of a queue's steps in one transaction, as evidence about the system
// that its jobs call. The gates of the queue (breaker, throttler) evaluate them at the end
// of the request that has ended the steps.
type OutcomeStats struct {
	Answered []int64       // when steps began that got an answer, microseconds
	Failed   []FailedStep  // steps that failed
	Hold     time.Duration // for which a handler wants the queue to wait; 0 = none
	Reason   string        // of the hold
}

// FailedStep is a step that failed.
type FailedStep struct {
	Reason   string
	Began    int64 // microseconds
	Reported bool  // by its worker: a failure that no breaker counts is an answer
}

// NoteLost records an attempt that failed without a report of its worker: by a timeout, a lost
// lease or an error response. began is in microseconds.
func (t *Tx) NoteLost(queue string, began int64, reason string) {
	if reason != "" {
		s := t.StatsFor(queue)
		s.Failed = append(s.Failed, FailedStep{Reason: reason, Began: began})
	}
}

// StatsFor returns the outcomes of a queue's steps, for the caller to add to.
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
