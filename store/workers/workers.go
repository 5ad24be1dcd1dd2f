// Package workers removes workers from a store, and says in which state they are.
package workers

import (
	"cmp"
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// SilentAfter is the time without a sign of life after which an idle worker counts as gone, where
// the store lists workers for a time life; 0 stands for sojourn.WorkerLife. An idle worker
// registers again at half of it; the rest is for its delay.
func SilentAfter(life time.Duration) time.Duration {
	life = cmp.Or(life, sojourn.WorkerLife)
	return life/2 + min(life/4, time.Hour)
}

// State is the state of a worker.
type State string

// The states.
const (
	Alive    State = "alive"    // it gets jobs
	Draining State = "draining" // it gets no more jobs, and still runs some
	Stopped  State = "stopped"  // it gets no more jobs, and runs none
	Gone     State = "gone"     // all its leases have expired, or it has given no sign of life for SilentAfter
)

// StateOf returns the state of a worker at a time of the store's clock. It is pure. A worker that
// has died while it was idle counts as alive until SilentAfter.
func StateOf(w sojourn.WorkerStatus, now time.Time) State {
	switch {
	case w.Waiting && !w.Drained:
		return Alive
	case w.Running > 0 && w.Stalled == w.Running, w.Running == 0 && now.Sub(w.SeenAt) > SilentAfter(w.Life):
		return Gone
	case w.Drained && w.Running > 0:
		return Draining
	case w.Drained:
		return Stopped
	}
	return Alive
}

// Forget says how a worker is removed.
type Forget struct {
	Force bool `json:"force,omitempty"` // also one that lives
}

// Removed is the result of a removal.
type Removed struct {
	Jobs int  `json:"jobs"`           // leases that have ended; their jobs go on as after the death of a worker
	More bool `json:"more,omitempty"` // of one call of a Store: the worker has more leases, and its row is still there
}

// Store is an optional ability of a sojourn.Store: it removes workers. Safe for concurrent use.
type Store interface {
	// ForgetWorker ends the leases of a worker, at most sojourn.MaxBatch in a call, and removes its
	// row when there are none left; repeat it while the result says More. ErrNotFound if the worker
	// is not listed. ErrConflict, without o.Force, if it lives: it has a lease that has not
	// expired, or waits for jobs at this process. A token needs the verb operate for all queues and
	// kinds.
	ForgetWorker(ctx context.Context, worker string, o Forget) (Removed, error)
}

// Leaver is an optional ability of a sojourn.Store: workers leave its list. Safe for concurrent
// use.
type Leaver interface {
	// LeaveWorker takes a worker that has stopped off the list. While it has leases, it stays on
	// the list as a draining one. A worker that claims again is listed again. An unknown worker is
	// no error. On behalf of an access token, the worker's id begins with the token's id and a
	// slash; any other one has the error access.CodeScope.
	LeaveWorker(ctx context.Context, worker string) error
}

// Workers are the calls about workers of a client. Safe for concurrent use.
type Workers struct{ store Store }

// Of returns the calls about workers of a client. If its store removes none, each call returns an
// error with CodeInvalid. The stores of this module do.
func Of(c *sojourn.Client) Workers { return Workers{StoreOf(c.Store())} }

// StoreOf is a store's ability to remove workers. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if w, ok := s.(Store); ok {
		return w
	}
	return none{}
}

// Forget removes a worker and ends its leases: the jobs go on as after the death of a worker. A
// worker that lives is told so with its next extend, its reports are refused, and if it claims
// again it is listed again, without a drain that it had. So end its process, or use
// sojourn.Workers.Drain. Errors as of Store; a repeated call does the rest, or is ErrNotFound.
func (w Workers) Forget(ctx context.Context, worker string, o Forget) (Removed, error) {
	var all Removed
	for {
		f, err := w.store.ForgetWorker(ctx, worker, o)
		all.Jobs += f.Jobs
		if err != nil || !f.More {
			return all, err
		}
	}
}

// none is a store that removes no workers.
type none struct{}

func (none) ForgetWorker(context.Context, string, Forget) (Removed, error) {
	return Removed{}, sojourn.Invalid("store", "this store removes no workers; use one of store/sqlite, store/postgres or httpapi")
}
