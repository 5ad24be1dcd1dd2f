package worker

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const (
	claimWait = 30 * time.Second // at most a third of the lease, see lease.go
	// askAnew bounds the wait of a claim that leaves something out: it has less room than will be
	// free when handlers end, or none for a job heavier than the concurrency.
	askAnew = time.Second
	// settle lets several handlers end before a claim that is overtaken is broken off, and before
	// one behind a backlog, see company.
	settle = 5 * time.Millisecond
	// leastAnswer is for the answer to a claim behind its wait, or a third of the lease if that is
	// longer. The claim is then repeated with its number, while the leases that it may have taken
	// have a third of their time left.
	leastAnswer = time.Second
	// companyPart: the next claim from a backlog waits for company at most this part of the time
	// that the last one has taken.
	companyPart = 3
)

// ask is what a claim asks for.
type ask struct {
	max      int
	capacity int64
	wait     time.Duration
	alone    bool // one job, however heavy
}

// pending is a claim that waits. Once handlers have ended and jobs as heavy as those seen before
// would fit better, it is overtaken: broken off and asked anew. Where all jobs weigh the same that
// never happens, which is well, because now and then a claim is broken off just when it has taken
// jobs, and the store has to take them back.
type pending struct {
	capacity int64
	cancel   context.CancelFunc // nil if none waits
	timer    *time.Timer        // once overtaken
	heaviest int64              // of the jobs seen
}

// room says what to ask for; ok is false while there is room for nothing. A job heavier than the
// concurrency may be asked for again in aloneIn. Capacity is free as soon as a handler has
// returned, so that a slow commit does not idle the worker; what is in hand, unreported jobs
// included, never exceeds the concurrency by more than a batch.
//
// A worker that was idle asks for one job first, which may be heavier than its concurrency. The
// claim after it fills up, whatever MinConcurrency is.
//
// A full worker does not ask for jobs of weight 0 alone: the store would have to look through all
// that stands before them.
func (r *run) room(aloneIn time.Duration, fill bool) (_ ask, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit, refill := int64(r.w.o.Concurrency), int64(r.w.o.MinConcurrency)
	if fill {
		refill = limit
	}
	hand := min(limit+sojourn.MaxBatch-int64(len(r.steps)), sojourn.MaxBatch)
	wait := min(claimWait, r.w.o.Lease/3)
	switch {
	case hand <= 0 || r.used >= refill:
		return ask{}, false
	case r.active == 0 && aloneIn <= 0:
		return ask{max: 1, capacity: sojourn.MaxWeight, wait: wait, alone: true}, true
	}
	free := limit - r.used
	return ask{max: int(min(free, hand)), capacity: free, wait: min(wait, askAnew)}, true
}

// claimLoop asks for jobs until ctx ends, or the store says that asking again is pointless.
func (r *run) claimLoop(ctx context.Context) error {
	pause := backoff{first: 100 * time.Millisecond, limit: 10 * time.Second}
	var aloneAt time.Time
	var fill bool             // the last claim has taken one job alone
	var backlog time.Duration // what the last claim has taken, if it has got all that it has asked for
	for ctx.Err() == nil {
		a, ok := r.room(time.Until(aloneAt), fill)
		if !ok {
			sleep(ctx, claimWait, r.changed)
			continue
		}
		if r.company(ctx, min(backlog/companyPart, settle)) {
			a, _ = r.room(time.Until(aloneAt), fill)
		}
		queues, share := r.w.order.next(a.max)
		asked := time.Now()
		n, err := r.claim(ctx, a, queues, share)
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
			r.failed("claim", err)
			sleep(ctx, r.w.spread(pause.next()), nil)
		}
	}
	return nil
}

// company waits until half of the concurrency is free, and reports whether it had to. After a claim
// that has got all that it has asked for there is more: without the wait the first handler that
// ends would make a claim for one job, and all that end meanwhile would wait for the answer.
func (r *run) company(ctx context.Context, limit time.Duration) (waited bool) {
	if limit == 0 || !r.fuller() {
		return false
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for r.fuller() {
		select {
		case <-r.changed:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return true
		}
	}
	return true
}

// fuller reports whether more than half of the concurrency is in use.
func (r *run) fuller() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return 2*r.used > int64(r.w.o.Concurrency)
}

var errOvertaken = errors.New("worker: the claim was overtaken")

// claim takes jobs and starts them. After one whose outcome is unknown the next carries the same
// number and does not wait, so that no job is lost to an answer that nobody got.
func (r *run) claim(ctx context.Context, a ask, queues []string, share map[string]int) (int, error) {
	w := r.w
	number, unknown := w.nextClaim()
	if unknown {
		a.wait = 0
	}
	request := sojourn.ClaimRequest{
		Worker: w.id, Name: w.o.Name, Number: number, Queues: queues, Kinds: r.kinds, Decidable: r.decidable, Pollable: r.pollable,
		Max: a.max, Capacity: a.capacity, Lease: w.o.Lease, Wait: a.wait, Share: share, Reserve: max(w.o.ReserveAfter, 0),
	}
	call, cancel := context.WithTimeout(ctx, a.wait+max(w.o.Lease/3, leastAnswer))
	defer cancel()
	r.pend(a, cancel)
	sent := time.Now()
	got, err := w.store.Claim(call, request)
	overtaken := r.unpend()
	if err != nil && ctx.Err() != nil && sojourn.ErrorCode(err) == sojourn.CodeUnknown {
		request.Wait, request.Close = 0, true
		got, err = r.repeatClaim(request)
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
	r.take(got, sent, ctx.Err() != nil)
	w.order.took(from)
	if len(got) > 0 {
		r.observe(Event{Type: EventClaimed, Count: len(got), Took: time.Since(sent)})
	}
	return len(got), nil
}

// repeatClaim learns, at a shutdown, whether the claim that was broken off has taken jobs, so that
// they can be handed back. It closes the number of that claim, which may still be on its way: over
// another connection it may arrive after this call, and nobody would hear what it takes.
func (r *run) repeatClaim(request sojourn.ClaimRequest) ([]sojourn.Claimed, error) {
	call, cancel := context.WithTimeout(r.calls, repeatTime)
	defer cancel()
	return r.w.store.Claim(call, request)
}

// nextClaim gives the number of the next claim, and whether it repeats one.
func (w *Worker) nextClaim() (number int64, unknown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number + 1, w.unknown
}

// claimed notes how a claim ended. Its own context's end, told as such, says that nothing was
// taken.
func (w *Worker) claimed(number int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unknown = err != nil && (sojourn.ErrorCode(err) != "" || !errors.Is(err, context.Canceled))
	if !w.unknown {
		w.number = number
	}
}

func (r *run) pend(a ask, cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending.capacity, r.pending.cancel, r.pending.timer = a.capacity, cancel, nil
}

// unpend reports whether the claim was broken off because it was overtaken.
func (r *run) unpend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.pending
	p.cancel = nil
	return p.timer != nil && !p.timer.Stop()
}

// overtake is called when a handler has ended; r.mu is held.
func (r *run) overtake() {
	p, free := &r.pending, int64(r.w.o.Concurrency)-r.used
	if p.cancel != nil && p.timer == nil && free > p.capacity && p.heaviest > p.capacity {
		p.timer = time.AfterFunc(settle, p.cancel)
	}
}

// sleep waits for d, for ctx or for wake, whichever comes first. wake may be nil.
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
