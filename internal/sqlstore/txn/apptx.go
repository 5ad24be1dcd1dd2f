package txn

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// maxRaces bounds the tries of Join when other transactions win each race.
const maxRaces = 20

// Join runs fn inside of the transaction in of the application, and flushes its writes there. After
// a lost race fn runs again, from a savepoint. No cache learns from fn and no event is published,
// because the store does not see the commit: blocked calls find the effects when they poll. An
// error of the database leaves the transaction as it was before Join, if the database still can.
func (s *Core) Join(ctx context.Context, in any, fn func(t *Tx) error) error {
	if err := s.refuses(); err != nil {
		return err
	}
	db, ok := s.DB.(sqldb.Joiner)
	if !ok {
		return sojourn.Invalid("tx", "this store cannot work inside of a transaction of the application")
	}
	c, err := db.Join(ctx, in, base64.StdEncoding.EncodeToString(s.Secret))
	if err != nil {
		return txFailed(err)
	}
	for try := 1; ; try++ {
		dead := 0
		err := guarded(func() error {
			t, err := s.Begin(c)
			if err != nil {
				return err
			}
			if try > 1 {
				if err := t.ReadFollowed(); err != nil {
					return err
				}
			}
			if err := fn(t); err != nil {
				return err
			}
			dead = t.Events.Dead
			if d, ok := c.(sqldb.DurableJoiner); ok && !t.Wrote && t.Writes.empty() {
				if err := d.ReadDurably(); err != nil {
					return err
				}
			}
			return t.End()
		})
		if err == nil {
			s.NoteDead(dead)
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

// Durable returns when all committed data is on the disk, where a commit does not wait for that.
func (s *Core) Durable() error {
	if db, ok := s.DB.(sqldb.Durable); ok {
		return db.Durable()
	}
	return nil
}

// guarded turns a panic into an error: a bug in the store fails the call that meets it, and no
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
