package worker

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

const (
	claimWait = 30 * time.Second // at most a third of the lease, see lease.go
	// askAnew bounds the wait of a claim that cannot take every job: it has less capacity than will
	// be free when handlers end, or none for a job heavier than the concurrency.
	askAnew = time.Second
	// settle is a delay in which several handlers can end before a waiting claim is cancelled and
	// sent again, and before the next claim from a backlog, see company.
	settle = 5 * time.Millisecond
	// leastAnswer is the time for the response to a claim after its wait, or a third of the lease
	// if that is longer. Then the claim is repeated with its number, while the leases that it may
	// have taken have a third of their time left.
	leastAnswer = time.Second
	// companyPart bounds the wait before the next claim from a backlog: it is at most 1/companyPart
	// of the duration of the last claim.
	companyPart = 3
)

// claimer claims jobs for a run.
type claimer struct {
	r         *run
	kinds     []string // with a handler here
	decidable []string // those among them with a retry policy
	pollable  []string // those among them with a poll function
	pending   pending  // guarded by r.mu
}

// ask holds the parameters of a claim.
type ask struct {
	max      int
	capacity int64
	wait     time.Duration
	alone    bool // one job of any weight
}

// pending is a waiting claim. When handlers have ended, and jobs as heavy as those seen before
// would fit better, it is cancelled and sent again with the new capacity. This never happens if all
// jobs weigh the same. It is a cost: sometimes a claim is cancelled just when it has taken jobs,
// and the store has to take them back.
type pending struct {
	capacity int64
	cancel   context.CancelFunc // nil if none waits
	waits    bool               // the claim may wait
	timer    *time.Timer        // set once it is to be sent again
	heaviest int64              // of the jobs seen
}

// room returns the parameters of the next claim; ok is false if no capacity is free. A job heavier
// than the concurrency may be claimed again in aloneIn. Capacity is free as soon as a handler has
// returned, so that a slow commit does not idle the worker; the taken jobs, unreported ones
// included, never exceed the concurrency by more than a batch.
//
// An idle worker first claims one job, which may be heavier than its concurrency. The next claim
// fills up the concurrency, regardless of MinConcurrency.
//
// A full worker does not claim only jobs of weight 0: the store would have to scan all jobs before
// them.
func (c *claimer) room(aloneIn time.Duration, fill bool) (_ ask, ok bool) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	limit, refill := int64(c.r.w.o.Concurrency), int64(c.r.w.o.MinConcurrency)
	if fill {
		refill = limit
	}
	hand := min(limit+sojourn.MaxBatch-int64(len(c.r.steps)), sojourn.MaxBatch)
	wait := min(claimWait, c.r.w.o.Lease/3)
	switch {
	case hand <= 0 || c.r.used >= refill:
		return ask{}, false
	case c.r.active == 0 && aloneIn <= 0:
		return ask{max: 1, capacity: sojourn.MaxWeight, wait: wait, alone: true}, true
	}
	free := limit - c.r.used
	return ask{max: int(min(free, hand)), capacity: free, wait: min(wait, askAnew)}, true
}

// loop claims jobs until ctx ends, or the store returns an error that cannot be retried.
func (c *claimer) loop(ctx context.Context) error {
	pause := backoff{first: 100 * time.Millisecond, limit: 10 * time.Second}
	var aloneAt time.Time
	var fill bool             // the last claim has taken one job alone
	var backlog time.Duration // duration of the last claim, if it got as many jobs as it asked for
	for ctx.Err() == nil {
		a, ok := c.room(time.Until(aloneAt), fill)
		if !ok {
			sleep(ctx, claimWait, c.r.changed)
			continue
		}
		if c.company(ctx, min(backlog/companyPart, settle)) {
			a, _ = c.room(time.Until(aloneAt), fill)
		}
		queues, share := c.r.w.currentOrder().next(a.max)
		asked := time.Now()
		n, err := c.claim(ctx, a, queues, share)
		if fill = a.alone && n > 0; fill {
			aloneAt = time.Now().Add(askAnew)
		}
		if backlog = 0; n == a.max {
			backlog = time.Since(asked)
		}
		switch {
		case err == nil:
			pause.reset()
		case ctx.Err() != nil || errors.Is(err, errOvertaken):
		case sojourn.ErrorCode(err) == sojourn.CodeDrained:
			return nil
		case errors.Is(err, sojourn.ErrClosed) || sojourn.ErrorCode(err) == sojourn.CodeInvalid:
			return err
		default:
			c.r.failed("claim", err)
			sleep(ctx, c.r.w.spread(pause.next()), nil)
		}
	}
	return nil
}

// company waits until half of the concurrency is free, and reports whether it waited. After a full
// claim there is a backlog. Without the wait the first handler that ends would cause a claim for
// one job, and the handlers that end meanwhile would have to wait for its response.
func (c *claimer) company(ctx context.Context, limit time.Duration) (waited bool) {
	if limit == 0 || !c.fuller() {
		return false
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for c.fuller() {
		select {
		case <-c.r.changed:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return true
		}
	}
	return true
}

// fuller reports whether more than half of the concurrency is in use.
func (c *claimer) fuller() bool {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	return 2*c.r.used > int64(c.r.w.o.Concurrency)
}

var errOvertaken = errors.New("worker: the claim was overtaken")

// claim takes jobs and starts them. If the outcome of a claim is unknown, the next one has the same
// number and does not wait, so that no job is lost with a lost response.
func (c *claimer) claim(ctx context.Context, a ask, queues []string, share map[string]int) (int, error) {
	w := c.r.w
	number, unknown := w.nextClaim()
	if unknown {
		a.wait = 0
	}
	request := driver.ClaimRequest{
		Worker: w.id, Name: w.o.Name, Number: number, Queues: queues, Kinds: c.kinds, Decidable: c.decidable, Pollable: c.pollable,
		Max: a.max, Capacity: a.capacity, Lease: w.o.Lease, Wait: a.wait, Share: share, Reserve: max(w.o.ReserveAfter, 0),
	}
	call, cancel := context.WithTimeout(ctx, a.wait+max(w.o.Lease/3, leastAnswer))
	defer cancel()
	c.pend(a, cancel)
	if w.isReplaced() { // since the queues of this claim were chosen
		c.renew()
	}
	sent := time.Now()
	got, err := w.store.Claim(call, request)
	overtaken := c.unpend()
	if err != nil && ctx.Err() != nil && sojourn.ErrorCode(err) == sojourn.CodeUnknown {
		request.Wait, request.Close = 0, true
		got, err = c.repeat(request)
	}
	w.claimed(number, err)
	if err != nil && overtaken {
		return 0, errOvertaken
	}
	if err != nil {
		return 0, err
	}
	from := make([]string, len(got))
	for i := range got {
		from[i] = got[i].Job.Queue
	}
	c.r.take(got, sent, ctx.Err() != nil)
	w.order.took(from) // only this goroutine replaces it
	if len(got) > 0 {
		c.r.observe(Event{Type: EventClaimed, Count: len(got), Took: time.Since(sent)})
	}
	return len(got), nil
}

// repeat finds out, at shutdown, whether the cancelled claim has taken jobs, so that they can
// be handed back. It closes the number of that claim, because the claim may still be in transit:
// over another connection it may arrive after this call and take jobs that no worker knows of.
func (c *claimer) repeat(request driver.ClaimRequest) ([]driver.Claimed, error) {
	call, cancel := context.WithTimeout(c.r.calls, repeatTime)
	defer cancel()
	return c.r.w.store.Claim(call, request)
}

// nextClaim returns the number of the next claim, and whether it repeats one.
func (w *Worker) nextClaim() (number int64, unknown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number + 1, w.unknown
}

// claimed records how a claim ended. If it returned the error of its own context, it took no jobs.
func (w *Worker) claimed(number int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unknown = err != nil && (sojourn.ErrorCode(err) != "" || !errors.Is(err, context.Canceled))
	if !w.unknown {
		w.number = number
	}
}

func (c *claimer) pend(a ask, cancel context.CancelFunc) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.pending.capacity, c.pending.cancel, c.pending.timer, c.pending.waits = a.capacity, cancel, nil, a.wait > 0
}

// unpend reports whether the claim was cancelled in order to be sent again.
func (c *claimer) unpend() bool {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	p := &c.pending
	p.cancel = nil
	return p.timer != nil && !p.timer.Stop()
}

// overtake is called when a handler has ended; r.mu is held.
func (c *claimer) overtake() {
	p, free := &c.pending, int64(c.r.w.o.Concurrency)-c.r.used
	if p.cancel != nil && p.timer == nil && free > p.capacity && p.heaviest > p.capacity {
		p.timer = time.AfterFunc(settle, p.cancel)
	}
}

// renew cancels a waiting claim, so that the next one names other queues.
func (c *claimer) renew() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if p := &c.pending; p.cancel != nil && p.timer == nil && p.waits {
		p.timer = time.AfterFunc(0, p.cancel)
	}
}

// sleep waits for the first of d, ctx and wake. wake may be nil.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-wake:
	}
}

// backoff is the growing pause between calls that fail.
type backoff struct {
	first, limit, now time.Duration
}

func (b *backoff) next() time.Duration {
	b.now = min(max(b.now*2, b.first), b.limit)
	return b.now
}

func (b *backoff) reset() { b.now = 0 }
