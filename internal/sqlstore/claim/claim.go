package claim

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/finish"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/presence"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// Claimer hands out jobs to workers. Safe for concurrent use.
type Claimer struct {
	core          *txn.Core
	gates         *gate.Gates
	hub           *wake.Hub
	finisher      *finish.Finisher                               // gives back the jobs of a caller that is gone
	Op            *txn.Op[driver.ClaimRequest, wake.ClaimAnswer] // the requests of Claim; the store runs them last
	shapes        shapeCache
	subscriptions jobrow.BoundedMap[string, presence.StoredSubscription] // worker → the queues and kinds that it claims, as stored
	metGates      jobrow.BoundedMap[string, bool]                        // worker → whether its last claim met gates
	filled        jobrow.BoundedMap[string, bool]                        // worker → whether its last claim was full
	names         queueNames                                             // of all queues, for patterns
	concurrent    atomic.Int32                                           // claims that run concurrently, see runsConcurrently
}

// NewClaimer makes the claimer of one store.
func NewClaimer(c *txn.Core, g *gate.Gates, h *wake.Hub, f *finish.Finisher) *Claimer {
	s := &Claimer{core: c, gates: g, hub: h, finisher: f}
	s.Op = &txn.Op[driver.ClaimRequest, wake.ClaimAnswer]{Name: "claim", Class: groupcommit.Claim, Cached: true,
		Begin: func(t *txn.Tx, rs []driver.ClaimRequest) txn.Batch[wake.ClaimAnswer] {
			return &batch{Tx: t, claimer: s, requests: rs, firstMessage: t.First.Collecting}
		},
		// Gates see only stored jobs, and producers should not wait for them.
		Ends: func(r driver.ClaimRequest, _ int) bool { gated, _ := s.metGates.Get(r.Worker); return gated }}
	return s
}

// Claim takes ready jobs under leases; see driver.Claimer. It blocks for at most r.Wait while there
// are none.
func (s *Claimer) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if err := checkClaim(&r); err != nil {
		return nil, err
	}
	var jobs []driver.Claimed
	var waits map[sojourn.ID]int32
	w := &wake.Waiter{Queues: r.Queues, Kinds: r.Kinds, Pollable: r.Pollable, Request: &r}
	sel, err := s.selectQueues(ctx, &r, w)
	if err != nil {
		return nil, err
	}
	defer s.core.Workers.Note(&r, s.core.Clock.Estimate)()
	woken := false
	err = s.hub.Block(ctx, w, r.Wait, func() (bool, error) {
		if woken && sel != nil {
			if _, err := sel.resolve(ctx, true); err != nil {
				return false, err
			}
		}
		woken = true
		// A claim is not abandoned half way: its jobs are returned, or their leases are given back.
		a, err := s.claim(ctx, &r, sel)
		jobs, waits = a.Jobs, a.Waits
		s.filled.Put(r.Worker, len(jobs) == r.Max)
		if a.Drained && err == nil {
			return false, errDrained
		}
		if len(jobs) == 0 && err == nil {
			s.hub.FoundNothing(w, a.Due, a.Opens)
		}
		return len(jobs) > 0, err
	})
	if w.Answer != nil {
		jobs, waits = w.Answer.Jobs, w.Answer.Waits
	}
	if err == errDrained {
		s.hub.WakeAll() // this call may have consumed a wake-up that another worker needs
	}
	token := access.CapabilityMaker(s.core.Secret) // outside of the transaction, which other callers wait for
	for i := range jobs {
		j := &jobs[i].Job
		j.Token = token(j.ID, j.Generation, j.Attempt, waits[j.ID])
	}
	if err := ctx.Err(); err != nil && len(jobs) > 0 {
		s.release(jobs)
		return nil, err
	}
	return jobs, err
}

// errDrained answers the claims of a worker that an operator has drained.
var errDrained error = &sojourn.Error{Code: sojourn.CodeDrained, Index: -1, Message: "the worker was drained by an operator: it gets no jobs any more; finish what runs and end"}

// checkClaim refuses a request that is not valid, and fills in its defaults.
func checkClaim(r *driver.ClaimRequest) error {
	if err := sojourn.ValidName("worker", r.Worker); err != nil {
		return err
	}
	r.Name = sojourn.Cut(r.Name, sojourn.MaxName)
	if r.Close && (r.Number == 0 || r.Wait != 0) {
		return sojourn.Invalid("close", "a claim that closes a number names it, and does not wait: set number, and leave out wait")
	}
	if r.Max < 1 || r.Capacity < 0 || r.Wait < 0 || r.Number < 0 || r.Reserve < 0 {
		return sojourn.Invalid("max", "max is at least 1, and capacity, wait, number and reserve are not negative")
	}
	r.Max = min(r.Max, sojourn.MaxBatch)
	if r.Lease == 0 {
		r.Lease = sojourn.DefaultLease
	}
	if r.Lease < time.Second || r.Lease > time.Hour {
		return sojourn.Invalid("lease", "%v is out of range: 1s to 1h, 0 for 30s", r.Lease)
	}
	if len(r.Queues) == 0 || len(r.Kinds) == 0 {
		return sojourn.Invalid("queues", "name at least one queue and one kind")
	}
	if err := driver.ValidQueues("queues", r.Queues); err != nil {
		return err
	}
	for _, k := range slices.Concat(r.Kinds, r.Pollable) {
		if err := sojourn.ValidName("kinds", k); err != nil {
			return err
		}
	}
	for q, n := range r.Share {
		if n < 1 || n > sojourn.MaxBatch {
			return sojourn.Invalid("share", "%d for queue %.64q is out of range: 1 to %d", n, q, sojourn.MaxBatch)
		}
	}
	return nil
}

// claimOnce runs a claim in a transaction, without waiting for jobs.
func (s *Claimer) claimOnce(ctx context.Context, r driver.ClaimRequest) (wake.ClaimAnswer, error) {
	rows := min(r.Max, sharedRows)
	if s.runsConcurrently(r) {
		rows = r.Max
		defer s.concurrent.Add(-1)
	}
	return txn.Do(ctx, s.core, s.Op, rows, r)
}

const (
	// sharedRows is the most rows for which a claim counts that should share a transaction with
	// enqueues.
	sharedRows = 100
	// maxConcurrent bounds the concurrent claims, so that runners are left to producers.
	maxConcurrent = 2
)

// runsConcurrently reports whether a claim counts for all the rows that it asks for, and so gets a
// transaction of its own, see groupcommit.Lane: its worker's last claim was full, so it need not
// wait to be batched with enqueues. Only where the database allows concurrent writers, and not with
// gates, because these lock the queue (docs/internals/engine.md#concurrent-claims). If true, the
// caller decrements s.concurrent at the end.
func (s *Claimer) runsConcurrently(r driver.ClaimRequest) bool {
	filled, _ := s.filled.Get(r.Worker)
	if gated, _ := s.metGates.Get(r.Worker); !filled || gated || !s.core.DB.Dialect().Concurrent {
		return false
	}
	if s.concurrent.Add(1) > maxConcurrent {
		s.concurrent.Add(-1)
		return false
	}
	return true
}

// release gives back leases whose caller is gone, so that only a dead worker costs a crash.
func (s *Claimer) release(jobs []driver.Claimed) {
	outcomes := make([]sojourn.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeReleased}
	}
	s.finisher.Finish(context.Background(), outcomes) // if it fails, the leases expire
}

// CanUseCache reports whether a claim would find only the jobs that its transaction stores, as far
// as the cache knows. The transaction validates that when it commits.
func (s *Claimer) CanUseCache(r *driver.ClaimRequest) bool {
	queue := r.Queues[0]
	if len(r.Queues) != 1 || len(r.Decidable)+len(r.Pollable) > 0 || s.core.Cfg.Without.ClaimInEnqueue {
		return false
	}
	_, known := s.core.Caches.Queues.Queue(queue)
	last := s.core.Caches.Queues.LastClaim(r.Worker)
	return known && last > 0 && r.Number > last && (s.core.Caches.Queues.IsEmpty(queue) || s.core.Spoils("empty queue"))
}

// BeginCached begins the batch of a claim for which CanUseCache is true. layout is that of its
// queue, last the number of the worker's last claim.
func (s *Claimer) BeginCached(t *txn.Tx, r driver.ClaimRequest, layout, last int64) *batch {
	q := r.Queues[0]
	c := &batch{Tx: t, claimer: s, requests: []driver.ClaimRequest{r}, firstMessage: true, gates: map[string]txn.QueueGate{q: {Layout: layout}},
		lastClaims: map[string]lastClaim{r.Worker: {number: last}}}
	c.prefetched = &prefetched{queue: q, lines: map[string][]jobrow.Candidate{}}
	for _, kind := range r.Kinds {
		c.prefetched.lines[kind] = nil
	}
	return c
}

// HandOver runs the requests of blocked claims in a transaction that has made jobs ready, and
// returns an answer to each. Their callers get the answers after the commit.
func (s *Claimer) HandOver(t *txn.Tx, waiters []*wake.Waiter) ([]wake.ClaimAnswer, error) {
	if len(waiters) == 0 {
		return nil, nil
	}
	c := &batch{Tx: t, claimer: s, blocked: true, requests: make([]driver.ClaimRequest, len(waiters))}
	for i, w := range waiters {
		c.requests[i] = *w.Request
	}
	if err := t.ReadAll(c.Reads()); err != nil {
		return nil, err
	}
	return c.Run()
}
