package upkeep

import (
	"context"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// qLedgerDiff finds the lanes whose ledger differs from the weight that their jobs hold. Each
// change of held weight updates the ledger in the same transaction. So one statement sees both or
// neither, and the difference stays right after later commits.
const qLedgerDiff = `select lane, sum(booked), sum(held) from (
	select lane, held as booked, 0 as held from sj_flight where queue = $1
	union all select lane, held, 0 from sj_landed where queue = $1
	union all select lane, 0, held from sj_live where queue = $1 and held > 0 and lane <> '') a
	group by lane having sum(booked) <> sum(held)`

// Repair corrects the ledger of the weight in flight and the numbers of jobs; see driver.Repairer.
func (s *Maintainer) Repair(ctx context.Context) (found []driver.Violation, err error) {
	var queues []sojourn.QueueStatus
	if err := s.core.View(ctx, func(t *txn.Tx) (err error) {
		queues, err = query.QueuesOf(t)
		return err
	}); err != nil {
		return nil, err
	}
	for _, q := range queues {
		corrected, err := txn.Do(ctx, s.core, repairOp, 1, q.Name)
		if err != nil {
			return found, err
		}
		found = append(found, corrected...)
	}
	corrected, err := txn.Do(ctx, s.core, recountOp, 1, struct{}{})
	return append(found, corrected...), err
}

// recountOp corrects the maintained numbers of jobs.
var recountOp = txn.EachOp("recount", groupcommit.Finish, func(t *txn.Tx, _ struct{}) (found []driver.Violation, err error) {
	if t.Core.Cfg.Without.Counts {
		return nil, nil
	}
	differ, err := counters.Correct(t)
	for _, d := range differ {
		found = append(found, driver.Violation{Check: query.CheckCounts,
			Detail: fmt.Sprintf("queue %s, kind %s: the jobs differ from the counters by %s", d.Queue, d.Kind, d.By.String())})
	}
	return found, err
})

// repairOp corrects the ledger of one queue. Its lock keeps two repairs from correcting it twice.
var repairOp = txn.EachOp("repair", groupcommit.Finish, func(t *txn.Tx, queue string) (found []driver.Violation, err error) {
	if got, err := t.LockQueue(queue); err != nil || !got {
		return nil, err
	}
	t.FlushWeights() // of earlier requests in the transaction
	var held sqldb.Ints
	var queues, lanes sqldb.Texts
	if err := t.Read(qLedgerDiff, func(r sqldb.Row) error {
		lane, booked, jobs := r.Text(0), r.Int(1), r.Int(2)
		held, queues, lanes = append(held, jobs-booked), append(queues, queue), append(lanes, lane)
		found = append(found, driver.Violation{Check: "flight-summed",
			Detail: fmt.Sprintf("queue %s: the ledger said %d in lane %s, its jobs hold %d", queue, booked, lane, jobs)})
		return nil
	}, queue); err != nil || len(held) == 0 {
		return nil, err
	}
	t.Events.Freed[queue] += sojourn.MaxBatch
	return found, t.WriteBulk(txn.QAddHeld, nil, held, queues, lanes)
})
