package operate

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Announce stores, for each queue with a throttler in this process, the setting that makes every
// other process need one too.
func (s *Operator) Announce(ctx context.Context) error {
	for queue, t := range s.gates.Throttlers.Own {
		if t == nil {
			return sojourn.Invalid("throttle", "the throttler of queue %.64q is nil", queue)
		}
		if err := sojourn.ValidName("throttle", queue); err != nil {
			return err
		}
		var q txn.QueueRow
		if err := s.core.View(ctx, func(t *txn.Tx) (err error) { q, err = t.ReadQueue(queue); return err }); err != nil {
			return err
		}
		if q.Throttle != "" {
			continue
		}
		marker := gate.GoThrottler
		if _, err := s.UpdateQueue(ctx, queue, sojourn.QueuePatch{Throttle: &marker}); err != nil {
			return err
		}
	}
	return nil
}

// validThrottle compiles a new text. A process without rules cannot compile, and may only keep the
// stored text.
func (s *Operator) validThrottle(ctx context.Context, queue, text string) error {
	if text == "" || text == gate.GoThrottler {
		return nil
	}
	if s.gates.Throttlers.Compile != nil {
		return s.gates.Throttlers.CheckRule(text)
	}
	return s.core.View(ctx, func(t *txn.Tx) error {
		q, err := t.ReadQueue(queue)
		if err == nil && q.Throttle != text {
			err = sojourn.Invalid("throttle", "this process cannot check a rule: open its store with the option Rules(rule.Throttlers()), or use sojourn queue set")
		}
		return err
	})
}
