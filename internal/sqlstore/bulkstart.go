package sqlstore

import (
	"reflect"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// Ready jobs that were never claimed or changed differ only in their policies, as far as the rules
// are concerned. So one Decide per policy holds for all of them. Where a message costs a round
// trip, one statement finds and locks the first jobs, starts them, and returns the data for their
// worker. It checks its own preconditions. If a job in front differs, the transaction is repeated
// with reads (docs/internals/engine.md#bulk-start).

// alike caches the common columns of the jobs that claims have read from the front of queues. Safe
// for concurrent use.
type alike struct {
	mu     sync.Mutex
	queues map[string]*likeness // at most memoSize
}

// likeness holds the common columns of the jobs in front of a queue without gates.
type likeness struct {
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

// early is the request of a TextStartAlike and its result.
type early struct {
	reading  reading
	policies []string
	started  []live               // the row of a started job, for each policy
	as       []live               // the row of the same job before
	rows     map[sojourn.ID]*live // started, but not taken by the claim yet, as before the start; nil without an answer
	open     bool
	picked   int64
}

// startAlike is foresee for a transaction of claims alone: it also starts the jobs that it finds.
// It returns false if the jobs may differ.
func (c *claims) startAlike(r driver.ClaimRequest) ([]sqldb.Statement, bool) {
	if !c.starting || r.Close || c.s.db.Dialect().Over[TextStartAlike] == "" || len(r.Decidable)+len(r.Pollable) > 0 || r.Share != nil {
		return nil, false
	}
	queue := r.Queues[0]
	weight, policies := c.svc.alike.of(queue)
	now, ok := c.s.clock.guess()
	if !ok || len(policies) == 0 || int64(weight) > r.Capacity {
		return nil, false
	}
	e := &early{reading: now, policies: policies}
	if !e.decide(c.tx, r, weight) {
		return nil, false
	}
	c.bulk = e
	c.ahead = newForeseen(r)
	c.ahead.started = true
	return []sqldb.Statement{{Text: TextStartAlike, Args: e.args(c.tx, r, weight), Each: func(row sqldb.Row) error {
		if e.rows == nil {
			e.open, e.picked = row.Int(0) > 0, row.Int(1)
			e.rows = make(map[sojourn.ID]*live, e.picked)
			c.ahead.rows, c.ahead.carries = e.rows, make(map[sojourn.ID]*carried, e.picked)
			if len(r.Kinds) == 1 {
				c.ahead.lines[r.Kinds[0]] = make([]candidate, 0, e.picked)
			}
		}
		if row.Int(2) == 0 {
			return nil
		}
		at := slices.Index(policies, row.Text(9))
		if at < 0 {
			return raced("a job has another policy than it was started with")
		}
		l := e.as[at]
		l.ID, l.kind, l.key, l.priority, l.runAt, l.r1, l.r2 = sojourn.ID(row.Int(2)), row.Text(3), row.Text(4), int32(row.Int(5)), row.Int(6), row.Int(7), row.Int(8)
		carries := scanCarried(row, 10)
		l.group = carries.group
		e.rows[l.ID], c.ahead.carries[l.ID] = &l, carries
		c.ahead.lines[l.kind] = append(c.ahead.lines[l.kind], candidate{int64(l.ID), l.r1, l.r2, int64(l.Weight)})
		return nil
	}}}, true
}

// decide runs the rules for a job with each of the policies, and reports whether all results are
// the same except for their times.
func (e *early) decide(t *tx, r driver.ClaimRequest, weight int32) bool {
	t.reading = e.reading
	for _, text := range e.policies {
		was := live{queue: r.Queues[0], generation: 1, updated: t.now, wakeAt: never, policyJSON: text}
		was.State, was.Weight = sojourn.Ready, weight
		var err error
		if was.Policy, err = t.s.decoder.policy(text); err != nil {
			return false
		}
		tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventClaimed})
		if err != nil {
			return false
		}
		l := was
		l.Row = tr.To
		t.lease(&was, &l, r)
		l.updated = t.now
		l.wake()
		e.as, e.started = append(e.as, was), append(e.started, l)
		if l.State != sojourn.Running || !l.Claimed || l.Resumed || l.startNumbers() != e.started[0].startNumbers() {
			return false
		}
	}
	return true
}

// startNumbers are the columns of saves[byClaim] that TextStartAlike sets to one value for all
// jobs.
func (l *live) startNumbers() [11]int64 {
	return [...]int64{l.leaseUntil, l.leaseUs, int64(l.Purpose), l.epoch, int64(l.Attempt), bit(l.AttemptOpen), bit(l.RetryHandler), int64(l.Held), bit(l.Given),
		l.began, l.updated}
}

func (e *early) args(t *tx, r driver.ClaimRequest, weight int32) []any {
	from, to := t.s.near(e.reading.now)
	queue, first := r.Queues[0], int64(r.Max)
	if weight > 0 {
		first = min(first, r.Capacity/int64(weight))
	}
	timeouts, wakes := make(sqldb.Ints, len(e.started)), make(sqldb.Ints, len(e.started))
	for i := range e.started {
		timeouts[i], wakes[i] = e.started[i].timeoutAt, e.started[i].wakeAt
	}
	args := []any{from, to, e.reading.now, r.Worker, r.Number, sqldb.Texts{queue, sojourn.AllQueues}, queue, sqldb.Texts(r.Kinds), r.Capacity, first, int64(weight),
		sqldb.Texts(e.policies), timeouts, wakes}
	numbers := e.started[0].startNumbers()
	for _, n := range numbers[:9] { // the other two are the time of the transaction
		args = append(args, n)
	}
	return append(args, reserveBefore(e.reading.now, r))
}

// settleStart evaluates the bulk start, and reports whether it has started jobs. If its preconditions did
// not hold, the claim continues on the normal path.
func (c *claims) settleStart() (bool, error) {
	e, like := c.bulk, &c.svc.alike
	if e == nil {
		return false, nil
	}
	queue := e.as[0].queue
	switch {
	case !e.open:
		like.miss(queue)
		c.bulk = nil
		return false, nil
	case e.picked != int64(len(e.rows)):
		like.miss(queue)
		return false, raced("the jobs in front of queue " + queue + " are not alike")
	}
	like.hit(queue)
	c.reading = e.reading
	c.wrote = c.wrote || e.picked > 0
	return true, c.confirmClock()
}

// bulkStarted notes a row that the statement has started already, and reports whether it is one.
func (c *claims) bulkStarted(l *live) (bool, error) {
	e := c.bulk
	if !e.has(l) {
		return false, nil
	}
	delete(e.rows, l.ID)
	l.updated = max(c.now, l.updated)
	l.wake()
	at := slices.Index(e.policies, l.policyJSON)
	if s := &e.started[at]; l.startNumbers() != s.startNumbers() || l.timeoutAt != s.timeoutAt || l.wakeAt != s.wakeAt {
		return false, raced("a job was started otherwise than the rules say")
	}
	c.changed = append(c.changed, l)
	c.dead++
	c.noteChange(l)
	return true, nil
}

// has reports whether the statement has started a row that its claim has not taken yet. No other
// code holds the row.
func (e *early) has(row *live) bool { return e != nil && e.rows[row.ID] == row }

// allTaken fails if a bulk-started job was not taken by its claim: a change that the statement does
// not check has come in between.
func (c *claims) allTaken() error {
	if c.bulk != nil && len(c.bulk.rows) > 0 {
		return raced("a job was started that nobody has claimed")
	}
	return nil
}

// of returns the common columns of the jobs in front of a queue; no policies if they are unknown.
func (a *alike) of(queue string) (weight int32, policies []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.queues[queue]
	if k == nil || !k.known {
		return 0, nil
	}
	return k.weight, slices.Clone(k.policies)
}

// learn caches the common columns of jobs that a claim has read from the front of a queue.
func (a *alike) learn(queue string, rows map[sojourn.ID]*live) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.queues[queue]
	if k == nil {
		if a.queues == nil || len(a.queues) >= memoSize {
			a.queues = map[string]*likeness{}
		}
		k = &likeness{wrong: restLeast}
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
func (k *likeness) fits(rows map[sojourn.ID]*live) bool {
	first := true
	for _, l := range rows {
		if first {
			k.weight, first = l.Weight, false
		}
		if l.Weight != k.weight || !l.untouched() {
			return false
		}
		if !slices.Contains(k.policies, l.policyJSON) {
			if len(k.policies) == likePolicies {
				k.policies = nil
			}
			k.policies = append(k.policies, l.policyJSON)
		}
	}
	return true
}

// untouched reports whether a row is unchanged since its job was stored or became ready, and only
// its policy matters to the rules.
func (l *live) untouched() bool {
	blank := live{queue: l.queue, kind: l.kind, key: l.key, group: l.group, priority: l.priority, generation: 1, runAt: l.runAt, updated: l.updated,
		policyJSON: l.policyJSON, r1: l.r1, r2: l.r2, wakeAt: never}
	blank.ID, blank.State, blank.Weight, blank.Policy = l.ID, sojourn.Ready, l.Weight, l.Policy
	return len(l.Policy.Windows) == 0 && reflect.DeepEqual(blank, *l)
}

func (a *alike) hit(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.queues[queue]; k != nil {
		k.wrong = max(k.wrong-1, restLeast)
	}
}

// miss disables the bulk start of a queue for a while; later claims learn again.
func (a *alike) miss(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.queues[queue]; k != nil {
		k.doubt()
	}
}

func (k *likeness) doubt() { k.known, k.rest, k.wrong = false, k.wrong, min(2*k.wrong, restMost) }
