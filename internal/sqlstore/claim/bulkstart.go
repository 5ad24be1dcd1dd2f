package claim

import (
	"reflect"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Ready jobs that were never claimed or changed differ only in their policies, as far as the rules
// are concerned. So one Decide per policy holds for all of them. Where a message costs a round
// trip, one statement finds and locks the first jobs, starts them, and returns the data for their
// worker. It checks its own preconditions. If a job in front differs, the transaction is repeated
// with reads (docs/internals/engine.md#bulk-start).

// shapes caches the common columns of the jobs that claims have read from the front of queues. Safe
// for concurrent use.
type shapes struct {
	mu     sync.Mutex
	queues map[string]*jobShape // at most jobrow.MapSize
}

// jobShape holds the common columns of the jobs in front of a queue without gates.
type jobShape struct {
	known    bool // the last jobs that were read had them in common
	weight   int32
	policies []string // as they are stored, at most likePolicies
	rest     int      // claims that read before one learns again
	wrong    int      // rest after the next mismatch
}

// likePolicies bounds the number of policies of a bulk start. Mostly there are as many as kinds.
const likePolicies = 8

// TextStartAlike starts the first jobs of a queue, for Dialect.Over. It returns at least one row.
// Each has whether the preconditions held and how many jobs are first in line. A started job adds
// id, kind, key, priority, run at, r1, r2, policy, and the columns for its worker with its args.
const TextStartAlike = `if the clock is between $1 and $2, nothing is due at $3, worker $4 has no claim since $5 and is not drained, and (texts($6)) are open, start of queue $7
	and (texts($8)) the first $10, whose weight is at most $9, which must be $11, with one of (texts($12)), until (ints($13)), to be looked at by (ints($14)), leases until
	$15 of $16 µs, purpose $17, epoch $18, attempt $19, open $20, retry handler $21, held $22, given $23; a job heavier than $9 that was to run before $24 is not passed over`

// bulkStart is the request of a TextStartAlike and its result.
type bulkStart struct {
	reading  clock.Reading
	policies []string
	started  []jobrow.Row               // the row of a started job, for each policy
	as       []jobrow.Row               // the row of the same job before
	rows     map[sojourn.ID]*jobrow.Row // started, but not taken by the claim yet, as before the start; nil without an answer
	open     bool
	picked   int64
}

// startAlike is foresee for a transaction of claims alone: it also starts the jobs that it finds.
// It returns false if the jobs may differ.
func (c *batch) startAlike(r driver.ClaimRequest) ([]sqldb.Statement, bool) {
	if !c.Starting || c.Core.Cfg.Without.BulkStart || r.Close || c.Core.DB.Dialect().Over[TextStartAlike] == "" || len(r.Decidable)+len(r.Pollable) > 0 || r.Share != nil {
		return nil, false
	}
	queue := r.Queues[0]
	weight, policies := c.svc.alike.of(queue)
	if len(policies) > 0 && c.Core.Spoils("shape") {
		weight++
	}
	now, ok := c.Core.Predict()
	if !ok || len(policies) == 0 || int64(weight) > r.Capacity {
		return nil, false
	}
	e := &bulkStart{reading: now, policies: policies}
	if !e.decide(c.Tx, r, weight) {
		return nil, false
	}
	c.bulk = e
	c.ahead = newForeseen(r)
	c.ahead.started = true
	return []sqldb.Statement{{Text: TextStartAlike, Args: e.args(c.Tx, r, weight), Each: func(row sqldb.Row) error {
		if e.rows == nil {
			e.open, e.picked = row.Int(0) > 0, row.Int(1)
			e.rows = make(map[sojourn.ID]*jobrow.Row, e.picked)
			c.ahead.rows, c.ahead.carries = e.rows, make(map[sojourn.ID]*txn.JobColumns, e.picked)
			if len(r.Kinds) == 1 {
				c.ahead.lines[r.Kinds[0]] = make([]jobrow.Candidate, 0, e.picked)
			}
		}
		if row.Int(2) == 0 {
			return nil
		}
		at := slices.Index(policies, row.Text(9))
		if at < 0 {
			return txn.Raced("a job has another policy than it was started with")
		}
		l := e.as[at]
		l.ID, l.Kind, l.Key, l.Priority, l.RunAt, l.R1, l.R2 = sojourn.ID(row.Int(2)), row.Text(3), row.Text(4), int32(row.Int(5)), row.Int(6), row.Int(7), row.Int(8)
		carries := txn.ScanJobColumns(row, 10)
		l.Group = carries.Group
		e.rows[l.ID], c.ahead.carries[l.ID] = &l, carries
		c.ahead.lines[l.Kind] = append(c.ahead.lines[l.Kind], jobrow.Candidate{ID: int64(l.ID), R1: l.R1, R2: l.R2, Weight: int64(l.Weight)})
		return nil
	}}}, true
}

// decide runs the rules for a job with each of the policies, and reports whether all results are
// the same except for their times.
func (e *bulkStart) decide(t *txn.Tx, r driver.ClaimRequest, weight int32) bool {
	t.Reading = e.reading
	for _, text := range e.policies {
		was := jobrow.Row{Queue: r.Queues[0], Generation: 1, UpdatedAt: t.Now, WakeAt: jobrow.Never, PolicyJSON: text}
		was.State, was.Weight = sojourn.Ready, weight
		var err error
		if was.Policy, err = t.Core.Decoder.Policy(text); err != nil {
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
		e.as, e.started = append(e.as, was), append(e.started, l)
		if l.State != sojourn.Running || !l.Claimed || l.Resumed || startNumbers(&l) != startNumbers(&e.started[0]) {
			return false
		}
	}
	return true
}

// startNumbers are the columns of saves[jobrow.ByClaim] that TextStartAlike sets to one value for
// all jobs.
func startNumbers(l *jobrow.Row) [11]int64 {
	return [...]int64{l.LeaseUntil, l.LeaseUs, int64(l.Purpose), l.Epoch, int64(l.Attempt), jobrow.Bit(l.AttemptOpen), jobrow.Bit(l.RetryHandler), int64(l.Held), jobrow.Bit(l.Given),
		l.BeganAt, l.UpdatedAt}
}

func (e *bulkStart) args(t *txn.Tx, r driver.ClaimRequest, weight int32) []any {
	from, to := t.Core.ClockBounds(e.reading.Now)
	queue, first := r.Queues[0], int64(r.Max)
	if weight > 0 {
		first = min(first, r.Capacity/int64(weight))
	}
	timeouts, wakes := make(sqldb.Ints, len(e.started)), make(sqldb.Ints, len(e.started))
	for i := range e.started {
		timeouts[i], wakes[i] = e.started[i].TimeoutAt, e.started[i].WakeAt
	}
	args := []any{from, to, e.reading.Now, r.Worker, r.Number, sqldb.Texts{queue, sojourn.AllQueues}, queue, sqldb.Texts(r.Kinds), r.Capacity, first, int64(weight),
		sqldb.Texts(e.policies), timeouts, wakes}
	numbers := startNumbers(&e.started[0])
	for _, n := range numbers[:9] { // the other two are the time of the transaction
		args = append(args, n)
	}
	return append(args, txn.ReserveBefore(e.reading.Now, r))
}

// SettleStart evaluates the bulk start, and reports whether it has started jobs. If its
// preconditions did not hold, the claim continues on the normal path.
func (c *batch) SettleStart() (bool, error) {
	e, like := c.bulk, &c.svc.alike
	if e == nil {
		return false, nil
	}
	queue := e.as[0].Queue
	switch {
	case !e.open:
		like.miss(queue)
		c.bulk = nil
		return false, nil
	case e.picked != int64(len(e.rows)):
		like.miss(queue)
		return false, txn.Raced("the jobs in front of queue " + queue + " are not alike")
	}
	like.hit(queue)
	c.Reading = e.reading
	c.Wrote = c.Wrote || e.picked > 0
	return true, c.ConfirmClock()
}

// bulkStarted notes a row that the statement has started already, and reports whether it is one.
func (c *batch) bulkStarted(l *jobrow.Row) (bool, error) {
	e := c.bulk
	if !e.has(l) {
		return false, nil
	}
	delete(e.rows, l.ID)
	l.UpdatedAt = max(c.Now, l.UpdatedAt)
	l.SetWakeAt()
	at := slices.Index(e.policies, l.PolicyJSON)
	if s := &e.started[at]; startNumbers(l) != startNumbers(s) || l.TimeoutAt != s.TimeoutAt || l.WakeAt != s.WakeAt {
		return false, txn.Raced("a job was started otherwise than the rules say")
	}
	c.Changed = append(c.Changed, l)
	c.Dead++
	c.NoteChange(l)
	return true, nil
}

// has reports whether the statement has started a row that its claim has not taken yet. No other
// code holds the row.
func (e *bulkStart) has(row *jobrow.Row) bool { return e != nil && e.rows[row.ID] == row }

// allTaken fails if a bulk-started job was not taken by its claim: a change that the statement does
// not check has come in between.
func (c *batch) allTaken() error {
	if c.bulk != nil && len(c.bulk.rows) > 0 {
		return txn.Raced("a job was started that nobody has claimed")
	}
	return nil
}

// of returns the common columns of the jobs in front of a queue; no policies if they are unknown.
func (a *shapes) of(queue string) (weight int32, policies []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.queues[queue]
	if k == nil || !k.known {
		return 0, nil
	}
	return k.weight, slices.Clone(k.policies)
}

// learn caches the common columns of jobs that a claim has read from the front of a queue.
func (a *shapes) learn(queue string, rows map[sojourn.ID]*jobrow.Row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.queues[queue]
	if k == nil {
		if a.queues == nil || len(a.queues) >= jobrow.MapSize {
			a.queues = map[string]*jobShape{}
		}
		k = &jobShape{wrong: txn.MinRest}
		a.queues[queue] = k
	}
	switch {
	case k.known || len(rows) == 0:
	case k.rest > 0:
		k.rest--
	case !k.fits(rows):
		k.doubt()
	default:
		k.known = true
	}
}

// fits reports whether rows have weight and state in common, and stores their weight and policies.
func (k *jobShape) fits(rows map[sojourn.ID]*jobrow.Row) bool {
	first := true
	for _, l := range rows {
		if first {
			k.weight, first = l.Weight, false
		}
		if l.Weight != k.weight || !untouched(l) {
			return false
		}
		if !slices.Contains(k.policies, l.PolicyJSON) {
			if len(k.policies) == likePolicies {
				k.policies = nil
			}
			k.policies = append(k.policies, l.PolicyJSON)
		}
	}
	return true
}

// untouched reports whether a row is unchanged since its job was stored or became ready, and only
// its policy matters to the rules.
func untouched(l *jobrow.Row) bool {
	blank := jobrow.Row{Queue: l.Queue, Kind: l.Kind, Key: l.Key, Group: l.Group, Priority: l.Priority, Generation: 1, RunAt: l.RunAt, UpdatedAt: l.UpdatedAt,
		PolicyJSON: l.PolicyJSON, R1: l.R1, R2: l.R2, WakeAt: jobrow.Never}
	blank.ID, blank.State, blank.Weight, blank.Policy = l.ID, sojourn.Ready, l.Weight, l.Policy
	return len(l.Policy.Windows) == 0 && reflect.DeepEqual(blank, *l)
}

func (a *shapes) hit(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.queues[queue]; k != nil {
		k.wrong = max(k.wrong-1, txn.MinRest)
	}
}

// miss disables the bulk start of a queue for a while; later claims learn again.
func (a *shapes) miss(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.queues[queue]; k != nil {
		k.doubt()
	}
}

func (k *jobShape) doubt() { k.known, k.rest, k.wrong = false, k.wrong, min(2*k.wrong, txn.MaxRest) }
