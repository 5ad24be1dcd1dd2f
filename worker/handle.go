package worker

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// Handler runs one step of a job. sojourn.OutcomeOf converts the error that it returns. Its context
// ends when the job's run timeout, timeout or deadline has passed, when the lease is lost, or at
// the end of a shutdown's grace; context.Cause says which.
//
// Handlers that run one after the other may share a goroutine. One that locks its thread
// (runtime.LockOSThread) or sets labels of the profiler undoes it before it returns.
type Handler func(ctx context.Context, job *sojourn.Job) error

// Middleware wraps handlers. It runs inside what the worker guards: its panics count as the
// handler's. The args are decoded by the innermost handler, so one that finds them broken returns
// an error that middleware should pass on.
type Middleware func(next Handler) Handler

// HandleOption is an option of Handle.
type HandleOption func(*handling)

// Retry sets the retry handler of a kind: it decides how to continue after an error, instead of the
// stored Backoff. It gets all errors so far, the latest last. It is called after each error that
// leaves attempts, in the worker that ran the handler. If an attempt ended without a handler (lost
// lease, timeout, error response), the next worker that has the retry handler calls it. If it
// panics, the stored Backoff decides. Several steps may call it concurrently.
func Retry(p func(job *sojourn.Job, history []sojourn.HistoryEntry) sojourn.Verdict) HandleOption {
	return func(h *handling) { h.retry = p }
}

// handling is the handler and the settings of a kind in a worker.
type handling struct {
	run   Handler
	retry func(job *sojourn.Job, history []sojourn.HistoryEntry) sojourn.Verdict

	poll      func(ctx context.Context, job *sojourn.Job) (*Answer, error) // nil: waiting jobs are not polled
	pollKind  string
	pollEvery sojourn.Backoff
}

// Handle gives w the handler of a kind. Call it before Run. It panics if the kind's name is not
// valid or has a handler already, if fn is nil, or if w has run: these are mistakes in the program,
// not in its input.
//
// Args that do not decode never reach fn: the job fails with the reason "undecodable", its args are
// kept for a redrive, and no attempt is used up.
func Handle[T any](w *Worker, k sojourn.Kind[T], fn func(ctx context.Context, job *sojourn.Job, args T) error, options ...HandleOption) {
	if err := sojourn.ValidName("kind", k.Name); err != nil {
		panic("worker: Handle: " + err.Error())
	}
	if fn == nil {
		panic("worker: Handle: nil handler for the kind " + k.Name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		panic("worker: Handle: the worker has run already; register " + k.Name + " before Run")
	}
	if w.handlers[k.Name] != nil {
		panic("worker: Handle: the kind " + k.Name + " has a handler already")
	}
	h := &handling{run: func(ctx context.Context, job *sojourn.Job) error {
		args, err := decode(k, job)
		if err != nil {
			return &undecodable{err}
		}
		return fn(ctx, job, args)
	}}
	for _, o := range options {
		o(h)
	}
	if wrong := h.wrongPoll(k.Name); wrong != "" {
		panic("worker: Handle: the kind " + k.Name + ": " + wrong)
	}
	for i := len(w.o.Middleware) - 1; i >= 0 && w.err == nil; i-- {
		h.run = w.o.Middleware[i](h.run)
	}
	w.handlers[k.Name] = h
	if q := cmp.Or(k.Queue, sojourn.DefaultQueue); !slices.Contains(w.ofKinds, q) {
		w.ofKinds = append(w.ofKinds, q)
	}
}

// undecodable is the error of args that do not decode.
type undecodable struct{ err error }

func (e *undecodable) Error() string { return e.err.Error() }
func (e *undecodable) Unwrap() error { return e.err }

// decode turns a panic of the codec into an error: external bytes may be invalid.
func decode[T any](k sojourn.Kind[T], job *sojourn.Job) (args T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s", panicked(v, debug.Stack()))
		}
	}()
	return k.Decode(job)
}
