package sqlstore

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// commit runs a group of calls in one transaction. If it was rolled back with several calls in it,
// each is run alone, so that only the failing one fails.
func (s *Store) commit(items []*groupcommit.Item[call]) {
	group := make([]call, len(items))
	for i, item := range items {
		group[i] = item.Call
	}
	helped, err := s.transact(group, true)
	if err == nil {
		return
	}
	// If the outcome is unknown, the group may be stored. Another run would not report the result
	// of this one.
	again := (helped || len(group) > 1) && s.core.broken.Load() == nil && sojourn.ErrorCode(err) != sojourn.CodeUnknown
	for i, item := range items {
		if item.Err = err; again {
			_, item.Err = s.transact(group[i:i+1:i+1], false)
		}
	}
}

// txTime bounds one transaction, with all waiting for another process's lock on the file.
const txTime = 30 * time.Second

// transact runs a group in one transaction, with blocked claims if handing is set. helped reports
// whether there were any.
func (s *Store) transact(group []call, handing bool) (helped bool, err error) {
	if err := s.core.broken.Load(); err != nil {
		return false, *err
	}
	ctx, cancel := context.WithTimeout(context.Background(), txTime)
	defer cancel()
	var done *tx
	tries := 0
	group = s.arrange(group)
	var lent []*waiter // the same ones if the transaction is run again
	var given []claimAnswer
	err = s.operator.update(ctx, func(c sqldb.Conn) (err error) {
		defer func() { // a bug in this package fails only its own request
			if v := recover(); v != nil {
				err = fmt.Errorf("panic in the store: %v\n%s", v, debug.Stack())
			}
		}()
		if done != nil {
			s.core.trusted.forget(done.writers)
			if done.guessed.ofQueues() {
				s.core.guesses.miss()
			}
		}
		tries++
		if done, err = s.begin(c, tries == 1, group); err != nil {
			return err
		}
		if err := s.runGroup(done, group); err != nil {
			return err
		}
		if handing && lent == nil {
			lent = s.hub.lend(done)
		}
		if given, err = s.claimer.handOver(done, lent); err != nil {
			return err
		}
		done.silent = foundNothing(group)
		if err := done.end(); err != nil {
			return err
		}
		if silent, ok := c.(sqldb.Versioned); ok && !done.wrote && done.silent {
			silent.Silent()
		}
		return nil
	})
	if err != nil {
		s.hub.settle(lent, nil)
		return len(lent) > 0, s.core.failed(err)
	}
	s.core.trusted.keep(done)
	s.core.guesses.keep(done)
	s.hub.settle(lent, given)
	for _, f := range done.after {
		f()
	}
	s.hub.tell(done)
	s.operator.lookAgain(ctx, done.unseen)
	s.core.leave(done.dead)
	return len(lent) > 0, nil
}

// begin begins the transaction of a group: with cached reads, or with its reads in the first
// message, or, where messages cost nothing, with the time alone.
func (s *Store) begin(c sqldb.Conn, hasty bool, group []call) (*tx, error) {
	sent := s.core.clock.monotonic()
	t := s.core.newTx(c)
	t.hasty = hasty
	if s.guess(t, group) {
		return t, nil
	}
	if err := t.prefetch(group); err != nil {
		return nil, err
	}
	for _, p := range t.prefetched {
		if started, err := p.work.settleStart(); err != nil || started {
			return t, err
		}
	}
	var err error
	if t.reading, err = s.core.read(c, sent); err == nil && t.stepped {
		return nil, errClockStep
	}
	return t, err
}

// arrange orders the requests of a group. The rows of responses are known only to the database. If
// the group begins with reads that lock, responses come first and share them; elsewhere they come
// after the requests whose rows are cached. Claims come last, so that they start the jobs that the
// others have made ready.
func (s *Store) arrange(group []call) []call {
	claims, others := partition(group, s.claimer.op)
	named, rest := partition(others, s.responder.op)
	if s.core.db.Dialect().Concurrent {
		return slices.Concat(named, rest, claims)
	}
	return slices.Concat(rest, named, claims)
}

// foundNothing reports whether a group has only claims that are still empty.
func foundNothing(group []call) bool {
	return !slices.ContainsFunc(group, func(c call) bool {
		r, ok := c.(*request[driver.ClaimRequest, claimAnswer])
		return !ok || len(r.a.jobs) > 0 || r.a.drained
	})
}

// runGroup runs the requests of each op together, in the order in which the first of them came.
func (s *Store) runGroup(t *tx, group []call) error {
	if err := t.s.recent.open(t); err != nil {
		return err
	}
	for rest := group; len(rest) > 0; {
		var same []call
		same, rest = partition(rest, rest[0].opID())
		w, ok := t.takePrefetched(same[0].opID())
		if !ok {
			w = same[0].begin(t, same)
			if err := t.readAll(w.reads()); err != nil {
				return err
			}
		}
		if err := w.run(); err != nil {
			return err
		}
		if err := s.gates.flushPace(t); err != nil {
			return err
		}
	}
	return nil
}
