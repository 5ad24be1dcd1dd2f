// Package groupcommit lets concurrent callers share transactions (group commit, like Batch of
// bbolt): a commit that waits for the disk costs the same for one row as for hundreds.
//
// A [Lane] is a queue of calls with one or more runners. A runner takes a group of calls, runs it
// as one transaction, and returns the results to the callers when the transaction is durable. Each
// call has a [Class], its priority for a place in the next group. The package knows nothing of
// databases: the store gives New the function that commits a group.
//
// In the flow of a write the lane is the first stage: the call waits here, together with those that
// will share its transaction, and its caller gets the result from here. Package txn describes the
// calls, and package sqlstore commits the groups.
package groupcommit

import (
	"context"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Class is the priority of a call for a place in a group.
type Class uint8

// The classes, highest priority first: finishes free weight and keys, claims keep workers busy, and
// a bulk producer delays neither.
const (
	Finish Class = iota
	Claim
	Enqueue
	classes
)

// Item is a call in a lane. The function that commits its group owns it until it returns.
type Item[C any] struct {
	Call C
	Rows int           // the rows that it reads or writes, approximately
	Err  error         // its result, set by the commit function
	done chan struct{} // closed when the group is committed
}

// ErrClosed is the error of calls after Close.
var ErrClosed = &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the store is closed", Err: sojourn.ErrClosed}

// Lane is a queue of calls with its runners. If it is idle, a call starts at once. Calls that
// arrive during a transaction form the next group. Another runner starts only when minParallelRows
// wait, or when a transaction takes longer than slowAfter: small concurrent transactions cost more
// than large ones in sequence (docs/internals/engine.md#group-commit). Safe for concurrent use.
type Lane[C any] struct {
	commit  func(group []*Item[C]) // one transaction; sets Err of every item
	runners int                    // the limit; 1 on SQLite, which has one writer
	maxRows int                    // of a group; more than 500 to 2,000 gain less than 15 %
	delays  bool                   // it waits for the callers just answered, see coalesce

	mu     sync.Mutex          // guards the fields below
	queues [classes][]*Item[C] // the calls that wait, by class
	rows   int                 // their rows
	active int                 // runners and calls of DoAlone at work; Close waits for them
	busy   int                 // runners at work
	slow   int                 // runners whose transaction takes longer than slowAfter
	full   int                 // number of waiting calls that ends coalesce; 0 = no runner is in it
	closed bool                // Close was called
	idle   sync.Cond           // signalled when active has fallen

	complete chan struct{} // capacity 1: full calls wait
}

// New makes a lane. commit runs a group as one transaction, sets the error of each item, and
// returns when the transaction is durable. Up to runners of them run concurrently. A group has at
// most maxRows rows, unless it is a single call.
func New[C any](runners, maxRows int, commit func([]*Item[C])) *Lane[C] {
	l := &Lane[C]{commit: commit, runners: runners, maxRows: maxRows, delays: true, complete: make(chan struct{}, 1)}
	l.idle.L = &l.mu
	return l
}

// WithoutDelay removes the batching delay, for measurements. Call it before the first Do.
func (l *Lane[C]) WithoutDelay() { l.delays = false }

// Do runs a call in a transaction that it may share, and returns the error of its item when the
// transaction is durable. rows is the approximate number of rows that the call reads or writes. If
// ctx ends first, the error has the code CodeUnknown and the work continues; a context that has
// ended before is returned as its own error, and nothing runs.
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

// DoAlone runs a call as a transaction of its own, concurrently with the runners. It does not wait
// in a queue, so the end of ctx during the transaction changes nothing.
func (l *Lane[C]) DoAlone(ctx context.Context, call C) error {
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

// Close refuses new calls and returns when the last transaction under way has ended. Calls that
// still wait are committed first.
func (l *Lane[C]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.active > 0 {
		l.idle.Wait()
	}
}

// What justifies a transaction beside others. Claims and enqueues should share one, so that new
// jobs start where they are stored; without them fewer rows suffice.
const (
	minParallelRows       = 256                    // waiting rows
	minParallelRowsEnding = 32                     // waiting rows if all are of class Finish
	slowAfter             = 100 * time.Millisecond // many times the duration of a normal transaction
)

// coalescePart limits the delay of coalesce to this fraction of the duration of the last
// transaction. On PostgreSQL, with 64 producers on two cores, 2 to 5 are equally good, 10 is a
// tenth slower and 20 a fifth; on SQLite nothing differs.
const coalescePart = 3

// maybeStart starts a runner for the waiting calls, if they justify one. The caller holds mu.
func (l *Lane[C]) maybeStart() {
	if l.busy < l.runners && l.shouldStart(l.busy) {
		l.active++
		l.busy++
		go l.drain()
	}
}

// shouldStart reports whether the waiting rows justify a transaction beside those of others
// runners. Slow transactions do not count. The caller holds mu.
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

// take removes the next group from the queues: at least one call, at most maxRows rows. If a class
// does not fit whole, lower classes wait for the next group. The caller holds mu.
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

// watched runs one transaction. If it takes longer than slowAfter, another runner may start.
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

// coalesce delays the next group until the callers of the last one have sent their next calls, or
// limit is over. Otherwise callers split into two halves whose transactions alternate: twice as
// many transactions, each with half of the callers.
func (l *Lane[C]) coalesce(answered int, limit time.Duration) {
	l.mu.Lock()
	if l.full > 0 { // another runner waits, and takes them all
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

// waiting returns the number of calls that wait. The caller holds mu.
func (l *Lane[C]) waiting() (n int) {
	for _, rs := range l.queues {
		n += len(rs)
	}
	return n
}

func errUnknown(ctx context.Context) error {
	return &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Err: context.Cause(ctx),
		Message: "the call ended while the store was writing; it may or may not have been executed: repeat it unchanged"}
}
