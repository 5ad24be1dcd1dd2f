package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// class is the priority for a place in a group: finishes free weight and keys, claims keep workers
// busy, and a bulk producer starves neither. Inside the group claims run last, so that they can
// start the jobs that it has stored.
type class uint8

const (
	classFinish class = iota
	classClaim
	classEnqueue
	classes
)

// step is one kind of work. Its run gets all requests of the kind that share a transaction, and
// answers each; an error rolls the whole transaction back.
type step struct {
	name string
	run  func(t *tx, in []any) ([]any, error)
	look func(t *tx, in []any) (found any, reads []sqldb.Statement) // see lookingFirst; nil if it has none
}

func newStep[Q, A any](name string, run func(t *tx, qs []Q) ([]A, error)) *step {
	return &step{name: name, run: func(t *tx, in []any) ([]any, error) {
		qs := make([]Q, len(in))
		for i := range in {
			qs[i] = in[i].(Q)
		}
		as, err := run(t, qs)
		if err != nil {
			return nil, err
		}
		out := make([]any, len(as))
		for i := range as {
			out[i] = as[i]
		}
		return out, nil
	}}
}

// eachStep is a step that runs its requests one by one.
func eachStep[Q, A any](name string, run func(t *tx, q Q) (A, error)) *step {
	return newStep(name, func(t *tx, qs []Q) ([]A, error) {
		as := make([]A, len(qs))
		for i, q := range qs {
			a, err := run(t, q)
			if err != nil {
				return nil, err
			}
			as[i] = a
		}
		return as, nil
	})
}

type request struct {
	step *step
	rows int
	in   any
	out  any
	err  error
	done chan struct{} // closed when out or err is set
}

// batcher lets concurrent callers share transactions, like bbolt's Batch. If it is idle, a request
// starts at once; requests that arrive meanwhile go into the next group, see gather. A further
// runner starts only when company rows wait, see worth, or when a transaction takes longer than
// patience: small concurrent transactions cost more than large ones in sequence, and a job stored
// in one while a claim runs in the other must be read again
// (docs/internals/engine.md#group-commit).
type batcher struct {
	commit  func(group []*request) // one transaction; sets out or err of every request
	runners int                    // 1 on SQLite, which has one writer, whose next transaction may run while the one before is on its way to the disk
	maxRows int                    // of a group; above 500 to 2,000 a larger one gains less than 15 %

	mu     sync.Mutex // guards the fields below
	active int        // transactions under way
	busy   int        // runners at work
	slow   int        // runners whose transaction takes longer than patience
	rows   int        // in queues
	queues [classes][]*request
	full   int // requests that a runner waits for, see gather; 0 = none does
	closed bool
	idle   sync.Cond // signalled when active falls to 0

	complete chan struct{} // capacity 1: full have come
}

func newBatcher(runners, maxRows int, commit func([]*request)) *batcher {
	b := &batcher{commit: commit, runners: runners, maxRows: maxRows, complete: make(chan struct{}, 1)}
	b.idle.L = &b.mu
	return b
}

// do runs in as part of some transaction and returns when it is durable. If ctx ends first the
// outcome is unknown; the work continues.
func (b *batcher) do(ctx context.Context, c class, s *step, rows int, in any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &request{step: s, rows: rows, in: in, done: make(chan struct{})}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, errClosed
	}
	b.queues[c] = append(b.queues[c], r)
	b.rows += rows
	if b.full > 0 && b.waiting() >= b.full {
		b.full = 0
		b.complete <- struct{}{}
	}
	b.help()
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.out, r.err
	case <-ctx.Done():
		return nil, errUnknown(ctx)
	}
}

// alone runs a request as a transaction of its own, concurrently with the runners.
func (b *batcher) alone(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return errClosed
	}
	b.active++ // close waits for it
	b.mu.Unlock()
	b.commit([]*request{r})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active--
	b.idle.Broadcast()
	return r.err
}

const (
	company  = 256                    // rows
	fewer    = 32                     // rows if neither claims nor enqueues wait, which should share one transaction
	patience = 100 * time.Millisecond // many times the duration of a transaction that does not wait
)

// help starts a runner for the waiting requests, if they justify one. The caller holds mu.
func (b *batcher) help() {
	if b.busy < b.runners && b.worth(b.busy) {
		b.active++
		b.busy++
		go b.drain()
	}
}

// worth reports whether the queued rows justify another concurrent transaction. The caller holds
// mu.
func (b *batcher) worth(others int) bool {
	enough := company
	if b.queues[classClaim] == nil && b.queues[classEnqueue] == nil {
		enough = fewer
	}
	return b.rows > 0 && (others == b.slow || b.rows >= enough)
}

// drain commits group after group until no request waits, or too few to justify a transaction
// beside the other runners, which then take them.
func (b *batcher) drain() {
	for {
		b.mu.Lock()
		var group []*request
		if b.worth(b.busy - 1) {
			group = b.take()
		}
		if len(group) == 0 {
			b.active--
			b.busy--
			b.idle.Broadcast()
			b.mu.Unlock()
			return
		}
		b.help() // for the requests that are left
		b.mu.Unlock()
		began := time.Now()
		b.patiently(func() { b.commit(group) })
		took := time.Since(began)
		for _, r := range group {
			close(r.done)
		}
		if len(group) > 1 {
			b.gather(len(group), took/gatherPart)
		}
	}
}

// gatherPart limits the batching delay of the next transaction to this fraction of the duration of
// the last one. On PostgreSQL, with 64 producers on two cores, 2 to 5 are equally good, 10 is a
// tenth slower and 20 a fifth; on SQLite nothing differs.
const gatherPart = 3

// gather gives the callers just answered the time to send their next request. Otherwise callers
// split into two halves whose transactions alternate: twice as many transactions, each with half of
// the callers. A single caller does not wait, and the delay for a caller that does not return is
// short.
func (b *batcher) gather(answered int, limit time.Duration) {
	b.mu.Lock()
	if b.full > 0 { // another runner is gathering, and takes them all
		b.mu.Unlock()
		return
	}
	b.full = b.waiting() + answered
	b.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-b.complete:
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = 0
	select {
	case <-b.complete: // it was completed just when the time was up
	default:
	}
}

// waiting is how many requests wait. The caller holds mu.
func (b *batcher) waiting() (n int) {
	for _, rs := range b.queues {
		n += len(rs)
	}
	return n
}

// patiently runs one transaction. If it takes long, another runner may start.
func (b *batcher) patiently(transaction func()) {
	if b.runners == 1 {
		transaction()
		return
	}
	over, slow := false, false // guarded by mu
	watch := time.AfterFunc(patience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !over {
			slow = true
			b.slow++
			b.help()
		}
	})
	transaction()
	watch.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	if over = true; slow {
		b.slow--
	}
}

// take removes the next group from the queues: at least one request, at most maxRows rows.
func (b *batcher) take() []*request {
	var group []*request
	rows := 0
	for c := range b.queues {
		n := 0
		for _, r := range b.queues[c] {
			if len(group)+n > 0 && rows+r.rows > b.maxRows {
				break
			}
			rows += r.rows
			n++
		}
		group = append(group, b.queues[c][:n]...)
		if b.queues[c] = b.queues[c][n:]; len(b.queues[c]) == 0 {
			b.queues[c] = nil // let the backing array go
		} else {
			break
		}
	}
	b.rows -= rows
	return group
}

// close refuses new requests and returns when the last group is committed.
func (b *batcher) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for b.active > 0 {
		b.idle.Wait()
	}
}

// refusal is an answer that may be an error.
type refusal struct{ err error }
