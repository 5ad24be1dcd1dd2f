package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// seen is an Observer that counts.
type seen struct {
	mu     sync.Mutex
	events []Event
}

func (s *seen) Observe(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *seen) of(t EventType) (found []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Type == t {
			found = append(found, e)
		}
	}
	return found
}

func (s *seen) count(t EventType) int { return len(s.of(t)) }

// Nothing to do costs next to nothing: a few blocked claims a minute, no other writes. spec:W8
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		time.Sleep(10 * time.Minute)
		mustStop(t, stop)
		if len(f.requests) > 62 || f.extends+len(f.finishes) > 0 || f.sweeps < 120 || f.sweeps > 152 {
			t.Errorf("in 10 idle minutes: %d claims, %d extends, %d reports, %d sweeps", len(f.requests), f.extends, len(f.finishes), f.sweeps)
		}
		for i := 1; i < len(f.requests); i++ {
			if f.requests[i].Number <= f.requests[i-1].Number {
				t.Fatalf("claim numbers do not rise: %d after %d", f.requests[i].Number, f.requests[i-1].Number)
			}
		}
		if q := f.requests[0]; q.Queues[0] != "default" || q.Kinds[0] != "a" || len(q.Decidable) != 0 || q.Worker != w.ID() || q.Lease != 30*time.Second {
			t.Errorf("request %+v", q)
		}
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}), kindA.New(args{}))
		s := &seen{}
		w := New(sojourn.NewClient(f), Options{Observer: s})
		Handle(w, kindA, func(_ context.Context, j *sojourn.Job, _ args) error {
			time.Sleep(11 * time.Second)
			if j.ID == 1 {
				return errBoom
			}
			return nil
		})
		f.onSweep = func() error { return errDown }
		stop := start(t, w)
		time.Sleep(12 * time.Second)
		mustStop(t, stop)
		if s.count(EventClaimed) != 2 || s.count(EventStarted) != 2 || s.count(EventExtended) != 1 || s.count(EventFailure) < 3 {
			t.Errorf("events %+v", s.events)
		}
		for _, e := range s.of(EventFinished) {
			want := map[sojourn.ID]string{1: "error scheduled boom", 2: "completed completed "}[e.Job]
			if got := fmt.Sprintf("%s %s %s", e.Outcome, e.State, e.Reason); got != want || e.Ran != 11*time.Second || e.Kind != "a" || e.Queue != "default" {
				t.Errorf("finished %+v, want %s", e, want)
			}
		}
		if e := s.of(EventFailure)[0]; e.Call != "sweep" || !errors.Is(e.Err, errDown) {
			t.Errorf("failure %+v", e)
		}
	})
}

type badObserver struct{}

func (badObserver) Observe(Event) { panic("metrics are down") }

// inv:J3: an observer that panics changes nothing.
func TestObserverPanics(t *testing.T) {
	f := newFake()
	f.add(kindA.New(args{}))
	if j := once(t, f, Options{Observer: badObserver{}}, kindA, nothing); j.State != sojourn.Completed {
		t.Errorf("job is %s", j.State)
	}
}

func TestRunOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(sojourn.NewClient(newFake()), Options{})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		synctest.Wait()
		if err := w.Run(t.Context()); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("a second Run beside the first: %v", err)
		}
		mustStop(t, stop)
		if ok, err := w.RunOnce(t.Context()); ok || err != nil {
			t.Errorf("after Run: %v, %v", ok, err)
		}
	})
}

// The response to an executed claim is lost: the same number is claimed again, and no job waits for
// the end of its lease. rules:A3, tr:C6
func TestClaimAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		n := 0
		f.onClaim = func(context.Context, driver.ClaimRequest) (before, after error) {
			if n++; n == 1 {
				return nil, &sojourn.Error{Code: sojourn.CodeUnknown, Message: "the line broke"}
			}
			return nil, nil
		}
		f.add(kindA.New(args{}))
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		time.Sleep(time.Second)
		mustStop(t, stop)
		if j := f.job(1); j.State != sojourn.Completed || j.Epoch != 1 {
			t.Errorf("job is %s after %d claims", j.State, j.Epoch)
		}
		if a, b, c := f.requests[0], f.requests[1], f.requests[2]; a.Number != b.Number || b.Wait != 0 || c.Number == b.Number {
			t.Errorf("requests %+v\n%+v\n%+v", a, b, c)
		}
	})
}

// Calls to a store that is down are retried with back-off, with pauses of up to 10 s, and the
// worker works again when the store is back.
func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var calls atomic.Int32
		var up atomic.Bool
		f.onClaim = func(context.Context, driver.ClaimRequest) (before, after error) {
			if calls.Add(1); !up.Load() {
				return errDown, nil
			}
			return nil, nil
		}
		f.add(kindA.New(args{}))
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		time.Sleep(5 * time.Minute)
		if n := calls.Load(); n < 30 || n > 60 {
			t.Errorf("%d claims in 5 minutes of a store that is down", n)
		}
		up.Store(true)
		time.Sleep(10 * time.Second)
		mustStop(t, stop)
		if f.job(1).State != sojourn.Completed {
			t.Errorf("job is %s", f.job(1).State)
		}
	})
}

// A closed store, or one that calls the request invalid, ends Run.
func TestRunEndsWithTheStore(t *testing.T) {
	for _, want := range []error{sojourn.ErrClosed, sojourn.Invalid("kinds", "no")} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.add(kindA.New(args{}))
			var down atomic.Bool
			now := func() error {
				if down.Load() {
					return want
				}
				return nil
			}
			f.onClaim = func(context.Context, driver.ClaimRequest) (before, after error) { return now(), nil }
			f.onFinish = func(context.Context, []sojourn.Outcome) (before, after error) { return now(), nil }
			w := New(sojourn.NewClient(f), Options{})
			Handle(w, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error {
				down.Store(true)
				select {
				case <-ctx.Done():
				case <-time.After(25 * time.Second):
				}
				return nil
			})
			began := time.Now()
			err := w.Run(t.Context())
			limit := 30 * time.Second
			if want == sojourn.ErrClosed { // results of handlers are lost
				limit = 6 * time.Second
			}
			if !errors.Is(err, want) || time.Since(began) > limit {
				t.Errorf("Run returned %v after %v", err, time.Since(began))
			}
		})
	}
}

// load counts what runs at the same time.
type load struct {
	mu        sync.Mutex
	jobs, max int
	weight    int32
	heaviest  int32
	beside    bool // an oversize job ran beside another
	limit     int32
}

func (l *load) add(j *sojourn.Job, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs += n
	l.weight += int32(n) * j.Weight
	l.max, l.heaviest = max(l.max, l.jobs), max(l.heaviest, l.weight)
	l.beside = l.beside || l.weight > l.limit && l.jobs > 1
}

func (l *load) handle(d time.Duration) func(context.Context, *sojourn.Job, args) error {
	return func(_ context.Context, j *sojourn.Job, _ args) error {
		l.add(j, 1)
		defer l.add(j, -1)
		time.Sleep(d)
		return nil
	}
}

// Weights count against the concurrency; weight 0 does not; one that is heavier than the
// concurrency runs alone. spec:W9, spec:B4
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for i := range 40 {
			f.add(kindA.New(args{}, sojourn.Weight(int32(i%5))))
		}
		f.add(kindA.New(args{}, sojourn.Weight(50)))
		l := &load{limit: 10}
		w := New(sojourn.NewClient(f), Options{Concurrency: 10})
		Handle(w, kindA, l.handle(time.Minute))
		stop := start(t, w)
		time.Sleep(30 * time.Minute)
		mustStop(t, stop)
		for id := range sojourn.ID(41) {
			if j := f.job(id + 1); j.State != sojourn.Completed {
				t.Errorf("job %d of weight %d is %s", j.ID, j.Weight, j.State)
			}
		}
		if l.heaviest != 50 || l.beside || l.max < 6 {
			t.Errorf("weight at most %d, jobs at most %d, beside %v", l.heaviest, l.max, l.beside)
		}
	})
}

// A claim that was sent with little capacity is soon replaced by a new one, so that a heavy job
// does not wait for it when more capacity is free.
func TestHeavyJobAfterLittleRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 9 {
			f.add(kindA.New(args{}))
		}
		l := &load{limit: 10}
		w := New(sojourn.NewClient(f), Options{Concurrency: 10})
		Handle(w, kindA, l.handle(time.Second))
		stop := start(t, w)
		time.Sleep(1001 * time.Millisecond) // a claim with the capacity 1 may be blocked
		f.add(kindA.New(args{}, sojourn.Weight(10)))
		time.Sleep(2100 * time.Millisecond)
		if j := f.job(10); j.State != sojourn.Completed {
			t.Errorf("the heavy job is %s", j.State)
		}
		mustStop(t, stop)
	})
}

// Where weights differ, a claim that waits is broken off as soon as handlers have made room for
// jobs as heavy as those seen before; and no job is lost or run twice by that.
func TestClaimIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}, sojourn.Weight(6)), kindA.New(args{}, sojourn.Weight(6)), kindA.New(args{}))
		l := &load{limit: 10}
		w := New(sojourn.NewClient(f), Options{Concurrency: 10})
		Handle(w, kindA, l.handle(100*time.Millisecond))
		stop := start(t, w)
		time.Sleep(250 * time.Millisecond)
		for id := range sojourn.ID(3) {
			if j := f.job(id + 1); j.State != sojourn.Completed || j.Epoch != 1 {
				t.Errorf("job %d is %s after %d claims", id+1, j.State, j.Epoch)
			}
		}
		mustStop(t, stop)
	})
}

// spec:W9: with a minimum the worker asks in larger bites.
func TestMinConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 21 {
			f.add(kindA.New(args{}))
		}
		w := New(sojourn.NewClient(f), Options{Concurrency: 10, MinConcurrency: 3})
		Handle(w, kindA, func(_ context.Context, j *sojourn.Job, _ args) error {
			time.Sleep(time.Duration(j.ID) * time.Second)
			return nil
		})
		stop := start(t, w)
		time.Sleep(time.Minute)
		mustStop(t, stop)
		var asked []int
		for _, q := range f.requests {
			asked = append(asked, q.Max)
		}
		if want := "[1 9 8 8]"; fmt.Sprint(asked[:4]) != want {
			t.Errorf("asked for %v jobs, want %s first", asked, want)
		}
	})
}

// An idle worker first asks for one job, which may be heavier than its concurrency. That job must
// not be all that runs until it has ended.
func TestMinConcurrencyOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 20 {
			f.add(kindA.New(args{}))
		}
		release := make(chan struct{})
		w := New(sojourn.NewClient(f), Options{Concurrency: 10, MinConcurrency: 1})
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error {
			<-release
			return nil
		})
		stop := start(t, w)
		time.Sleep(time.Minute)
		f.mu.Lock()
		requests := slices.Clone(f.requests)
		f.mu.Unlock()
		if len(requests) != 2 || requests[0].Max != 1 || requests[1].Max != 9 {
			t.Errorf("%d claims within the first minute: %+v, want one job and then nine", len(requests), requests)
		}
		close(release)
		mustStop(t, stop)
	})
}

// With a backlog the next claim waits briefly for free capacity, so that the first handler that
// ends does not cause a claim for one job while the others end.
func TestClaimsFromABacklog(t *testing.T) {
	const took = 9 * time.Millisecond
	for _, c := range []struct {
		apart time.Duration // between the ends of handlers
		want  []int
	}{
		{100 * time.Microsecond, []int{1, 9, 5, 5}},
		{time.Second, []int{1, 9, 1, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			for range 100 {
				f.add(kindA.New(args{}))
			}
			f.onClaim = func(context.Context, driver.ClaimRequest) (before, after error) { time.Sleep(took); return nil, nil }
			w := New(sojourn.NewClient(f), Options{Concurrency: 10, Logger: slog.New(slog.DiscardHandler)})
			Handle(w, kindA, func(_ context.Context, j *sojourn.Job, _ args) error {
				time.Sleep(time.Duration(j.ID%10+1) * c.apart)
				return nil
			})
			stop := start(t, w)
			time.Sleep(time.Minute)
			mustStop(t, stop)
			var asked []int
			for _, q := range f.requests {
				asked = append(asked, q.Max)
			}
			if !slices.Equal(asked[:4], c.want) {
				t.Errorf("handlers that end %v apart: asked for %v jobs, want %v first", c.apart, asked, c.want)
			}
		})
	}
}

// Capacity is free when a handler returns, not when its report is answered; but a store that takes
// no reports gets no more than a batch beyond the concurrency.
func TestUnreportedOutcomesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 3000 {
			f.add(kindA.New(args{}))
		}
		var up atomic.Bool
		f.onFinish = func(context.Context, []sojourn.Outcome) (before, after error) {
			if !up.Load() {
				return errDown, nil
			}
			return nil, nil
		}
		w := New(sojourn.NewClient(f), Options{Concurrency: 10})
		Handle(w, kindA, nothing)
		stop := start(t, w)
		time.Sleep(time.Minute)
		count := func(s sojourn.State) (n int) {
			for id := range sojourn.ID(3000) {
				if f.job(id+1).State == s {
					n++
				}
			}
			return n
		}
		if n := count(sojourn.Running); n != 1010 {
			t.Errorf("%d jobs in hand, want the concurrency and a batch", n)
		}
		up.Store(true)
		time.Sleep(time.Minute)
		mustStop(t, stop)
		if n := count(sojourn.Completed); n != 3000 {
			t.Errorf("%d jobs completed", n)
		}
	})
}
