package query

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/presence"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/storeconfig"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// A running job is looked at when its lease ends, or before.
	qStalled = `select queue, count(*) from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 and state = 4 and lease_until_us <= $1 group by queue`
	qAskers  = `select asks from sj_worker where seen_us > $1`
	// qOldest goes from rank to rank through the claim index (a loose index scan): the first job of
	// each has waited for longest there.
	qOldest = `with recursive ranks (r1) as (select min(l.r1) from sj_live l where l.queue = $1 and l.kind = $2 and l.state = 3
		union all select (select min(l.r1) from sj_live l where l.queue = $1 and l.kind = $2 and l.state = 3 and l.r1 > ranks.r1) from ranks where ranks.r1 is not null limit 100)
		select $1, min((select l.updated_us from sj_live l where l.queue = $1 and l.kind = $2 and l.state = 3 and l.r1 = ranks.r1 order by l.r2, l.id limit 1))
		from ranks where ranks.r1 is not null having count(*) > 0`
)

// TextOldest is qOldest for each row of queues and kinds, for Dialect.Over.
const TextOldest = qOldest

// countQueues fills in the counts of queues, from the maintained numbers.
func countQueues(t *txn.Tx, out []sojourn.QueueStatus, names ...string) error {
	place := make(map[string]int, len(out))
	for i, q := range out {
		place[q.Name] = i
	}
	status := func(queue string) *sojourn.QueueStatus {
		if i, ok := place[queue]; ok {
			return &out[i]
		}
		return nil // this queue is not wanted
	}
	ready := map[jobcount.Key]int64{}
	if err := counters.Read(t, func(k jobcount.Key, n *jobcount.Numbers) {
		q := status(k.Queue)
		if q == nil {
			return
		}
		for state := sojourn.Blocked; state <= sojourn.Cancelled; state++ {
			if of := n.Of(state); of != 0 {
				q.Counts[state] += of
			}
		}
		q.Resumed, q.InFlight = q.Resumed+n.Resumed(), q.InFlight+n.Held()
		if of := n.Of(sojourn.Ready); of > 0 {
			ready[k] = of
		}
	}, names...); err != nil {
		return err
	}
	if err := t.Read(qStalled, func(r sqldb.Row) error {
		if q := status(r.Text(0)); q != nil {
			q.Stalled = r.Int(1)
		}
		return nil
	}, t.Now); err != nil {
		return err
	}
	if err := oldestReady(t, ready, status); err != nil {
		return err
	}
	return unhandled(t, ready, status)
}

// oldestReady fills in since when the first ready jobs are ready.
func oldestReady(t *txn.Tx, ready map[jobcount.Key]int64, status func(queue string) *sojourn.QueueStatus) error {
	var queues, kinds sqldb.Texts
	for k := range ready {
		queues, kinds = append(queues, k.Queue), append(kinds, k.Kind)
	}
	return t.ReadEach(TextOldest, func(r sqldb.Row) error {
		if q, since := status(r.Text(0)), jobrow.Time(r.Int(1)); q != nil && (q.OldestReady.IsZero() || since.Before(q.OldestReady)) {
			q.OldestReady = since
		}
		return nil
	}, queues, kinds)
}

// unhandled counts, by kind, the ready jobs that no worker has claimed within the last day.
func unhandled(t *txn.Tx, ready map[jobcount.Key]int64, status func(queue string) *sojourn.QueueStatus) error {
	life, err := storeconfig.WorkerLife(t)
	if err != nil {
		return err
	}
	handled := map[jobcount.Key]bool{}
	err = t.Read(qAskers, func(r sqldb.Row) error {
		var a presence.Subscription
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		for _, q := range a.Queues {
			for _, k := range a.Kinds {
				handled[jobcount.Key{Queue: q, Kind: k}] = true
			}
		}
		return err
	}, t.Now-life.Microseconds())
	if err != nil {
		return err
	}
	for k, n := range ready {
		q := status(k.Queue)
		if q == nil || handled[k] {
			continue
		}
		if q.Unhandled == nil {
			q.Unhandled = map[string]int64{}
		}
		q.Unhandled[k.Kind] = n
	}
	return nil
}
