// Package groupcommit lets concurrent callers share transactions, like bbolt's Batch. A Lane is a
// queue of calls with one or more runners. A runner takes a group of calls, commits it as one
// transaction, and answers each caller. The package knows nothing of databases: a function that the
// store gives runs a group.
package groupcommit

import (
	"context"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Class is the priority for a place in a group: finishes free weight and keys, claims keep workers
// busy, and a bulk producer starves neither.
type Class uint8

const (
	Finish Class = iota
	Claim
	Enqueue
	classes
)

// Item is a call in a lane.
type Item[C any] struct {
	Call C
	Rows int   // that it reads or writes, about
	Err  error // set by the commit function
	done chan struct{}
}

// ErrClosed answers calls after Close.
var ErrClosed = &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the store is closed", Err: sojourn.ErrClosed}

func errUnknown(ctx context.Context) error {
	return &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Err: context.Cause(ctx),
		Message: "the call ended while the store was writing; it may or may not have been executed: repeat it unchanged"}
}

// Lane is a queue of calls. If it is idle, a call starts at once; calls that arrive meanwhile go
// into the next group, see coalesce. A further runner starts only when minParallelRows wait, see
// shouldStart, or when a transaction takes longer than slowAfter: small concurrent transactions cost
// more than large ones in sequence, and a job stored in one while a claim runs in the other must be
// read again (docs/internals/engine.md#group-commit). Safe for concurrent use.
type Lane[C any] struct {
	commit  func(group []*Item[C]) // one transaction; sets Err of every item
	runners int                    // 1 on SQLite, which has one writer, whose next transaction may run while the one before is on its way to the disk
	maxRows int                    // of a group; above 500 to 2,000 a larger one gains less than 15 %
	delays  bool                   // it waits for the callers just answered, see coalesce

	mu     sync.Mutex // guards the fields below
	active int        // transactions under way
	busy   int        // runners at work
	slow   int        // runners whose transaction takes longer than slowAfter
	rows   int        // in queues
	queues [classes][]*Item[C]
	full   int // calls that a runner waits for, see coalesce; 0 = none does
	closed bool
	idle   sync.Cond // signalled when active falls to 0

	complete chan struct{} // capacity 1: full have come
}

// New makes a lane. commit runs one group of at most maxRows rows (or of one call) and returns when
// it is durable; up to runners of them run at a time.
func New[C any](runners, maxRows int, commit func([]*Item[C])) *Lane[C] {
	l := &Lane[C]{commit: commit, runners: runners, maxRows: maxRows, delays: true, complete: make(chan struct{}, 1)}
	l.idle.L = &l.mu
	return l
}

// WithoutDelay removes the batching delay, for measurements. Call it before the first Do.
func (l *Lane[C]) WithoutDelay() { l.delays = false }

// Do runs a call as part of some transaction and returns when it is durable. If ctx ends first, the
// outcome is unknown and the work continues.
func (l *Lane[C]) Do(ctx context.Context, class Class, rows int, call C) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &Item[C]{Call: call, Rows: rows, done: make(chan struct{})}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.queues[class] = append(l.queues[class], r)
	l.rows += rows
	if l.full > 0 && l.waiting() >= l.full {
		l.full = 0
		l.complete <- struct{}{}
	}
	l.maybeStart()
	l.mu.Unlock()
	select {
	case <-r.done:
		return r.Err
	case <-ctx.Done():
		return errUnknown(ctx)
	}
}

// Alone runs a call as a transaction of its own, concurrently with the runners.
func (l *Lane[C]) Alone(ctx context.Context, call C) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.active++ // Close waits for it
	l.mu.Unlock()
	r := &Item[C]{Call: call}
	l.commit([]*Item[C]{r})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	l.idle.Broadcast()
	return r.Err
}

const (
	minParallelRows       = 256                    // rows
	minParallelRowsEnding = 32                     // rows if neither claims nor enqueues wait, which should share one transaction
	slowAfter             = 100 * time.Millisecond // many times the duration of a transaction that does not wait
)

// maybeStart starts a runner for the waiting calls, if they justify one. The caller holds mu.
func (l *Lane[C]) maybeStart() {
	if l.busy < l.runners && l.shouldStart(l.busy) {
		l.active++
		l.busy++
		go l.drain()
	}
}

// shouldStart reports whether the queued rows justify another concurrent transaction. The caller holds
// mu.
func (l *Lane[C]) shouldStart(others int) bool {
	enough := minParallelRows
	if l.queues[Claim] == nil && l.queues[Enqueue] == nil {
		enough = minParallelRowsEnding
	}
	return l.rows > 0 && (others == l.slow || l.rows >= enough)
}

// drain commits group after group until no call waits, or too few to justify a transaction
// beside the other runners, which then take them.
func (l *Lane[C]) drain() {
	for {
		l.mu.Lock()
		var group []*Item[C]
		if l.shouldStart(l.busy - 1) {
			group = l.take()
		}
		if len(group) == 0 {
			l.active--
			l.busy--
			l.idle.Broadcast()
			l.mu.Unlock()
			return
		}
		l.maybeStart() // for the calls that are left
		l.mu.Unlock()
		began := time.Now()
		l.watched(func() { l.commit(group) })
		took := time.Since(began)
		for _, r := range group {
			close(r.done)
		}
		if l.delays && len(group) > 1 {
			l.coalesce(len(group), took/coalescePart)
		}
	}
}

// coalescePart limits the batching delay of the next transaction to this fraction of the duration of
// the last one. On PostgreSQL, with 64 producers on two cores, 2 to 5 are equally good, 10 is a
// tenth slower and 20 a fifth; on SQLite nothing differs.
const coalescePart = 3

// coalesce gives the callers just answered the time to send their next call. Otherwise callers
// split into two halves whose transactions alternate: twice as many transactions, each with half of
// the callers. A single caller does not wait, and the delay for a caller that does not return is
// short.
func (l *Lane[C]) coalesce(answered int, limit time.Duration) {
	l.mu.Lock()
	if l.full > 0 { // another runner is gathering, and takes them all
		l.mu.Unlock()
		return
	}
	l.full = l.waiting() + answered
	l.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.complete:
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = 0
	select {
	case <-l.complete: // it was completed just when the time was up
	default:
	}
}

// waiting is how many calls wait. The caller holds mu.
func (l *Lane[C]) waiting() (n int) {
	for _, rs := range l.queues {
		n += len(rs)
	}
	return n
}

// watched runs one transaction. If it takes long, another runner may start.
func (l *Lane[C]) watched(transaction func()) {
	if l.runners == 1 {
		transaction()
		return
	}
	over, slow := false, false // guarded by mu
	watch := time.AfterFunc(slowAfter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !over {
			slow = true
			l.slow++
			l.maybeStart()
		}
	})
	transaction()
	watch.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if over = true; slow {
		l.slow--
	}
}

// take removes the next group from the queues: at least one call, at most maxRows rows.
func (l *Lane[C]) take() []*Item[C] {
	var group []*Item[C]
	rows := 0
	for c := range l.queues {
		n := 0
		for _, r := range l.queues[c] {
			if len(group)+n > 0 && rows+r.Rows > l.maxRows {
				break
			}
			rows += r.Rows
			n++
		}
		group = append(group, l.queues[c][:n]...)
		if l.queues[c] = l.queues[c][n:]; len(l.queues[c]) == 0 {
			l.queues[c] = nil // let the backing array go
		} else {
			break
		}
	}
	l.rows -= rows
	return group
}

// Close refuses new calls and returns when the last group is committed.
func (l *Lane[C]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.active > 0 {
		l.idle.Wait()
	}
}
