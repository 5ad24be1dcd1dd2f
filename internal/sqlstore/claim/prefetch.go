package claim

import (
	"maps"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// prefetched holds reads ahead for the first claim of a transaction: the overdue jobs, and the
// head of its first queue without gates with its rows. It is read in the message that begins the
// transaction or flushes its writes. Separate reads would cost three messages.
type prefetched struct {
	overdue sqldb.Ints
	queue   string
	lines   map[string][]jobrow.Candidate // by kind
	rows    map[sojourn.ID]*jobrow.Row
	columns map[sojourn.ID]*txn.JobColumns
	bulk    bool // a bulk start has read the rows
}

// qPickRows is TextPick for a database that reads and locks in one statement: queue, kind, the
// greatest weight, the limit, the queues that must be open, and the run_at of jobs that may be
// heavier. It checks itself whether the queue is open, and takes nothing if it is not.
var qPickRows = `select ` + jobrow.LiveColumns + `, ` + txn.JobColumnList + `, j.args from (select * from sj_live where queue = $1 and kind = $2 and state = 3
	and (weight <= cast($3 as bigint) or run_at_us <= cast($6 as bigint)) and not exists (select 1 from sj_queue where name in (texts($5)) and paused + gated > 0)
	order by r1, r2, id limit $4 /*lock*/) l join sj_job j on j.id = l.id`

// prefetch returns the reads ahead for the first claim, where a message costs a round trip. Rows of
// further queues would be locked in vain. Overdue jobs are found by an estimate of the clock; the
// next claim finds those missed by less than a round trip.
func (c *batch) prefetch(r driver.ClaimRequest) []sqldb.Statement {
	if _, ok := c.Conn.(sqldb.Sender); !ok {
		return nil
	}
	c.Loaded.Queues = nil // settings for a row are read after it was locked
	if start, ok := c.prefetchBulkStart(r); ok {
		return start
	}
	f := newPrefetched(r)
	reads := []sqldb.Statement{{Text: lifecycle.QOverdue, Args: []any{c.Core.Clock.Estimate(), sweepPerClaim}, Each: func(row sqldb.Row) error {
		f.overdue = append(f.overdue, row.Int(0))
		return nil
	}}}
	for _, kind := range r.Kinds {
		reads = append(reads, sqldb.Statement{Text: qPickRows, Args: []any{f.queue, kind, r.Capacity, r.Max, sqldb.Texts{f.queue, sojourn.AllQueues}, txn.ReserveBefore(c.Core.Clock.Estimate(), r)},
			Each: c.ScanInto(f.rows, func(row sqldb.Row, l *jobrow.Row) error {
				f.lines[kind] = append(f.lines[kind], jobrow.Candidate{ID: int64(l.ID), R1: l.R1, R2: l.R2, Weight: int64(l.Weight)})
				f.columns[l.ID] = txn.ScanJobColumns(row, jobrow.LiveColumnCount)
				return nil
			})})
	}
	c.prefetched = f
	return reads
}

// newPrefetched is a prefetch that has found nothing for a claim.
func newPrefetched(r driver.ClaimRequest) *prefetched {
	f := &prefetched{queue: r.Queues[0], lines: map[string][]jobrow.Candidate{}, rows: map[sojourn.ID]*jobrow.Row{}, columns: map[sojourn.ID]*txn.JobColumns{}}
	for _, kind := range r.Kinds {
		f.lines[kind] = nil
	}
	return f
}

// overdueOnly keeps only the overdue jobs; their rows are read again before they are ended.
func (f *prefetched) overdueOnly() *prefetched {
	if f == nil {
		return nil
	}
	return &prefetched{overdue: f.overdue}
}

// sweep handles overdue jobs, which may make them ready.
func (c *batch) sweep() (driver.Swept, error) {
	if c.prefetched == nil {
		return lifecycle.SweepOverdue(c.Tx, sweepPerClaim)
	}
	overdue := c.prefetched.overdue
	if len(overdue) > 0 {
		c.prefetched = nil // a job that becomes ready may rank before the prefetched ones
	}
	return lifecycle.SweepRows(c.Tx, overdue)
}

// prefetchedLine returns the prefetched head of a queue for a kind, if there is one.
func (c *batch) prefetchedLine(queue, kind string) (line []jobrow.Candidate, ok bool) {
	if c.prefetched == nil || c.prefetched.queue != queue {
		return nil, false
	}
	line, ok = c.prefetched.lines[kind]
	return line, ok
}

// takePrefetched returns the prefetched rows, and as rest the ids that were not prefetched. It uses
// up the prefetch.
func (c *batch) takePrefetched(ids sqldb.Ints) (found map[sojourn.ID]*jobrow.Row, columns map[sojourn.ID]*txn.JobColumns, rest sqldb.Ints) {
	f := c.prefetched
	c.prefetched = nil // later writes may change the prefetched rows
	if f == nil || f.rows == nil {
		return make(map[sojourn.ID]*jobrow.Row, len(ids)), make(map[sojourn.ID]*txn.JobColumns, len(ids)), ids
	}
	if c.bulk == nil {
		c.claimer.shapes.learn(f.queue, f.rows)
	}
	for _, id := range ids {
		if f.rows[sojourn.ID(id)] == nil {
			rest = append(rest, id)
		}
	}
	if len(rest) > 0 { // the caller adds these rows to the clones; they were not bulk-started
		return maps.Clone(f.rows), maps.Clone(f.columns), rest
	}
	return f.rows, f.columns, nil
}
