package gate

import (
	"maps"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// The stored state of a queue's rate, holds and breaker is rules.Pace, a part of the flow that
// its row keeps as JSON. A claim writes it with the jobs that it starts. This file has the other
// writers: outcomes, sweeps and operators.

const (
	qSetPace   = `update sj_queue set flow = $1, gated = $2 where name = $3`
	qBuckets   = `select lane, full_at_ns from sj_bucket where queue = $1 and full_at_ns > $2`
	qSetBucket = `insert into sj_bucket (queue, lane, full_at_ns) values ($1, $2, $3)
		on conflict (queue, lane) do update set full_at_ns = excluded.full_at_ns`
	qFullBuckets = `delete from sj_bucket where queue = $1 and full_at_ns <= $2`
)

// HasGates reports whether claims from a queue must check its gates, by its settings or because it
// is held: a hold is a gate without a setting. It is stored with the queue.
func HasGates(q *txn.QueueRow) bool { return rules.Gated(q.QueueSettings) || q.Flow.Pace.RampFrom > 0 }

// ChangePace changes the stored pace of a queue. It runs change on the queue as it is, and locks
// the queue only if that changes something; then it reads the queue and runs change again. A queue
// that does not exist has no pace.
func ChangePace(t *txn.Tx, queue string, change func(q *txn.QueueRow)) error {
	for locked := false; ; locked = true {
		q, err := t.ReadQueue(queue)
		if err != nil || !q.Found {
			return err
		}
		change(&q)
		text, err := jobrow.JSONText(q.Flow)
		if err != nil || text == q.FlowText || q.FlowText == "" && text == "{}" {
			return err
		}
		if !locked && t.Concurrent() {
			got, err := t.LockQueue(queue)
			if err == nil && !got {
				err = txn.Raced("queue " + queue + " is locked by another transaction")
			}
			if err != nil {
				return err
			}
			continue
		}
		_, err = t.Write(qSetPace, text, HasGates(&q), queue)
		return err
	}
}

// FlushPace evaluates the outcomes of the steps that a request has ended. If the state of no gate
// changes, as with every success while the breaker is closed, it locks and writes nothing.
func (g *Gates) FlushPace(t *txn.Tx) error {
	if len(t.Queues.Stats) == 0 {
		return nil
	}
	for _, queue := range slices.Sorted(maps.Keys(t.Queues.Stats)) {
		if err := g.flushPaceOf(t, queue, t.Queues.Stats[queue]); err != nil {
			return err
		}
	}
	t.Queues.Stats = nil
	return nil
}

// flushPaceOf is FlushPace for one queue.
func (g *Gates) flushPaceOf(t *txn.Tx, queue string, of *txn.OutcomeStats) error {
	breaker, err := g.breaker(t, queue)
	if err != nil || breaker == nil && of.Hold == 0 {
		return err
	}
	failed, answered := splitOutcomes(of, breaker)
	if len(failed)+len(answered) == 0 && of.Hold == 0 {
		return nil
	}
	return ChangePace(t, queue, func(q *txn.QueueRow) {
		p := q.Flow.Pace
		for _, s := range failed {
			p = p.Failed(q.Breaker, s.Reason, s.Began, t.Now)
		}
		for _, began := range answered {
			p = p.Succeeded(q.Breaker, began, t.Now)
		}
		if of.Hold > 0 {
			p = p.Hold(t.Now+of.Hold.Microseconds(), of.Reason)
		}
		q.Flow.Pace = p
	})
}

// splitOutcomes returns the failures that a breaker counts, and when the steps began that show that
// the other side answers.
func splitOutcomes(of *txn.OutcomeStats, b *sojourn.Breaker) (failed []txn.FailedStep, answered []int64) {
	if b == nil {
		return nil, nil
	}
	answered = of.Answered
	for _, s := range of.Failed {
		switch {
		case rules.Counts(*b, s.Reason):
			failed = append(failed, s)
		case s.Reported:
			answered = append(answered, s.Began)
		}
	}
	return failed, answered
}

// CachedBreaker is the breaker of a queue, and the time at which it was read.
type CachedBreaker struct {
	Setting *sojourn.Breaker // nil: the queue has none
	At      int64            // microseconds
}

// breaker reads a queue's breaker at most once a second: every outcome needs it, and few queues
// have one.
func (g *Gates) breaker(t *txn.Tx, queue string) (*sojourn.Breaker, error) {
	if k, ok := g.Breakers.Get(queue); ok {
		if t.Now-k.At < time.Second.Microseconds() && t.Now >= k.At {
			return k.Setting, nil
		}
	}
	q, err := t.ReadQueue(queue)
	if err != nil {
		return nil, err
	}
	g.Breakers.Put(queue, CachedBreaker{q.Breaker, t.Now})
	return q.Breaker, nil
}

// charge takes the jobs that have started out of the buckets of the rates. The gates have admitted
// more, so the buckets are not changed before.
func (c *Claim) charge(started []*Candidate) (rules.Pace, error) {
	n := int64(0)
	groups := map[string]int64{}
	for _, e := range started {
		if e.Purpose != sojourn.PurposeStart && e.Purpose != sojourn.PurposePoll {
			continue
		}
		n++
		if group := e.ForGates().Group; group != "" {
			groups[group]++
		}
	}
	pace := c.Row.Flow.Pace.Started(c.Row.Rate, c.Row.Breaker, n, c.now)
	rate := c.Row.GroupRate
	if rate == nil || len(groups) == 0 {
		return pace, nil
	}
	if _, err := c.t.Write(qFullBuckets, c.Queue, c.now*1000); err != nil {
		return pace, err
	}
	for group, n := range groups {
		if _, err := c.t.Write(qSetBucket, c.Queue, jobrow.LaneGroup+group, rules.RateTake(rate, c.buckets[group], c.now*1000, n)); err != nil {
			return pace, err
		}
	}
	return pace, nil
}

// readBuckets reads the buckets of groups that are not full. A full one needs no row.
func (q *queueGates) readBuckets(t *txn.Tx) error {
	if q.Row.GroupRate == nil {
		return nil
	}
	q.Flow.GroupFullAt, q.buckets = map[string]int64{}, map[string]int64{}
	return t.Read(qBuckets, func(r sqldb.Row) error {
		q.Flow.GroupFullAt[groupOf(r.Text(0))], q.buckets[groupOf(r.Text(0))] = r.Int(1), r.Int(1)
		return nil
	}, q.Queue, q.now*1000)
}
