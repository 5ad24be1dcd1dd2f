package query

import (
	"context"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const qLiveCounts = `select queue, state, resumed, count(*), sum(held), min(updated_us) from sj_live group by queue, state, resumed`

const qStalled = `select queue, count(*) from sj_live where state = 4 and wake_at_us < 9223372036854775807 and lease_until_us <= $1 group by queue`

const qFinalCounts = `select queue, state, count(*) from sj_final group by queue, state`

// Queues lists queues with counts; see driver.Store. It counts rows, so it costs time in
// proportion to the jobs stored.
func (s *Reader) Queues(ctx context.Context, names ...string) ([]sojourn.QueueStatus, error) {
	var out []sojourn.QueueStatus
	err := s.Core.View(ctx, func(t *txn.Tx) error {
		out = nil
		place, err := ListQueues(t, names, &out)
		if err != nil {
			return err
		}
		return countQueues(t, place, out)
	})
	return out, err
}

// ListQueues appends the named queues, without counts, and returns the index of each.
func ListQueues(t *txn.Tx, names []string, out *[]sojourn.QueueStatus) (map[string]int, error) {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	place := map[string]int{}
	err := t.Read(QQueues, func(r sqldb.Row) error {
		if len(wanted) > 0 && !wanted[r.Text(0)] || len(wanted) == 0 && r.Text(0) == sojourn.AllQueues {
			return nil
		}
		q, err := queueStatus(t, r)
		if err != nil {
			return err
		}
		place[q.Name] = len(*out)
		*out = append(*out, q)
		return nil
	})
	for _, name := range names {
		if _, ok := place[name]; !ok && name != sojourn.AllQueues && err == nil {
			err = sojourn.NotFound("there is no queue %.64q", name)
		}
	}
	return place, err
}

const (
	qReadyKinds = `select queue, kind, count(*) from sj_live where state = 3 group by queue, kind`
	qAskers     = `select asks from sj_worker where seen_us > $1`
)

// unhandled reports ready jobs that no worker claims.
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
