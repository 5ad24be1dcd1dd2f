package sqlstore

import (
	"context"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// EnqueueTx stores jobs in a transaction of the application; see driver.TxStore.
func (s *enqueuer) EnqueueTx(ctx context.Context, in any, jobs []sojourn.Job) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if err := s.core.noRoom(); err != nil {
		return nil, err
	}
	// Keys are locked until the application commits. takeKeys takes them in one order, so two
	// transactions with several keys wait for each other, and do not end in a deadlock.
	var out []sojourn.Enqueued
	notJSON := s.core.jsonErrors(jobs)
	err := s.core.join(ctx, in, func(t *tx) error {
		c := access.CallerOf(ctx)
		ask := enqueueAsk{jobs: slices.Clone(jobs), digests: digests(jobs, c), caller: c, notJSON: notJSON}
		e := enqueue{tx: t, svc: s, asks: []enqueueAsk{ask}}
		if err := e.draw(ctx, ask.jobs); err != nil {
			return err
		}
		if err := e.readAll(e.reads()); err != nil {
			return err
		}
		var err error
		if out, err = e.plan(ask); err != nil {
			return err
		}
		return e.write()
	})
	if err == nil && slices.ContainsFunc(out, func(e sojourn.Enqueued) bool { return e.Duplicate }) {
		err = s.core.durable() // a duplicate depends on the commit of another transaction
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// draw gives ids to the jobs without one.
//
// Where one transaction writes at a time, they come from the counter inside of the application's
// transaction: a block of their own would have to be leased by the writer, which waits for this
// very transaction. A rollback resets the counter, so the id of such a job is not valid before the
// commit. Elsewhere they come from a block that this store has leased, and a rollback does not
// return them.
func (e *enqueue) draw(ctx context.Context, jobs []sojourn.Job) error {
	var without []int
	for i := range jobs {
		if jobs[i].ID == 0 {
			without = append(without, i)
		}
	}
	n := int64(len(without))
	if n == 0 {
		return nil
	}
	// They are not checked: a transaction with an older snapshot does not see the block's lease. On
	// SQLite no block is stored, because an id is either stored with its job now or never.
	if e.concurrent() {
		var err error
		if e.drawn, err = e.svc.spare.take(ctx, e.svc, e.now, n); err != nil {
			return err
		}
	} else {
		first, err := e.num(qNextIDs, n)
		if err != nil {
			return err
		}
		e.drawn = block{first: first, size: n, leased: e.now}
	}
	for k, i := range without {
		jobs[i].ID = sojourn.ID(e.drawn.first + int64(k))
	}
	return nil
}

// spareIDs is a block of ids for jobs that come in transactions of the application.
type spareIDs struct {
	mu   sync.Mutex // guards left, and keeps callers from leasing two blocks
	left block
}

const spareSize = 1000

// take gives n ids that are valid for half of IDLife at least. The rest of a block that is too
// small stays unused.
func (b *spareIDs) take(ctx context.Context, s *enqueuer, now, n int64) (block, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left.size < n || now-b.left.leased > sojourn.IDLife.Microseconds()/2 {
		size := max(n, spareSize)
		first, err := s.IDs(access.WithCaller(ctx, nil), int(size)) // callers share the block
		if err != nil {
			return block{}, err
		}
		b.left = block{first: int64(first), size: size, leased: now}
	}
	out := block{first: b.left.first, size: n, leased: b.left.leased}
	b.left.first, b.left.size = b.left.first+n, b.left.size-n
	return out, nil
}
