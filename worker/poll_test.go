package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// asks is a poll function.
type asks = func(ctx context.Context, job *sojourn.Job, a args) (*Answer, error)

func waits(context.Context, *sojourn.Job, args) error { return sojourn.Await(0) }

// often polls after 10 s, 20 s, 40 s, 40 s.
var often = sojourn.Backoff{First: 10 * time.Second, Limit: 40 * time.Second, Jitter: -1}

// Each end of a poll function; none of them burns the job's attempt: tr:P1, tr:P2, rules:B11.
func TestPollEnds(t *testing.T) {
	for _, c := range []struct {
		name, outcome, reason string
		state                 sojourn.State
		fn                    asks
	}{
		{"no answer", "no_answer", "", sojourn.Awaiting, func(context.Context, *sojourn.Job, args) (*Answer, error) { return nil, nil }},
		{"answer", "answer", "", sojourn.Ready, func(context.Context, *sojourn.Job, args) (*Answer, error) { return &Answer{Body: []byte("{}")}, nil }},
		{"error", "no_answer", "boom", sojourn.Awaiting, func(context.Context, *sojourn.Job, args) (*Answer, error) { return nil, errBoom }},
		{"error beside an answer", "no_answer", "boom", sojourn.Awaiting, func(context.Context, *sojourn.Job, args) (*Answer, error) { return &Answer{}, errBoom }},
		{"abort is an error", "no_answer", "boom", sojourn.Awaiting, func(context.Context, *sojourn.Job, args) (*Answer, error) { return nil, sojourn.Abort(errBoom) }},
		{"panic", "no_answer", "panic", sojourn.Awaiting, func(context.Context, *sojourn.Job, args) (*Answer, error) { panic("ouch") }},
		{"goexit", "no_answer", "", sojourn.Awaiting, func(context.Context, *sojourn.Job, args) (*Answer, error) { runtime.Goexit(); return nil, nil }},
		{"too long", "no_answer", "run_timeout", sojourn.Awaiting, func(ctx context.Context, _ *sojourn.Job, _ args) (*Answer, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		{"too long, deaf", "no_answer", "run_timeout", sojourn.Awaiting, func(ctx context.Context, _ *sojourn.Job, _ args) (*Answer, error) {
			time.Sleep(10 * time.Minute)
			return nil, nil
		}},
		{"answer too large", "no_answer", "too_large", sojourn.Awaiting, func(context.Context, *sojourn.Job, args) (*Answer, error) {
			return &Answer{Body: make([]byte, sojourn.DefaultMaxBytes+1)}, nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.add(kindA.New(args{1}, sojourn.MaxAttempts(1)))
				w := New(sojourn.NewClient(f), Options{SweepEvery: -1})
				Handle(w, kindA, waits, Poll(kindA, often, c.fn))
				for range 2 {
					if ok, err := w.RunOnce(t.Context()); !ok || err != nil && c.name != "too long, deaf" {
						t.Fatalf("RunOnce: %v, %v", ok, err)
					}
					time.Sleep(10 * time.Second)
				}
				j := f.job(1)
				last := j.history[len(j.history)-1]
				if j.State != c.state || j.Attempt != 1 || j.Failures+j.Crashes != 0 || last.Outcome != c.outcome || last.Reason != c.reason {
					t.Errorf("the job is %s after %+v, attempt %d", j.State, last, j.Attempt)
				}
				if c.state == sojourn.Awaiting && j.row.Wait.Polls != 1 {
					t.Errorf("%d polls are counted, want 1", j.row.Wait.Polls)
				}
				time.Sleep(10 * time.Minute)
			})
		})
	}
}

// A waiting job is polled with back-off, until the poll function brings the answer; then the
// handler runs for the same attempt.
func TestPollBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		began := time.Now()
		var at []time.Duration
		w := New(sojourn.NewClient(f), Options{})
		Handle(w, kindA, func(_ context.Context, j *sojourn.Job, a args) error {
			if j.Purpose == sojourn.PurposeStart {
				return sojourn.Await(0)
			}
			return nil
		}, Poll(kindA, often, func(ctx context.Context, j *sojourn.Job, a args) (*Answer, error) {
			if left, ok := ctx.Deadline(); !ok || time.Until(left) > MaxPoll || a.N != 7 {
				t.Errorf("the poll function has until %v, and the args %+v", left, a)
			}
			at = append(at, time.Since(began))
			if len(at) < 4 {
				return nil, nil
			}
			return &Answer{Body: []byte(`"done"`)}, nil
		}))
		f.add(kindA.New(args{7}))
		stop := start(t, w)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		before := time.Duration(0)
		for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 40 * time.Second} {
			if i >= len(at) || at[i]-before < want || at[i]-before > want+2*askAnew { // the fake looks once a second
				t.Fatalf("polled at %v; poll %d has to come after %v", at, i+1, want)
			}
			before = at[i]
		}
		j := f.job(1)
		if j.State != sojourn.Completed || j.Attempt != 1 || len(j.history) != 6 {
			t.Errorf("the job is %s in attempt %d, after %d steps", j.State, j.Attempt, len(j.history))
		}
		mustStop(t, stop)
	})
}

// A worker without a poll function asks for no poll steps, and its waits name none; one of a kind
// claims those of this kind only.
func TestPollOnlyWithFunction(t *testing.T) {
	f := newFake()
	f.add(kindA.New(args{1}))
	j := once(t, f, Options{}, kindA, waits)
	if len(f.requests[0].Pollable) != 0 || j.row.Wait.Poll != (sojourn.Backoff{}) {
		t.Errorf("a worker that cannot poll asks for %v, and waits with %+v", f.requests[0].Pollable, j.row.Wait)
	}
	f = newFake()
	f.add(kindA.New(args{1}))
	none := func(context.Context, *sojourn.Job, args) (*Answer, error) { return nil, nil }
	j = once(t, f, Options{}, kindA, waits, Poll(kindA, sojourn.Backoff{}, none))
	if got := fmt.Sprint(f.requests[0].Pollable, j.row.Wait.Poll); got != "[a] {1m0s 2 1h0m0s 0.2}" {
		t.Errorf("a worker that polls asks for, and waits with: %s", got)
	}
}

// Poll steps use the worker's concurrency, one each, and end with a shutdown: tr:P3.
func TestPollRoomAndShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var now, most atomic.Int32
		w := New(sojourn.NewClient(f), Options{Concurrency: 3, Grace: time.Second})
		Handle(w, kindA, waits, Poll(kindA, often, func(ctx context.Context, _ *sojourn.Job, _ args) (*Answer, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		for range 10 {
			f.add(kindA.New(args{1}, sojourn.Weight(0)))
		}
		stop := start(t, w)
		time.Sleep(15 * time.Second)
		if most.Load() != 3 {
			t.Errorf("%d poll functions ran at once, want 3", most.Load())
		}
		if _, err := stop(); err != nil {
			t.Error(err)
		}
		for id := range sojourn.ID(10) {
			if j := f.job(id + 1); j.State != sojourn.Awaiting || j.row.Wait.Polls != 0 || j.Failures+j.Crashes != 0 {
				t.Errorf("job %d is %s after %d polls", id+1, j.State, j.row.Wait.Polls)
			}
		}
	})
}

func TestPollMistakes(t *testing.T) {
	other := sojourn.Kind[args]{Name: "b"}
	fine := func(context.Context, *sojourn.Job, args) (*Answer, error) { return nil, nil }
	for _, c := range []struct {
		want string
		o    HandleOption
	}{
		{"of the kind b", Poll(other, often, fine)},
		{"nil poll function", Poll[args](kindA, often, nil)},
		{"too often", Poll(kindA, sojourn.Backoff{First: time.Millisecond}, fine)},
		{"too often", Poll(kindA, sojourn.Backoff{First: -1}, fine)},
		{"backoff.factor", Poll(kindA, sojourn.Backoff{Factor: 0.5}, fine)},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, c.want) {
					t.Errorf("Handle panicked with %q, want %q", text, c.want)
				}
			}()
			Handle(New(sojourn.NewClient(newFake()), Options{}), kindA, waits, c.o)
		}()
	}
}

// Args that do not decode are an error of the poll, also if the codec panics.
func TestPollUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evil := sojourn.Kind[args]{Name: "a", Codec: evilCodec{sojourn.JSON}}
		f := newFake()
		f.add(sojourn.NewJob("a", []byte("{}")))
		w := New(sojourn.NewClient(f), Options{SweepEvery: -1})
		Handle(w, kindA, waits, Poll(evil, often, func(context.Context, *sojourn.Job, args) (*Answer, error) { return nil, errors.New("never") }))
		w.RunOnce(t.Context())
		time.Sleep(10 * time.Second)
		w.RunOnce(t.Context())
		if last := f.job(1).history[1]; last.Outcome != "no_answer" || last.Reason != sojourn.ReasonUndecodable {
			t.Errorf("the poll ended as %+v", last)
		}
	})
}
