package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

var holdOp = eachOp("hold", groupcommit.Finish, func(t *tx, ask holdAsk) (refusal, error) {
	q, err := t.queueRow(ask.queue)
	if err != nil || !q.found {
		return refusal{sojourn.NotFound("there is no queue %s", ask.queue)}, err
	}
	err = changePace(t, ask.queue, func(q *queueRow) {
		q.flow.Pace = q.flow.Pace.Unhold()
		if ask.d > 0 {
			q.flow.Pace = q.flow.Pace.Hold(t.now+ask.d.Microseconds(), ask.reason)
		}
	})
	t.freed[ask.queue] += sojourn.MaxBatch
	return refusal{}, err
})

// HoldQueue holds a queue; see sojourn.Store.
func (s *operator) HoldQueue(ctx context.Context, queue string, d time.Duration, reason string) error {
	if err := sojourn.ValidName("queue", queue); err != nil {
		return err
	}
	if d < 0 || d > sojourn.MaxHold {
		return sojourn.Invalid("for", "%v is out of range: up to %v; 0 ends a hold", d, sojourn.MaxHold)
	}
	a, err := do(ctx, s.core, holdOp, 1, holdAsk{queue, sojourn.Cut(strings.TrimSpace(reason), sojourn.MaxReason), d})
	if err == nil {
		err = a.err
	}
	return err
}

type holdAsk struct {
	queue, reason string
	d             time.Duration
}
