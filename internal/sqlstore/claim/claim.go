package claim

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/finish"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
	"github.com/sojourn-queue/sojourn/rules"
)

// sweepPerClaim bounds how many overdue jobs a claim handles on its way, so that due jobs start
// even if no process calls Sweep.
const sweepPerClaim = 100

// batch are the claims of one transaction, executed one after the other.
type batch struct {
	*txn.Tx
	svc        *Claimer
	requests   []driver.ClaimRequest
	lent       bool                     // the requests are those of blocked claims
	prefetched bool                     // its reads were sent in the first message
	bulk       *bulkStart               // jobs bulk-started before the claim was evaluated; nil: none
	lastClaims map[string]lastClaim     // worker → its newest claim
	doors      map[string]txn.QueueGate // of the queues that they name and of all queues, if they have settings
	idle       []emptyClaim             // empty claims: the same claims after them are empty too
	swept      bool                     // no due job is left
	emptied    string                   // a queue whose ready jobs were all claimed
	ahead      *prefetched              // prefetch for the first claim; nil if there is none
	ended      map[sojourn.ID]int32     // Row.Waits of the claimed jobs for which it is not 0
	lines      []*gate.Claim            // of the queues with gates that a claim is taking jobs from
	opens      int64                    // when a gate opens that held the claim back; 0 = not known
}

type emptyClaim struct {
	driver.ClaimRequest
	opens int64
}

// lastClaim is the newest claim of a worker that was executed.
type lastClaim struct {
	number  int64
	leases  string // as they are stored
	drained bool
}

// Claimer hands out jobs to workers.
type Claimer struct {
	core       *txn.Core
	gates      *gate.Gates
	hub        *wake.Hub
	finisher   *finish.Finisher // gives back the jobs of a caller that is gone
	Op         *txn.Op[driver.ClaimRequest, wake.ClaimAnswer]
	alike      shapes
	asked      jobrow.BoundedMap[string, txn.StoredSubscription] // worker → the queues and kinds that it claims, as stored
	gated      jobrow.BoundedMap[string, bool]                   // worker → whether its last claim met gates
	filled     jobrow.BoundedMap[string, bool]                   // worker → whether its last claim was full
	concurrent atomic.Int32                                      // claims that run concurrently, see runsConcurrently
}

func NewClaimer(c *txn.Core, g *gate.Gates, h *wake.Hub, f *finish.Finisher) *Claimer {
	s := &Claimer{core: c, gates: g, hub: h, finisher: f}
	s.Op = &txn.Op[driver.ClaimRequest, wake.ClaimAnswer]{Name: "claim", Class: groupcommit.Claim, Cached: true,
		Begin: func(t *txn.Tx, rs []driver.ClaimRequest) txn.Batch[wake.ClaimAnswer] {
			return &batch{Tx: t, svc: s, requests: rs, prefetched: t.Prefetching}
		},
		// Gates see only stored jobs, and producers should not wait for them.
		Ends: func(r driver.ClaimRequest, _ int) bool { gated, _ := s.gated.Get(r.Worker); return gated }}
	return s
}

// Run runs the requests one after the other. Those of lent claims, which are blocked, are skipped
// if a queue has gates: the blocked claims then run them themselves.
func (c *batch) Run() ([]wake.ClaimAnswer, error) {
	c.HoldInserts = true
	defer c.ReleaseInserts()
	changed := c.Wrote || c.Altered || len(c.Writes.Saves)+len(c.Writes.Ended) > 0
	if c.prefetched && c.bulk == nil && c.ahead != nil && c.ahead.started {
		c.ahead = nil // the bulk start was not allowed
	}
	switch {
	case !c.CanHoldInserts() || slices.ContainsFunc(c.requests, c.meetsGates):
		c.ReleaseInserts()
		c.ahead = c.ahead.withoutLine() // pending writes may rank before the prefetched jobs, and gates choose for themselves
	case c.prefetched && changed && c.bulk == nil: // the group has changed rows since the prefetch, so other jobs are ready now
		if err := c.ReadAll(c.prefetch(c.requests[0])); err != nil {
			return nil, err
		}
	}
	answers := make([]wake.ClaimAnswer, len(c.requests))
	for i, r := range c.requests {
		gated := c.meetsGates(r)
		c.svc.gated.Put(r.Worker, gated)
		if i > 0 {
			c.ahead = nil // the prefetch was for the first claim
		}
		if c.lent && gated { // else producers would wait for the claims of other nodes, behind the gates' lock
			answers[i].Again = true
			continue
		}
		var err error
		if answers[i], err = c.claim(r); err != nil {
			return nil, err
		}
	}
	c.learn()
	return answers, c.allTaken()
}

// learn notes what later transactions may take from the cache.
func (c *batch) learn() {
	c.Learned.Emptied = c.emptied
	if c.Learned.Claims == nil {
		c.Learned.Claims = make(map[string]int64, len(c.lastClaims))
	}
	all := c.doors[sojourn.AllQueues]
	for worker, last := range c.lastClaims {
		if c.Learned.Claims[worker] = last.number; last.drained || all.Paused || all.Gated {
			c.Learned.Claims[worker] = 0
		}
	}
}

// Expects reports whether a claim would find only the jobs that its transaction stores.
func (s *Claimer) Expects(r *driver.ClaimRequest) bool {
	queue := r.Queues[0]
	if len(r.Queues) != 1 || len(r.Decidable)+len(r.Pollable) > 0 || s.core.Cfg.Without.ClaimInEnqueue {
		return false
	}
	_, known := s.core.QueueCache.Queue(queue)
	last := s.core.QueueCache.LastClaim(r.Worker)
	return known && last > 0 && r.Number > last && (s.core.QueueCache.IsEmpty(queue) || s.core.Spoils("empty queue"))
}

// Cached is a batch of one claim that finds only the jobs of its transaction.
func (s *Claimer) Cached(t *txn.Tx, r driver.ClaimRequest, shape, last int64) *batch {
	q := r.Queues[0]
	c := &batch{Tx: t, svc: s, requests: []driver.ClaimRequest{r}, prefetched: true, doors: map[string]txn.QueueGate{q: {Layout: shape}},
		lastClaims: map[string]lastClaim{r.Worker: {number: last}}}
	c.ahead = &prefetched{queue: q, lines: map[string][]jobrow.Candidate{}}
	for _, kind := range r.Kinds {
		c.ahead.lines[kind] = nil
	}
	return c
}

// HandOver runs the requests of blocked claims in a transaction that has stored jobs.
func (s *Claimer) HandOver(t *txn.Tx, lent []*wake.Waiter) ([]wake.ClaimAnswer, error) {
	if len(lent) == 0 {
		return nil, nil
	}
	c := &batch{Tx: t, svc: s, lent: true, requests: make([]driver.ClaimRequest, len(lent))}
	for i, w := range lent {
		c.requests[i] = *w.Request
	}
	if err := t.ReadAll(c.Reads()); err != nil {
		return nil, err
	}
	return c.Run()
}

func (c *batch) claim(r driver.ClaimRequest) (wake.ClaimAnswer, error) {
	jobs, last, err := c.repeatedClaim(r)
	if last == answered || err != nil {
		return wake.ClaimAnswer{Jobs: jobs, Waits: c.ended}, err
	}
	if r.Close {
		return wake.ClaimAnswer{}, c.saveClaim(r, last, nil)
	}
	if c.lastClaims[r.Worker].drained {
		return wake.ClaimAnswer{Drained: true}, c.registerWorker(r)
	}
	if !c.swept {
		n, err := c.sweepFirst()
		if err != nil {
			return wake.ClaimAnswer{}, err
		}
		c.swept = n.Total() < sweepPerClaim
	}
	if i := slices.IndexFunc(c.idle, func(before emptyClaim) bool { return before.covers(r) }); i >= 0 {
		return c.foundNothing(r, c.idle[i].opens)
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
			if err := c.settle(nil); err != nil {
				return wake.ClaimAnswer{}, err
			}
			c.idle = append(c.idle, emptyClaim{r, c.opens})
			return c.foundNothing(r, c.opens)
		}
		if jobs, err = c.take(r, last, picked); err != nil || len(jobs) > 0 {
			return wake.ClaimAnswer{Jobs: jobs, Waits: c.ended}, err
		}
	}
	return wake.ClaimAnswer{Again: true}, nil
}

// covers reports whether claim a selects the same jobs as claim b, and at least as many.
func (a emptyClaim) covers(b driver.ClaimRequest) bool {
	return a.Capacity == b.Capacity && a.Reserve == b.Reserve && a.Max >= b.Max && slices.Equal(a.Queues, b.Queues) && slices.Equal(a.Kinds, b.Kinds) && slices.Equal(a.Decidable, b.Decidable) &&
		slices.Equal(a.Pollable, b.Pollable)
}

// foundNothing answers an empty claim.
func (c *batch) foundNothing(r driver.ClaimRequest, opens int64) (wake.ClaimAnswer, error) {
	c.ReleaseInserts() // the earliest due job may be a fresh row that is not written yet
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
	due, err := c.ReadInt(`select wake_at_us from sj_live where wake_at_us < 9223372036854775807 order by wake_at_us limit 1`)
	return wake.ClaimAnswer{Due: due, Opens: opens}, err
}

// Claim takes ready jobs under leases; see driver.Claimer.
func (s *Claimer) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if err := checkClaim(&r); err != nil {
		return nil, err
	}
	var jobs []driver.Claimed
	var waits map[sojourn.ID]int32
	defer s.core.Workers.Note(&r, s.core.Clock.Estimate)()
	w := &wake.Waiter{Queues: r.Queues, Kinds: r.Kinds, Pollable: r.Pollable, Request: &r}
	err := s.hub.Block(ctx, w, r.Wait, func() (bool, error) {
		// A claim is not abandoned half way: its jobs are returned, or their leases are given back.
		a, err := s.claim(context.WithoutCancel(ctx), r)
		for a.Again && err == nil && ctx.Err() == nil {
			a, err = s.claim(context.WithoutCancel(ctx), r)
		}
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
	if w.Given != nil {
		jobs, waits = w.Given.Jobs, w.Given.Waits
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

const (
	// fewClaimed is the batch size of a claim that should share a transaction with enqueues.
	fewClaimed = 100
	// apartMost bounds the concurrent claims, so that runners are left to producers.
	apartMost = 2
)

func (s *Claimer) claim(ctx context.Context, r driver.ClaimRequest) (wake.ClaimAnswer, error) {
	rows := min(r.Max, fewClaimed)
	if s.runsConcurrently(r) {
		rows = r.Max
		defer s.concurrent.Add(-1)
	}
	return txn.Do(ctx, s.core, s.Op, rows, r)
}

// runsConcurrently reports whether a claim counts all the rows that it asks for, see batcher: its
// worker's last claim was full, so it need not wait to be batched. Claims of two workers run
// concurrently where the database allows concurrent writers, but not with gates, because these lock
// the queue (docs/internals/engine.md#concurrent-claims). If true, the caller decrements s.apart at
// the end.
func (s *Claimer) runsConcurrently(r driver.ClaimRequest) bool {
	filled, _ := s.filled.Get(r.Worker)
	if gated, _ := s.gated.Get(r.Worker); !filled || gated || !s.core.DB.Dialect().Concurrent {
		return false
	}
	if s.concurrent.Add(1) > apartMost {
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
	for _, q := range r.Queues {
		if err := sojourn.ValidName("queues", q); err != nil {
			return err
		}
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

const (
	// Without a lock: a lock would be a write by each claim that finds nothing. qSaveClaim compares
	// the number instead.
	qLastClaim = `select w.worker, w.claim_no, w.claimed, w.drained from sj_worker w /*, each*/ where w.worker = each($1 text)`
	qSaveClaim = `insert into sj_worker (worker, claim_no, claimed, asks, seen_us) values ($1, $2, $3, $4, $5)
		on conflict (worker) do update set claim_no = excluded.claim_no, claimed = excluded.claimed, asks = excluded.asks, seen_us = excluded.seen_us
		where sj_worker.claim_no = $6`
	// seen_us is indexed. PostgreSQL writes the row alone if no indexed column changes (a HOT
	// update), so seen_us changes only once in noteSeen.
	qNextClaim = `update sj_worker set claim_no = $2, claimed = $3, asks = $4, seen_us = case when $5 - seen_us < $7 then seen_us else $5 end
		where worker = $1 and claim_no = $6`
	qSaveAsker = `insert into sj_worker (worker, claim_no, claimed, asks, seen_us) values ($1, 0, '[]', $2, $3)
		on conflict (worker) do update set asks = excluded.asks, seen_us = excluded.seen_us`
)

// noteSeen bounds by how much the stored time of a worker's last claim with jobs may be too early.
const noteSeen = 10 * time.Second

// answered replaces the number of the worker's last claim if the request was executed before.
const answered = -1

// stillThere is the interval at which an idle worker is recorded again, so that it is not
// forgotten. It is long: an idle store writes nothing.
const stillThere = sojourn.WorkerLife / 2

// registerWorker records the queues and kinds that a worker claims: once, then again when there are
// new ones or after stillThere. A worker may claim its queues in turn, so earlier ones stay.
func (t *batch) registerWorker(r driver.ClaimRequest) error {
	text, known, err := t.subscriptionOf(r)
	if err != nil || known {
		return err
	}
	_, err = t.Write(qSaveAsker, r.Worker, text, t.Now)
	return err
}

// subscriptionOf returns the queues and kinds that a worker has claimed, including those of this
// request, and whether they are stored already.
func (t *batch) subscriptionOf(r driver.ClaimRequest) (text string, known bool, err error) {
	before, ok := t.svc.asked.Get(r.Worker)
	if ok && txn.Subset(r.Queues, before.Queues) && txn.Subset(r.Kinds, before.Kinds) && t.Now-before.At < stillThere.Microseconds() {
		return before.Text, true, nil
	}
	now := txn.StoredSubscription{Subscription: txn.Subscription{Name: r.Name, Queues: txn.Union(before.Queues, r.Queues), Kinds: txn.Union(before.Kinds, r.Kinds)}, At: t.Now}
	if now.Text, err = jobrow.JSONText(now.Subscription); err != nil {
		return "", false, err
	}
	t.After = append(t.After, func() { t.svc.asked.Put(r.Worker, now) })
	return now.Text, false, nil
}

// Reads returns the reads for all requests: the workers' newest claims, the gates and pauses of all
// queues, and the prefetch for the first claim.
func (c *batch) Reads() []sqldb.Statement {
	if !c.prefetched {
		c.HoldInserts = true // rows of jobs that the transaction has stored stay pending, so that they can be started there
	}
	requests := c.requests
	c.lastClaims, c.doors = make(map[string]lastClaim, len(requests)), map[string]txn.QueueGate{}
	queues := sqldb.Texts{sojourn.AllQueues}
	var workers sqldb.Texts
	for _, r := range requests {
		workers = append(workers, r.Worker)
		queues = append(queues, r.Queues...)
	}
	slices.Sort(queues)
	reads := []sqldb.Statement{{Text: txn.QQueueGates, Rows: []sqldb.Column{slices.Compact(queues)}, Each: func(r sqldb.Row) error {
		c.doors[r.Text(0)] = txn.QueueGate{Paused: r.Int(1) != 0, Gated: r.Int(2) != 0, Layout: r.Int(3)}
		return nil
	}}}
	reads = append(reads, sqldb.Statement{Text: qLastClaim, Rows: []sqldb.Column{workers}, Each: func(row sqldb.Row) error {
		c.lastClaims[row.Text(0)] = lastClaim{number: row.Int(1), leases: row.Text(2), drained: row.Int(3) != 0}
		return nil
	}})
	return append(reads, c.prefetch(requests[0])...)
}

// take marks the picked jobs as running and returns them with the data for their worker. last is
// the number of the worker's last claim.
func (c *batch) take(r driver.ClaimRequest, last int64, picked []jobrow.Candidate) ([]driver.Claimed, error) {
	ids := make(sqldb.Ints, len(picked))
	for i, p := range picked {
		ids[i] = p.ID
	}
	found, carries, rest := c.takePrefetched(ids)
	if rest = c.TakeInserts(rest, found, carries); len(rest) > 0 {
		err := c.LoadInto(found, qTake, rest, func(r sqldb.Row, l *jobrow.Row) error {
			carries[l.ID] = txn.ScanJobColumns(r, jobrow.LiveColumnCount)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var starts []*jobrow.Row
	for _, id := range ids {
		was := found[sojourn.ID(id)]
		if was == nil || was.State == sojourn.Awaiting && !gate.MayPoll(c.Tx, was, r) {
			continue
		}
		if put, err := gate.PutOff(c.Tx, was); err != nil {
			return nil, err
		} else if !put {
			starts = append(starts, was)
		}
	}
	if err := c.settle(starts); err != nil {
		return nil, err
	}
	rows := make([]*jobrow.Row, 0, len(starts))
	for _, was := range starts {
		tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventClaimed, RetryHandler: slices.Contains(r.Decidable, was.Kind)})
		if err != nil {
			return nil, err
		}
		l := was
		if !c.bulk.has(was) {
			l = new(jobrow.Row)
			*l = *was
		}
		l.Row = tr.To
		lease(c.Tx, was, l, r)
		started, err := c.bulkStarted(l)
		if err == nil && !started {
			err = c.SaveStart(was, l)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, l)
	}
	if len(rows) > 0 {
		note := c.registerWorker
		if r.Number > 0 {
			note = func(r driver.ClaimRequest) error { return c.saveClaim(r, last, rows) }
		}
		if err := note(r); err != nil {
			return nil, err
		}
	}
	return c.claimed(rows, carries, r)
}

// lease gives the row a new epoch and sets its clocks. A start restarts the attempt's timeout. A
// resume continues the attempt's clock, which stood still while the job was ready. If that has run
// out while a response waited for the end of a poll step, the handler of the response gets one
// lease (docs/concepts.md#the-clocks).
func lease(t *txn.Tx, was, l *jobrow.Row, r driver.ClaimRequest) {
	l.Epoch, l.Worker, l.BeganAt = was.Epoch+1, r.Worker, max(t.Now, was.UpdatedAt)
	l.LeaseUs, l.LeaseUntil = r.Lease.Microseconds(), t.Now+r.Lease.Microseconds()
	t.Core.Leasing.Store(true)
	switch l.Purpose {
	case sojourn.PurposeStart:
		l.TimeoutAt = t.Now + l.Policy.Timeout.Microseconds()
	case sojourn.PurposeResume:
		if l.TimeoutAt += t.Now - was.ResumedAt; l.TimeoutAt <= t.Now {
			l.TimeoutAt = t.Now + min(l.LeaseUs, l.Policy.Timeout.Microseconds())
		}
	}
	l.ResumedAt, l.DecideBy, l.PollAt = 0, 0, 0
}

const (
	qCarried = `select j.id, ` + txn.JobColumnList + `, j.args from sj_job j where j.id in (ints($1))`
)

// meetsGates reports whether one of the queues of a claim has gates.
func (c *batch) meetsGates(r driver.ClaimRequest) bool {
	return slices.ContainsFunc(r.Queues, func(q string) bool { return c.door(q).Gated })
}

var errDrained error = &sojourn.Error{Code: sojourn.CodeDrained, Index: -1, Message: "the worker was drained by an operator: it gets no jobs any more; finish what runs and end"}

// door combines a queue's own settings with those of all queues.
func (c *batch) door(queue string) txn.QueueGate {
	d, all := c.doors[queue], c.doors[sojourn.AllQueues]
	d.Paused, d.Gated = d.Paused || all.Paused, d.Gated || all.Gated
	return d
}

var qTake = `select ` + jobrow.LiveColumns + `, ` + txn.JobColumnList + `, j.args from sj_live l join sj_job j on j.id = l.id
		where l.id in (ints($1)) order by l.id /*lock l*/`
