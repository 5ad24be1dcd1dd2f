package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// once runs one step of one job and returns the job.
func once(t *testing.T, f *fake, o Options, k sojourn.Kind[args], fn func(context.Context, *sojourn.Job, args) error, hs ...HandleOption) fakeJob {
	t.Helper()
	w := New(sojourn.NewClient(f), o)
	Handle(w, k, fn, hs...)
	if ok, err := w.RunOnce(t.Context()); !ok || err != nil {
		t.Fatalf("RunOnce: %v, %v", ok, err)
	}
	return f.job(1)
}

// What ends a step other than its return: inv:J3, inv:P3, spec:R4, spec:R11, tr:F13.
func TestBrokenSteps(t *testing.T) {
	strict := sojourn.Kind[args]{Name: "a", Policy: sojourn.Policy{OnPanic: sojourn.Fail}}
	evil := sojourn.Kind[args]{Name: "a", Codec: evilCodec{sojourn.JSON}}
	for _, c := range []struct {
		name         string
		kind         sojourn.Kind[args]
		args         string
		fn           func(context.Context, *sojourn.Job, args) error
		state        sojourn.State
		reason, text string
		failures     int32
	}{
		{"panic", kindA, "{}", func(context.Context, *sojourn.Job, args) error { panic("ouch") }, sojourn.Scheduled, "panic", "step_test.go", 1},
		{"panic that fails", strict, "{}", func(context.Context, *sojourn.Job, args) error { panic("ouch") }, sojourn.Failed, "panic", "ouch", 1},
		{"nil panic", kindA, "{}", func(context.Context, *sojourn.Job, args) error { panic(nil) }, sojourn.Scheduled, "panic", "nil", 1},
		{"goexit", kindA, "{}", func(context.Context, *sojourn.Job, args) error { runtime.Goexit(); return nil }, sojourn.Scheduled, "goexit", "Goexit", 1},
		{"undecodable", kindA, "{", nothing, sojourn.Failed, "undecodable", "unexpected end", 0},
		{"panicking codec", evil, "{}", nothing, sojourn.Failed, "undecodable", "index out of range", 0},
		{"error", kindA, "{}", func(context.Context, *sojourn.Job, args) error { return errBoom }, sojourn.Scheduled, "boom", "boom", 1},
		{"abort", kindA, "{}", func(context.Context, *sojourn.Job, args) error { return sojourn.Abort(errBoom) }, sojourn.Failed, "boom", "boom", 0},
		{"cancel", kindA, "{}", func(context.Context, *sojourn.Job, args) error { return sojourn.Cancel(errBoom) }, sojourn.Cancelled, "boom", "boom", 0},
		{"await", kindA, "{}", func(context.Context, *sojourn.Job, args) error { return sojourn.Await(0) }, sojourn.Awaiting, "", "", 0},
		{"snooze", kindA, "{}", func(context.Context, *sojourn.Job, args) error { return sojourn.Snooze(time.Hour) }, sojourn.Scheduled, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.add(sojourn.NewJob("a", []byte(c.args), sojourn.WithPolicy(sojourn.Policy{OnPanic: c.kind.Policy.OnPanic})))
			j := once(t, f, Options{}, c.kind, c.fn)
			if j.State != c.state || j.Reason != c.reason || !strings.Contains(j.Error, c.text) || j.Failures != c.failures {
				t.Errorf("job is %s, reason %q, error %q, failures %d", j.State, j.Reason, j.Error, j.Failures)
			}
		})
	}
}

type evilCodec struct{ sojourn.Codec }

func (evilCodec) Decode(b []byte, v any) error { _ = b[len(b)]; return nil }

func TestResultAndMiddleware(t *testing.T) {
	var order []string
	ring := func(name string) Middleware {
		return func(next Handler) Handler {
			return func(ctx context.Context, j *sojourn.Job) error {
				order = append(order, name)
				defer func() { order = append(order, name) }()
				return next(ctx, j)
			}
		}
	}
	f := newFake()
	f.add(kindA.New(args{7}))
	j := once(t, f, Options{Middleware: []Middleware{ring("outer"), ring("inner")}}, kindA, func(_ context.Context, j *sojourn.Job, a args) error {
		order = append(order, fmt.Sprint("handler ", a.N))
		return j.SetResult(map[string]int{"n": a.N})
	})
	if j.State != sojourn.Completed || string(j.Result) != `{"n":7}` {
		t.Errorf("job is %s with %s", j.State, j.Result)
	}
	if want := []string{"outer", "inner", "handler 7", "inner", "outer"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
}

// The first limit to pass ends the handler's context, with a cause that says which: spec:J19,
// tr:F2, tr:W6.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		policy sojourn.Policy
		reason string
		state  sojourn.State
		after  time.Duration
	}{
		{sojourn.Policy{RunTimeout: 2 * time.Minute}, sojourn.ReasonRunTimeout, sojourn.Scheduled, 2 * time.Minute},
		{sojourn.Policy{RunTimeout: 2 * time.Minute, Timeout: time.Minute}, sojourn.ReasonTimeout, sojourn.Scheduled, time.Minute},
		{sojourn.Policy{RunTimeout: 2 * time.Minute, Deadline: time.Second}, sojourn.ReasonDeadline, sojourn.Failed, time.Second},
	} {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.add(kindA.New(args{}, sojourn.WithPolicy(c.policy)))
				began := time.Now()
				j := once(t, f, Options{}, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error {
					<-ctx.Done()
					if time.Since(began) != c.after {
						t.Errorf("the context ended after %v, want %v", time.Since(began), c.after)
					}
					if l, ok := errors.AsType[*LimitError](context.Cause(ctx)); !ok || l.Reason != c.reason || ctx.Err() != context.DeadlineExceeded {
						t.Errorf("cause %v, error %v", context.Cause(ctx), ctx.Err())
					}
					return ctx.Err()
				})
				if j.State != c.state || j.Reason != c.reason || j.Failures != 1 {
					t.Errorf("job is %s, reason %q, failures %d", j.State, j.Reason, j.Failures)
				}
			})
		})
	}
}

// spec:T4: a step that must stop with its windows gets a cancelled context, and an error that it
// then returns hands its job back; tr:F11.
func TestWindowEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, began := newFake(), time.Now().UTC()
		window := sojourn.Window{Start: began.Format("15:04"), End: began.Add(2 * time.Hour).Format("15:04")}
		f.add(kindA.New(args{}, sojourn.In(window), sojourn.WithPolicy(sojourn.Policy{StopAtWindowEnd: new(true)})))
		j := once(t, f, Options{}, kindA, func(ctx context.Context, _ *sojourn.Job, _ args) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrWindowClosed) || time.Since(began) != 2*time.Hour {
				t.Errorf("cause %v after %v", context.Cause(ctx), time.Since(began))
			}
			return ctx.Err()
		})
		if j.State != sojourn.Ready || j.Failures != 0 || j.row.Attempt != 1 || !j.row.AttemptOpen {
			t.Errorf("job is %s, failures %d, attempt %d, open %v", j.State, j.Failures, j.row.Attempt, j.row.AttemptOpen)
		}
	})
}

// A handler that ignores a limit loses its job one lease after it; its later results are ignored.
func TestHandlerIgnoresItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}, sojourn.RunTimeout(time.Minute), sojourn.RetryBackoff(sojourn.Backoff{First: time.Hour, Jitter: -1})))
		w := New(sojourn.NewClient(f), Options{})
		end := make(chan struct{})
		f.onFinish = func(context.Context, []sojourn.Outcome) (before, after error) {
			close(end)
			time.Sleep(time.Second)
			return nil, nil
		}
		Handle(w, kindA, func(_ context.Context, j *sojourn.Job, _ args) error {
			<-end // while the report about it is under way
			if err := j.SaveCheckpoint(t.Context(), []byte("late")); !errors.Is(err, sojourn.ErrLeaseLost) {
				t.Errorf("late checkpoint: %v", err)
			}
			return nil
		})
		stop := start(t, w)
		time.Sleep(time.Minute + 29*time.Second)
		if j := f.job(1); j.State != sojourn.Running {
			t.Errorf("before one lease is over the job is %s", j.State)
		}
		time.Sleep(15 * time.Second)
		if j := f.job(1); j.State != sojourn.Scheduled || j.Reason != "run_timeout" || j.Failures != 1 {
			t.Errorf("job is %s, reason %q", j.State, j.Reason)
		}
		mustStop(t, stop)
		if j := f.job(1); j.State != sojourn.Scheduled || len(f.finishes) != 1 || len(j.Checkpoint) > 0 {
			t.Errorf("the late return changed the job: %s, %d reports, checkpoint %q", j.State, len(f.finishes), j.Checkpoint)
		}
	})
}

// asked records what a retry policy was asked.
type asked struct {
	mu      sync.Mutex
	jobs    []sojourn.Job
	history [][]sojourn.HistoryEntry
	answer  func(n int) sojourn.Verdict
}

func (a *asked) policy(j *sojourn.Job, h []sojourn.HistoryEntry) sojourn.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.jobs, a.history = append(a.jobs, *j), append(a.history, h)
	j.Failures = 1000 // a copy: changes nothing
	return a.answer(len(a.jobs))
}

// spec:A14, spec:R7: the policy sees the whole history, the present error last, and decides; with
// the budget used up it is not asked: tr:F2, tr:F3.
func TestRetryPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add(kindA.New(args{}, sojourn.MaxAttempts(4)))
		a := &asked{answer: func(n int) sojourn.Verdict {
			if n == 3 {
				panic("no idea")
			}
			return sojourn.Verdict{Delay: time.Duration(n) * time.Hour}
		}}
		w := New(sojourn.NewClient(f), Options{})
		var at []time.Duration
		began := time.Now()
		Handle(w, kindA, func(context.Context, *sojourn.Job, args) error {
			at = append(at, time.Since(began).Truncate(time.Minute))
			return fmt.Errorf("try %d", len(at))
		}, Retry(a.policy))
		stop := start(t, w)
		time.Sleep(20 * time.Hour)
		mustStop(t, stop)
		j := f.job(1)
		if j.State != sojourn.Failed || j.Failures != 4 || len(a.jobs) != 3 {
			t.Fatalf("job is %s after %d failures; the policy was asked %d times, want 3", j.State, j.Failures, len(a.jobs))
		}
		if at[1] != time.Hour || at[2] != 3*time.Hour || at[3] > 4*time.Hour {
			t.Errorf("attempts at %v, want 0, 1h, 3h, and soon after by the stored backoff", at)
		}
		last := a.history[2]
		if len(last) != 3 || last[0].Error != "try 1" || last[2].Error != "try 3" || last[2].Seq != 3 || last[2].Attempt != 3 || last[2].EndedAt.IsZero() {
			t.Errorf("history %+v", last)
		}
		if p := a.jobs[1]; p.Failures != 2 || p.Error != "try 2" {
			t.Errorf("the policy saw failures %d, error %q", p.Failures, p.Error)
		}
	})
}

// spec:B3: the policy runs before the report, which has its verdict. One that ends its goroutine
// leaves the decision to the backoff.
func TestRetryPolicyGivesUpAndGoexits(t *testing.T) {
	f := newFake()
	f.add(kindA.New(args{}))
	fail := func(context.Context, *sojourn.Job, args) error { return sojourn.Again(errBoom) }
	j := once(t, f, Options{}, kindA, fail, Retry(func(*sojourn.Job, []sojourn.HistoryEntry) sojourn.Verdict { return sojourn.Verdict{Final: true} }))
	if j.State != sojourn.Failed || !f.finishes[0][0].Verdict.Again {
		t.Errorf("job is %s, verdict %+v", j.State, f.finishes[0][0].Verdict)
	}
	f = newFake()
	f.add(kindA.New(args{}))
	j = once(t, f, Options{}, kindA, fail, Retry(func(*sojourn.Job, []sojourn.HistoryEntry) sojourn.Verdict { runtime.Goexit(); return sojourn.Verdict{} }))
	if j.State != sojourn.Scheduled {
		t.Errorf("job is %s: a policy that ends its goroutine must leave the decision to the backoff", j.State)
	}
}

// An errored job gets a step for its retry policy alone: tr:C4, tr:D1, tr:D2.
func TestDecide(t *testing.T) {
	for _, final := range []bool{false, true} {
		f := newFake()
		f.add(kindA.New(args{}))
		f.jobs[0].row.State, f.jobs[0].row.Claimed, f.jobs[0].row.Crashes = sojourn.Errored, true, 1
		f.jobs[0].Reason, f.jobs[0].Error = sojourn.ReasonLeaseLost, "gone"
		f.jobs[0].history = []sojourn.HistoryEntry{{Seq: 1, Outcome: "lost", Reason: sojourn.ReasonLeaseLost, Error: "gone"}}
		a := &asked{answer: func(int) sojourn.Verdict { return sojourn.Verdict{Final: final, Delay: time.Hour} }}
		j := once(t, f, Options{}, kindA, func(context.Context, *sojourn.Job, args) error { t.Error("the handler ran"); return nil }, Retry(a.policy))
		if want := map[bool]sojourn.State{false: sojourn.Scheduled, true: sojourn.Failed}[final]; j.State != want || j.Reason != sojourn.ReasonLeaseLost || j.Error != "gone" {
			t.Errorf("job is %s, reason %q, error %q", j.State, j.Reason, j.Error)
		}
		if len(a.history) != 1 || len(a.history[0]) != 1 || a.jobs[0].Failures != 0 {
			t.Errorf("asked with %+v", a.history)
		}
	}
}

// An outcome that the store refuses is reported as an error with the refusal's code: tr:F15,
// inv:C3.
func TestRefusedOutcomes(t *testing.T) {
	f := newFake()
	f.maxBytes = 10
	f.add(kindA.New(args{}))
	j := once(t, f, Options{}, kindA, func(_ context.Context, j *sojourn.Job, _ args) error { return j.SetResult(strings.Repeat("x", 20)) })
	if j.State != sojourn.Scheduled || j.Reason != sojourn.CodeTooLarge || !strings.Contains(j.Error, "22 bytes exceed the limit of 10") || j.Failures != 1 {
		t.Errorf("job is %s, reason %q, error %q", j.State, j.Reason, j.Error)
	}
	f = newFake()
	f.add(kindA.New(args{}), kindA.New(args{}))
	f.onFinish = func(_ context.Context, os []sojourn.Outcome) (before, after error) { // as a server that cannot read a request
		if slices.ContainsFunc(os, func(o sojourn.Outcome) bool { return len(o.Result) > 0 }) {
			return sojourn.TooLarge("body", 1<<30, 1), nil
		}
		return nil, nil
	}
	w := New(sojourn.NewClient(f), Options{})
	Handle(w, kindA, func(_ context.Context, j *sojourn.Job, _ args) error {
		if j.ID == 1 {
			return j.SetResult("large")
		}
		return nil
	})
	for range 2 {
		if ok, err := w.RunOnce(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if a, b := f.job(1), f.job(2); a.Reason != sojourn.CodeTooLarge || b.State != sojourn.Completed {
		t.Errorf("jobs are %s (%q) and %s", a.State, a.Reason, b.State)
	}
}
