package operate

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// qDrain also makes the row of a worker that has none, because its claims have no number, or
// because it has not got a job yet.
const qDrain = `insert into sj_worker (worker, claim_no, claimed, asks, seen_us, drained) values ($1, 0, '[]', '{}', $2, 1)
		on conflict (worker) do update set drained = 1`

// DrainWorker gives a worker no more jobs; see sojourn.Store. Claims that wait in other processes
// end when these poll the database again.
func (s *Operator) DrainWorker(ctx context.Context, worker string) error {
	if err := sojourn.ValidName("worker", worker); err != nil {
		return err
	}
	_, err := txn.Do(ctx, s.core, drainOp, 1, worker)
	if err == nil {
		s.hub.WakeAll()
		s.hub.SignalAll()
	}
	return err
}

var drainOp = txn.EachOp("drain worker", groupcommit.Finish, func(t *txn.Tx, worker string) (struct{}, error) {
	found, err := query.ListWorkers(t, "", 1, []string{worker})
	if err == nil && len(found) == 0 {
		err = sojourn.NotFound("no worker has the id %.64q", worker)
	}
	if err != nil || found[0].Drained {
		return struct{}{}, err
	}
	_, err = t.Write(qDrain, worker, t.Now)
	return struct{}{}, err
})
