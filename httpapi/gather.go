package httpapi

import (
	"context"
	"errors"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// Limits of a coalesced enqueue request.
const (
	gatherJobs    = 500
	gatherBytes   = 1 << 20 // of args
	gatherFlights = 4       // concurrent requests; jobs beyond them wait for the next request
)

// gatherer coalesces single jobs of concurrent callers into one enqueue request. It adds no delay:
// the request of a lone caller is sent at once.
type gatherer struct {
	send func(ctx context.Context, jobs []wire.NewJob) ([]wire.Enqueued, error)

	mu      sync.Mutex // guards the fields below
	waiting []*single
	flying  int
}

// single is one job whose caller waits for the result.
type single struct {
	job  wire.NewJob
	done chan struct{} // closed when the fields below are set
	out  wire.Enqueued
	err  error
}

// enqueue stores one job. Jobs fail independently: only the caller of an invalid job gets an error.
func (g *gatherer) enqueue(ctx context.Context, job wire.NewJob) (wire.Enqueued, error) {
	one := &single{job: job, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, one)
	start := g.flying < gatherFlights
	if start {
		g.flying++
	}
	g.mu.Unlock()
	if start {
		go g.fly(context.WithoutCancel(ctx)) // this caller's context must not cancel other jobs
	}
	select {
	case <-one.done:
		return one.out, one.err
	case <-ctx.Done():
		return wire.Enqueued{}, unknown(sojourn.CodeUnknown, "the call ended before the server had answered; it may or may not have been executed: repeat it unchanged", context.Cause(ctx))
	}
}

// fly sends batches until no job waits.
func (g *gatherer) fly(ctx context.Context) {
	for {
		group := g.take()
		if len(group) == 0 {
			return
		}
		jobs := make([]wire.NewJob, len(group))
		for i, one := range group {
			jobs[i] = one.job
		}
		out, err := g.send(ctx, jobs)
		if e, ok := errors.AsType[*sojourn.Error](err); ok && len(group) > 1 && !e.Retryable { // one job is invalid: send each alone to find it
			for _, one := range group {
				if out, one.err = g.send(ctx, []wire.NewJob{one.job}); one.err == nil {
					one.out = out[0]
				}
				close(one.done)
			}
			continue
		}
		for i, one := range group {
			if one.err = err; err == nil {
				one.out = out[i]
			}
			close(one.done)
		}
	}
}

func (g *gatherer) take() []*single {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for n < len(g.waiting) && n < gatherJobs && (n == 0 || size+len(g.waiting[n].job.Args) <= gatherBytes) {
		size += len(g.waiting[n].job.Args)
		n++
	}
	group := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; n == 0 {
		g.waiting = nil
		g.flying--
	}
	return group
}
