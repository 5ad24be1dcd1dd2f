package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// inv:J2, spec:W11, tr:F11: the grace is for handlers to end by themselves; then their contexts
// end, and an error hands the job back with its budgets untouched, while a result counts.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 5 {
			f.add(kindA.New(args{}))
		}
		w := New(sojourn.NewClient(f), Options{Grace: 10 * time.Second})
		Handle(w, kindA, func(ctx context.Context, j *sojourn.Job, _ args) error {
			switch j.ID {
			case 1: // ends within the grace
				time.Sleep(5 * time.Second)
				return errBoom
			case 2: // gives up when told
				<-ctx.Done()
				if context.Cause(ctx) != ErrShutdown {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				return ctx.Err()
			case 3: // completes when told
				<-ctx.Done()
				return nil
			case 4: // parks when told
				<-ctx.Done()
				return sojourn.Await(0)
			}
			time.Sleep(12 * time.Second) // needs a while to give up
			return errBoom
		})
		stop := start(t, w)
		time.Sleep(time.Second)
		f.addLater(2*time.Second, kindA.New(args{})) // becomes ready during the drain
		took, err := stop()
		if err != nil || took < 10*time.Second || took > 15*time.Second {
			t.Errorf("Run returned %v after %v", err, took)
		}
		for id, want := range []sojourn.State{sojourn.Scheduled, sojourn.Ready, sojourn.Completed, sojourn.Awaiting, sojourn.Ready, sojourn.Ready} {
			j := f.job(sojourn.ID(id + 1))
			if j.State != want || id > 0 && j.Failures+j.Crashes > 0 {
				t.Errorf("job %d is %s with %d failures, want %s", id+1, j.State, j.Failures, want)
			}
		}
		if f.job(6).Epoch != 0 {
			t.Error("a job was claimed during the drain")
		}
	})
}

// A handler that ignores its context is abandoned; its job is handed back, and its later calls
// change nothing. Always within the grace and 5 s: inv:J2.
func TestDrainLeavesHandlersBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		w := New(sojourn.NewClient(f), Options{Grace: -1})
		end := make(chan struct{})
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error { <-end; return nil })
		stop := start(t, w)
		synctest.Wait()
		took, err := stop()
		if err == nil || took > 5*time.Second {
			t.Errorf("Run returned %v after %v, want an error about the handler within 5 s", err, took)
		}
		if j := f.job(1); j.State != sojourn.Ready || j.Failures+j.Crashes > 0 {
			t.Errorf("job is %s", j.State)
		}
		close(end)
		synctest.Wait()
		if j := f.job(1); j.State != sojourn.Ready || j.Epoch != 1 {
			t.Errorf("job is %s after %d claims", j.State, j.Epoch)
		}
	})
}

// Jobs that a claim has taken although Run's context had ended are handed back at once, and never
// started.
func TestDrainReturnsLateClaims(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.add(kindA.New(args{}))
			first := true
			f.onClaim = func(ctx context.Context, _ driver.ClaimRequest) (before, after error) {
				if !first {
					return nil, nil
				}
				first = false
				<-ctx.Done()
				if unknown {
					return nil, &sojourn.Error{Code: sojourn.CodeUnknown, Message: "broken off", Err: ctx.Err()}
				}
				return nil, nil
			}
			w := New(sojourn.NewClient(f), Options{})
			Handle(w, kindA, func(context.Context, *sojourn.Job, args) error { t.Error("started"); return nil })
			stop := start(t, w)
			time.Sleep(time.Second)
			mustStop(t, stop)
			last := f.requests[len(f.requests)-1]
			if last.Close != unknown {
				t.Errorf("unknown %v: the last claim is %+v", unknown, last)
			}
			if j := f.job(1); j.State != sojourn.Ready || j.Epoch != 1 || len(f.finishes) != 1 {
				t.Errorf("unknown %v: job is %s after %d claims and %d reports", unknown, j.State, j.Epoch, len(f.finishes))
			}
		})
	}
}

// A store that does not answer cannot delay the end, even if it ignores its context; Run returns an
// error that counts the unreported jobs.
func TestDrainFromADeadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		back := make(chan struct{})
		f.onFinish = func(context.Context, []sojourn.Outcome) (before, after error) { <-back; return errDown, nil }
		w := New(sojourn.NewClient(f), Options{Grace: time.Second})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		time.Sleep(time.Second)
		took, err := stop()
		if err == nil || took > 6*time.Second {
			t.Errorf("Run returned %v after %v, want an error within the grace and 5 s", err, took)
		}
		close(back)
		synctest.Wait()
	})
}

// RunOnce drains too when its context ends.
func TestRunOnceIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}))
		w := New(sojourn.NewClient(f), Options{Grace: time.Second})
		Handle(w, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error { <-ctx.Done(); return ctx.Err() })
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if ok, err := w.RunOnce(ctx); !ok || err != nil {
			t.Errorf("RunOnce: %v, %v", ok, err)
		}
		if j := f.job(1); j.State != sojourn.Ready || j.Failures > 0 {
			t.Errorf("job is %s", j.State)
		}
	})
}
