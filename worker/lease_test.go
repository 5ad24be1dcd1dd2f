package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
)

// waitForCause is a handler that reports with what its context ended, and when.
func waitForCause(causes chan<- error) func(context.Context, *sojourn.Job, args) error {
	return func(ctx context.Context, _ *sojourn.Job, _ args) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}
}

// All leases are extended in one call every third of the lease, for as long as handlers run:
// spec:L2, spec:L5, spec:X12, tr:L1.
func TestExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}), kindA.New(args{}), kindA.New(args{}))
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error { time.Sleep(305 * time.Second); return nil })
		stop := start(t, w)
		time.Sleep(301 * time.Second)
		if n, _ := f.calls(); n != 30 {
			t.Errorf("%d calls of Extend for 3 jobs in 301 s, want 30", n)
		}
		for id := range sojourn.ID(3) {
			if j := f.job(id + 1); time.Until(j.until) < 19*time.Second {
				t.Errorf("job %d has a lease of %v left", id+1, time.Until(j.until))
			}
		}
		time.Sleep(10 * time.Second)
		mustStop(t, stop)
		if f.job(1).State != sojourn.Completed || f.extends != 30 {
			t.Errorf("job is %s; %d extends", f.job(1).State, f.extends)
		}
	})
}

// A repeated claim may return leases of which most is over: they are extended at once, because the
// next extension of all leases may come after their end. An extension without an answer is sent
// again before the handler is stopped.
func TestLeasesOfARepeatedClaim(t *testing.T) {
	for _, c := range []struct {
		name     string
		unheard  int           // extensions that are not answered
		slow     time.Duration // how long the answer of the others takes
		wantLeft time.Duration
	}{
		{"at once", 0, 0, sojourn.DefaultLease - 2*time.Second},
		{"an extension without an answer", 1, 0, 0},
		{"two extensions without an answer", 2, 0, 0},
		{"slow answers", 0, 4 * time.Second, 0}, // handlers are stopped after 5 s
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leaseOfRepeatedClaim(t, c.unheard, c.slow, c.wantLeft) })
		})
	}
}

func leaseOfRepeatedClaim(t *testing.T, unheard int, slow, wantLeft time.Duration) {
	f := newFake()
	var mu sync.Mutex
	f.onExtend = func(ctx context.Context) error {
		mu.Lock()
		unheard--
		heard := unheard < 0
		mu.Unlock()
		if heard {
			select {
			case <-time.After(slow):
				return nil
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
		return &sojourn.Error{Code: sojourn.CodeUnknown, Message: "no answer", Err: ctx.Err()}
	}
	f.add(kindA.New(args{}))
	first := true
	f.onClaim = func(ctx context.Context, r driver.ClaimRequest) (before, after error) {
		if !first {
			return nil, nil
		}
		first = false
		if got, err := f.Claim(ctx, r); err != nil || len(got) != 1 {
			t.Errorf("%d jobs, %v", len(got), err)
		}
		<-ctx.Done() // executed, and its answer never comes
		return &sojourn.Error{Code: sojourn.CodeUnknown, Message: "no answer", Err: ctx.Err()}, nil
	}
	w := New(sojourn.NewClient(f), Options{})
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	Handle(w, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error {
		begin()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return nil
		}
	})
	stop := start(t, w)
	<-began
	synctest.Wait()
	if left := time.Until(f.job(1).until); left < wantLeft {
		t.Errorf("the lease of the repeated claim ends %v after its handler has begun", left)
	}
	time.Sleep(time.Minute)
	mustStop(t, stop)
	if j := f.job(1); j.State != sojourn.Completed || j.Epoch != 1 {
		t.Errorf("job is %s after %d claims", j.State, j.Epoch)
	}
}

// inv:F5: handlers that use all processors do not hold up the leases.
func TestBusyHandlersDoNotStarveTheLeases(t *testing.T) {
	f := newFake()
	n := 4 * runtime.GOMAXPROCS(0)
	var end atomic.Bool
	for range n {
		f.add(kindA.New(args{}))
	}
	w := New(sojourn.NewClient(f), Options{Concurrency: n, Lease: time.Second})
	Handle(w, kindA, func(context.Context, *sojourn.Job, args) error {
		for !end.Load() {
		}
		return nil
	})
	stop := start(t, w)
	deadline := time.Now().Add(2 * time.Minute)
	extends := 0
	for extends < 5 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
		extends, _ = f.calls()
	}
	end.Store(true)
	if _, err := stop(); err != nil || extends < 5 {
		t.Errorf("%d extends with a lease of 1 s; Run: %v", extends, err)
	}
	for id := range n {
		if j := f.job(sojourn.ID(id + 1)); j.State != sojourn.Completed {
			t.Errorf("job %d is %s", id+1, j.State)
		}
	}
}

// A lost lease ends the handler's context with a cause that says why: inv:C2, inv:F3, tr:L5.
func TestLostLeases(t *testing.T) {
	for _, c := range []struct {
		name  string
		event rules.Event
		cause error
	}{
		{"cancelled", rules.Event{Type: rules.EventCancel}, ErrCancelled},
		{"ended", rules.Event{Type: rules.EventLeaseEnded}, sojourn.ErrLeaseLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.add(kindA.New(args{}, sojourn.WithPolicy(sojourn.Policy{OnLost: sojourn.Fail})))
				seen := &seen{}
				w := New(sojourn.NewClient(f), Options{Observer: seen})
				causes := make(chan error, 1)
				Handle(w, kindA, waitForCause(causes))
				stop := start(t, w)
				time.Sleep(time.Second)
				began := time.Now()
				f.event(1, c.event)
				if cause := <-causes; cause != c.cause || !errors.Is(cause, sojourn.ErrLeaseLost) {
					t.Errorf("cause %v, want %v", cause, c.cause)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("the handler learned it after %v", took)
				}
				mustStop(t, stop)
				if len(f.finishes) != 0 || seen.count(EventLost) != 1 {
					t.Errorf("%d reports, %d lost", len(f.finishes), seen.count(EventLost))
				}
			})
		})
	}
}

// spec:L6, inv:F3: without an extension the context ends before the lease does; what the handler
// has is still reported (rules:A4), and its error is not held against the job.
func TestNotExtended(t *testing.T) {
	for _, c := range []struct {
		name string
		done bool
		want sojourn.State
	}{{"result", true, sojourn.Completed}, {"error", false, sojourn.Ready}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.add(kindA.New(args{}))
				var up atomic.Bool
				f.onExtend = func(context.Context) error {
					if up.Load() {
						return nil
					}
					return errDown
				}
				w := New(sojourn.NewClient(f), Options{})
				var cause error
				Handle(w, kindA, func(ctx context.Context, j *sojourn.Job, _ args) error {
					if j.Epoch > 1 {
						return sojourn.Snooze(time.Hour)
					}
					<-ctx.Done()
					cause = context.Cause(ctx)
					if left := time.Until(f.job(1).until); left < 4*time.Second || left > 6*time.Second {
						t.Errorf("the context ended %v before the lease, want about 5 s", left)
					}
					up.Store(true)
					if c.done {
						return nil
					}
					return ctx.Err()
				})
				stop := start(t, w)
				time.Sleep(40 * time.Second)
				mustStop(t, stop)
				j := f.job(1)
				if cause != ErrNotExtended {
					t.Errorf("cause %v", cause)
				}
				first := j.history[0]
				if first.State != c.want || j.Failures != 0 || j.Crashes != 0 {
					t.Errorf("job became %s, failures %d", first.State, j.Failures)
				}
			})
		})
	}
}

// One failing call, or one that hangs, is made good by the next: no handler notices.
func TestExtendIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		var calls atomic.Int32
		f.onExtend = func(ctx context.Context) error {
			switch n := calls.Add(1); {
			case n%3 == 0:
				<-ctx.Done() // hangs until the worker gives up
				return ctx.Err()
			case n%3 == 1:
				return errDown
			}
			return nil
		}
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error {
			select {
			case <-time.After(5 * time.Minute):
				return nil
			case <-ctx.Done():
				t.Errorf("the context ended: %v", context.Cause(ctx))
				return nil
			}
		})
		stop := start(t, w)
		time.Sleep(6 * time.Minute)
		mustStop(t, stop)
		if f.job(1).State != sojourn.Completed {
			t.Errorf("job is %s", f.job(1).State)
		}
	})
}

// spec:L3: a strict lease is not extended; the handler's context ends with it, and its error
// counts.
func TestNoExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}, sojourn.WithPolicy(sojourn.Policy{NoExtend: new(true), MaxAttempts: 1})))
		w := New(sojourn.NewClient(f), Options{})
		causes := make(chan error, 1)
		Handle(w, kindA, func(ctx context.Context, j *sojourn.Job, a args) error {
			time.Sleep(10 * time.Second)
			if err := j.SetProgress(ctx, "half"); err != nil {
				t.Error(err)
			}
			return waitForCause(causes)(ctx, j, a)
		})
		stop := start(t, w)
		began := time.Now()
		if cause := <-causes; cause != ErrLeaseOver || time.Since(began) != 25*time.Second {
			t.Errorf("cause %v after %v", cause, time.Since(began))
		}
		synctest.Wait()
		mustStop(t, stop)
		if j := f.job(1); j.State != sojourn.Failed || j.Reason != sojourn.ReasonLeaseLost || f.extends != 0 {
			t.Errorf("job is %s, reason %q, after %d extends", j.State, j.Reason, f.extends)
		}
	})
}

// One timer watches all leases: each handler is cancelled at its own time, no matter when its job
// was claimed, and a handler that continues is cancelled once.
func TestLeasesAreWatchedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.onExtend = func(context.Context) error { return errDown }
		seen := &seen{}
		w := New(sojourn.NewClient(f), Options{Observer: seen, Concurrency: 30, Logger: slog.New(slog.DiscardHandler)})
		told := make(chan time.Duration, 21)
		Handle(w, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error {
			began := time.Now()
			<-ctx.Done()
			told <- time.Since(began)
			time.Sleep(2 * time.Minute)
			return nil
		})
		f.add(kindA.New(args{})) // a worker with a taken job claims every second, and leases count from its claim
		stop := start(t, w)
		for range 10 {
			time.Sleep(3 * time.Second)
			f.add(kindA.New(args{}), kindA.New(args{}))
		}
		for range 21 {
			if after := <-told; after < 24*time.Second || after > 25*time.Second {
				t.Errorf("a handler was told %v after its job was claimed, want 25 s", after)
			}
		}
		time.Sleep(3 * time.Minute)
		mustStop(t, stop)
		warned := 0
		for _, e := range seen.of(EventFailure) {
			if errors.Is(e.Err, ErrNotExtended) {
				warned++
			}
		}
		if warned != 21 {
			t.Errorf("%d warnings about 21 leases", warned)
		}
	})
}

// A handler's Save extends too, and tells of a lost lease at once: tr:L2.
func TestSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}), kindA.New(args{}))
		f.onExtend = func(context.Context) error { return errDown }
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, func(ctx context.Context, j *sojourn.Job, _ args) error {
			if j.ID == 2 {
				f.event(2, rules.Event{Type: rules.EventCancel})
				if err := j.SetProgress(ctx, "half"); !errors.Is(err, sojourn.ErrLeaseLost) || !errors.Is(context.Cause(ctx), sojourn.ErrLeaseLost) {
					t.Errorf("a save under a lost lease: %v, cause %v", err, context.Cause(ctx))
				}
				return nil
			}
			for range 10 {
				time.Sleep(20 * time.Second)
				if err := j.SaveCheckpoint(ctx, []byte("c")); err != nil || ctx.Err() != nil {
					t.Errorf("checkpoint: %v, context %v", err, ctx.Err())
				}
			}
			return nil
		})
		stop := start(t, w)
		time.Sleep(201 * time.Second)
		mustStop(t, stop)
		if a := f.job(1); a.State != sojourn.Completed || string(a.Checkpoint) != "c" {
			t.Errorf("job is %s, checkpoint %q", a.State, a.Checkpoint)
		}
	})
}
