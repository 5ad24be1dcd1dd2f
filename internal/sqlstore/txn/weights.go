package txn

import (
	"strings"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobevent"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobstat"
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

// Statements of the numbers of jobs. Where one transaction writes at a time it changes sj_count
// itself; elsewhere it inserts into sj_count_change, so that no transaction waits for another.
var (
	countNames    = strings.Join(jobcount.Names, ", ")
	qChangeCounts = `insert into sj_count_change (` + countNames + `, queue, kind) ` + jobcount.Rows()
	qAddCounts    = `insert into sj_count as c (` + countNames + `, queue, kind) ` + jobcount.Rows() +
		` on conflict (queue, kind) do update set ` + jobcount.Each(", ", func(n string) string { return n + " = c." + n + " + excluded." + n })
	qDropCounts = `delete from sj_count where queue = $1 and kind = $2 and ` + jobcount.Each(" and ", func(n string) string { return n + " = 0" })
)

// WriteCounts adds the changes of the numbers of jobs so far to the write set: at the end of a
// transaction, and before it compares them with the jobs.
func WriteCounts(t *Tx) {
	rows := t.Counts.Take()
	if len(rows) > 0 && t.Concurrent() {
		t.Events.Counted += len(rows)
		t.AddColumns(qChangeCounts, 0, "", jobcount.Columns(rows))
		return
	}
	FoldCounts(t, rows)
}

// FoldCounts adds changes to sj_count, without rows for queues and kinds that have no job left.
func FoldCounts(t *Tx, rows []jobcount.Change) {
	if len(rows) == 0 {
		return
	}
	t.AddColumns(qAddCounts, 0, "", jobcount.Columns(rows))
	for i := range rows {
		if r := &rows[i]; r.OnlyLess() {
			t.Add(qDropCounts, 0, "", r.Queue, r.Kind)
		}
	}
}

// Statements of statistics. One of them is in nearly every transaction that changes a job, so that
// it also checks that nobody follows the transitions.
const (
	qAddStats           = `insert into sj_stat_change (day, events) values ($1, $2)`
	qAddStatsUnfollowed = `insert into sj_stat_change (day, events) select $1, $2 where not exists (select 1 from sj_follower)`
)

// writeStats adds the statistics of a transaction to the write set, as one row for a fold.
func writeStats(t *Tx) {
	switch {
	case !t.Stats.Any():
	case t.Transitions.Seen && !t.Transitions.On:
		t.Events.Measured++
		t.Cache.unfollowed = true
		t.Add(qAddStatsUnfollowed, 1, jobevent.Raced, jobstat.DayOf(t.Now), t.Stats.Take())
	default:
		t.Events.Measured++
		t.Add(qAddStats, 0, "", jobstat.DayOf(t.Now), t.Stats.Take())
	}
}
