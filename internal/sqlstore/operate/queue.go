package operate

import (
	"context"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// lockOutWriters waits until all transactions that have written live rows have ended, and locks out
// further writers. New writers queue behind the lock while it waits. So it gives up soon, and the
// whole transaction is tried again.
func lockOutWriters(t *txn.Tx) error {
	if !t.Concurrent() {
		return nil
	}
	for _, q := range []string{`set local lock_timeout = 500`, `lock table sj_live in share mode`, `set local lock_timeout = 0`} {
		if _, err := t.Write(q); err != nil {
			return err
		}
	}
	return nil
}

// HoldQueue holds a queue; see sojourn.Store.
func (s *Operator) HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error {
	if err := sojourn.ValidName("queue", queue); err != nil {
		return err
	}
	if d < 0 || d > sojourn.MaxHold {
		return sojourn.Invalid("for", "%v is out of range: up to %v; 0 ends a hold", d, sojourn.MaxHold)
	}
	a, err := txn.Do(ctx, s.core, holdOp, 1, holdRequest{queue, sojourn.Cut(strings.TrimSpace(reason), sojourn.MaxReason), d})
	if err == nil {
		err = a.Err
	}
	return err
}

// holdRequest holds a queue for a time; 0 ends a hold.
type holdRequest struct {
	queue, reason string
	d             time.Duration
}

// holdOp changes the pace of a queue, and wakes its claims.
var holdOp = txn.EachOp("hold", groupcommit.Finish, func(t *txn.Tx, r holdRequest) (txn.Refusal, error) {
	q, err := t.ReadQueue(r.queue)
	if err != nil || !q.Found {
		return txn.Refusal{Err: sojourn.NotFound("there is no queue %s", r.queue)}, err
	}
	err = gate.ChangePace(t, r.queue, func(q *txn.QueueRow) {
		q.Flow.Pace = q.Flow.Pace.Unhold()
		if r.d > 0 {
			q.Flow.Pace = q.Flow.Pace.Hold(t.Now+r.d.Microseconds(), r.reason)
		}
	})
	t.Events.Freed[r.queue] += sojourn.MaxBatch
	return txn.Refusal{}, err
})
