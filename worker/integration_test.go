package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// These tests run a worker on the store that most programs use, on the real clock. What they wait
// for, they wait for by looking.

const patience = 2 * time.Minute

func open(t *testing.T) *sojourn.Client {
	t.Helper()
	c, err := sqlite.Open(t.TempDir()+"/jobs.db", sqlite.Relaxed())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		found, err := c.Store().(driver.Checker).Check(context.Background())
		if err != nil || len(found) > 0 {
			t.Errorf("invariants of the store: %v, %v", found, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if overHTTP {
		return dialled(t, c)
	}
	return c
}

// start runs w until stop is called or the test ends.
func start(t *testing.T, w *worker.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	return stop
}

func enqueue(t *testing.T, c *sojourn.Client, jobs ...*sojourn.Job) {
	t.Helper()
	if _, err := c.EnqueueAll(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
}

// await waits until a job is in one of the states.
func await(t *testing.T, c *sojourn.Client, id sojourn.ID, states ...sojourn.State) *sojourn.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		found, err := c.Store().Find(ctx, sojourn.Filter{IDs: []sojourn.ID{id}, States: states, Full: true, Wait: 20 * time.Millisecond})
		if len(found) == 1 {
			return &found[0]
		}
		if err != nil {
			j, _ := c.Get(t.Context(), id)
			t.Fatalf("job %d did not become %v: %v; it is %+v", id, states, err, j)
		}
	}
}

var number = sojourn.Kind[int]{Name: "number"}

// The whole way: request, wait, answer, completion, in two steps of one attempt and in one handler:
// spec:A13, tr:F5, tr:M1, tr:C3, tr:F1.
func TestAwaitAndRespond(t *testing.T) {
	c := open(t)
	w := worker.New(c, worker.Options{})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error {
		j.Log().Info("step", "n", n, "purpose", j.Purpose)
		if j.Response == nil {
			return sojourn.Await(time.Minute)
		}
		return j.SetResult(j.Response.Body)
	})
	stop := start(t, w)
	job := number.New(7, sojourn.Key("k7"))
	enqueue(t, c, job)
	await(t, c, job.ID, sojourn.Awaiting)
	if r, err := c.Respond(t.Context(), &sojourn.Response{Kind: "number", Key: "k7", ContentType: "text/plain", Body: []byte("yes")}); err != nil || r.Outcome != sojourn.Applied {
		t.Fatalf("respond: %+v, %v", r, err)
	}
	if j := await(t, c, job.ID, sojourn.Completed); string(j.Result) != "yes" || j.Attempt != 1 || j.Epoch != 2 {
		t.Errorf("result %q, attempt %d, epoch %d", j.Result, j.Attempt, j.Epoch)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	lines, err := c.Jobs().Log(t.Context(), job.ID)
	if err != nil || len(lines) != 2 || lines[0].Text != "step n=7 purpose=start" || lines[1].Text != "step n=7 purpose=resume" || lines[0].At.IsZero() {
		t.Errorf("log %+v, %v", lines, err)
	}
}

// inv:C2: a cancelled job's handler learns it with the next Extend, and writes nothing any more. An
// idle worker polls in time, the answer is durable, and a response that comes during a poll wins:
// tr:C5, tr:P2, tr:P4.
func TestPoll(t *testing.T) {
	c := open(t)
	polled, respond := make(chan sojourn.ID, 100), make(chan sojourn.ID)
	w := worker.New(c, worker.Options{Concurrency: 4})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error {
		if j.Response == nil {
			return sojourn.Await(time.Minute)
		}
		return j.SetResult(j.Response.Body)
	}, worker.Poll(number, sojourn.Backoff{First: sojourn.MinPoll, Jitter: -1}, func(_ context.Context, j *sojourn.Job, n int) (*worker.Answer, error) {
		polled <- j.ID
		if n == 2 { // a response overtakes it
			respond <- j.ID
			<-respond
		}
		if j.Waiting.Polls == 0 && n == 1 {
			return nil, nil
		}
		return &worker.Answer{Body: fmt.Appendf(nil, "poll %d", n), ContentType: "text/plain"}, nil
	}))
	start(t, w)
	time.Sleep(50 * time.Millisecond) // so that its claim waits already; without it the test is only weaker
	one, two := number.New(1, sojourn.Key("one")), number.New(2, sojourn.Key("two"))
	enqueue(t, c, one)
	if j := await(t, c, one.ID, sojourn.Completed); string(j.Result) != "poll 1" || j.Attempt != 1 || len(polled) != 2 {
		t.Errorf("%s in attempt %d after %d polls, want poll 1 in attempt 1 after 2", j.Result, j.Attempt, len(polled))
	}
	enqueue(t, c, two)
	<-respond
	if a, err := c.Respond(t.Context(), &sojourn.Response{Kind: "number", Key: "two", ContentType: "text/plain", Body: []byte("response")}); err != nil || a.Outcome != sojourn.Early {
		t.Errorf("Respond during a poll: %+v, %v", a, err)
	}
	respond <- 0
	if j := await(t, c, two.ID, sojourn.Completed); string(j.Result) != "response" {
		t.Errorf("the poll won over the response that came before it: %s", j.Result)
	}
}

// The handler of AwaitAll sees all answers, that of AwaitAny the first one: tr:M1, rules:B10.
func TestAwaitSeveralKeys(t *testing.T) {
	c := open(t)
	w := worker.New(c, worker.Options{})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error {
		switch {
		case j.Response == nil && n == 1:
			return sojourn.AwaitAny(time.Minute, "paid", "refused")
		case j.Response == nil:
			return sojourn.AwaitAll(time.Minute, "stock", "credit")
		case n == 1:
			return j.SetResult([]byte(j.Response.Key))
		}
		return j.SetResult(fmt.Appendf(nil, "%s %s %v", j.ResponseTo("stock").Body, j.ResponseTo("credit").Body, j.ResponseTo("other")))
	})
	start(t, w)
	one, two := number.New(1), number.New(2)
	enqueue(t, c, one, two)
	await(t, c, one.ID, sojourn.Awaiting)
	await(t, c, two.ID, sojourn.Awaiting)
	for _, key := range []string{"refused", "stock", "paid", "credit"} {
		if _, err := c.Respond(t.Context(), &sojourn.Response{Kind: "number", Key: key, ContentType: "text/plain", Body: []byte("yes, " + key)}); err != nil {
			t.Fatal(err)
		}
	}
	if j := await(t, c, one.ID, sojourn.Completed); string(j.Result) != "refused" {
		t.Errorf("the first of two events is %s", j.Result)
	}
	if j := await(t, c, two.ID, sojourn.Completed); string(j.Result) != "yes, stock yes, credit <nil>" {
		t.Errorf("the handler of AwaitAll saw %s", j.Result)
	}
}

func TestCancelReachesTheHandler(t *testing.T) {
	c := open(t)
	w := worker.New(c, worker.Options{Lease: 6 * time.Second}) // the extension every 2 s says it
	causes := make(chan error, 1)
	worker.Handle(w, number, func(ctx context.Context, j *sojourn.Job, _ int) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		if err := j.SaveCheckpoint(context.Background(), []byte("late")); !errors.Is(err, sojourn.ErrLeaseLost) {
			t.Errorf("a checkpoint after the cancel: %v", err)
		}
		return nil
	})
	stop := start(t, w)
	job := number.New(7)
	enqueue(t, c, job)
	await(t, c, job.ID, sojourn.Running)
	if err := c.As("test").Cancel(t.Context(), job.ID, ""); err != nil {
		t.Fatal(err)
	}
	select {
	case cause := <-causes:
		if cause != worker.ErrCancelled {
			t.Errorf("cause %v", cause)
		}
	case <-time.After(patience):
		t.Fatal("the handler never learned it")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if j, _ := c.Get(t.Context(), job.ID); j.State != sojourn.Cancelled || len(j.Checkpoint) > 0 {
		t.Errorf("job is %s, checkpoint %q", j.State, j.Checkpoint)
	}
}

// inv:P2, inv:J2: a shutdown hands jobs back at once without using up an attempt; another worker
// goes on with the same attempt: tr:F11, tr:C2.
func TestDrainBurnsNoAttempt(t *testing.T) {
	c := open(t)
	job := number.New(7, sojourn.MaxAttempts(1), sojourn.MaxCrashes(1))
	for range 3 {
		w := worker.New(c, worker.Options{Grace: -1})
		worker.Handle(w, number, func(ctx context.Context, _ *sojourn.Job, _ int) error { <-ctx.Done(); return ctx.Err() })
		stop := start(t, w)
		if job.ID == 0 {
			enqueue(t, c, job)
		}
		await(t, c, job.ID, sojourn.Running)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if j, _ := c.Get(t.Context(), job.ID); j.State != sojourn.Ready || j.Attempt != 1 || j.Failures+j.Crashes != 0 {
			t.Fatalf("after the drain the job is %s: attempt %d, failures %d, crashes %d", j.State, j.Attempt, j.Failures, j.Crashes)
		}
	}
	w := worker.New(c, worker.Options{})
	worker.Handle(w, number, func(context.Context, *sojourn.Job, int) error { return nil })
	if ok, err := w.RunOnce(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	await(t, c, job.ID, sojourn.Completed)
}

// What goes wrong in a step, as the store keeps it: spec:R4, spec:R5, spec:R11, tr:F13, tr:F15.
func TestFailures(t *testing.T) {
	c := open(t)
	words := sojourn.Kind[map[string]string]{Name: "words", Policy: sojourn.Policy{MaxAttempts: 1, RunTimeout: 50 * time.Millisecond}}
	w := worker.New(c, worker.Options{})
	worker.Handle(w, words, func(ctx context.Context, j *sojourn.Job, a map[string]string) error {
		switch a["do"] {
		case "panic":
			panic("ouch")
		case "exit":
			runtime.Goexit()
		case "hang":
			<-ctx.Done()
			return ctx.Err()
		case "large":
			return j.SetResult(make([]byte, sojourn.DefaultMaxBytes+1))
		case "long":
			return errors.New(strings.Repeat("x", 2*sojourn.MaxError))
		}
		return sojourn.WithReason("declined", fmt.Errorf("order %s", a["do"]))
	})
	start(t, w)
	for do, want := range map[string]struct{ reason, text string }{
		"panic": {"panic", "integration_test.go"}, "exit": {"goexit", "Goexit"}, "hang": {"run_timeout", "deadline exceeded"},
		"large": {"too_large", "exceed the limit"}, "long": {"xxx", "[cut, 131072 bytes]"}, "42": {"declined", "order 42"},
	} {
		job := words.New(map[string]string{"do": do})
		enqueue(t, c, job)
		if j := await(t, c, job.ID, sojourn.Failed); !strings.HasPrefix(j.Reason, want.reason) || !strings.Contains(j.Error, want.text) || j.Failures != 1 {
			t.Errorf("%s: reason %q, failures %d, error %.200q", do, j.Reason, j.Failures, j.Error)
		}
	}
	job := sojourn.NewJob("words", []byte{0, 0xff}, sojourn.MaxAttempts(1), func(j *sojourn.Job) { j.ContentType = "application/octet-stream" })
	enqueue(t, c, job)
	if j := await(t, c, job.ID, sojourn.Failed); j.Reason != "undecodable" || j.Failures != 0 || string(j.Args) != "\x00\xff" {
		t.Errorf("undecodable: reason %q, failures %d, args %q", j.Reason, j.Failures, j.Args)
	}
}

// spec:A14, spec:R7, tr:M2, tr:C4, tr:D1: where no handler code was at hand, the next worker with
// the retry policy decides, in a step of its own.
func TestRetryPolicyDecidesErrored(t *testing.T) {
	c := open(t)
	var mu sync.Mutex
	var seen []string
	w := worker.New(c, worker.Options{})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error {
		if j.Attempt == 1 {
			return sojourn.Await(time.Minute)
		}
		return nil
	}, worker.Retry(func(j *sojourn.Job, history []sojourn.HistoryEntry) sojourn.Verdict {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range history {
			seen = append(seen, a.Reason+": "+a.Error)
		}
		return sojourn.Verdict{Delay: sojourn.Now}
	}))
	start(t, w)
	job := number.New(7, sojourn.Key("k7"))
	enqueue(t, c, job)
	await(t, c, job.ID, sojourn.Awaiting)
	r := &sojourn.Response{Kind: "number", Key: "k7", Failed: true, Reason: "declined", Error: "no money"}
	if _, err := c.Respond(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	j := await(t, c, job.ID, sojourn.Completed)
	mu.Lock()
	defer mu.Unlock()
	if j.Attempt != 2 || j.Failures != 1 || !slices.Equal(seen, []string{"declined: no money"}) {
		t.Errorf("attempt %d, failures %d, the policy saw %q", j.Attempt, j.Failures, seen)
	}
}

// The policy sees the present error with the store's times: after those before it.
func TestHistoryHasTheStoresTimes(t *testing.T) {
	c := open(t)
	var history []sojourn.HistoryEntry
	w := worker.New(c, worker.Options{})
	worker.Handle(w, number, func(context.Context, *sojourn.Job, int) error {
		time.Sleep(5 * time.Millisecond)
		return errors.New("no")
	},
		worker.Retry(func(_ *sojourn.Job, h []sojourn.HistoryEntry) sojourn.Verdict {
			history = h
			return sojourn.Verdict{Delay: sojourn.Now}
		}))
	enqueue(t, c, number.New(7))
	for range 3 {
		if ok, err := w.RunOnce(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if len(history) != 3 {
		t.Fatalf("history %+v", history)
	}
	for i, a := range history {
		if a.Attempt != int32(i+1) || a.EndedAt.Sub(a.BeganAt) < 5*time.Millisecond || i > 0 && a.BeganAt.Before(history[i-1].EndedAt) {
			t.Errorf("entry %d: %+v", i, a)
		}
	}
}

// spec:O8, spec:O9: the order in which jobs of several queues run, exactly.
func TestQueueOrders(t *testing.T) {
	for _, test := range []struct {
		order worker.Order
		want  string
	}{{worker.InOrder, "C C C B B A A A A A"}, {worker.RoundRobin, "C B A C B A C A A A"}} {
		c := open(t)
		for queue, n := range map[string]int{"A": 5, "B": 2, "C": 3} {
			for range n {
				enqueue(t, c, number.New(1, sojourn.Queue(queue)))
			}
		}
		var got []string
		done := make(chan bool)
		w := worker.New(c, worker.Options{Concurrency: 1, Queues: []string{"C", "B", "A"}, Order: test.order})
		worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, _ int) error {
			if got = append(got, j.Queue); len(got) == 10 {
				close(done)
			}
			return nil
		})
		stop := start(t, w)
		select {
		case <-done:
		case <-time.After(patience):
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("order %d: %s, want %s", test.order, s, test.want)
		}
	}
}

// spec:W9: many jobs of all weights never exceed the concurrency, the oversize one runs alone, and
// all are done.
func TestWeightsOnTheStore(t *testing.T) {
	c := open(t)
	var used, highest, beside atomic.Int64
	w := worker.New(c, worker.Options{Concurrency: 8})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error {
		now := used.Add(int64(n))
		defer used.Add(-int64(n))
		if now > 8 && n <= 8 {
			beside.Add(1)
		}
		for old := highest.Load(); now > old && !highest.CompareAndSwap(old, now); old = highest.Load() {
		}
		time.Sleep(time.Millisecond)
		return nil
	})
	var jobs []*sojourn.Job
	for i := range 200 {
		jobs = append(jobs, number.New(i%5, sojourn.Weight(int32(i%5))))
	}
	jobs = append(jobs, number.New(30, sojourn.Weight(30)))
	enqueue(t, c, jobs...)
	stop := start(t, w)
	for _, j := range jobs {
		await(t, c, j.ID, sojourn.Completed)
	}
	if err := stop(); err != nil || highest.Load() != 30 || beside.Load() > 0 {
		t.Errorf("Run: %v; weight at most %d, %d beside the oversize job", err, highest.Load(), beside.Load())
	}
}

// spec:P3: an idle worker starts a job when it is enqueued, and one with a delay when it is due,
// never before. That a time which this process knows wakes the claim within 100 ms is asserted on
// driven time, see TestTimersOfWaitingClaims in internal/sqlstore.
func TestIdleWorkerStartsPromptly(t *testing.T) {
	c := open(t)
	began := make(chan time.Time, 1)
	w := worker.New(c, worker.Options{})
	worker.Handle(w, number, func(context.Context, *sojourn.Job, int) error { began <- time.Now(); return nil })
	start(t, w)
	for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
		job := number.New(1, sojourn.Delay(delay))
		before := time.Now()
		enqueue(t, c, job)
		select {
		case at := <-began:
			if late := at.Sub(before) - delay; late < 0 {
				t.Errorf("delay %v: started %v before it was due", delay, -late)
			}
		case <-time.After(patience):
			t.Fatal("never started")
		}
		await(t, c, job.ID, sojourn.Completed)
	}
}

// inv:J1: nothing is left of a worker that has run; and two workers on one store share the jobs,
// each once.
func TestTwoWorkersLeaveNothingBehind(t *testing.T) {
	c := open(t)
	var mu sync.Mutex
	runs := map[sojourn.ID]int{}
	var jobs []*sojourn.Job
	for i := range 500 {
		jobs = append(jobs, number.New(i))
	}
	before := runtime.NumGoroutine()
	var stops []func() error
	for range 2 {
		w := worker.New(c, worker.Options{})
		worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, _ int) error {
			mu.Lock()
			defer mu.Unlock()
			runs[j.ID]++
			return nil
		})
		stops = append(stops, start(t, w))
	}
	enqueue(t, c, jobs...)
	for _, j := range jobs {
		await(t, c, j.ID, sojourn.Completed)
		if mu.Lock(); runs[j.ID] != 1 {
			t.Errorf("job %d ran %d times", j.ID, runs[j.ID])
		}
		mu.Unlock()
	}
	for _, stop := range stops {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before+1 && time.Now().Before(deadline) { // the store's own poll loop may end a little later
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("%d goroutines before, %d after", before, n)
	}
}
