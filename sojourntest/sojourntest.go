// Package sojourntest runs jobs step by step in a test. It has a store in memory, a clock that the
// test controls, crashes of workers, and early responses.
//
//	h := sojourntest.New(t)
//	sojourntest.Handle(h, ChargeCard, chargeCard)
//	id := h.Enqueue(ChargeCard.New(Charge{"42", 1999}, sojourn.Key("order-42")))
//	h.RunUntilIdle() // the handler sends its request and awaits the answer
//	h.Respond(sojourn.Response{Kind: "charge_card", Key: "order-42", Body: answer})
//	h.RunUntilIdle()
//	if j := h.Job(id); j.State != sojourn.Completed { … }
//
// The store is the SQLite one, with all its rules. When the test ends, it is checked for breaches
// of its invariants.
package sojourntest

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// Start is the initial time of a Harness's clock.
var Start = time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)

// Harness is one test's queue. An unexpected error in its methods ends the test (or, called from a
// handler, that handler). Its methods are safe for concurrent use, and for use by handlers: time
// may pass, and a response may come, while a handler runs.
type Harness struct {
	// Client is for calls that Harness has no method for.
	Client *sojourn.Client

	t     testing.TB
	path  string // of the file; "" = in memory
	store []sqlite.Option

	mu       sync.Mutex // guards the fields below
	now      time.Time
	worker   worker.Options
	handlers map[string]func(*worker.Worker)
}

// Option changes how a Harness is made.
type Option func(*Harness)

// At sets the clock, default Start.
func At(t time.Time) Option { return func(h *Harness) { h.now = t } }

// WithStore opens the store with further options, such as sqlite.MaxBytes. The clock stays the
// Harness's.
func WithStore(options ...sqlite.Option) Option {
	return func(h *Harness) { h.store = append(h.store, options...) }
}

// InFile keeps the store in a file of the test's own directory instead of in memory, for handlers
// that use EnqueueTx and FinishTx; see Harness.DSN.
func InFile() Option {
	return func(h *Harness) { h.path = filepath.Join(h.t.TempDir(), "jobs.db") }
}

// WithWorker sets the options of the workers that run the steps, such as Queues and Middleware.
// Without Queues they take the jobs of all queues that the store knows.
func WithWorker(o worker.Options) Option { return func(h *Harness) { h.worker = o } }

// New opens a queue for the time of a test.
func New(t testing.TB, options ...Option) *Harness {
	t.Helper()
	h := &Harness{t: t, now: Start, handlers: map[string]func(*worker.Worker){}}
	for _, o := range options {
		o(h)
	}
	if h.worker.Logger == nil {
		h.worker.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	client, err := sqlite.Open(cmp.Or(h.path, ":memory:"), append(slices.Clip(h.store), sqlite.Clock(h.Now))...)
	if err != nil {
		t.Fatal(err)
	}
	h.Client = client
	t.Cleanup(h.close)
	return h
}

// close checks what must hold after any test, and closes the store.
func (h *Harness) close() {
	if c, ok := h.Client.Store().(driver.Checker); ok {
		found, err := c.Check(context.Background())
		for _, v := range found {
			h.t.Errorf("sojourntest: the store breaks an invariant: %s: %s", v.Check, v.Detail)
		}
		if err != nil {
			h.t.Errorf("sojourntest: check of the store: %v", err)
		}
	}
	if err := h.Client.Close(); err != nil {
		h.t.Errorf("sojourntest: close: %v", err)
	}
}

// must ends the test on an error.
func (h *Harness) must(what string, err error) {
	if err != nil {
		h.t.Helper()
		h.t.Fatalf("sojourntest: %s: %v", what, err)
	}
}

// Handle gives the workers the handler of a kind. A second one for the same kind takes the place of
// the first, like a deployment.
func Handle[T any](h *Harness, k sojourn.Kind[T], fn func(ctx context.Context, job *sojourn.Job, args T) error, options ...worker.HandleOption) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handlers[k.Name] = func(w *worker.Worker) { worker.Handle(w, k, fn, options...) }
}

// DSN is the data source name with which the application opens the file of the store, as
// sql.Open("sqlite", h.DSN()): its transactions begin as writers and wait up to 10 s for others. It
// ends the test if the Harness was made without InFile.
func (h *Harness) DSN() string {
	h.t.Helper()
	if h.path == "" {
		h.t.Fatalf("sojourntest: the store is in memory: make the Harness with InFile to share its file")
	}
	return "file:" + filepath.ToSlash(h.path) + "?_txlock=immediate&_pragma=busy_timeout(10000)"
}

// Now is the store's time.
func (h *Harness) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// Advance moves the clock by d, which is not negative, and sweeps the store: due jobs become ready;
// leases, waits, attempts and lives end. It runs no handler. All events in between happen at the
// end: to see a chain of timeouts, advance step by step.
func (h *Harness) Advance(d time.Duration) {
	h.t.Helper()
	if d < 0 {
		h.t.Fatalf("sojourntest: Advance(%v): time does not go back", d)
	}
	h.mu.Lock()
	h.now = h.now.Add(d)
	h.mu.Unlock()
	for {
		swept, err := driver.Of(h.Client).Sweep(context.Background(), 1000)
		h.must("sweep", err)
		if swept.Total() == 0 {
			break
		}
	}
	if n, ok := h.Client.Store().(interface{ Nudge() }); ok {
		n.Nudge()
	}
}

// Enqueue stores a job and returns its id, or the id of the live job that already has its key.
func (h *Harness) Enqueue(j *sojourn.Job) sojourn.ID {
	h.t.Helper()
	e, err := h.Client.Enqueue(context.Background(), j)
	h.must("enqueue", err)
	return e.ID
}

// Respond stores a response, at any time: before its job awaits it, or before the job exists.
func (h *Harness) Respond(r sojourn.Response) sojourn.Responded {
	h.t.Helper()
	out, err := h.Client.Respond(context.Background(), &r)
	h.must("respond", err)
	return out
}

// Job returns a job as it is now, complete.
func (h *Harness) Job(id sojourn.ID) *sojourn.Job {
	h.t.Helper()
	j, err := h.Client.Get(context.Background(), id)
	h.must("get", err)
	return j
}

// RequireState returns the job with the key, the live one or else the newest final one. It ends the
// test if there is none, or it is in another state.
func (h *Harness) RequireState(key string, want sojourn.State) *sojourn.Job {
	h.t.Helper()
	j, err := h.Client.GetByKey(context.Background(), key)
	h.must("job with the key "+key, err)
	if j.State != want {
		h.t.Fatalf("sojourntest: the job with the key %s is %s, want %s; its last error: %s", key, j.State, want, cmp.Or(j.Error, "none"))
	}
	return j
}

// Step runs one step of the first ready job that has a handler, and reports whether there was one.
// It returns when the store has confirmed the report. The clock of the Harness drives only the
// times of the store; the run timeout and the context of a running handler follow the real clock.
func (h *Harness) Step() bool {
	h.t.Helper()
	w := h.newWorker()
	if w == nil {
		return false
	}
	ok, err := w.RunOnce(context.Background())
	h.must("step", err)
	return ok
}

// maxSteps is more than a correct test runs in one call.
const maxSteps = 1000

// RunUntilIdle runs steps until none is ready, and returns their number. The clock stands still
// meanwhile. 1,000 steps end the test: a handler then makes its job ready again at once.
func (h *Harness) RunUntilIdle() int {
	h.t.Helper()
	for n := range maxSteps {
		if !h.Step() {
			return n
		}
	}
	h.t.Fatalf("sojourntest: still not idle after %d steps", maxSteps)
	return maxSteps
}

// Crash claims the first ready job of the kind as a worker that dies at once, and returns it as
// that worker got it. The job is running until its lease ends: Advance by sojourn.DefaultLease.
func (h *Harness) Crash(kind string) *sojourn.Job {
	h.t.Helper()
	w := worker.New(h.Client, worker.Options{Logger: slog.New(slog.DiscardHandler)}) // only for a unique id
	got, err := driver.Of(h.Client).Claim(context.Background(), driver.ClaimRequest{Worker: w.ID(), Queues: h.queues(), Kinds: []string{kind},
		Max: 1, Capacity: sojourn.MaxWeight, Lease: sojourn.DefaultLease})
	h.must("claim", err)
	if len(got) == 0 {
		h.t.Fatalf("sojourntest: Crash: no job of kind %s is ready", kind)
	}
	return &got[0].Job
}

// newWorker makes a worker with the present handlers, nil if there is none.
func (h *Harness) newWorker() *worker.Worker {
	h.mu.Lock()
	o, handlers := h.worker, maps.Clone(h.handlers)
	h.mu.Unlock()
	if len(handlers) == 0 {
		return nil
	}
	o.SweepEvery = -1
	if len(o.Queues) == 0 {
		o.Queues = h.queues()
	}
	w := worker.New(h.Client, o)
	for _, register := range handlers {
		register(w)
	}
	return w
}

// queues names all queues.
func (h *Harness) queues() []string {
	h.t.Helper()
	found, err := h.Client.Store().Queues(context.Background())
	h.must("queues", err)
	names := []string{sojourn.DefaultQueue}
	for _, q := range found {
		if q.Name != sojourn.DefaultQueue {
			names = append(names, q.Name)
		}
	}
	return names
}
