package txn

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// The weight in flight of a queue that counts is kept as a ledger: one row for each lane, and one
// for each transaction that has changed it since the last summation. A claim sums rows of the
// ledger instead of counting jobs, so its cost is independent of the number of jobs in flight. The
// check of the invariants compares both (docs/decisions/016).

// groupKey is the key of a row of the ledger.
type groupKey struct{ queue, lane string }

// AddWeight adds the change of a row to the weight in flight: was held was.Held, and l holds held.
func (t *Tx) AddWeight(was, l *jobrow.Row, held int32) {
	if was.Lane == l.Lane && was.Queue == l.Queue && was.Held == held {
		return
	}
	add := func(row *jobrow.Row, n int32) {
		if row.Lane == jobrow.LaneNone || n == 0 {
			return
		}
		if t.Queues.weights == nil {
			t.Queues.weights = map[groupKey]int64{}
		}
		t.Queues.weights[groupKey{row.Queue, row.Lane}] += int64(n)
	}
	add(was, -was.Held)
	add(l, held)
	if was.Lane != jobrow.LaneNone && was.Held > held {
		t.Events.Freed[was.Queue] += int(was.Held - held)
	}
}

// QAddHeld adds rows to the ledger.
const QAddHeld = `insert into sj_landed (held, queue, lane) rows($1 bigint, $2 text, $3 text)`

// FlushWeights adds the changes of the weight so far to the write set, before gates sum the ledger,
// and at the end.
func (t *Tx) FlushWeights() {
	var held sqldb.Ints
	var queue, lane sqldb.Texts
	for f, n := range t.Queues.weights {
		if n != 0 {
			held, queue, lane = append(held, n), append(queue, f.queue), append(lane, f.lane)
		}
	}
	t.Queues.weights = nil
	t.AddBulk(QAddHeld, 0, "", held, queue, lane)
}
