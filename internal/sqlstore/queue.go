package sqlstore

import (
	"context"
	"math"

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

type setQueueAsk struct {
	name     string
	settings sojourn.QueueSettings
}

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
