package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const qLiveCounts = `select queue, state, resumed, count(*), sum(held), min(updated_us) from sj_live group by queue, state, resumed`

const qStalled = `select queue, count(*) from sj_live where state = 4 and wake_at_us < 9223372036854775807 and lease_until_us <= $1 group by queue`

const qFinalCounts = `select queue, state, count(*) from sj_final group by queue, state`

// Queues lists queues with counts; see driver.Store. It counts rows, so it costs time in
// proportion to the jobs stored.
func (s *reader) Queues(ctx context.Context, names ...string) ([]sojourn.QueueStatus, error) {
	var out []sojourn.QueueStatus
	err := s.core.view(ctx, func(t *tx) error {
		out = nil
		place, err := t.listQueues(names, &out)
		if err != nil {
			return err
		}
		return t.countQueues(place, out)
	})
	return out, err
}

// listQueues appends the named queues, without counts, and returns the index of each.
func (t *tx) listQueues(names []string, out *[]sojourn.QueueStatus) (map[string]int, error) {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	place := map[string]int{}
	err := t.query(qQueues, func(r sqldb.Row) error {
		if len(wanted) > 0 && !wanted[r.Text(0)] || len(wanted) == 0 && r.Text(0) == sojourn.AllQueues {
			return nil
		}
		q, err := t.queueStatus(r)
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
func (t *tx) unhandled(status func(queue string) *sojourn.QueueStatus) error {
	handled := map[place]bool{}
	err := t.query(qAskers, func(r sqldb.Row) error {
		var a asks
		err := json.Unmarshal([]byte(r.Text(0)), &a)
		for _, q := range a.Queues {
			for _, k := range a.Kinds {
				handled[place{q, k}] = true
			}
		}
		return err
	}, t.now-sojourn.WorkerLife.Microseconds())
	if err != nil {
		return err
	}
	return t.query(qReadyKinds, func(r sqldb.Row) error {
		q := status(r.Text(0))
		if q == nil || handled[place{r.Text(0), r.Text(1)}] {
			return nil
		}
		if q.Unhandled == nil {
			q.Unhandled = map[string]int64{}
		}
		q.Unhandled[r.Text(1)] = r.Int(2)
		return nil
	})
}
