package sqlstore

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

// sweepPerClaim bounds how many overdue jobs a claim handles on its way, so that due jobs start
// even if no process calls Sweep.
const sweepPerClaim = 100

// claims are the claims of one transaction, executed one after the other.
type claims struct {
	*tx
	svc        *claimer
	requests   []driver.ClaimRequest
	lent       bool                 // the requests are those of blocked claims
	prefetched bool                 // its reads were sent in the first message
	bulk       *early               // jobs bulk-started before the claim was evaluated; nil: none
	last       map[string]lastClaim // worker → its newest claim
	doors      map[string]door      // of the queues that they name and of all queues, if they have settings
	idle       []idleClaim          // empty claims: the same claims after them are empty too
	swept      bool                 // no due job is left
	emptied    string               // a queue whose ready jobs were all claimed
	ahead      *foreseen            // prefetch for the first claim; nil if there is none
	ended      map[sojourn.ID]int32 // Row.Waits of the claimed jobs for which it is not 0
	lines      []*gatedClaim        // of the queues with gates that a claim is taking jobs from
	opens      int64                // when a gate opens that held the claim back; 0 = not known
}

type idleClaim struct {
	driver.ClaimRequest
	opens int64
}

// lastClaim is the newest claim of a worker that was executed.
type lastClaim struct {
	number  int64
	leases  string // as they are stored
	drained bool
}

// claimer hands out jobs to workers.
type claimer struct {
	core     *core
	gates    *gates
	hub      *hub
	finisher *finisher // gives back the jobs of a caller that is gone
	op       *op[driver.ClaimRequest, claimAnswer]
	alike    alike
	asked    memo[string, asked] // worker → the queues and kinds that it claims, as stored
	gated    memo[string, bool]  // worker → whether its last claim met gates
	filled   memo[string, bool]  // worker → whether its last claim was full
	apart    atomic.Int32        // claims that run concurrently, see goesApart
}

func newClaimer(c *core, g *gates, h *hub, f *finisher) *claimer {
	s := &claimer{core: c, gates: g, hub: h, finisher: f}
	s.op = &op[driver.ClaimRequest, claimAnswer]{name: "claim", class: groupcommit.Claim, cached: true,
		begin: func(t *tx, rs []driver.ClaimRequest) batch[claimAnswer] {
			return &claims{tx: t, svc: s, requests: rs, prefetched: t.prefetching}
		},
		// Gates see only stored jobs, and producers should not wait for them.
		ends: func(r driver.ClaimRequest, _ int) bool { gated, _ := s.gated.get(r.Worker); return gated }}
	return s
}

// run runs the requests one after the other. Those of lent claims, which are blocked, are skipped if
// a queue has gates: the blocked claims then run them themselves.
func (c *claims) run() ([]claimAnswer, error) {
	c.holding = true
	defer c.release()
	changed := c.wrote || c.altered || len(c.pending.saves)+len(c.pending.ended) > 0
	if c.prefetched && c.bulk == nil && c.ahead != nil && c.ahead.started {
		c.ahead = nil // the bulk start was not allowed
	}
	switch {
	case !c.canHold() || slices.ContainsFunc(c.requests, c.meetsGates):
		c.release()
		c.ahead = c.ahead.withoutLine() // pending writes may rank before the prefetched jobs, and gates choose for themselves
	case c.prefetched && changed && c.bulk == nil: // the group has changed rows since the prefetch, so other jobs are ready now
		if err := c.readAll(c.foresee(c.requests[0])); err != nil {
			return nil, err
		}
	}
	answers := make([]claimAnswer, len(c.requests))
	for i, r := range c.requests {
		gated := c.meetsGates(r)
		c.svc.gated.put(r.Worker, gated)
		if i > 0 {
			c.ahead = nil // the prefetch was for the first claim
		}
		if c.lent && gated { // else producers would wait for the claims of other nodes, behind the gates' lock
			answers[i].again = true
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
func (c *claims) learn() {
	c.learned.emptied = c.emptied
	if c.learned.claims == nil {
		c.learned.claims = make(map[string]int64, len(c.last))
	}
	all := c.doors[sojourn.AllQueues]
	for worker, last := range c.last {
		if c.learned.claims[worker] = last.number; last.drained || all.paused || all.gated {
			c.learned.claims[worker] = 0
		}
	}
}

// expects reports whether a claim would find only the jobs that its transaction stores.
func (s *claimer) expects(r *driver.ClaimRequest) bool {
	queue := r.Queues[0]
	if len(r.Queues) != 1 || len(r.Decidable)+len(r.Pollable) > 0 || !s.core.guesses.isEmpty(queue) {
		return false
	}
	_, known := s.core.guesses.queue(queue)
	last := s.core.guesses.lastClaim(r.Worker)
	return known && last > 0 && r.Number > last
}

// cached is a batch of one claim that finds only the jobs of its transaction.
func (s *claimer) cached(t *tx, r driver.ClaimRequest, shape, last int64) *claims {
	q := r.Queues[0]
	c := &claims{tx: t, svc: s, requests: []driver.ClaimRequest{r}, prefetched: true, doors: map[string]door{q: {shape: shape}},
		last: map[string]lastClaim{r.Worker: {number: last}}}
	c.ahead = &foreseen{queue: q, lines: map[string][]candidate{}}
	for _, kind := range r.Kinds {
		c.ahead.lines[kind] = nil
	}
	return c
}

// handOver runs the requests of blocked claims in a transaction that has stored jobs.
func (s *claimer) handOver(t *tx, lent []*waiter) ([]claimAnswer, error) {
	if len(lent) == 0 {
		return nil, nil
	}
	c := &claims{tx: t, svc: s, lent: true, requests: make([]driver.ClaimRequest, len(lent))}
	for i, w := range lent {
		c.requests[i] = *w.request
	}
	if err := t.readAll(c.reads()); err != nil {
		return nil, err
	}
	return c.run()
}

func (c *claims) claim(r driver.ClaimRequest) (claimAnswer, error) {
	jobs, last, err := c.repeatedClaim(r)
	if last == answered || err != nil {
		return claimAnswer{jobs: jobs, waits: c.ended}, err
	}
	if r.Close {
		return claimAnswer{}, c.saveClaim(r, last, nil)
	}
	if c.last[r.Worker].drained {
		return claimAnswer{drained: true}, c.meet(r)
	}
	if !c.swept {
		n, err := c.sweepFirst()
		if err != nil {
			return claimAnswer{}, err
		}
		c.swept = n.Total() < sweepPerClaim
	}
	if i := slices.IndexFunc(c.idle, func(before idleClaim) bool { return before.covers(r) }); i >= 0 {
		return c.foundNothing(r, c.idle[i].opens)
	}
	for round := range putOffRounds {
		if round > 0 { // all picked jobs have been put off
			if err := c.putOffFront(r); err != nil {
				return claimAnswer{}, err
			}
		}
		picked, err := c.pick(r)
		if err != nil {
			return claimAnswer{}, err
		}
		if c.emptied = ""; len(picked) < r.Max && len(r.Queues) == 1 {
			c.emptied = r.Queues[0]
		}
		if len(picked) == 0 {
			if err := c.settle(nil); err != nil {
				return claimAnswer{}, err
			}
			c.idle = append(c.idle, idleClaim{r, c.opens})
			return c.foundNothing(r, c.opens)
		}
		if jobs, err = c.take(r, last, picked); err != nil || len(jobs) > 0 {
			return claimAnswer{jobs: jobs, waits: c.ended}, err
		}
	}
	return claimAnswer{again: true}, nil
}

// covers reports whether claim a selects the same jobs as claim b, and at least as many.
func (a idleClaim) covers(b driver.ClaimRequest) bool {
	return a.Capacity == b.Capacity && a.Reserve == b.Reserve && a.Max >= b.Max && slices.Equal(a.Queues, b.Queues) && slices.Equal(a.Kinds, b.Kinds) && slices.Equal(a.Decidable, b.Decidable) &&
		slices.Equal(a.Pollable, b.Pollable)
}

// foundNothing answers an empty claim.
func (c *claims) foundNothing(r driver.ClaimRequest, opens int64) (claimAnswer, error) {
	c.release() // the earliest due job may be a fresh row that is not written yet
	if err := c.meet(r); err != nil {
		return claimAnswer{}, err
	}
	poll, err := c.nextPoll(r)
	if err != nil {
		return claimAnswer{}, err
	}
	if poll > 0 {
		opens = earliest(opens, poll)
	}
	due, err := c.num(`select wake_at_us from sj_live where wake_at_us < 9223372036854775807 order by wake_at_us limit 1`)
	return claimAnswer{due: due, opens: opens}, err
}

// Claim takes ready jobs under leases; see driver.Claimer.
func (s *claimer) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if err := checkClaim(&r); err != nil {
		return nil, err
	}
	var jobs []driver.Claimed
	var waits map[sojourn.ID]int32
	defer s.core.present.come(&r, s.core.clock.estimate)()
	w := &waiter{queues: r.Queues, kinds: r.Kinds, pollable: r.Pollable, request: &r}
	err := s.hub.block(ctx, w, r.Wait, func() (bool, error) {
		// A claim is not abandoned half way: its jobs are returned, or their leases are given back.
		a, err := s.claim(context.WithoutCancel(ctx), r)
		for a.again && err == nil && ctx.Err() == nil {
			a, err = s.claim(context.WithoutCancel(ctx), r)
		}
		jobs, waits = a.jobs, a.waits
		s.filled.put(r.Worker, len(jobs) == r.Max)
		if a.drained && err == nil {
			return false, errDrained
		}
		if len(jobs) == 0 && err == nil {
			s.hub.foundNothing(w, a.due, a.opens)
		}
		return len(jobs) > 0, err
	})
	if w.given != nil {
		jobs, waits = w.given.jobs, w.given.waits
	}
	if err == errDrained {
		s.hub.wakeAll() // this call may have consumed a wake-up that another worker needs
	}
	token := access.CapabilityMaker(s.core.secret) // outside of the transaction, which other callers wait for
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

func (s *claimer) claim(ctx context.Context, r driver.ClaimRequest) (claimAnswer, error) {
	rows := min(r.Max, fewClaimed)
	if s.goesApart(r) {
		rows = r.Max
		defer s.apart.Add(-1)
	}
	return do(ctx, s.core, s.op, rows, r)
}

// goesApart reports whether a claim counts all the rows that it asks for, see batcher: its worker's
// last claim was full, so it need not wait to be batched. Claims of two workers run concurrently
// where the database allows concurrent writers, but not with gates, because these lock the queue
// (docs/internals/engine.md#concurrent-claims). If true, the caller decrements s.apart at the end.
func (s *claimer) goesApart(r driver.ClaimRequest) bool {
	filled, _ := s.filled.get(r.Worker)
	if gated, _ := s.gated.get(r.Worker); !filled || gated || !s.core.db.Dialect().Concurrent {
		return false
	}
	if s.apart.Add(1) > apartMost {
		s.apart.Add(-1)
		return false
	}
	return true
}

// release gives back leases whose caller is gone, so that only a dead worker costs a crash.
func (s *claimer) release(jobs []driver.Claimed) {
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

// meet records the queues and kinds that a worker claims: once, then again when there are new ones
// or after stillThere. A worker may claim its queues in turn, so earlier ones stay.
func (t *claims) meet(r driver.ClaimRequest) error {
	text, known, err := t.asksOf(r)
	if err != nil || known {
		return err
	}
	_, err = t.exec(qSaveAsker, r.Worker, text, t.now)
	return err
}

// asksOf returns the queues and kinds that a worker has claimed, including those of this request,
// and whether they are stored already.
func (t *claims) asksOf(r driver.ClaimRequest) (text string, known bool, err error) {
	before, ok := t.svc.asked.get(r.Worker)
	if ok && subset(r.Queues, before.Queues) && subset(r.Kinds, before.Kinds) && t.now-before.at < stillThere.Microseconds() {
		return before.text, true, nil
	}
	now := asked{asks: asks{r.Name, union(before.Queues, r.Queues), union(before.Kinds, r.Kinds)}, at: t.now}
	if now.text, err = jsonText(now.asks); err != nil {
		return "", false, err
	}
	t.after = append(t.after, func() { t.svc.asked.put(r.Worker, now) })
	return now.text, false, nil
}

// reads returns the reads for all requests: the workers' newest claims, the gates and pauses of all
// queues, and the prefetch for the first claim.
func (c *claims) reads() []sqldb.Statement {
	requests := c.requests
	c.last, c.doors = make(map[string]lastClaim, len(requests)), map[string]door{}
	queues := sqldb.Texts{sojourn.AllQueues}
	var workers sqldb.Texts
	for _, r := range requests {
		workers = append(workers, r.Worker)
		queues = append(queues, r.Queues...)
	}
	slices.Sort(queues)
	reads := []sqldb.Statement{{Text: qDoors, Rows: []sqldb.Column{slices.Compact(queues)}, Each: func(r sqldb.Row) error {
		c.doors[r.Text(0)] = door{paused: r.Int(1) != 0, gated: r.Int(2) != 0, shape: r.Int(3)}
		return nil
	}}}
	reads = append(reads, sqldb.Statement{Text: qLastClaim, Rows: []sqldb.Column{workers}, Each: func(row sqldb.Row) error {
		c.last[row.Text(0)] = lastClaim{number: row.Int(1), leases: row.Text(2), drained: row.Int(3) != 0}
		return nil
	}})
	return append(reads, c.foresee(requests[0])...)
}

// take marks the picked jobs as running and returns them with the data for their worker. last is
// the number of the worker's last claim.
func (c *claims) take(r driver.ClaimRequest, last int64, picked []candidate) ([]driver.Claimed, error) {
	ids := make(sqldb.Ints, len(picked))
	for i, p := range picked {
		ids[i] = p.id
	}
	found, carries, rest := c.takeForeseen(ids)
	if rest = c.takeFresh(rest, found, carries); len(rest) > 0 {
		err := c.loadInto(found, qTake, rest, func(r sqldb.Row, l *live) error {
			carries[l.ID] = scanCarried(r, liveColumnCount)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var starts []*live
	for _, id := range ids {
		was := found[sojourn.ID(id)]
		if was == nil || was.State == sojourn.Awaiting && !c.mayPoll(was, r) {
			continue
		}
		if put, err := c.putOff(was); err != nil {
			return nil, err
		} else if !put {
			starts = append(starts, was)
		}
	}
	if err := c.settle(starts); err != nil {
		return nil, err
	}
	rows := make([]*live, 0, len(starts))
	for _, was := range starts {
		tr, err := rules.Decide(was.Row, rules.Event{Type: rules.EventClaimed, RetryHandler: slices.Contains(r.Decidable, was.kind)})
		if err != nil {
			return nil, err
		}
		l := was
		if !c.bulk.has(was) {
			l = new(live)
			*l = *was
		}
		l.Row = tr.To
		c.lease(was, l, r)
		started, err := c.bulkStarted(l)
		if err == nil && !started {
			err = c.saveStart(was, l)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, l)
	}
	if len(rows) > 0 {
		note := c.meet
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
func (t *tx) lease(was, l *live, r driver.ClaimRequest) {
	l.epoch, l.worker, l.began = was.epoch+1, r.Worker, max(t.now, was.updated)
	l.leaseUs, l.leaseUntil = r.Lease.Microseconds(), t.now+r.Lease.Microseconds()
	t.s.leasing.Store(true)
	switch l.Purpose {
	case sojourn.PurposeStart:
		l.timeoutAt = t.now + l.Policy.Timeout.Microseconds()
	case sojourn.PurposeResume:
		if l.timeoutAt += t.now - was.rested; l.timeoutAt <= t.now {
			l.timeoutAt = t.now + min(l.leaseUs, l.Policy.Timeout.Microseconds())
		}
	}
	l.rested, l.decideBy, l.pollAt = 0, 0, 0
}

const (
	qCarried = `select j.id, ` + carriedColumns + `, j.args from sj_job j where j.id in (ints($1))`
)

// meetsGates reports whether one of the queues of a claim has gates.
func (c *claims) meetsGates(r driver.ClaimRequest) bool {
	return slices.ContainsFunc(r.Queues, func(q string) bool { return c.door(q).gated })
}

var errDrained error = &sojourn.Error{Code: sojourn.CodeDrained, Index: -1, Message: "the worker was drained by an operator: it gets no jobs any more; finish what runs and end"}

// door combines a queue's own settings with those of all queues.
func (c *claims) door(queue string) door {
	d, all := c.doors[queue], c.doors[sojourn.AllQueues]
	d.paused, d.gated = d.paused || all.paused, d.gated || all.gated
	return d
}

var qTake = `select ` + liveColumns + `, ` + carriedColumns + `, j.args from sj_live l join sj_job j on j.id = l.id
		where l.id in (ints($1)) order by l.id /*lock l*/`
