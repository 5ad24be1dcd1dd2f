package claim

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// batch is the claims of one transaction, executed one after the other.
type batch struct {
	*txn.Tx
	claimer  *Claimer
	requests []driver.ClaimRequest
	blocked  bool // the requests are those of claims that are blocked, see HandOver

	// What Reads has read.
	firstMessage bool                     // in the first message of the transaction
	lastClaims   map[string]lastClaim     // worker → its newest claim
	gates        map[string]txn.QueueGate // of the queues that the claims name and of all queues, if they have settings
	prefetched   *prefetched              // for the first claim; nil if there is none, or it is used up
	bulk         *bulkStart               // jobs started by the prefetch; nil: none

	// What the claims so far have found.
	swept   bool         // no due job is left
	empty   []emptyClaim // the same claims after them are empty too
	emptied string       // a queue whose ready jobs were all claimed

	// The claim under way.
	gateClaims []*gate.Claim        // its parts in queues with gates, from pick until recordStarts
	opens      int64                // when a gate opens that holds it back; 0 = not known
	waits      map[sojourn.ID]int32 // Row.Waits of the claimed jobs for which it is not 0
}

// emptyClaim is a claim that has found nothing, and when a gate opens for it.
type emptyClaim struct {
	driver.ClaimRequest
	opens int64
}

// covers reports whether claim a selects the same jobs as claim b, and at least as many, so that b
// is empty too.
func (a emptyClaim) covers(b driver.ClaimRequest) bool {
	return a.Capacity == b.Capacity && a.Reserve == b.Reserve && a.Max >= b.Max && slices.Equal(a.Queues, b.Queues) && slices.Equal(a.Kinds, b.Kinds) && slices.Equal(a.Decidable, b.Decidable) &&
		slices.Equal(a.Pollable, b.Pollable)
}

const (
	sweepPerClaim = 100 // overdue jobs that a claim handles before it picks
	putOffRounds  = 10  // searches behind jobs that were put off for jobs whose windows are open
)

// Reads returns the reads for all requests: the workers' newest claims, the gates and pauses of all
// queues, and the prefetch for the first claim.
func (c *batch) Reads() []sqldb.Statement {
	if !c.firstMessage {
		c.HoldInserts = true // jobs that the transaction has stored stay pending, so that they can be started there
	}
	requests := c.requests
	c.lastClaims, c.gates = make(map[string]lastClaim, len(requests)), map[string]txn.QueueGate{}
	queues := sqldb.Texts{sojourn.AllQueues}
	var workers sqldb.Texts
	for _, r := range requests {
		workers = append(workers, r.Worker)
		queues = append(queues, r.Queues...)
	}
	slices.Sort(queues)
	reads := []sqldb.Statement{{Text: txn.QQueueGates, Rows: []sqldb.Column{slices.Compact(queues)}, Each: func(r sqldb.Row) error {
		c.gates[r.Text(0)] = txn.QueueGate{Paused: r.Int(1) != 0, Gated: r.Int(2) != 0, Layout: r.Int(3)}
		return nil
	}}}
	reads = append(reads, sqldb.Statement{Text: qLastClaim, Rows: []sqldb.Column{workers}, Each: func(row sqldb.Row) error {
		c.lastClaims[row.Text(0)] = lastClaim{number: row.Int(1), leases: row.Text(2), drained: row.Int(3) != 0}
		return nil
	}})
	return append(reads, c.prefetch(requests[0])...)
}

// gateOf combines a queue's own pauses and gates with those of all queues.
func (c *batch) gateOf(queue string) txn.QueueGate {
	own, all := c.gates[queue], c.gates[sojourn.AllQueues]
	own.Paused, own.Gated = own.Paused || all.Paused, own.Gated || all.Gated
	return own
}

// meetsGates reports whether one of the queues of a claim has gates.
func (c *batch) meetsGates(r driver.ClaimRequest) bool {
	return slices.ContainsFunc(r.Queues, func(q string) bool { return c.gateOf(q).Gated })
}

// Run runs the requests one after the other. A blocked claim is skipped if one of its queues has
// gates: it then runs again by itself.
func (c *batch) Run() ([]wake.ClaimAnswer, error) {
	c.HoldInserts = true
	defer c.ReleaseInserts()
	changed := c.Wrote || c.Cache.Altered || len(c.Writes.Saves)+len(c.Writes.Ended) > 0
	if c.firstMessage && c.bulk == nil && c.prefetched != nil && c.prefetched.bulk {
		c.prefetched = nil // the bulk start was not allowed
	}
	switch {
	case !c.CanHoldInserts() || slices.ContainsFunc(c.requests, c.meetsGates):
		c.ReleaseInserts()
		c.prefetched = c.prefetched.overdueOnly() // pending writes may rank before the prefetched jobs, and gates choose for themselves
	case c.firstMessage && changed && c.bulk == nil: // the group has changed rows since the prefetch, so other jobs are ready now
		if err := c.ReadAll(c.prefetch(c.requests[0])); err != nil {
			return nil, err
		}
	}
	answers := make([]wake.ClaimAnswer, len(c.requests))
	for i, r := range c.requests {
		gated := c.meetsGates(r)
		c.claimer.metGates.Put(r.Worker, gated)
		if i > 0 {
			c.prefetched = nil // the prefetch was for the first claim
		}
		if c.blocked && gated { // else producers would wait for the claims of other nodes, behind the gates' lock
			answers[i].Again = true
			continue
		}
		var err error
		if answers[i], err = c.one(r); err != nil {
			return nil, err
		}
	}
	c.learn()
	return answers, c.checkAllTaken()
}

// one runs one claim.
func (c *batch) one(r driver.ClaimRequest) (wake.ClaimAnswer, error) {
	jobs, last, err := c.repeatedClaim(r)
	if last == alreadyAnswered || err != nil {
		return wake.ClaimAnswer{Jobs: jobs, Waits: c.waits}, err
	}
	if r.Close {
		return wake.ClaimAnswer{}, c.saveClaim(r, last, nil)
	}
	if c.lastClaims[r.Worker].drained {
		return wake.ClaimAnswer{Drained: true}, c.registerWorker(r)
	}
	if !c.swept {
		n, err := c.sweep()
		if err != nil {
			return wake.ClaimAnswer{}, err
		}
		c.swept = n.Total() < sweepPerClaim
	}
	if i := slices.IndexFunc(c.empty, func(before emptyClaim) bool { return before.covers(r) }); i >= 0 {
		return c.foundNothing(r, c.empty[i].opens)
	}
	for round := range putOffRounds {
		if round > 0 { // all picked jobs have been put off
			if err := c.putOffFront(r); err != nil {
				return wake.ClaimAnswer{}, err
			}
		}
		picked, err := c.pick(r)
		if err != nil {
			return wake.ClaimAnswer{}, err
		}
		if c.emptied = ""; len(picked) < r.Max && len(r.Queues) == 1 {
			c.emptied = r.Queues[0]
		}
		if len(picked) == 0 {
			if err := c.recordStarts(nil); err != nil {
				return wake.ClaimAnswer{}, err
			}
			c.empty = append(c.empty, emptyClaim{r, c.opens})
			return c.foundNothing(r, c.opens)
		}
		if jobs, err = c.take(r, last, picked); err != nil || len(jobs) > 0 {
			return wake.ClaimAnswer{Jobs: jobs, Waits: c.waits}, err
		}
	}
	return wake.ClaimAnswer{Again: true}, nil
}

const qNextDue = `select wake_at_us from sj_live where wake_at_us < 9223372036854775807 order by wake_at_us limit 1`

// foundNothing answers an empty claim: when it is worth another try.
func (c *batch) foundNothing(r driver.ClaimRequest, opens int64) (wake.ClaimAnswer, error) {
	c.ReleaseInserts() // the earliest due job may be a pending insert
	if err := c.registerWorker(r); err != nil {
		return wake.ClaimAnswer{}, err
	}
	poll, err := gate.NextPoll(c.Tx, r)
	if err != nil {
		return wake.ClaimAnswer{}, err
	}
	if poll > 0 {
		opens = jobrow.Earliest(opens, poll)
	}
	due, err := c.ReadInt(qNextDue)
	return wake.ClaimAnswer{Due: due, Opens: opens}, err
}

// learn notes what later transactions may take from the cache.
func (c *batch) learn() {
	c.Cache.Learned.Emptied = c.emptied
	if c.Cache.Learned.Claims == nil {
		c.Cache.Learned.Claims = make(map[string]int64, len(c.lastClaims))
	}
	all := c.gates[sojourn.AllQueues]
	for worker, last := range c.lastClaims {
		if c.Cache.Learned.Claims[worker] = last.number; last.drained || all.Paused || all.Gated {
			c.Cache.Learned.Claims[worker] = 0
		}
	}
}
