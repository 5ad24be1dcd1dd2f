// Package claimants lets one numbered claim of a worker wait at a time.
package claimants

import (
	"context"
	"sync"

	"github.com/sojourn-queue/sojourn"
)

// Claimants tracks the numbered claims in progress, at most one per worker. A worker repeats a
// claim whose response it did not get or no longer awaits, but a proxy may hide the disconnect from
// the server. The old claim could then take a job until its lease ends, or release, as undelivered,
// the jobs that the repeat has just returned. So a new claim cancels the old one and starts after
// it has ended. The zero value is ready, and safe for concurrent use.
type Claimants struct {
	mu    sync.Mutex // guards under
	under map[string]*claimant
}

type claimant struct {
	number int64
	stop   context.CancelCauseFunc // ends its wait
	left   chan struct{}           // closed when its jobs were sent, or released after a failed send
}

// Enter begins a claim, which runs under the returned context. A newer claim of the same worker
// cancels that context with a conflict error. The caller must call leave when the claim is
// answered. A claim without a number, or with a lower number than the current one, runs beside it.
func (cs *Claimants) Enter(ctx context.Context, worker string, number int64) (_ context.Context, leave func(), err error) {
	ctx, stop := context.WithCancelCause(ctx)
	c := &claimant{number: number, stop: stop, left: make(chan struct{})}
	for {
		cs.mu.Lock()
		before := cs.under[worker]
		if number == 0 || before != nil && number < before.number {
			cs.mu.Unlock()
			return ctx, func() { stop(nil) }, nil
		}
		if before == nil {
			if cs.under == nil {
				cs.under = map[string]*claimant{}
			}
			cs.under[worker] = c
			cs.mu.Unlock()
			return ctx, func() { cs.leave(worker, c) }, nil
		}
		cs.mu.Unlock()
		before.stop(sojourn.Conflict("worker %s has asked again, with the number %d, while its claim %d was under way: a worker waits for one claim at a time",
			worker, number, before.number))
		select {
		case <-before.left:
		case <-ctx.Done():
			stop(nil)
			return ctx, nil, ctx.Err()
		}
	}
}

func (cs *Claimants) leave(worker string, c *claimant) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.under, worker)
	close(c.left)
	c.stop(nil)
}
