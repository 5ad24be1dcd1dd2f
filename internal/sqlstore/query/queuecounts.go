package query

import (
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qLiveCounts  = `select queue, state, resumed, count(*), sum(held), min(updated_us) from sj_live group by queue, state, resumed`
	qStalled     = `select queue, count(*) from sj_live where state = 4 and wake_at_us < 9223372036854775807 and lease_until_us <= $1 group by queue`
	qFinalCounts = `select queue, state, count(*) from sj_final group by queue, state`
	qReadyKinds  = `select queue, kind, count(*) from sj_live where state = 3 group by queue, kind`
	qAskers      = `select asks from sj_worker where seen_us > $1`
)

// countQueues fills in the counts of queues. Each statement counts the jobs of all queues.
func countQueues(t *txn.Tx, out []sojourn.QueueStatus) error {
	place := make(map[string]int, len(out))
	for i, q := range out {
		place[q.Name] = i
	}
	status := func(r sqldb.Row) *sojourn.QueueStatus {
		if i, ok := place[r.Text(0)]; ok {
			return &out[i]
		}
		return &sojourn.QueueStatus{Counts: map[sojourn.State]int64{}} // this queue is not wanted
	}
	if err := t.Read(qLiveCounts, func(r sqldb.Row) error {
		q := status(r)
		q.Counts[sojourn.State(r.Int(1))] += r.Int(3)
		q.InFlight += r.Int(4)
		if r.Int(2) != 0 {
			q.Resumed += r.Int(3)
		}
		if since := jobrow.Time(r.Int(5)); r.Int(1) == int64(sojourn.Ready) && (q.OldestReady.IsZero() || since.Before(q.OldestReady)) {
			q.OldestReady = since
		}
		return nil
	}); err != nil {
		return err
	}
	if err := t.Read(qStalled, func(r sqldb.Row) error { status(r).Stalled = r.Int(1); return nil }, t.Now); err != nil {
		return err
	}
	if err := t.Read(qFinalCounts, func(r sqldb.Row) error {
		status(r).Counts[sojourn.State(r.Int(1))] = r.Int(2)
		return nil
	}); err != nil {
		return err
	}
	return unhandled(t, func(queue string) *sojourn.QueueStatus {
		if i, ok := place[queue]; ok {
			return &out[i]
		}
		return nil
	})
}

// unhandled counts, by kind, the ready jobs that no worker has claimed within the last day.
func unhandled(t *txn.Tx, status func(queue string) *sojourn.QueueStatus) error {
	handled := map[txn.QueueKind]bool{}
	err := t.Read(qAskers, func(r sqldb.Row) error {
		var a txn.Subscription
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		for _, q := range a.Queues {
			for _, k := range a.Kinds {
				handled[txn.QueueKind{Queue: q, Kind: k}] = true
			}
		}
		return err
	}, t.Now-sojourn.WorkerLife.Microseconds())
	if err != nil {
		return err
	}
	return t.Read(qReadyKinds, func(r sqldb.Row) error {
		q := status(r.Text(0))
		if q == nil || handled[txn.QueueKind{Queue: r.Text(0), Kind: r.Text(1)}] {
			return nil
		}
		if q.Unhandled == nil {
			q.Unhandled = map[string]int64{}
		}
		q.Unhandled[r.Text(1)] = r.Int(2)
		return nil
	})
}
