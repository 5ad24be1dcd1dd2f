package enqueue

import (
	"context"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// EnqueueTx stores jobs in a transaction of the application; see driver.TxStore.
func (s *Enqueuer) EnqueueTx(ctx context.Context, in any, jobs []sojourn.Job) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if err := checkSpace(s.core); err != nil {
		return nil, err
	}
	// Keys are locked until the application commits. takeKeys takes them in one order, so two
	// transactions with several keys wait for each other, and do not end in a deadlock.
	var out []sojourn.Enqueued
	notJSON := JSONErrors(s.core, jobs)
	err := s.core.Join(ctx, in, func(t *txn.Tx) error {
		c := access.CallerOf(ctx)
		req := Request{Jobs: slices.Clone(jobs), Digests: jobrow.Digests(jobs, c), Caller: c, NotJSON: notJSON}
		e := Batch{Tx: t, Enqueuer: s, Requests: []Request{req}}
		if err := e.drawIDs(ctx, req.Jobs); err != nil {
			return err
		}
		if err := e.ReadAll(e.Reads()); err != nil {
			return err
		}
		var err error
		if out, err = e.Plan(req); err != nil {
			return err
		}
		return e.WriteJobs()
	})
	if err == nil && slices.ContainsFunc(out, func(e sojourn.Enqueued) bool { return e.Duplicate }) {
		err = s.core.Durable() // a duplicate depends on the commit of another transaction
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// drawIDs gives ids to the jobs without one.
//
// Where one transaction writes at a time, they come from the counter inside of the application's
// transaction: a block of their own would have to be leased by the writer, which waits for this
// very transaction. A rollback resets the counter, so the id of such a job is not valid before the
// commit. Elsewhere they come from a block that this store has leased, and a rollback does not
// return them.
func (b *Batch) drawIDs(ctx context.Context, jobs []sojourn.Job) error {
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
	if b.Ticks || b.Workflow != 0 { // it runs in a lane, which must not wait for a lane
		return b.countIDs(jobs, without)
	}
	// They are not checked: a transaction with an older snapshot does not see the block's lease. On
	// SQLite no block is stored, because an id is either stored with its job now or never.
	if b.Concurrent() {
		var err error
		if b.drawn, err = b.Enqueuer.spare.take(ctx, b.Enqueuer, b.Now, n); err != nil {
			return err
		}
	} else {
		return b.countIDs(jobs, without)
	}
	b.giveIDs(jobs, without)
	return nil
}

// countIDs draws the ids from the counter, inside this transaction: they are used now or never.
func (b *Batch) countIDs(jobs []sojourn.Job, without []int) error {
	n := int64(len(without))
	first, err := b.ReadInt(txn.QNextIDs, n)
	if err != nil {
		return err
	}
	b.drawn = txn.Block{First: first, Size: n, Leased: b.Now}
	b.giveIDs(jobs, without)
	return nil
}

func (b *Batch) giveIDs(jobs []sojourn.Job, without []int) {
	for k, i := range without {
		jobs[i].ID = sojourn.ID(b.drawn.First + int64(k))
	}
}

// DrawIDs leases n ids (1 to 1,000) for jobs that follow a completed one. It waits for a lane, so
// it comes before the transaction that stores them.
func (s *Enqueuer) DrawIDs(ctx context.Context, n int) (txn.Block, error) {
	return s.spare.take(ctx, s, s.core.Clock.Estimate(), int64(n))
}

// DrawInTx gives ids to the jobs without one, in a transaction of the application.
func (s *Enqueuer) DrawInTx(ctx context.Context, t *txn.Tx, jobs []sojourn.Job) (txn.Block, error) {
	b := Batch{Tx: t, Enqueuer: s}
	err := b.drawIDs(ctx, jobs)
	return b.drawn, err
}

// StoreTicks stores the jobs of a schedule for its owner. The refusal of one job is in its answer.
// No limit of the queue refuses them.
func (s *Enqueuer) StoreTicks(t *txn.Tx, jobs []sojourn.Job, c *access.Caller) ([]sojourn.Enqueued, error) {
	req := Request{Jobs: jobs, Digests: jobrow.Digests(jobs, c), Caller: c, NotJSON: JSONErrors(s.core, jobs), partial: true}
	e := Batch{Tx: t, Enqueuer: s, Requests: []Request{req}, Ticks: true}
	if err := e.drawIDs(context.Background(), req.Jobs); err != nil {
		return nil, err
	}
	if err := e.ReadAll(e.Reads()); err != nil {
		return nil, err
	}
	out, err := e.Plan(req)
	if err != nil {
		return nil, err
	}
	return out, e.WriteJobs()
}

// StoreMembers stores the jobs of a workflow for a caller, all or none. refused is why a job was
// not stored. link sets their dependencies, when they have ids. Each job must be new: a key that is
// taken refuses all.
func (s *Enqueuer) StoreMembers(t *txn.Tx, workflow int64, jobs []sojourn.Job, c *access.Caller, link func()) (refused, err error) {
	e := Batch{Tx: t, Enqueuer: s, Workflow: workflow}
	if err := e.drawIDs(context.Background(), jobs); err != nil {
		return nil, err
	}
	link()
	req := Request{Jobs: jobs, Digests: jobrow.Digests(jobs, c), Caller: c, NotJSON: JSONErrors(s.core, jobs)}
	e.Requests = []Request{req}
	if err := e.ReadAll(e.Reads()); err != nil {
		return nil, err
	}
	out, err := e.Plan(req)
	if err != nil && sojourn.ErrorCode(err) != "" {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	for i, d := range out {
		if d.Duplicate {
			return sojourn.AtIndex(i, sojourn.Conflict("job %d has the key %.64q of member %s; use another key, or wait for its end", d.ID, jobs[i].Key, jobs[i].Member)), nil
		}
	}
	return nil, e.WriteJobs()
}

// spareIDs is a leased block of ids for jobs that come in transactions of the application.
type spareIDs struct {
	mu   sync.Mutex // guards left, and keeps callers from leasing two blocks
	left txn.Block
}

// spareBlock is the number of ids that spareIDs leases at a time.
const spareBlock = 1000

// take gives n ids that are valid for half of IDLife at least. The rest of a block that is too
// small stays unused.
func (b *spareIDs) take(ctx context.Context, s *Enqueuer, now, n int64) (txn.Block, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left.Size < n || now-b.left.Leased > sojourn.IDLife.Microseconds()/2 {
		size := max(n, spareBlock)
		first, err := s.IDs(access.WithCaller(ctx, nil), int(size)) // callers share the block
		if err != nil {
			return txn.Block{}, err
		}
		b.left = txn.Block{First: int64(first), Size: size, Leased: now}
	}
	out := txn.Block{First: b.left.First, Size: n, Leased: b.left.Leased}
	b.left.First, b.left.Size = b.left.First+n, b.left.Size-n
	return out, nil
}
