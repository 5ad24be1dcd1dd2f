package sqlstore

import (
	"context"

	"github.com/sojourn-queue/sojourn"
)

// validThrottle compiles a new text. A process without rules cannot compile, and may only keep the
// stored text.
func (s *operator) validThrottle(ctx context.Context, queue, text string) error {
	if text == "" || text == GoThrottler {
		return nil
	}
	if s.gates.throttlers.compile != nil {
		return s.gates.throttlers.rule(text).err
	}
	return s.core.view(ctx, func(t *tx) error {
		q, err := t.queueRow(queue)
		if err == nil && q.Throttle != text {
			err = sojourn.Invalid("throttle", "this process cannot check a rule: open its store with the option Rules(rule.Throttlers()), or use sojourn queue set")
		}
		return err
	})
}

// announce stores, for each queue with a throttler in this process, the setting that makes every
// other process need one too.
func (s *operator) announce(ctx context.Context) error {
	for queue, t := range s.gates.throttlers.own {
		if t == nil {
			return sojourn.Invalid("throttle", "the throttler of queue %.64q is nil", queue)
		}
		if err := sojourn.ValidName("throttle", queue); err != nil {
			return err
		}
		var q queueRow
		if err := s.core.view(ctx, func(t *tx) (err error) { q, err = t.queueRow(queue); return err }); err != nil {
			return err
		}
		if q.Throttle != "" {
			continue
		}
		q.Throttle = GoThrottler
		if err := s.SetQueue(ctx, queue, q.QueueSettings); err != nil {
			return err
		}
	}
	return nil
}
