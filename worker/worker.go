// Package worker runs handlers for jobs: it claims jobs under leases, extends the leases, runs one
// step of each job, reports the outcome, and at shutdown hands back the unfinished jobs.
//
//	w := worker.New(client, worker.Options{Concurrency: 10})
//	worker.Handle(w, ChargeCard, chargeCard)
//	err := w.Run(ctx) // until ctx ends, then drains
//
// Each role has its own file: claim.go claims jobs, order.go orders the queues, step.go runs one
// step, context.go is the context of its handler, lease.go extends leases, poll.go polls for
// waiting jobs, finish.go reports in batches, joblog.go buffers the lines of Job.Log, sweep.go
// handles overdue items, drain.go drains the worker. The store's clock decides about jobs; this
// package measures only durations of its own.
package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/schedule"
)

// Worker runs the handlers registered with [Handle]. All its methods are safe for concurrent use;
// Handle is not.
type Worker struct {
	store     driver.Store
	o         Options
	err       error // why the options are invalid
	id        string
	phase     byte // random, see spread
	log       *slog.Logger
	handlers  map[string]*handling
	ofKinds   []string // queues of the kinds in handlers, in the order of Handle
	order     *order
	schedules []schedule.Schedule // to declare

	mu       sync.Mutex // guards the fields below
	replaced []string   // queues of SetQueues that no claim has used yet
	running  *run       // nil if none of Run and RunOnce runs
	started  bool       // Run or RunOnce was called: the set of handlers is fixed
	busy     bool       // one of them runs now
	number   int64      // of the last claim whose outcome is known
	unknown  bool       // that of the claim after it is not
}

// New makes a Worker over the client's store. If the options are invalid, Run and RunOnce return an
// *Error with CodeInvalid.
func New(c *sojourn.Client, o Options) *Worker {
	o, err := o.withDefaults()
	w := &Worker{store: driver.Of(c), o: o, err: err, id: rand.Text(), handlers: map[string]*handling{}}
	if owner, ok := w.store.(driver.Owner); ok && owner.OwnerID() != "" {
		w.id = owner.OwnerID() + "." + w.id
	}
	w.phase = w.id[len(w.id)-1] // random too
	w.log = o.Logger.With("worker", o.Name)
	return w
}

// ID is the worker's identity in leases: random, new with every Worker, never used twice.
func (w *Worker) ID() string { return w.id }

// Name is the label of the worker, Options.Name or host-pid. It has no effect.
func (w *Worker) Name() string { return w.o.Name }

// Run claims jobs and runs their handlers until ctx ends or an operator drains the worker. Then it
// stops claiming, gives the handlers Options.Grace to end, and cancels their contexts with
// ErrShutdown. It hands back the jobs of handlers that then return an error or do not end, and
// returns at the latest 5 s after the grace. A job handed back is ready again at once and has used
// up no attempt.
//
// The error is nil after a complete drain. It has CodeInvalid if the options are invalid, no kind
// has a handler, or the worker runs already; it wraps sojourn.ErrClosed if the store is closed
// during the run. Other errors of the store do not end Run: it retries and reports them to the
// Logger and the Observer.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer w.end()
	if len(w.schedules) > 0 {
		r.loop(r.declareSchedules)
	}
	r.loop(r.sweepLoop)
	grace := w.o.Grace
	err = r.claims.loop(ctx)
	if errors.Is(err, sojourn.ErrClosed) {
		grace = 0 // the handlers' results cannot be stored any more
	}
	return errors.Join(err, r.drain(grace))
}

// RunOnce claims at most one job that is ready now, runs one step of it, and returns when the store
// has confirmed the report: true if there was a job. It is for tests and for programs that are
// started on demand. If ctx ends meanwhile, it drains as Run does.
func (w *Worker) RunOnce(ctx context.Context) (bool, error) {
	r, err := w.begin(ctx)
	if err != nil {
		return false, err
	}
	defer w.end()
	r.once = true
	queues, _ := w.currentOrder().next(1)
	n, err := r.claims.claim(ctx, ask{max: 1, capacity: sojourn.MaxWeight}, queues, nil)
	if err == nil && n > 0 {
		r.await(ctx, r.nothingLeft)
	}
	return n > 0, errors.Join(err, r.drain(w.o.Grace))
}

// begin does the checks that need the final settings, and starts the roles beside the claims.
func (w *Worker) begin(ctx context.Context) (*run, error) {
	if w.err != nil {
		return nil, w.err
	}
	if len(w.handlers) == 0 {
		return nil, sojourn.Invalid("handlers", "no kind has a handler: call worker.Handle before Run")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy {
		return nil, sojourn.Invalid("run", "the worker is already running; call Run once")
	}
	if w.order == nil {
		if len(w.o.Queues) == 0 {
			w.o.Queues, w.o.Order = w.ofKinds, RoundRobin
		}
		w.order = newOrder(w.o, w.id)
	}
	w.started, w.busy = true, true
	r := &run{
		w: w, base: context.WithoutCancel(ctx), steps: map[*step]struct{}{},
		changed: make(chan struct{}, 1), sooner: make(chan struct{}, 1), early: make(chan struct{}, 1), declared: make(chan struct{}, 1),
	}
	r.claims.r, w.running = r, r
	r.claims.kinds, r.claims.decidable, r.claims.pollable = w.kinds()
	r.reports = reporter{r: r, filled: make(chan struct{}, 1), logged: make(chan struct{}, 1)}
	r.calls, r.stop = context.WithCancel(r.base)
	r.loop(r.extendLoop)
	r.loop(r.watchLoop)
	r.loop(r.reports.loop)
	return r, nil
}

func (w *Worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.running = false, nil
}

// kinds lists the kinds with a handler, and those among them with a retry policy and with a poll
// function.
func (w *Worker) kinds() (all, decidable, pollable []string) {
	all = slices.Sorted(maps.Keys(w.handlers))
	for _, k := range all {
		if w.handlers[k].retry != nil {
			decidable = append(decidable, k)
		}
		if w.handlers[k].poll != nil {
			pollable = append(pollable, k)
		}
	}
	return all, decidable, pollable
}

// spread is the jitter: it shortens a period by up to a fifth, the same part for all periods of a
// worker, so that many workers are not synchronized.
func (w *Worker) spread(d time.Duration) time.Duration {
	return d - d/5*time.Duration(w.phase&31)/31
}

// run is the state of one call of Run that its roles share.
type run struct {
	declared chan struct{} // capacity 1: the schedules were declared
	once     bool          // it is a RunOnce
	w        *Worker
	base     context.Context // parent of handlers' contexts: the values of Run's context, not its end
	calls    context.Context // for calls to the store that go on after Run's context has ended
	stop     context.CancelFunc
	loops    sync.WaitGroup
	claims   claimer
	reports  reporter
	changed  chan struct{} // capacity 1: a handler returned, or a report was answered
	sooner   chan struct{} // capacity 1: watchAt is earlier than it was
	early    chan struct{} // capacity 1: a lease was won of which a part is over

	mu      sync.Mutex // guards the fields below, and those of step, claimer and reporter that say so
	steps   map[*step]struct{}
	waiting []*step   // those that no goroutine has begun, in order
	coming  bool      // a goroutine that takes one of them is on its way
	watchAt time.Time // when to look next which leases end
	active  int       // handlers that run
	used    int64     // their weight
}

// loop runs one role until the drain has ended.
func (r *run) loop(role func()) { r.loops.Go(role) }

// signal wakes the receiver without blocking.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// failed reports that a call to the store failed.
func (r *run) failed(call string, err error) {
	r.w.log.Warn("sojourn: a call to the store failed", "call", call, "error", err)
	r.observe(Event{Type: EventFailure, Call: call, Err: err})
}

func panicked(v any, stack []byte) string {
	return sojourn.Cut(fmt.Sprintf("panic: %v\n\n%s", v, stack), sojourn.MaxError)
}
