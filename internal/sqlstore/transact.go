package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// commit runs a group of requests in one transaction. If it was rolled back with several requests
// in it, each is run alone, so that only the failing one fails.
func (s *Store) commit(group []*request) {
	helped, err := s.transact(group, true)
	if err == nil {
		return
	}
	// If the outcome is unknown, the group may be stored. Another run would not report the result
	// of this one.
	again := (helped || len(group) > 1) && s.broken.Load() == nil && sojourn.ErrorCode(err) != sojourn.CodeUnknown
	for _, r := range group {
		if r.err = err; again {
			_, r.err = s.transact([]*request{r}, false)
		}
	}
}

// txTime bounds one transaction, with all waiting for another process's lock on the file.
const txTime = 30 * time.Second

// transact runs a group in one transaction, with blocked claims if handing is set. helped reports
// whether there were any.
func (s *Store) transact(group []*request, handing bool) (helped bool, err error) {
	if err := s.broken.Load(); err != nil {
		return false, *err
	}
	ctx, cancel := context.WithTimeout(context.Background(), txTime)
	defer cancel()
	var done *tx
	tries := 0
	group = s.arrange(group)
	var lent []*waiter // the same ones if the transaction is run again
	var given []claimAnswer
	err = s.update(ctx, func(c sqldb.Conn) (err error) {
		defer func() { // a bug in this package fails only its own request
			if v := recover(); v != nil {
				err = fmt.Errorf("panic in the store: %v\n%s", v, debug.Stack())
			}
		}()
		if done != nil {
			s.trusted.forget(done.writers)
			if done.guessed.ofQueues() {
				s.guesses.miss()
			}
		}
		tries++
		if done, err = s.newTx(c, tries == 1, group...); err != nil {
			return err
		}
		if err := done.runGroup(group); err != nil {
			return err
		}
		if handing && lent == nil {
			lent = s.hub.lend(done)
		}
		if given, err = done.handOver(lent); err != nil {
			return err
		}
		done.silent = foundNothing(group)
		if err := done.end(); err != nil {
			return err
		}
		if silent, ok := c.(sqldb.Versioned); ok && !done.wrote && foundNothing(group) {
			silent.Silent()
		}
		return nil
	})
	if err != nil {
		s.hub.settle(lent, nil)
		return len(lent) > 0, s.failed(err)
	}
	s.trusted.keep(done)
	s.guesses.keep(done)
	s.hub.settle(lent, given)
	for _, f := range done.after {
		f()
	}
	s.hub.tell(done)
	s.lookAgain(ctx, done.unseen)
	s.leave(done.dead)
	return len(lent) > 0, nil
}

// update is DB.Update that shifts the leases first if fn finds that the clock was set.
func (s *Store) update(ctx context.Context, fn func(sqldb.Conn) error) error {
	for {
		err := s.db.Update(ctx, fn)
		if !errors.Is(err, errClockStep) || ctx.Err() != nil {
			return err
		}
		if err := s.rebase(ctx); err != nil {
			return err
		}
	}
}

func (t *tx) runGroup(group []*request) error {
	if err := t.s.recent.open(t); err != nil {
		return err
	}
	for rest := group; len(rest) > 0; {
		// Requests of one step run together, in the order in which the first of them came.
		var same []*request
		same, rest = partition(rest, rest[0].step)
		if err := runSame(t, same); err != nil {
			return err
		}
		if err := t.s.gates.applyStats(t); err != nil {
			return err
		}
	}
	return nil
}

// foundNothing reports whether a group has only claims that are still empty.
func foundNothing(group []*request) bool {
	return !slices.ContainsFunc(group, func(r *request) bool {
		a, ok := r.out.(claimAnswer)
		return !ok || len(a.jobs) > 0 || a.drained
	})
}

func partition(group []*request, st *step) (same, rest []*request) {
	for _, r := range group {
		if r.step == st {
			same = append(same, r)
		} else {
			rest = append(rest, r)
		}
	}
	return same, rest
}

func runSame(t *tx, rs []*request) error {
	in := make([]any, len(rs))
	for i, r := range rs {
		in[i] = r.in
	}
	out, err := rs[0].step.run(t, in)
	if err != nil {
		return err
	}
	for i, r := range rs {
		r.out = out[i]
	}
	return nil
}
