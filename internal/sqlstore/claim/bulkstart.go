package claim

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Bulk start: ready jobs that were never claimed or changed differ only in their policies, as far
// as the rules are concerned. So one Decide per policy holds for all of them. Where a message costs
// a round trip, one statement finds and locks the first jobs, starts them, and returns the data for
// their worker. It checks its own preconditions. If a job in front differs, the transaction is
// repeated with reads (docs/internals/engine.md#bulk-start).

// TextBulkStart starts the first jobs of a queue, for Dialect.Over. It returns at least one row.
// Each has whether the preconditions held and how many jobs are first in line. A started job adds
// id, kind, key, priority, run at, r1, r2, policy, and the columns for its worker with its args.
const TextBulkStart = `if the clock is between $1 and $2, nothing is due at $3, worker $4 has no claim since $5 and is not drained, and (texts($6)) are open, start of queue $7
	and (texts($8)) the first $10, whose weight is at most $9, which must be $11, with one of (texts($12)), until (ints($13)), to be looked at by (ints($14)), leases until
	$15 of $16 µs, purpose $17, epoch $18, attempt $19, open $20, retry handler $21, held $22, given $23; a job heavier than $9 that was to run before $24 is not passed over`

// bulkStart is a bulk start: its request, and its result.
type bulkStart struct {
	reading  clock.Reading
	policies []string
	before   []jobrow.Row               // the row of a job with each policy
	after    []jobrow.Row               // the same row, started
	rows     map[sojourn.ID]*jobrow.Row // as before the start; a row is removed when the claim takes it; nil without a result
	open     bool                       // the preconditions held
	picked   int64                      // jobs that were first in line
}

// prefetchBulkStart is prefetch for a transaction of claims alone: its statement also starts the
// jobs that it finds. It returns false if the jobs may differ.
func (c *batch) prefetchBulkStart(r driver.ClaimRequest) ([]sqldb.Statement, bool) {
	if !c.First.ClaimsOnly || c.Core.Cfg.Without.BulkStart || r.Close || c.Core.DB.Dialect().Over[TextBulkStart] == "" || len(r.Decidable)+len(r.Pollable) > 0 || r.Share != nil {
		return nil, false
	}
	queue := r.Queues[0]
	weight, policies := c.claimer.shapes.get(queue)
	if len(policies) > 0 && c.Core.Spoils("shape") {
		weight++
	}
	now, ok := c.Core.Predict()
	if !ok || len(policies) == 0 || int64(weight) > r.Capacity {
		return nil, false
	}
	b := &bulkStart{reading: now, policies: policies}
	if !b.decide(c.Tx, r, weight) {
		return nil, false
	}
	c.bulk = b
	c.prefetched = newPrefetched(r)
	c.prefetched.bulk = true
	return []sqldb.Statement{{Text: TextBulkStart, Args: b.args(c.Tx, r, weight), Each: func(row sqldb.Row) error {
		if b.rows == nil {
			b.open, b.picked = row.Int(0) > 0, row.Int(1)
			b.rows = make(map[sojourn.ID]*jobrow.Row, b.picked)
			c.prefetched.rows, c.prefetched.columns = b.rows, make(map[sojourn.ID]*txn.JobColumns, b.picked)
			if len(r.Kinds) == 1 {
				c.prefetched.lines[r.Kinds[0]] = make([]jobrow.Candidate, 0, b.picked)
			}
		}
		if row.Int(2) == 0 {
			return nil
		}
		at := slices.Index(policies, row.Text(9))
		if at < 0 {
			return txn.Raced("a job has another policy than it was started with")
		}
		l := b.before[at]
		l.ID, l.Kind, l.Key, l.Priority, l.RunAt, l.R1, l.R2 = sojourn.ID(row.Int(2)), row.Text(3), row.Text(4), int32(row.Int(5)), row.Int(6), row.Int(7), row.Int(8)
		columns := txn.ScanJobColumns(row, 10)
		l.Group, l.BornAt = columns.Group, columns.Created
		b.rows[l.ID], c.prefetched.columns[l.ID] = &l, columns
		c.prefetched.lines[l.Kind] = append(c.prefetched.lines[l.Kind], jobrow.Candidate{ID: int64(l.ID), R1: l.R1, R2: l.R2, Weight: int64(l.Weight)})
		return nil
	}}}, true
}

// decide lets the rules decide a job with each of the policies, and reports whether the results are
// the same except for their times.
func (b *bulkStart) decide(t *txn.Tx, r driver.ClaimRequest, weight int32) bool {
	t.Reading = b.reading
	for _, text := range b.policies {
		was := jobrow.Row{Queue: r.Queues[0], Generation: 1, UpdatedAt: t.Now, WakeAt: jobrow.Never, PolicyJSON: text}
		was.State, was.Weight = sojourn.Ready, weight
		var err error
		if was.Policy, err = t.Core.Caches.Decoder.Policy(text); err != nil {
			return false
		}
		tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventClaimed})
		if err != nil {
			return false
		}
		l := was
		l.Row = tr.To
		lease(t, &was, &l, r)
		l.UpdatedAt = t.Now
		l.SetWakeAt()
		b.before, b.after = append(b.before, was), append(b.after, l)
		if l.State != sojourn.Running || !l.Claimed || l.Resumed || startNumbers(&l) != startNumbers(&b.after[0]) {
			return false
		}
	}
	return true
}

// startNumbers are the columns of a started row that TextBulkStart sets to one value for all jobs.
func startNumbers(l *jobrow.Row) [11]int64 {
	return [...]int64{l.LeaseUntil, l.LeaseUs, int64(l.Purpose), l.Epoch, int64(l.Attempt), jobrow.Bit(l.AttemptOpen), jobrow.Bit(l.RetryHandler), int64(l.Held), jobrow.Bit(l.Given),
		l.BeganAt, l.UpdatedAt}
}

// args are the arguments of TextBulkStart.
func (b *bulkStart) args(t *txn.Tx, r driver.ClaimRequest, weight int32) []any {
	from, to := t.Core.ClockBounds(b.reading.Now)
	queue, first := r.Queues[0], int64(r.Max)
	if weight > 0 {
		first = min(first, r.Capacity/int64(weight))
	}
	timeouts, wakes := make(sqldb.Ints, len(b.after)), make(sqldb.Ints, len(b.after))
	for i := range b.after {
		timeouts[i], wakes[i] = b.after[i].TimeoutAt, b.after[i].WakeAt
	}
	args := []any{from, to, b.reading.Now, r.Worker, r.Number, sqldb.Texts{queue, sojourn.AllQueues}, queue, sqldb.Texts(r.Kinds), r.Capacity, first, int64(weight),
		sqldb.Texts(b.policies), timeouts, wakes}
	numbers := startNumbers(&b.after[0])
	for _, n := range numbers[:9] { // the other two are the time of the transaction
		args = append(args, n)
	}
	return append(args, txn.ReserveBefore(b.reading.Now, r))
}

var _ txn.Starter = (*batch)(nil) // found by a type assertion

// FinishBulkStart evaluates the bulk start, and reports whether it has started jobs. If its
// preconditions did not hold, the claim continues on the normal path.
func (c *batch) FinishBulkStart() (bool, error) {
	b, shapes := c.bulk, &c.claimer.shapes
	if b == nil {
		return false, nil
	}
	queue := b.before[0].Queue
	switch {
	case !b.open:
		shapes.miss(queue)
		c.bulk = nil
		return false, nil
	case b.picked != int64(len(b.rows)):
		shapes.miss(queue)
		return false, txn.Raced("the jobs in front of queue " + queue + " differ")
	}
	shapes.hit(queue)
	c.Reading = b.reading
	c.Wrote = c.Wrote || b.picked > 0
	return true, c.ConfirmClock()
}

// noteBulkStarted notes a row that the statement has started already, and reports whether it is
// one. The rules have decided it again; if they differ from the statement, the transaction is
// repeated.
func (c *batch) noteBulkStarted(l *jobrow.Row) (bool, error) {
	b := c.bulk
	if !b.has(l) {
		return false, nil
	}
	delete(b.rows, l.ID)
	l.UpdatedAt = max(c.Now, l.UpdatedAt)
	l.SetWakeAt()
	at := slices.Index(b.policies, l.PolicyJSON)
	if s := &b.after[at]; startNumbers(l) != startNumbers(s) || l.TimeoutAt != s.TimeoutAt || l.WakeAt != s.WakeAt {
		return false, txn.Raced("the rules decide a started job differently")
	}
	c.Cache.Changed = append(c.Cache.Changed, l)
	c.Events.Dead++
	c.NoteChange(l)
	c.Counts.Started(l)
	c.Transitions.Started(l)
	return true, nil
}

// has reports whether the statement has started a row that the claim has not taken yet. No other
// code holds the row.
func (b *bulkStart) has(row *jobrow.Row) bool { return b != nil && b.rows[row.ID] == row }

// checkAllTaken fails if a bulk-started job was not taken by its claim: a change that the statement
// does not check has come in between.
func (c *batch) checkAllTaken() error {
	if c.bulk != nil && len(c.bulk.rows) > 0 {
		return txn.Raced("a started job was not taken by its claim")
	}
	return nil
}
