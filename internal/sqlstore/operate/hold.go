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

var holdOp = txn.EachOp("hold", groupcommit.Finish, func(t *txn.Tx, ask holdAsk) (txn.Refusal, error) {
	q, err := t.ReadQueue(ask.queue)
	if err != nil || !q.Found {
		return txn.Refusal{Err: sojourn.NotFound("there is no queue %s", ask.queue)}, err
	}
	err = gate.ChangePace(t, ask.queue, func(q *txn.QueueRow) {
		q.Flow.Pace = q.Flow.Pace.Unhold()
		if ask.d > 0 {
			q.Flow.Pace = q.Flow.Pace.Hold(t.Now+ask.d.Microseconds(), ask.reason)
		}
	})
	t.Events.Freed[ask.queue] += sojourn.MaxBatch
	return txn.Refusal{}, err
})

// HoldQueue holds a queue; see sojourn.Store.
func (s *Operator) HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error {
	if err := sojourn.ValidName("queue", queue); err != nil {
		return err
	}
	if d < 0 || d > sojourn.MaxHold {
		return sojourn.Invalid("for", "%v is out of range: up to %v; 0 ends a hold", d, sojourn.MaxHold)
	}
	a, err := txn.Do(ctx, s.Core, holdOp, 1, holdAsk{queue, sojourn.Cut(strings.TrimSpace(reason), sojourn.MaxReason), d})
	if err == nil {
		err = a.Err
	}
	return err
}

type holdAsk struct {
	queue, reason string
	d             time.Duration
}
