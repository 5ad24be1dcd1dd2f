package server

import (
	"context"
	"sync"

	"github.com/sojourn-queue/sojourn"
)

// claimants are the numbered claims under way, at most one of each worker. A worker asks again when it has not heard the answer, or does not want to wait for it;
// but a proxy may keep from the server that nobody hears, and then the claim before would go on waiting and take a job until its lease ends, or would give back,
// as undelivered, what the repeat has just been told. So the next claim ends it, and begins when it is over.
type claimants struct {
	mu    sync.Mutex // guards all fields, those of claimant too
	under map[string]*claimant
}

type claimant struct {
	of     *claimants
	worker string
	number int64
	next   int64              // number of the claim that has ended this one; 0 = none has
	stop   context.CancelFunc // ends its wait
	left   chan struct{}      // closed when it has answered, or has given back what it could not answer
}

// enter begins a claim, which is left when it has answered. stop must end its wait. A claim without a number, or with an older one than that under way, goes beside it.
func (cs *claimants) enter(ctx context.Context, worker string, number int64, stop context.CancelFunc) (*claimant, error) {
	c := &claimant{of: cs, worker: worker, number: number, stop: stop, left: make(chan struct{})}
	for {
		cs.mu.Lock()
		before := cs.under[worker]
		switch {
		case number == 0 || before != nil && number < before.number:
			cs.mu.Unlock()
			return c, nil
		case before == nil:
			if cs.under == nil {
				cs.under = map[string]*claimant{}
			}
			cs.under[worker] = c
			cs.mu.Unlock()
			return c, nil
		}
		before.next = max(before.next, number)
		cs.mu.Unlock()
		before.stop()
		select {
		case <-before.left:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *claimant) leave() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.under[c.worker] == c {
		delete(c.of.under, c.worker)
		close(c.left)
	}
}

// overtaken is the error of a claim that its worker does not wait for any more; nil if it does.
func (c *claimant) overtaken() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.next == 0 {
		return nil
	}
	return sojourn.Conflict("worker %s has asked again, with the number %d, while its claim %d was under way: a worker waits for one claim at a time", c.worker, c.next, c.number)
}
