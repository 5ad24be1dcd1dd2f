package sqlstore

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// maxBlock bounds one lease of ids.
const maxBlock = 10_000

type idsAsk struct {
	size  int64
	owner string
}

func leaseIDs(t *tx, ask idsAsk) (sojourn.ID, error) {
	next, err := t.num(qNextIDs, ask.size)
	if err != nil {
		return 0, err
	}
	b := block{first: next, size: ask.size, leased: t.now, owner: ask.owner}
	t.blocks = append(t.blocks, b)
	t.after = append(t.after, func() { t.s.guesses.leased(b) })
	_, err = t.exec(qAddBlock, b.first, b.size, b.leased, b.owner)
	return sojourn.ID(next), err
}

// IDs leases a block of n ids; see driver.Store.
func (s *enqueuer) IDs(ctx context.Context, n int) (sojourn.ID, error) {
	if n < 1 || n > maxBlock {
		return 0, sojourn.Invalid("n", "%d ids are out of range: 1 to %d a call", n, maxBlock)
	}
	ask := idsAsk{size: int64(n), owner: driver.Leaser(ctx, access.CallerOf(ctx).Owner())}
	if s.core.db.Dialect().Concurrent {
		// In a transaction of its own: the counter's row stays locked until the commit, and all
		// enqueues need it.
		return doAlone(ctx, s.core, s.idsOp, ask)
	}
	return do(ctx, s.core, s.idsOp, 1, ask)
}
