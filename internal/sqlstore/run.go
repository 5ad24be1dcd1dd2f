package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// commit runs a group of calls in one transaction. If it was rolled back with several calls in it,
// each is run alone, so that only the failing one fails.
func (s *Store) commit(items []*groupcommit.Item[txn.Call]) {
	group := make([]txn.Call, len(items))
	for i, item := range items {
		group[i] = item.Call
	}
	helped, err := s.transact(group, true)
	if err == nil {
		return
	}
	// If the outcome is unknown, the group may be stored, and another run would not report the
	// result of this one.
	again := (helped || len(group) > 1) && s.core.Broken.Load() == nil && sojourn.ErrorCode(err) != sojourn.CodeUnknown
	for i, item := range items {
		if item.Err = err; again {
			_, item.Err = s.transact(group[i:i+1:i+1], false)
		}
	}
}

// txTime bounds one transaction, including all waiting for another process's lock on the file.
const txTime = 30 * time.Second

// transact runs a group in one transaction, and publishes its effects. With withBlocked it also
// runs the blocked claims that fit the jobs which the group makes ready; helped reports whether
// there were any. The database may run the function again; only the first try uses caches.
func (s *Store) transact(group []txn.Call, withBlocked bool) (helped bool, err error) {
	if err := s.core.Broken.Load(); err != nil {
		return false, *err
	}
	ctx, cancel := context.WithTimeout(context.Background(), txTime)
	defer cancel()
	var done *txn.Tx
	tries := 0
	group = s.arrange(group)
	var lent []*wake.Waiter // blocked claims, the same ones if the transaction is run again
	var answers []wake.ClaimAnswer
	run := func(c sqldb.Conn) (err error) {
		defer func() { // a bug in the engine fails only its own request
			if v := recover(); v != nil {
				err = fmt.Errorf("panic in the store: %v\n%s", v, debug.Stack())
			}
		}()
		if done != nil { // it was rolled back
			s.core.Caches.Rows.Forget(done.Cache.Writers)
			if done.Cache.Validators.OfQueues() {
				s.core.Caches.Queues.Miss(s.core.Cfg.Spoils == nil)
			}
		}
		tries++
		if done, err = s.begin(c, tries == 1, group); err != nil {
			return err
		}
		if tries > 1 {
			if err := done.ReadFollowed(); err != nil {
				return err
			}
		}
		if err := s.runGroup(done, group); err != nil {
			return err
		}
		if withBlocked && lent == nil {
			lent = s.hub.Reserve(done)
		}
		if answers, err = s.Claimer.HandOver(done, lent); err != nil {
			return err
		}
		if err := edge.Flush(done); err != nil { // a throttler may have failed jobs
			return err
		}
		s.members.Flush(done)
		done.Silent = foundNothing(group)
		if err := done.End(); err != nil {
			return err
		}
		if silent, ok := c.(sqldb.Versioned); ok && !done.Wrote && done.Silent {
			silent.Silent()
		}
		return nil
	}
	if err = s.Maintainer.Update(ctx, run); errors.Is(err, sqldb.ErrRaced) && !s.core.DB.Dialect().Concurrent {
		err = s.Maintainer.Update(ctx, run) // the first run did not know of a follower
	}
	if err != nil {
		s.hub.Release(lent, nil)
		return len(lent) > 0, s.core.Failed(err)
	}
	s.hub.Release(lent, answers)
	s.publish(ctx, done)
	return len(lent) > 0, nil
}

// publish updates the caches after a commit, and does what the events of the transaction ask for.
func (s *Store) publish(ctx context.Context, done *txn.Tx) {
	s.core.Caches.Rows.Keep(done)
	s.core.Caches.Queues.Learn(done)
	for _, f := range done.Events.After {
		f()
	}
	s.hub.Publish(done)
	s.Maintainer.Recheck(ctx, done.Events.Recheck)
	s.core.NoteDead(done.Events.Dead)
	s.Maintainer.Counts.Note(done.Events.Counted)
	s.Recorder.Note(done.Events.Measured)
}

// begin begins the transaction of a group: with cached reads, or with its reads in the first
// message, or, where messages cost nothing, with the clock alone. Only an optimistic try uses
// caches.
func (s *Store) begin(c sqldb.Conn, optimistic bool, group []txn.Call) (*txn.Tx, error) {
	sent := s.core.Clock.Monotonic()
	t := s.core.NewTx(c)
	t.Optimistic = optimistic
	if s.useCachedReads(t, group) {
		return t, nil
	}
	if err := t.Prefetch(group); err != nil {
		return nil, err
	}
	for _, p := range t.First.Batches {
		if started, err := p.Work.FinishBulkStart(); err != nil || started {
			return t, err
		}
	}
	var err error
	if t.Reading, err = s.core.ReadClock(c, sent); err == nil && t.Stepped {
		return nil, clock.ErrStep
	}
	return t, err
}

// arrange orders the requests of a group. The rows of responses are known only to the database. If
// the group begins with reads that lock, responses come first and share them; elsewhere they come
// after the requests whose rows are cached. Claims come last, so that they start the jobs that the
// others have made ready.
func (s *Store) arrange(group []txn.Call) []txn.Call {
	claims, others := txn.Partition(group, s.Claimer.Op)
	named, rest := txn.Partition(others, s.Responder.Op)
	if s.core.DB.Dialect().Concurrent {
		return slices.Concat(named, rest, claims)
	}
	return slices.Concat(rest, named, claims)
}

// foundNothing reports whether a group has only claims that are still empty.
func foundNothing(group []txn.Call) bool {
	return !slices.ContainsFunc(group, func(c txn.Call) bool {
		r, ok := c.(*txn.Request[driver.ClaimRequest, wake.ClaimAnswer])
		return !ok || len(r.Answer.Jobs) > 0 || r.Answer.Drained
	})
}

// runGroup runs the requests of each op together, in the order in which the first of them came. An
// op reads for all its requests at once, unless its reads were sent with the begin or are cached.
// Its gates evaluate the outcomes of its steps before the next op runs.
func (s *Store) runGroup(t *txn.Tx, group []txn.Call) error {
	if err := t.Core.Caches.Local.Open(t); err != nil {
		return err
	}
	for rest := group; len(rest) > 0; {
		var same []txn.Call
		same, rest = txn.Partition(rest, rest[0].OpID())
		w, ok := t.TakePrefetched(same[0].OpID())
		if !ok {
			w = same[0].Begin(t, same)
			if err := t.ReadAll(w.Reads()); err != nil {
				return err
			}
		}
		if err := w.Run(); err != nil {
			return err
		}
		if err := s.gates.FlushPace(t); err != nil {
			return err
		}
		if err := edge.Flush(t); err != nil {
			return err
		}
	}
	return nil
}
