package sqlstore

import (
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// The weight in flight of a queue that counts is kept as a ledger: one row a lane, and one row for
// each transaction that has changed it since the last summation. A claim sums rows of the ledger
// instead of counting jobs, so its cost is independent of the number of jobs in flight. The doctor
// compares both.

// flight is the key of the ledger.
type flight struct{ queue, lane string }

// land adds the effect of a row's change to the weight in flight.
func (t *tx) land(was, l *live, held int32) {
	if was.lane == l.lane && was.queue == l.queue && was.Held == held {
		return
	}
	add := func(row *live, n int32) {
		if row.lane == laneNone || n == 0 {
			return
		}
		if t.flight == nil {
			t.flight = map[flight]int64{}
		}
		t.flight[flight{row.queue, row.lane}] += int64(n)
	}
	add(was, -was.Held)
	add(l, held)
	if was.lane != laneNone && was.Held > held {
		t.freed[was.queue] += int(was.Held - held)
	}
}

const (
	qLand = `insert into sj_landed (held, queue, lane) rows($1 bigint, $2 text, $3 text)`
)

// Rows of the ledger are summed from this number on: rows of lanes in which they cancel out, as in
// a group whose jobs have ended, and of lanes with manyOfOne of them.

// leaveFlight adds the changes of the ledger so far to the write set.
func (t *tx) leaveFlight() {
	var held sqldb.Ints
	var queue, lane sqldb.Texts
	for f, n := range t.flight {
		if n != 0 {
			held, queue, lane = append(held, n), append(queue, f.queue), append(lane, f.lane)
		}
	}
	t.flight = nil
	t.laterBulk(qLand, 0, "", held, queue, lane)
}
