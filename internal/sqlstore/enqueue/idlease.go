package enqueue

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// maxLease bounds the ids of one lease.
const maxLease = 10_000

// IDs leases a block of n ids; see driver.Store.
func (s *Enqueuer) IDs(ctx context.Context, n int) (sojourn.ID, error) {
	if n < 1 || n > maxLease {
		return 0, sojourn.Invalid("n", "%d ids are out of range: 1 to %d a call", n, maxLease)
	}
	req := idsRequest{size: int64(n), owner: driver.Leaser(ctx, access.CallerOf(ctx).Owner())}
	if s.core.DB.Dialect().Concurrent {
		// In a transaction of its own: the counter's row stays locked until the commit, and all
		// enqueues need it.
		return txn.DoAlone(ctx, s.core, s.idsOp, req)
	}
	return txn.Do(ctx, s.core, s.idsOp, 1, req)
}

// idsRequest is a call of IDs.
type idsRequest struct {
	size  int64
	owner string
}

// leaseIDs takes a block from the counter, and records when it was leased and by whom: checkID
// refuses ids of unknown blocks, of old ones, and of other owners.
func leaseIDs(t *txn.Tx, req idsRequest) (sojourn.ID, error) {
	next, err := t.ReadInt(txn.QNextIDs, req.size)
	if err != nil {
		return 0, err
	}
	b := txn.Block{First: next, Size: req.size, Leased: t.Now, Owner: req.owner}
	t.Cache.Blocks = append(t.Cache.Blocks, b)
	t.Events.After = append(t.Events.After, func() { t.Core.Caches.Queues.NoteBlock(b) })
	_, err = t.Write(txn.QAddBlock, b.First, b.Size, b.Leased, b.Owner)
	return sojourn.ID(next), err
}
