package sqlstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// maxRaces bounds the tries of a step inside of one transaction of the application when other
// transactions win each race.
const maxRaces = 20

// join runs fn inside of the application's transaction. A lost race is repeated from the savepoint.
// No cache is updated with the effects of fn, because the store does not see the commit; blocked
// calls find them when they poll.
func (s *Store) join(ctx context.Context, in any, fn func(t *tx) error) error {
	if s.hub.isClosed() {
		return errClosed
	}
	if err := s.broken.Load(); err != nil {
		return *err
	}
	db, ok := s.db.(sqldb.Joiner)
	if !ok {
		return sojourn.Invalid("tx", "this store cannot work inside of a transaction of the application")
	}
	c, err := db.Join(ctx, in, base64.StdEncoding.EncodeToString(s.secret))
	if err != nil {
		return txFailed(err)
	}
	for try := 1; ; try++ {
		dead := 0
		err := guarded(func() error {
			t, err := s.newTx(c, false)
			if err != nil {
				return err
			}
			if err := fn(t); err != nil {
				return err
			}
			if err := s.gates.applyStats(t); err != nil {
				return err
			}
			dead = t.dead
			if d, ok := c.(sqldb.DurableJoiner); ok && !t.wrote && t.pending.empty() {
				if err := d.ReadDurably(); err != nil {
					return err
				}
			}
			return t.end()
		})
		if err == nil {
			s.leave(dead)
			return txFailed(c.Keep())
		}
		if undone := c.Undo(); undone != nil {
			return txFailed(errors.Join(err, undone))
		}
		if !errors.Is(err, sqldb.ErrRaced) || try == maxRaces || ctx.Err() != nil {
			return txFailed(errors.Join(err, c.Keep()))
		}
	}
}

// guarded turns a panic into an error: a bug in this package fails the call that meets it, and no
// other.
func guarded(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the store: %v\n%s", v, debug.Stack())
		}
	}()
	return fn()
}

// txFailed translates an error. Errors of the database go to the application, whose transaction it
// is; they are no evidence about the store.
func txFailed(err error) error {
	if ours, ok := errors.AsType[*sojourn.Error](err); ok {
		return ours
	}
	if err == nil {
		return nil
	}
	message := "the database refused (" + err.Error() + "): roll back, then repeat the whole transaction"
	if errors.Is(err, sqldb.ErrRaced) {
		message = "other transactions were faster each time (" + err.Error() + "): roll back, then repeat the whole transaction; READ COMMITTED sees what they did"
	}
	return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Message: message, Err: err}
}

// EnqueueTx stores jobs in a transaction of the application; see driver.TxStore.
func (s *Store) EnqueueTx(ctx context.Context, in any, jobs []sojourn.Job) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if err := s.noRoom(); err != nil {
		return nil, err
	}
	// Keys are locked until the application commits. takeKeys takes them in one order, so two
	// transactions with several keys wait for each other, and do not end in a deadlock.
	var out []sojourn.Enqueued
	notJSON := s.jsonErrors(jobs)
	err := s.join(ctx, in, func(t *tx) error {
		e := enqueue{tx: t}
		c := access.CallerOf(ctx)
		ask := enqueueAsk{jobs: slices.Clone(jobs), digests: digests(jobs, c), caller: c, notJSON: notJSON}
		if err := e.draw(ctx, ask.jobs); err != nil {
			return err
		}
		if err := e.lookUp([]enqueueAsk{ask}); err != nil {
			return err
		}
		var err error
		if out, err = e.plan(ask); err != nil {
			return err
		}
		return e.write()
	})
	if err == nil && slices.ContainsFunc(out, func(e sojourn.Enqueued) bool { return e.Duplicate }) {
		err = s.durable() // a duplicate depends on the commit of another transaction
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// durable waits until all committed data is on the disk.
func (s *Store) durable() error {
	if db, ok := s.db.(sqldb.Durable); ok {
		return db.Durable()
	}
	return nil
}

// FinishTx ends a step in a transaction of the application; see driver.TxStore.
func (s *Store) FinishTx(ctx context.Context, in any, o sojourn.Outcome) error {
	ask := newFinishAsk([]sojourn.Outcome{o}, access.CallerOf(ctx))
	return s.join(ctx, in, func(t *tx) error {
		if err := t.readTypes([]finishAsk{ask}); err != nil {
			return err
		}
		f, err := t.finishOne(&ask, 0)
		if err != nil {
			return err
		}
		switch f.Status {
		case driver.FinishApplied:
			return nil
		case driver.FinishRefused:
			return f.Err
		case driver.FinishRepeated:
			f.Reason = "this step has reported before that the job is " + f.State.String()
		}
		return &sojourn.Error{Code: sojourn.CodeLeaseLost, Index: -1, Err: sojourn.ErrLeaseLost,
			Message: "the lease of job " + strconv.FormatInt(int64(o.Lease.ID), 10) + " does not stand (" + f.Reason + "): roll back"}
	})
}

// draw gives ids to the jobs without one.
//
// Where one transaction writes at a time, they come from the counter inside of the application's
// transaction: a block of their own would have to be leased by the writer, which waits for this
// very transaction. A rollback resets the counter, so the id of such a job is not valid before the
// commit. Elsewhere they come from a block that this store has leased, and a rollback does not
// return them.
func (e *enqueue) draw(ctx context.Context, jobs []sojourn.Job) error {
	var without []int
	for i := range jobs {
		if jobs[i].ID == 0 {
			without = append(without, i)
		}
	}
	n := int64(len(without))
	if n == 0 {
		return nil
	}
	// They are not checked: a transaction with an older snapshot does not see the block's lease. On
	// SQLite no block is stored, because an id is either stored with its job now or never.
	if e.concurrent() {
		var err error
		if e.drawn, err = e.s.spare.take(ctx, e.s, e.now, n); err != nil {
			return err
		}
	} else {
		first, err := e.num(qNextIDs, n)
		if err != nil {
			return err
		}
		e.drawn = block{first: first, size: n, leased: e.now}
	}
	for k, i := range without {
		jobs[i].ID = sojourn.ID(e.drawn.first + int64(k))
	}
	return nil
}

// spareIDs is a block of ids for jobs that come in transactions of the application.
type spareIDs struct {
	mu   sync.Mutex // guards left, and keeps callers from leasing two blocks
	left block
}

const spareSize = 1000

// take gives n ids that are valid for half of IDLife at least. The rest of a block that is too
// small stays unused.
func (b *spareIDs) take(ctx context.Context, s *Store, now, n int64) (block, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left.size < n || now-b.left.leased > sojourn.IDLife.Microseconds()/2 {
		size := max(n, spareSize)
		first, err := s.IDs(access.WithCaller(ctx, nil), int(size)) // callers share the block
		if err != nil {
			return block{}, err
		}
		b.left = block{first: int64(first), size: size, leased: now}
	}
	out := block{first: b.left.first, size: n, leased: b.left.leased}
	b.left.first, b.left.size = b.left.first+n, b.left.size-n
	return out, nil
}
