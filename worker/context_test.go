package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

type valued struct{}

func newStepContext(limit, window time.Duration) *stepContext {
	c := &stepContext{base: context.WithValue(context.Background(), valued{}, "base")}
	var l *LimitError
	if limit != 0 {
		l = &LimitError{Reason: sojourn.ReasonTimeout, Limit: limit}
	}
	c.endAfter(time.Now(), l, window)
	return c
}

// A handler's context ends once, with the error and the cause of the first event, no matter when
// the handler first uses it. Child contexts end in the same way.
func TestStepContextEnds(t *testing.T) {
	for _, c := range []struct {
		name          string
		limit, window time.Duration
		does          func(*stepContext) // after it was asked, or before
		err           error
		cause         string
	}{
		{"not at all", 0, 0, func(*stepContext) {}, nil, ""},
		{"not yet", time.Minute, 2 * time.Minute, func(*stepContext) { time.Sleep(59 * time.Second) }, nil, ""},
		{"limit", time.Minute, 2 * time.Minute, func(*stepContext) { time.Sleep(time.Minute) }, context.DeadlineExceeded, "worker: timeout: over after 1m0s in this step"},
		{"limit that was over before", -1, 0, func(*stepContext) {}, context.DeadlineExceeded, "worker: timeout: over after -1ns in this step"},
		{"window", 2 * time.Minute, time.Minute, func(*stepContext) { time.Sleep(time.Minute) }, context.DeadlineExceeded, ErrWindowClosed.Error()},
		{"window alone", 0, time.Minute, func(*stepContext) { time.Sleep(time.Minute) }, context.DeadlineExceeded, ErrWindowClosed.Error()},
		{"cancel", time.Minute, 0, func(c *stepContext) { c.cancel(ErrShutdown) }, context.Canceled, ErrShutdown.Error()},
		{"two cancels", 0, 0, func(c *stepContext) { c.cancel(ErrShutdown); c.cancel(ErrCancelled) }, context.Canceled, ErrShutdown.Error()},
		{"cancel, then limit", time.Minute, 0, func(c *stepContext) { c.cancel(ErrShutdown); time.Sleep(time.Hour) }, context.Canceled, ErrShutdown.Error()},
		{"limit, then cancel", time.Minute, 0, func(c *stepContext) { time.Sleep(time.Hour); c.cancel(ErrShutdown) }, context.DeadlineExceeded, "worker: timeout: over after 1m0s in this step"},
	} {
		for _, asks := range []string{"first", "later", "for the error alone"} {
			t.Run(c.name+", asked "+asks, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := newStepContext(c.limit, c.window)
					defer ctx.cancel(context.Canceled)
					if asks == "first" {
						_ = ctx.Done()
					}
					c.does(ctx)
					synctest.Wait()
					if asks == "for the error alone" && (ctx.Err() != c.err || ctx.made != nil) {
						t.Errorf("error %v, want %v; made %v", ctx.Err(), c.err, ctx.made)
					}
					if cause := ctx.ended(); text(cause) != c.cause || ctx.Err() != c.err || (ctx.made != nil) != (asks == "first") {
						t.Errorf("ended by %v, error %v; want %q, %v", cause, ctx.Err(), c.cause, c.err)
					}
					below, stop := context.WithCancel(ctx)
					defer stop()
					for which, ctx := range map[string]context.Context{"it": ctx, "the one below": below} {
						ended := false
						select {
						case <-ctx.Done():
							ended = true
						default:
						}
						if ended != (c.err != nil) || ctx.Err() != c.err || text(context.Cause(ctx)) != c.cause || ctx.Value(valued{}) != "base" {
							t.Errorf("%s: ended %v, %v by %v; want %v by %q", which, ended, ctx.Err(), context.Cause(ctx), c.err, c.cause)
						}
					}
				})
			})
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Every kind of wait for the context sees its end, and Deadline works without the other methods.
func TestStepContextIsAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx := newStepContext(time.Minute, time.Hour)
		if at, ok := ctx.Deadline(); !ok || at.Sub(began) != time.Minute || ctx.made != nil {
			t.Errorf("deadline %v, %v; made %v", at.Sub(began), ok, ctx.made)
		}
		if at, ok := newStepContext(0, 0).Deadline(); ok {
			t.Errorf("deadline %v without a limit", at)
		}
		if ctx.Value(valued{}) != "base" {
			t.Error("the values of Run's context are gone")
		}
		told := make(chan error, 2)
		context.AfterFunc(ctx, func() { told <- context.Cause(ctx) })
		later, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		context.AfterFunc(later, func() { told <- ctx.Err() }) // asks it in the middle of its end
		sooner, stop := context.WithTimeoutCause(ctx, time.Second, errBoom)
		defer stop()
		if <-sooner.Done(); context.Cause(sooner) != errBoom || ctx.Err() != nil {
			t.Errorf("the context below ended by %v, it by %v", context.Cause(sooner), ctx.Err())
		}
		ctx.cancel(ErrCancelled)
		for range 2 {
			if err := <-told; !errors.Is(err, ErrCancelled) && err != context.Canceled {
				t.Errorf("told of %v", err)
			}
		}
		if ctx.cancel(errBoom); context.Cause(later) != ErrCancelled || context.Cause(ctx) != ErrCancelled || time.Since(began) != time.Second {
			t.Errorf("ended by %v, %v", context.Cause(later), context.Cause(ctx))
		}
	})
}

// Handlers share goroutines, but none waits for another one to return: those of one claim, and of
// later ones, meet in the middle. A handler that ends its goroutine takes no other step with it.
func TestStepsDoNotWaitForOneAnother(t *testing.T) {
	const n = 200
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range n / 2 {
			f.add(kindA.New(args{}))
		}
		var met sync.WaitGroup
		met.Add(n)
		w := New(sojourn.NewClient(f), Options{Concurrency: n})
		Handle(w, kindA, func(_ context.Context, j *sojourn.Job, _ args) error {
			met.Done()
			met.Wait()
			if j.ID%3 == 0 {
				runtime.Goexit()
			}
			return sojourn.Cancel(nil)
		})
		stop := start(t, w)
		time.Sleep(time.Second)
		for range n / 2 {
			f.add(kindA.New(args{}))
		}
		time.Sleep(time.Second)
		mustStop(t, stop)
		for id := range sojourn.ID(n) {
			if j := f.job(id + 1); (j.State == sojourn.Cancelled) == (j.ID%3 == 0) || j.Failures > 0 != (j.ID%3 == 0) {
				t.Errorf("job %d is %s, reason %q, with %d failures", j.ID, j.State, j.Reason, j.Failures)
			}
		}
	})
}

// Short handlers cost no goroutine each.
func TestShortHandlersShareGoroutines(t *testing.T) {
	const n = 1000
	f := newFake()
	for range n {
		f.add(kindA.New(args{}))
	}
	var mu sync.Mutex
	goroutines := map[string]bool{}
	w := New(sojourn.NewClient(f), Options{Concurrency: n})
	done := make(chan struct{})
	left := n
	Handle(w, kindA, func(context.Context, *sojourn.Job, args) error {
		var id string
		fmt.Sscanf(string(stackHead()), "goroutine %s ", &id)
		mu.Lock()
		defer mu.Unlock()
		goroutines[id] = true
		if left--; left == 0 {
			close(done)
		}
		return nil
	})
	stop := start(t, w)
	<-done
	mustStop(t, stop)
	if len(goroutines) > n/2 {
		t.Errorf("%d goroutines for %d handlers", len(goroutines), n)
	}
}

func stackHead() []byte {
	b := make([]byte, 40)
	return b[:runtime.Stack(b, false)]
}

// idle is a store in which claims find jobs at once, and reports are taken.
type idle struct {
	driver.Store
	left int
	done chan struct{}
}

func (s *idle) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if s.left == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	got := make([]driver.Claimed, min(s.left, r.Max, 100))
	for i := range got {
		id := sojourn.ID(s.left - i)
		got[i] = driver.Claimed{Job: sojourn.Job{ID: id, Kind: kindA.Name, Weight: 1, Args: []byte("{}")}, Purpose: sojourn.PurposeStart,
			Lease: sojourn.Lease{ID: id, Worker: r.Worker, Epoch: 1}, LeaseFor: r.Lease, Timeout: time.Hour}
	}
	s.left -= len(got)
	return got, nil
}

func (s *idle) Finish(_ context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	out := make([]driver.Finished, len(outcomes))
	for i, o := range outcomes {
		if out[i] = (driver.Finished{Status: driver.FinishApplied, State: sojourn.Completed}); o.Lease.ID == 1 {
			close(s.done)
		}
	}
	return out, nil
}

// What the worker itself costs for each job: with a handler that does nothing, and with one that
// looks at its context as clients do.
func BenchmarkSteps(b *testing.B) {
	for name, looks := range map[string]bool{"nothing": false, "context": true} {
		b.Run(name, func(b *testing.B) {
			s := &idle{left: b.N, done: make(chan struct{})}
			w := New(sojourn.NewClient(s), Options{Concurrency: 500, SweepEvery: -1})
			Handle(w, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error {
				if looks {
					below, stop := context.WithTimeout(ctx, time.Second)
					defer stop()
					return below.Err()
				}
				return nil
			})
			ctx, stop := context.WithCancel(b.Context())
			b.ReportAllocs()
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			<-s.done
			b.StopTimer()
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}
