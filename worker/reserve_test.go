package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// spec:W9: a backlog of light jobs does not starve heavy ones, not even those that are heavier than
// the worker. Each light job stores another one and goes on until the next one has started, so that
// without a reserve the worker never has room.
func TestHeavyJobsDoNotStarve(t *testing.T) {
	const most = 2_000 // light jobs; it gives up then
	c := open(t)
	var heavy, light atomic.Int64
	next := make(chan struct{})
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	w := worker.New(c, worker.Options{Concurrency: 10, ReserveAfter: 50 * time.Millisecond})
	worker.Handle(w, number, func(ctx context.Context, j *sojourn.Job, weight int) error {
		switch {
		case weight > 1 && heavy.Add(1) == 2:
			end()
		case weight == 1 && light.Add(1) == most:
			t.Errorf("%d light jobs have run, and %d of 2 heavy ones", most, heavy.Load())
			end()
		case weight == 1 && heavy.Load() < 2:
			// The replacement is stored first, so that no moment without light jobs makes room.
			if _, err := c.Enqueue(ctx, number.New(1)); err != nil {
				return err
			}
			select {
			case next <- struct{}{}:
			case <-next:
			case <-time.After(time.Second): // room is kept
			}
		}
		return nil
	})
	for range 40 {
		enqueue(t, c, number.New(1))
	}
	start(t, w)
	enqueue(t, c, number.New(10, sojourn.Weight(10), sojourn.Priority(1)), number.New(20, sojourn.Weight(20), sojourn.Priority(1)))
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Errorf("%d light jobs have run, and %d of 2 heavy ones", light.Load(), heavy.Load())
	}
}
