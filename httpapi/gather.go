package httpapi

import (
	"context"
	"errors"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// Limits of what is sent together.
const (
	gatherJobs    = 500
	gatherBytes   = 1 << 20 // of args
	gatherFlights = 4       // such requests on their way at a time; what comes meanwhile waits for the next
)

// gatherer sends the single jobs of callers who enqueue at the same time in one request. A lone
// caller waits for nobody: its request leaves at once.
type gatherer struct {
	send func(ctx context.Context, jobs []wire.NewJob) ([]wire.Enqueued, error)

	mu      sync.Mutex // guards the fields below
	waiting []*single
	flying  int
}

// single is a job of a caller who waits.
type single struct {
	job  wire.NewJob
	done chan struct{} // closed when the fields below are set
	out  wire.Enqueued
	err  error
}

// enqueue stores one job. Each job stands for itself: what is wrong with one is told to its caller
// only.
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
		go g.fly(context.WithoutCancel(ctx)) // the others must not depend on this caller's patience
	}
	select {
	case <-one.done:
		return one.out, one.err
	case <-ctx.Done():
		return wire.Enqueued{}, unknown(sojourn.CodeUnknown, "the call ended before the server had answered; it may or may not have been executed: repeat it unchanged", context.Cause(ctx))
	}
}

// fly sends what waits until nothing does.
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
		if e, ok := errors.AsType[*sojourn.Error](err); ok && len(group) > 1 && !e.Retryable { // one of them spoils it: who it is comes out alone
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
