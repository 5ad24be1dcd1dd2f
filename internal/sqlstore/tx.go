package sqlstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"

	"github.com/sojourn-queue/sojourn"
)

// Joiner is an optional ability of a DB: it works inside of transactions that the application has begun. Safe for concurrent use.
type Joiner interface {
	// Join begins a savepoint in tx and checks that tx stands in this very database: secret is what it must find in sj_meta. It refuses, with
	// an *Error, a tx of another type, of another database, or of a driver that cannot share the database safely.
	Join(ctx context.Context, tx any, secret string) (Joined, error)
}

// Joined is a Conn inside of a savepoint of somebody's transaction.
type Joined interface {
	Conn
	// Undo takes back everything since Join, even if its context has ended. The savepoint stays.
	Undo() error
	// Keep ends the savepoint: what was done belongs to the transaction.
	Keep() error
}

// maxRaces is how often a step is tried inside of one transaction of the application when others are faster each time.
const maxRaces = 20

// join runs fn inside of the application's transaction. A lost race is repeated from the savepoint. Nothing in memory learns what fn did, because nobody
// here sees whether it is committed; blocked calls find it when they look.
func (s *Store) join(ctx context.Context, in any, fn func(t *tx) error) error {
	if s.hub.isClosed() {
		return errClosed
	}
	if err := s.broken.Load(); err != nil {
		return *err
	}
	db, ok := s.db.(Joiner)
	if !ok {
		return sojourn.Invalid("tx", "this store cannot work inside of a transaction of the application")
	}
	c, err := db.Join(ctx, in, base64.StdEncoding.EncodeToString(s.secret))
	if err != nil {
		return txFailed(err)
	}
	for try := 1; ; try++ {
		err := guarded(func() error {
			t := s.newTx(c)
			if err := fn(t); err != nil {
				return err
			}
			return t.settle()
		})
		if err == nil {
			return txFailed(c.Keep())
		}
		if undone := c.Undo(); undone != nil {
			return txFailed(errors.Join(err, undone))
		}
		if !errors.Is(err, ErrRaced) || try == maxRaces || ctx.Err() != nil {
			return txFailed(errors.Join(err, c.Keep()))
		}
	}
}

// guarded makes an error of a panic: a mistake of ours fails the call that meets it, and nothing else.
func guarded(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the store: %v\n%s", v, debug.Stack())
		}
	}()
	return fn()
}

// txFailed translates an error. What the database says goes to the application, whose transaction it is; it says nothing about the store.
func txFailed(err error) error {
	if ours, ok := errors.AsType[*sojourn.Error](err); ok {
		return ours
	}
	if err == nil {
		return nil
	}
	message := "the database refused (" + err.Error() + "): roll back, then repeat the whole transaction"
	if errors.Is(err, ErrRaced) {
		message = "other transactions were faster each time (" + err.Error() + "): roll back, then repeat the whole transaction; READ COMMITTED sees what they did"
	}
	return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Message: message, Err: err}
}

// EnqueueTx stores jobs in a transaction of the application; see sojourn.TxStore.
func (s *Store) EnqueueTx(ctx context.Context, in any, jobs []sojourn.Job) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	// Keys are locked until the application commits. Taken in one order, two transactions with several keys wait for each other, and do not end in a
	// deadlock (rules: F4).
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(jobs[a].Kind, jobs[b].Kind), cmp.Compare(jobs[a].Key, jobs[b].Key))
	})
	out := make([]sojourn.Enqueued, len(jobs))
	err := s.join(ctx, in, func(t *tx) error {
		e := enqueue{tx: t, jobs: make([]sojourn.Job, len(jobs)), done: make([]sojourn.Enqueued, len(jobs))}
		for k, i := range order {
			e.jobs[k] = jobs[i]
		}
		if err := e.draw(ctx); err != nil {
			return err
		}
		err := e.plan()
		if wrong, ok := errors.AsType[*sojourn.Error](err); ok && wrong.Index >= 0 {
			return sojourn.AtIndex(order[wrong.Index], err)
		}
		if err == nil {
			err = e.write()
		}
		for k, i := range order {
			out[i] = e.done[k]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// FinishTx ends a step in a transaction of the application; see sojourn.TxStore.
func (s *Store) FinishTx(ctx context.Context, in any, o sojourn.Outcome) error {
	return s.join(ctx, in, func(t *tx) error {
		f, err := t.finishOne(&o)
		if err != nil {
			return err
		}
		switch f.Status {
		case sojourn.FinishApplied:
			return nil
		case sojourn.FinishRefused:
			return f.Err
		case sojourn.FinishRepeated:
			f.Reason = "this step has reported before that the job is " + f.State.String()
		}
		return &sojourn.Error{Code: sojourn.CodeLeaseLost, Index: -1, Err: sojourn.ErrLeaseLost,
			Message: "the lease of job " + strconv.FormatInt(int64(o.Lease.ID), 10) + " does not stand (" + f.Reason + "): roll back"}
	})
}

// draw gives ids to the jobs without one.
//
// Where one transaction writes at a time, they come from the counter inside of the application's transaction: a block of their own would have to be leased
// by the writer, which waits for this very transaction. A rollback takes the counter back, so the id of such a job means nothing before the commit.
// Elsewhere they come from a block that this store has leased, whatever becomes of the transaction.
func (e *enqueue) draw(ctx context.Context) error {
	var without []int
	for i := range e.jobs {
		if e.jobs[i].ID == 0 {
			without = append(without, i)
		}
	}
	n := int64(len(without))
	if n == 0 {
		return nil
	}
	if e.concurrent() {
		for _, i := range without {
			id, err := e.s.spare.next(ctx, e.s, e.now)
			if err != nil {
				return err
			}
			e.jobs[i].ID = id
		}
		return nil
	}
	first, err := e.num(qNextIDs, n)
	if err != nil {
		return err
	}
	e.block = block{first: first, size: n, leased: e.now} // known to checkID only: a job that is not stored with its id now never will be
	for k, i := range without {
		e.jobs[i].ID = sojourn.ID(first + int64(k))
	}
	return nil
}

// spareIDs is a block of ids for jobs that come in transactions of the application.
type spareIDs struct {
	mu   sync.Mutex // guards left, and keeps callers from leasing two blocks
	left block
}

const spareSize = 1000

// next gives one id that is good for half of IDLife at least.
func (b *spareIDs) next(ctx context.Context, s *Store, now int64) (sojourn.ID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left.size == 0 || now-b.left.leased > sojourn.IDLife.Microseconds()/2 {
		first, err := s.IDs(ctx, spareSize)
		if err != nil {
			return 0, err
		}
		b.left = block{first: int64(first), size: spareSize, leased: now}
	}
	b.left.first, b.left.size = b.left.first+1, b.left.size-1
	return sojourn.ID(b.left.first - 1), nil
}
