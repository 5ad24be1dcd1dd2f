package txn

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// The weight in flight of a queue that counts is kept as a ledger: one row a lane, and one row for
// each transaction that has changed it since the last summation. A claim sums rows of the ledger
// instead of counting jobs, so its cost is independent of the number of jobs in flight. The doctor
// compares both.

// groupKey is the key of the ledger.
type groupKey struct{ queue, lane string }

// AddWeight adds the effect of a row's change to the weight in flight.
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

const (
	QAddHeld = `insert into sj_landed (held, queue, lane) rows($1 bigint, $2 text, $3 text)`
)

// Rows of the ledger are summed from this number on: rows of lanes in which they cancel out, as in
// a group whose jobs have ended, and of lanes with gate.manyOfOne of them.

// FlushWeights adds the changes of the ledger so far to the write set.
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
