package sqlstore

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qSetQueue = `update sj_queue set paused = $1, gated = $2, counted = $3, grouped = $4, max_weight = $5, shape = $6, reshape = $7,
		settings = $8, flow = $9 where name = $10`
	qForgetQueue   = `delete from sj_queue where name = $1`
	qForgetBuckets = `delete from sj_bucket where queue = $1`
	qQueueInUse    = `select (select count(*) from (select 1 from sj_live where queue = $1 limit 1) a)
		+ (select count(*) from (select 1 from sj_final where queue = $1 limit 1) b)`
)

// queueSettings decodes stored settings. The result is shared and must not be changed.
func (s *core) queueSettings(text string) (q sojourn.QueueSettings, err error) {
	if text == "" {
		return q, nil
	}
	if known, ok := s.settings.get(text); ok {
		return known, nil
	}
	if err = json.Unmarshal([]byte(text), &q); err == nil {
		s.settings.put(text, q)
	}
	return q, err
}

type setQueueAsk struct {
	name     string
	settings sojourn.QueueSettings
}

// setQueueOp reports whether the existing jobs must be reindexed.
var setQueueOp = eachOp("set queue", groupcommit.Finish, func(t *tx, ask setQueueAsk) (reshape bool, err error) {
	if err := t.seeQueue(ask.name); err != nil {
		return false, err
	}
	if _, err := t.lockQueue(ask.name); err != nil {
		return false, err
	}
	was, err := t.queueRow(ask.name)
	if err != nil {
		return false, err
	}
	now := was
	now.QueueSettings = ask.settings
	if shapeOf(now.QueueSettings) != shapeOf(was.QueueSettings) {
		now.shape, now.reshape = was.shape+1, 0
		now.flow.Counting = rules.Counted(now.QueueSettings) && (was.flow.Counting || !rules.Counted(was.QueueSettings))
	}
	if now.maxWeight, err = mayHold(t, ask.name, now.QueueSettings); err != nil {
		return false, err
	}
	text, err := jsonText(now.QueueSettings)
	if err != nil {
		return false, err
	}
	flow, err := jsonText(now.flow)
	if err != nil {
		return false, err
	}
	if _, err := t.exec(qSetQueue, now.Paused, now.mustAsk(), rules.Counted(now.QueueSettings), rules.Grouped(now.QueueSettings), now.maxWeight, now.shape, now.reshape,
		text, flow, ask.name); err != nil {
		return false, err
	}
	if !now.Paused { // waiting jobs may continue
		t.freed[ask.name] += sojourn.MaxBatch
	}
	return now.reshape >= 0, nil
})

// SetQueue stores settings; see driver.Store.
func (s *operator) SetQueue(ctx context.Context, name string, q sojourn.QueueSettings) error {
	if name != sojourn.AllQueues {
		if err := sojourn.ValidName("queue", name); err != nil {
			return err
		}
	} else if text, err := jsonText(sojourn.QueueSettings{Paused: q.Paused, PausedKinds: q.PausedKinds}); err != nil {
		return err
	} else if given, err := jsonText(q); err != nil || given != text {
		return sojourn.Invalid("queue", "only pauses can be set for all queues (%s)", sojourn.AllQueues)
	}
	if err := q.Validate(); err != nil {
		return err
	}
	if err := s.validThrottle(ctx, name, q.Throttle); err != nil {
		return err
	}
	if _, err := rules.NextOpening(at(s.core.clock.estimate()), q.Windows); err != nil {
		return err
	}
	reshape, err := do(ctx, s.core, setQueueOp, 1, setQueueAsk{name, q})
	if err == nil {
		s.gates.breakers.put(name, knownBreaker{q.Breaker, s.core.clock.estimate()})
	}
	if err == nil && reshape {
		err = s.reshape(ctx, name, math.MaxInt)
	}
	return err
}

// forgetQueueOp answers with the refusal, which was found before any write.
var forgetQueueOp = eachOp("forget queue", groupcommit.Finish, func(t *tx, name string) (refusal, error) {
	if err := t.allWritten(); err != nil {
		return refusal{}, err
	}
	used, err := t.num(qQueueInUse, name)
	if err != nil {
		return refusal{}, err
	}
	if used > 0 {
		return refusal{sojourn.Conflict("queue %s has jobs; purge them or wait for their retention", name)}, nil
	}
	if _, err := t.exec(qForgetBuckets, name); err != nil {
		return refusal{}, err
	}
	n, err := t.exec(qForgetQueue, name)
	if err == nil && n == 0 {
		return refusal{sojourn.NotFound("there is no queue %s", name)}, nil
	}
	return refusal{}, err
})

// ForgetQueue removes an empty queue; see driver.Store.
func (s *operator) ForgetQueue(ctx context.Context, name string) error {
	if err := sojourn.ValidName("queue", name); err != nil {
		return err
	}
	a, err := do(ctx, s.core, forgetQueueOp, 1, name)
	if err == nil {
		err = a.err
	}
	return err
}

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

type holdAsk struct {
	queue, reason string
	d             time.Duration
}

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
