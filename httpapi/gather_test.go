package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

// TestGather: jobs enqueued while requests are in flight share the next request, and each caller
// gets the result of its own job.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests, jobs, spoiled atomic.Int64
		g := &gatherer{send: func(_ context.Context, send []wire.NewJob) ([]wire.Enqueued, error) {
			requests.Add(1)
			time.Sleep(time.Second)
			out := make([]wire.Enqueued, len(send))
			for i, j := range send {
				if j.Kind == "spoils" {
					spoiled.Add(1)
					return nil, sojourn.Invalid("kind", "%d together", len(send))
				}
				out[i].ID = j.ID
			}
			jobs.Add(int64(len(send)))
			return out, nil
		}}
		began := time.Now()
		if e, err := g.enqueue(t.Context(), wire.NewJob{ID: 1}); err != nil || e.ID != 1 || time.Since(began) != time.Second {
			t.Fatalf("a lone caller got %v, %v after %v", e, err, time.Since(began))
		}
		var group sync.WaitGroup
		for id := range sojourn.ID(1000) {
			group.Go(func() {
				time.Sleep(time.Duration(id) * time.Millisecond)
				kind := "k"
				if id == 777 {
					kind = "spoils"
				}
				e, err := g.enqueue(t.Context(), wire.NewJob{ID: id, Kind: kind})
				if id == 777 && fmt.Sprint(err) != "sojourn: kind: 1 together (invalid)" || id != 777 && (err != nil || e.ID != id) {
					t.Errorf("job %d got %v, %v", id, e, err)
				}
			})
		}
		group.Wait()
		synctest.Wait() // the last request has been followed by a look for more
		if jobs.Load() != 1000 || spoiled.Load() != 2 || g.flying != 0 || len(g.waiting) != 0 {
			t.Errorf("%d jobs, %d spoiled, %d on their way", jobs.Load(), spoiled.Load(), g.flying)
		}
	})
}

// TestGatherFew: 1,000 concurrent callers need few requests, none larger than the limits, and a
// caller that gives up does not affect the others.
func TestGatherFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		g := &gatherer{send: func(ctx context.Context, send []wire.NewJob) ([]wire.Enqueued, error) {
			requests.Add(1)
			size := 0
			for _, j := range send {
				size += len(j.Args)
			}
			if len(send) > gatherJobs || size > gatherBytes && len(send) > 1 {
				t.Errorf("%d jobs with %d bytes together", len(send), size)
			}
			time.Sleep(time.Second)
			return make([]wire.Enqueued, len(send)), ctx.Err()
		}}
		var group sync.WaitGroup
		for i := range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			args := bytes.Repeat([]byte("1"), 10)
			if i%100 == 0 {
				args = bytes.Repeat([]byte("1"), gatherBytes/2)
			}
			group.Go(func() {
				_, err := g.enqueue(ctx, wire.NewJob{Args: args})
				if i == 0 && sojourn.ErrorCode(err) != sojourn.CodeUnknown || i > 0 && err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
			if i == 0 {
				synctest.Wait()
				cancel()
			}
			defer cancel()
		}
		group.Wait()
		if n := requests.Load(); n > 30 {
			t.Errorf("%d requests", n)
		}
	})
}
