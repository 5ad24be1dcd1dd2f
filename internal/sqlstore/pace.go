package sqlstore

import (
	"maps"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// The stored state of a queue's rate, holds and breaker is rules.Pace, a part of the flow that
// its row keeps as JSON. A claim writes it with the jobs that it starts. This file has the other
// writers: outcomes, sweeps and operators.

// knownBreaker is a queue's setting and the time at which it was read.
type knownBreaker struct {
	setting *sojourn.Breaker
	at      int64
}

const qSetPace = `update sj_queue set flow = $1, gated = $2 where name = $3`

// mustAsk reports whether claims must ask the gates: a hold is a gate without a setting.
func (q *queueRow) mustAsk() bool { return rules.Gated(q.QueueSettings) || q.flow.Pace.RampFrom > 0 }

const (
	qBuckets   = `select lane, full_at_ns from sj_bucket where queue = $1 and full_at_ns > $2`
	qSetBucket = `insert into sj_bucket (queue, lane, full_at_ns) values ($1, $2, $3)
		on conflict (queue, lane) do update set full_at_ns = excluded.full_at_ns`
	qFullBuckets = `delete from sj_bucket where queue = $1 and full_at_ns <= $2`
)

// changePace changes the stored pace of a queue, under its lock. A queue that does not exist has
// none.
func changePace(t *tx, queue string, change func(q *queueRow)) error {
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

// breaker reads a queue's breaker at most once a second: every outcome needs it, and few queues
// have one.
func (g *gates) breaker(t *tx, queue string) (*sojourn.Breaker, error) {
	if k, ok := g.breakers.get(queue); ok {
		if t.now-k.at < time.Second.Microseconds() && t.now >= k.at {
			return k.setting, nil
		}
	}
	q, err := t.queueRow(queue)
	if err != nil {
		return nil, err
	}
	g.breakers.put(queue, knownBreaker{q.Breaker, t.now})
	return q.Breaker, nil
}

// evidence divides the steps into failures that a breaker counts and steps that got an answer.
func (of *outcomeStats) evidence(b *sojourn.Breaker) (failed []failedStep, answered []int64) {
	if b == nil {
		return nil, nil
	}
	answered = of.answered
	for _, s := range of.failed {
		switch {
		case rules.Counts(*b, s.reason):
			failed = append(failed, s)
		case s.reported:
			answered = append(answered, s.began)
		}
	}
	return failed, answered
}

// pay charges the buckets for the jobs that really started, out of all that the gates admitted.
func (l *gatedClaim) pay(started []*gateCandidate) (rules.Pace, error) {
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
	if _, err := l.t.exec(qFullBuckets, l.queue, l.now*1000); err != nil {
		return pace, err
	}
	for group, n := range groups {
		if _, err := l.t.exec(qSetBucket, l.queue, laneGroup+group, rules.RateTake(rate, l.buckets[group], l.now*1000, n)); err != nil {
			return pace, err
		}
	}
	return pace, nil
}

// readBuckets reads the buckets of groups that are not full. A full one has no row.
func (q *queueGates) readBuckets(t *tx) error {
	if q.row.GroupRate == nil {
		return nil
	}
	q.flow.GroupFullAt, q.buckets = map[string]int64{}, map[string]int64{}
	return t.query(qBuckets, func(r sqldb.Row) error {
		q.flow.GroupFullAt[groupOf(r.Text(0))], q.buckets[groupOf(r.Text(0))] = r.Int(1), r.Int(1)
		return nil
	}, q.queue, q.now*1000)
}

// flushPace evaluates the outcomes of the steps that a request has ended. If the state of no gate
// changes, as with every success while the breaker is closed, it locks and writes nothing.
func (g *gates) flushPace(t *tx) error {
	if len(t.stats) == 0 {
		return nil
	}
	for _, queue := range slices.Sorted(maps.Keys(t.stats)) {
		if err := g.flushPaceOf(t, queue, t.stats[queue]); err != nil {
			return err
		}
	}
	t.stats = nil
	return nil
}

func (g *gates) flushPaceOf(t *tx, queue string, of *outcomeStats) error {
	breaker, err := g.breaker(t, queue)
	if err != nil || breaker == nil && of.hold == 0 {
		return err
	}
	failed, answered := of.evidence(breaker)
	if len(failed)+len(answered) == 0 && of.hold == 0 {
		return nil
	}
	return changePace(t, queue, func(q *queueRow) {
		p := q.flow.Pace
		for _, s := range failed {
			p = p.Failed(q.Breaker, s.reason, s.began, t.now)
		}
		for _, began := range answered {
			p = p.Succeeded(q.Breaker, began, t.now)
		}
		if of.hold > 0 {
			p = p.Hold(t.now+of.hold.Microseconds(), of.reason)
		}
		q.flow.Pace = p
	})
}
