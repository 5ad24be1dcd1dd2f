package sqlstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

// The stored state of a queue's rate, holds and breaker is rules.Pace, a part of the flow that
// its row keeps as JSON. A claim writes it with the jobs that it starts. This file has the other
// writers: outcomes, sweeps and operators.

// felt is the outcome statistics of a queue in one transaction: the health of the other side.
type felt struct {
	answered []int64       // start times of steps that got an answer
	failed   []failedStep  // and of steps that did not
	hold     time.Duration // of a handler; 0 = none
	reason   string
}

type failedStep struct {
	reason string
	began  int64
}

func (t *tx) feel(queue string) *felt {
	if t.felt == nil {
		t.felt = map[string]*felt{}
	}
	f := t.felt[queue]
	if f == nil {
		f = &felt{}
		t.felt[queue] = f
	}
	return f
}

// feelOutcome records the evidence of an ended step about the other side. A released, snoozed or
// undecodable step is no evidence.
func (t *tx) feelOutcome(was *live, o *sojourn.Outcome, tr rules.Transition) error {
	if o.Type == sojourn.OutcomeHold || o.Type == sojourn.OutcomeNoAnswer && o.Delay > 0 {
		queue := o.Queue
		if queue == "" {
			queue = was.queue
		}
		f := t.feel(queue)
		f.hold, f.reason = max(f.hold, min(o.Delay, sojourn.MaxHold)), "job "+strconv.FormatInt(int64(was.ID), 10)+" was told to come back later"
		return nil
	}
	if was.Purpose == sojourn.PurposeDecide {
		return nil
	}
	breaker, err := t.breaker(was.queue)
	if breaker == nil || err != nil {
		return err
	}
	switch o.Type {
	case sojourn.OutcomeError, sojourn.OutcomeAbort, sojourn.OutcomeNoAnswer:
		if tr.Reason != "" && rules.Counts(*breaker, tr.Reason) {
			t.feel(was.queue).failed = append(t.feel(was.queue).failed, failedStep{tr.Reason, was.began})
			return nil
		}
	case sojourn.OutcomeCompleted, sojourn.OutcomeAwait, sojourn.OutcomeCancelled, sojourn.OutcomeAnswer:
	default:
		return nil
	}
	t.feel(was.queue).answered = append(t.feel(was.queue).answered, was.began)
	return nil
}

// feelLost records an attempt that ended without a report of its worker: timeouts, lost leases,
// error responses.
func (t *tx) feelLost(was *live, tr rules.Transition) error {
	if tr.Reason == "" {
		return nil
	}
	breaker, err := t.breaker(was.queue)
	if breaker == nil || err != nil || !rules.Counts(*breaker, tr.Reason) {
		return err
	}
	t.feel(was.queue).failed = append(t.feel(was.queue).failed, failedStep{tr.Reason, was.began})
	return nil
}

// knownBreaker is a queue's setting and the time at which it was read.
type knownBreaker struct {
	setting *sojourn.Breaker
	at      int64
}

// breaker reads a queue's breaker at most once a second: every outcome needs it, and few queues
// have one.
func (t *tx) breaker(queue string) (*sojourn.Breaker, error) {
	if k, ok := t.s.breakers.get(queue); ok {
		if t.now-k.at < time.Second.Microseconds() && t.now >= k.at {
			return k.setting, nil
		}
	}
	q, err := t.queueRow(queue)
	if err != nil {
		return nil, err
	}
	t.s.breakers.put(queue, knownBreaker{q.Breaker, t.now})
	return q.Breaker, nil
}

// applyFelt writes the outcome statistics. If nothing changes, as with every success while the
// breaker is closed, it locks and writes nothing.
func (t *tx) applyFelt() error {
	if len(t.felt) == 0 {
		return nil
	}
	queues := make([]string, 0, len(t.felt))
	for queue := range t.felt {
		queues = append(queues, queue)
	}
	slices.Sort(queues)
	for _, queue := range queues {
		f := t.felt[queue]
		err := t.changePace(queue, func(q *queueRow) {
			p := q.flow.Pace
			for _, s := range f.failed {
				p = p.Failed(q.Breaker, s.reason, s.began, t.now)
			}
			for _, began := range f.answered {
				p = p.Succeeded(q.Breaker, began, t.now)
			}
			if f.hold > 0 {
				p = p.Hold(t.now+f.hold.Microseconds(), f.reason)
			}
			q.flow.Pace = p
		})
		if err != nil {
			return err
		}
	}
	t.felt = nil
	return nil
}

const qSetPace = `update sj_queue set flow = $1, gated = $2 where name = $3`

// changePace changes the stored pace of a queue, under its lock. A queue that does not exist has
// none.
func (t *tx) changePace(queue string, change func(q *queueRow)) error {
	for locked := false; ; locked = true {
		q, err := t.queueRow(queue)
		if err != nil || !q.found {
			return err
		}
		change(&q)
		text, err := jsonText(q.flow)
		if err != nil || text == q.flowText || q.flowText == "" && text == "{}" {
			return err
		}
		if !locked && t.concurrent() {
			got, err := t.lockQueue(queue)
			if err == nil && !got {
				err = raced("queue " + queue + " is locked by another transaction")
			}
			if err != nil {
				return err
			}
			continue
		}
		_, err = t.exec(qSetPace, text, q.mustAsk(), queue)
		return err
	}
}

// mustAsk reports whether claims must ask the gates: a hold is a gate without a setting.
func (q *queueRow) mustAsk() bool { return rules.Gated(q.QueueSettings) || q.flow.Pace.RampFrom > 0 }

type holdAsk struct {
	queue, reason string
	d             time.Duration
}

var holdOp = eachOp("hold", groupcommit.Finish, func(t *tx, ask holdAsk) (refusal, error) {
	q, err := t.queueRow(ask.queue)
	if err != nil || !q.found {
		return refusal{sojourn.NotFound("there is no queue %s", ask.queue)}, err
	}
	err = t.changePace(ask.queue, func(q *queueRow) {
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

const (
	qBuckets   = `select lane, full_at_ns from sj_bucket where queue = $1 and full_at_ns > $2`
	qSetBucket = `insert into sj_bucket (queue, lane, full_at_ns) values ($1, $2, $3)
		on conflict (queue, lane) do update set full_at_ns = excluded.full_at_ns`
	qFullBuckets = `delete from sj_bucket where queue = $1 and full_at_ns <= $2`
)

// readBuckets reads the buckets of groups that are not full. A full one has no row.
func (l *gatedLine) readBuckets() error {
	if l.row.GroupRate == nil {
		return nil
	}
	l.flow.GroupFullAt, l.buckets = map[string]int64{}, map[string]int64{}
	return l.query(qBuckets, func(r sqldb.Row) error {
		l.flow.GroupFullAt[groupOf(r.Text(0))], l.buckets[groupOf(r.Text(0))] = r.Int(1), r.Int(1)
		return nil
	}, l.queue, l.now*1000)
}

// pay charges the buckets for the jobs that really started, out of all that the gates admitted.
func (l *gatedLine) pay(started []*entrant) (rules.Pace, error) {
	n := int64(0)
	groups := map[string]int64{}
	for _, e := range started {
		if e.purpose != sojourn.PurposeStart && e.purpose != sojourn.PurposePoll {
			continue
		}
		n++
		if group := e.asks().Group; group != "" {
			groups[group]++
		}
	}
	pace := l.row.flow.Pace.Started(l.row.Rate, l.row.Breaker, n, l.now)
	rate := l.row.GroupRate
	if rate == nil || len(groups) == 0 {
		return pace, nil
	}
	if _, err := l.exec(qFullBuckets, l.queue, l.now*1000); err != nil {
		return pace, err
	}
	for group, n := range groups {
		if _, err := l.exec(qSetBucket, l.queue, laneGroup+group, rules.RateTake(rate, l.buckets[group], l.now*1000, n)); err != nil {
			return pace, err
		}
	}
	return pace, nil
}
