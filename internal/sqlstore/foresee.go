package sqlstore

import (
	"maps"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// foreseen is what the first claim of a transaction looks at first, read in the message that begins
// the transaction or that writes what is pending: what is overdue, and the beginning of its first
// queue without gates with the rows that it will take. In turn that would be three messages.
type foreseen struct {
	overdue sqldb.Ints
	queue   string
	lines   map[string][]candidate // by kind
	rows    map[sojourn.ID]*live
	carries map[sojourn.ID]*carried
	started bool // with the rows, see startAlike
}

// qPickRows is TextPick for a database that reads and locks in one statement: queue, kind, the
// greatest weight, how many to take, the queues that must be open, and the run_at of jobs that may
// be heavier. It does not know yet whether the queue is open, and takes nothing if it is not.
const qPickRows = `select ` + liveColumns + `, ` + carriedColumns + `, j.args from (select * from sj_live where queue = $1 and kind = $2 and state = 3
	and (weight <= cast($3 as bigint) or run_at_us <= cast($6 as bigint)) and not exists (select 1 from sj_queue where name in (texts($5)) and paused + gated > 0)
	order by r1, r2, id limit $4 /*lock*/) l join sj_job j on j.id = l.id`

// foresee reads for the first claim, where a message costs a round trip. Rows of further queues
// would be locked in vain. What is overdue it asks by an estimate of the clock, which a transaction
// reads when it begins: what it misses by less than a round trip, the next claim finds.
func (c *claims) foresee(r sojourn.ClaimRequest) []sqldb.Statement {
	if _, ok := c.Conn.(sqldb.Sender); !ok {
		return nil
	}
	c.places = nil // settings for a row are read after it was locked
	if start, ok := c.startAlike(r); ok {
		return start
	}
	f := newForeseen(r)
	reads := []sqldb.Statement{{Text: qOverdue, Args: []any{c.s.clock.estimate(), sweepPerClaim}, Each: func(row sqldb.Row) error {
		f.overdue = append(f.overdue, row.Int(0))
		return nil
	}}}
	for _, kind := range r.Kinds {
		reads = append(reads, sqldb.Statement{Text: qPickRows, Args: []any{f.queue, kind, r.Capacity, r.Max, sqldb.Texts{f.queue, sojourn.AllQueues}, reserveBefore(c.s.clock.estimate(), r)},
			Each: c.scanInto(f.rows, func(row sqldb.Row, l *live) error {
				f.lines[kind] = append(f.lines[kind], candidate{int64(l.ID), l.r1, l.r2, int64(l.Weight)})
				f.carries[l.ID] = scanCarried(row, liveColumnCount)
				return nil
			})})
	}
	c.ahead = f
	return reads
}

func newForeseen(r sojourn.ClaimRequest) *foreseen {
	f := &foreseen{queue: r.Queues[0], lines: map[string][]candidate{}, rows: map[sojourn.ID]*live{}, carries: map[sojourn.ID]*carried{}}
	for _, kind := range r.Kinds {
		f.lines[kind] = nil
	}
	return f
}

// sweepFirst handles what is overdue.
func (c *claims) sweepFirst() (sojourn.Swept, error) {
	if c.ahead == nil {
		return c.sweepDue(sweepPerClaim)
	}
	overdue := c.ahead.overdue
	if len(overdue) > 0 {
		c.ahead = nil // something may become ready that stands before what was read
	}
	return c.sweepThese(overdue)
}

// withoutLine keeps what is overdue alone, which is looked at again before it is ended.
func (f *foreseen) withoutLine() *foreseen {
	if f == nil {
		return nil
	}
	return &foreseen{overdue: f.overdue}
}

// foreseenLine is the beginning of a queue for a kind, if it was read ahead.
func (c *claims) foreseenLine(queue, kind string) (line []candidate, ok bool) {
	if c.ahead == nil || c.ahead.queue != queue {
		return nil, false
	}
	line, ok = c.ahead.lines[kind]
	return line, ok
}

// takeForeseen returns the rows that were read ahead, and those of ids that are not among them.
func (c *claims) takeForeseen(ids sqldb.Ints) (found map[sojourn.ID]*live, carries map[sojourn.ID]*carried, rest sqldb.Ints) {
	f := c.ahead
	c.ahead = nil // what is written from here on may change what was read
	if f == nil || f.rows == nil {
		return make(map[sojourn.ID]*live, len(ids)), make(map[sojourn.ID]*carried, len(ids)), ids
	}
	if c.early == nil {
		c.s.alike.learn(f.queue, f.rows)
	}
	for _, id := range ids {
		if f.rows[sojourn.ID(id)] == nil {
			rest = append(rest, id)
		}
	}
	if len(rest) > 0 { // which come to them, and were not started early
		return maps.Clone(f.rows), maps.Clone(f.carries), rest
	}
	return f.rows, f.carries, nil
}
