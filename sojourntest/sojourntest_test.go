package sojourntest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/sojourntest"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

type order struct{ ID string }

var charge = sojourn.Kind[order]{Name: "charge", Queue: "payments", Key: func(o order) string { return o.ID }}

// ask awaits an answer and completes with it.
func ask(requests *int) func(context.Context, *sojourn.Job, order) error {
	return func(_ context.Context, job *sojourn.Job, _ order) error {
		if job.Response == nil {
			*requests++
			return sojourn.Await(6 * time.Hour)
		}
		return job.SetResult(job.Response.Body)
	}
}

func wantState(t *testing.T, h *sojourntest.Harness, id sojourn.ID, want sojourn.State) *sojourn.Job {
	t.Helper()
	j := h.Job(id)
	if j.State != want {
		t.Fatalf("job %d is %s (%s: %s), want %s", id, j.State, j.Reason, j.Error, want)
	}
	return j
}

func TestAwaitAndRespond(t *testing.T) {
	for _, early := range []bool{false, true} {
		h := sojourntest.New(t)
		requests := 0
		sojourntest.Handle(h, charge, ask(&requests))
		answer := sojourn.Response{Kind: charge.Name, Key: "42", ContentType: "text/plain", Body: []byte("ok")}
		if early { // before the job is there
			if r := h.Respond(answer); r.Outcome != sojourn.Early {
				t.Errorf("the early response is %s", r.Outcome)
			}
		}
		id := h.Enqueue(charge.New(order{"42"}))
		n := h.RunUntilIdle()
		if !early {
			wantState(t, h, id, sojourn.Awaiting)
			h.Respond(answer)
			n += h.RunUntilIdle()
		}
		if j := wantState(t, h, id, sojourn.Completed); string(j.Result) != "ok" || requests != 1 || n != 2 || j.Attempt != 1 {
			t.Errorf("early %v: result %q after %d requests, %d steps, %d attempts", early, j.Result, requests, n, j.Attempt)
		}
	}
}

func TestWaitTimesOut(t *testing.T) {
	h := sojourntest.New(t)
	requests := 0
	sojourntest.Handle(h, charge, ask(&requests))
	id := h.Enqueue(charge.New(order{"42"}, sojourn.MaxAttempts(2), sojourn.RetryBackoff(sojourn.Backoff{First: time.Minute, Jitter: -1})))
	h.RunUntilIdle()
	h.Advance(6 * time.Hour)
	if j := wantState(t, h, id, sojourn.Scheduled); j.Failures != 1 || j.Reason != sojourn.ReasonTimeout {
		t.Errorf("failures %d, reason %q", j.Failures, j.Reason)
	}
	if h.Step() {
		t.Error("the retry runs before its time")
	}
	h.Advance(time.Minute)
	h.RunUntilIdle()
	h.Advance(6 * time.Hour)
	wantState(t, h, id, sojourn.Failed)
	if requests != 2 || !h.Now().Equal(sojourntest.Start.Add(12*time.Hour+time.Minute)) {
		t.Errorf("%d requests, now %s", requests, h.Now())
	}
}

func TestCrash(t *testing.T) {
	h := sojourntest.New(t)
	id := h.Enqueue(charge.New(order{"42"}))
	for n := int32(1); n <= sojourn.DefaultMaxCrashes; n++ {
		if j := h.Crash(charge.Name); j.ID != id || j.Attempt != n || j.State != sojourn.Running {
			t.Errorf("the dying worker got job %d, attempt %d, %s", j.ID, j.Attempt, j.State)
		}
		if h.Step() {
			t.Error("a job with a lease runs a second time")
		}
		h.Advance(sojourn.DefaultLease)
		if j := h.Job(id); j.Crashes != n {
			t.Errorf("%d crashes, want %d", j.Crashes, n)
		}
		h.Advance(time.Hour)
	}
	if j := wantState(t, h, id, sojourn.Failed); j.Reason != sojourn.ReasonLeaseLost {
		t.Errorf("reason %q", j.Reason)
	}
}

// Time passes while a handler runs: its lease ends under it, and its report changes nothing.
func TestAdvanceInsideAHandler(t *testing.T) {
	h := sojourntest.New(t)
	first := true
	sojourntest.Handle(h, charge, func(ctx context.Context, job *sojourn.Job, _ order) error {
		if !first {
			return nil
		}
		first = false
		h.Advance(sojourn.DefaultLease)
		if err := job.SetProgress(ctx, "half"); !errors.Is(err, sojourn.ErrLeaseLost) || context.Cause(ctx) != sojourn.ErrLeaseLost {
			t.Errorf("progress under a lost lease: %v, cause %v", err, context.Cause(ctx))
		}
		return sojourn.Abort(nil)
	})
	id := h.Enqueue(charge.New(order{"42"}))
	h.RunUntilIdle()
	if j := wantState(t, h, id, sojourn.Completed); j.Crashes != 1 {
		t.Errorf("%d crashes", j.Crashes)
	}
}

func TestOptionsAndDeployment(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	seen := 0
	count := func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, j *sojourn.Job) error { seen++; return next(ctx, j) }
	}
	h := sojourntest.New(t, sojourntest.At(at), sojourntest.WithStore(sqlite.MaxBytes(100)),
		sojourntest.WithWorker(worker.Options{Queues: []string{"payments"}, Middleware: []worker.Middleware{count}}))
	if h.Step() {
		t.Error("a step without handlers")
	}
	old := func(context.Context, *sojourn.Job, order) error { return errors.New("old version") }
	sojourntest.Handle(h, charge, old)
	id := h.Enqueue(charge.New(order{"1"}, sojourn.RetryBackoff(sojourn.Backoff{First: -1})))
	other := h.Enqueue(charge.New(order{"2"}, sojourn.Queue("elsewhere")))
	h.Step()
	sojourntest.Handle(h, charge, func(context.Context, *sojourn.Job, order) error { return nil })
	h.RunUntilIdle()
	wantState(t, h, other, sojourn.Ready)
	if j := wantState(t, h, id, sojourn.Completed); seen != 2 || !j.CreatedAt.Equal(at) {
		t.Errorf("%d steps seen, created at %s", seen, j.CreatedAt)
	}
	if _, err := h.Client.Enqueue(t.Context(), charge.New(order{strings.Repeat("x", 200)}, sojourn.Key("k"))); sojourn.ErrorCode(err) != sojourn.CodeTooLarge {
		t.Errorf("the store's options are ignored: %v", err)
	}
}

// Misuse ends the test with a text that describes the mistake.
func TestMistakes(t *testing.T) {
	for want, do := range map[string]func(h *sojourntest.Harness){
		"time does not go back":        func(h *sojourntest.Harness) { h.Advance(-1) },
		"no job of kind charge":        func(h *sojourntest.Harness) { h.Crash("charge") },
		"enqueue: sojourn: kind":       func(h *sojourntest.Harness) { h.Enqueue(sojourn.NewJob("", nil)) },
		"no job has the id 7":          func(h *sojourntest.Harness) { h.Job(7) },
		"make the Harness with InFile": func(h *sojourntest.Harness) { h.DSN() },
		"job with the key k: sojourn":  func(h *sojourntest.Harness) { h.RequireState("k", sojourn.Ready) },
		"is ready, want completed; its last error: none": func(h *sojourntest.Harness) {
			h.Enqueue(charge.New(order{"1"}, sojourn.Key("k")))
			h.RequireState("k", sojourn.Completed)
		},
		"address it by exactly one": func(h *sojourntest.Harness) { h.Respond(sojourn.Response{}) },
		"still not idle after 1000 steps": func(h *sojourntest.Harness) {
			sojourntest.Handle(h, charge, func(context.Context, *sojourn.Job, order) error { return sojourn.Snooze(0) })
			h.Enqueue(charge.New(order{"1"}))
			h.RunUntilIdle()
		},
	} {
		func() {
			r := &recorder{}
			h := sojourntest.New(r)
			defer r.end()
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("ended with %q, want %q", got, want)
				}
			}()
			do(h)
		}()
	}
}
