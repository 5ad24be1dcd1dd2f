package upkeep

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/failure"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/statistics"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qAnyOverdue = `select (` + edge.AnyPosted + `), (select count(*) from (select 1 from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 limit 1) a)
		+ (select count(*) from (select 1 from sj_response where expires_us > 0 and expires_us <= $1 limit 1) b),
		(select coalesce(min(due_us), 0) from sj_schedule where due_us < 9223372036854775807),
		` + member.AnyDue + `, (` + counters.AnyChange + `), ` + failure.AnyDue + `,
		(select count(*) from (select 1 from sj_operation where due_us <= $1 and due_us < 9223372036854775807 limit 1) o), ` + statistics.AnyDue + `,
		(select count(*) from (select 1 from sj_event limit 1) v) + (select count(*) from (select 1 from sj_follower limit 1) w), (` + field.AnyResults + `)`
	qNextTick  = `select coalesce(min(due_us), 0) from sj_schedule where due_us < 9223372036854775807`
	qReindexes = `select name from sj_queue where reshape >= 0`
	qRunningOf = `select id from sj_live where wake_at_us < 9223372036854775807 and state = 4 and worker >= $1 and worker < $2 limit $3 /*lock*/`
)

// backlog is what a sweep finds to do.
type backlog struct {
	overdue    bool
	counts     bool          // changes of the numbers of jobs
	workflows  bool          // ends of members, or workflows that are due
	statistics bool          // statistics to add up, or old ones
	failures   bool          // counts of failures to add up, or old groups
	events     bool          // events, or followers
	operations bool          // stored operations that are due
	endings    bool          // ended jobs whose dependents are not all decided
	expired    []Final       // by retention
	unmatched  []txn.KindKey // keys that were not rechecked, because a process died
	results    bool          // a queue with an index of results
	reindexes  []string      // queues whose reindex has not ended
	clock      string        // the record of the clock that all processes share, as stored
	tick       int64         // when the first schedule is due; 0 = never
	now        int64
}

// Sweep handles overdue jobs; see driver.Store. It reads first, so that a sweep with nothing to do
// writes nothing.
func (s *Maintainer) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	if limit < 1 || limit > 10*sojourn.MaxBatch {
		return driver.Swept{}, sojourn.Invalid("limit", "%d is out of range: 1 to %d", limit, 10*sojourn.MaxBatch)
	}
	swept, err := s.sweepOwners(ctx, limit)
	if err != nil {
		return swept, err
	}
	found, err := s.backlog(ctx, limit)
	if err != nil {
		return swept, err
	}
	s.Recheck(ctx, found.unmatched)
	if err := s.keepMark(ctx, found.clock, found.now); err != nil {
		return swept, s.core.Failed(err)
	}
	if found.overdue || s.core.Clock.HasStepped() {
		more, err := txn.Do(ctx, s.core, sweepOp, limit, limit)
		if err != nil {
			return swept, err
		}
		more.Lost += swept.Lost
		swept = more
	}
	if found.endings {
		if err := edge.Drain(ctx, s.core); err != nil {
			return swept, err
		}
	}
	if found.workflows {
		if err := s.Continue(ctx); err != nil {
			return swept, err
		}
	}
	if found.failures {
		if err := s.FoldFailures(ctx); err != nil {
			return swept, err
		}
	}
	if swept.Ticks, swept.NextTick, err = s.tick(ctx, found, limit); err != nil {
		return swept, err
	}
	if swept.Pruned, err = s.prune(ctx, found.expired); err != nil {
		return swept, err
	}
	if found.counts {
		if err := s.Counts.Sweep(ctx); err != nil {
			return swept, err
		}
	}
	if found.statistics {
		if err := s.FoldStatistics(ctx); err != nil {
			return swept, err
		}
	}
	if found.events {
		if err := s.SweepEvents(ctx); err != nil {
			return swept, err
		}
	}
	if err := s.sweepIndexes(ctx, found, limit); err != nil { // late, because it may wait
		return swept, err
	}
	if found.operations { // last, because it may take a while
		err = s.Operate(ctx)
	}
	return swept, err
}

// sweepIndexes goes on with the reindexes of queues, whose process may have died, and indexes
// results.
func (s *Maintainer) sweepIndexes(ctx context.Context, found backlog, limit int) error {
	for _, queue := range found.reindexes {
		if err := s.Reindex(ctx, queue, 1+limit/reindexRows); err != nil {
			return err
		}
	}
	if found.results {
		return s.indexResults(ctx)
	}
	return nil
}

// tick handles the schedules that are due. next is the time until the first tick to come; 0 if
// there is none.
func (s *Maintainer) tick(ctx context.Context, found backlog, limit int) (ticks int, next time.Duration, err error) {
	due, now := found.tick, found.now
	if due > 0 && due <= now {
		if ticks, err = s.schedules.Tick(ctx, limit); err != nil {
			return ticks, 0, err
		}
		if err := s.core.View(ctx, func(t *txn.Tx) (err error) {
			now = t.Now
			due, err = t.ReadInt(qNextTick)
			return err
		}); err != nil {
			return ticks, 0, err
		}
	}
	if due == 0 {
		return ticks, 0, nil
	}
	return ticks, max(time.Duration(due-now)*time.Microsecond, time.Millisecond), nil
}

// backlog reads what there is to do, from one snapshot.
func (s *Maintainer) backlog(ctx context.Context, limit int) (out backlog, err error) {
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = backlog{now: t.Now}
		oldest, err := statistics.Oldest(t)
		if err != nil {
			return err
		}
		if err := t.Read(qAnyOverdue, func(r sqldb.Row) error {
			out.endings, out.overdue, out.tick, out.workflows, out.counts = r.Int(0) > 0, r.Int(1) > 0, r.Int(2), r.Int(3) > 0, r.Int(4) > 0
			out.failures, out.operations, out.statistics = r.Int(5) > 0, r.Int(6) > 0, r.Int(7) > 0
			out.events, out.results = r.Int(8) > 0, r.Int(9) > 0
			return nil
		}, append([]any{t.Now}, oldest...)...); err != nil {
			return err
		}
		if err := t.Read(txn.QMeta, func(r sqldb.Row) error { out.clock = r.Text(0); return nil }, clock.MetaName); err != nil {
			return err
		}
		if err := t.Read(qReindexes, func(r sqldb.Row) error { out.reindexes = append(out.reindexes, r.Text(0)); return nil }); err != nil {
			return err
		}
		if out.unmatched, err = lifecycle.MissedKeys(t, limit); err != nil {
			return err
		}
		out.expired, err = expiredJobs(t, limit)
		return err
	})
	return out, err
}

// sweepOp ends overdue waits, leases and deadlines, then the time to live of responses.
var sweepOp = txn.EachOp("sweep", groupcommit.Claim, func(t *txn.Tx, limit int) (driver.Swept, error) {
	swept, err := lifecycle.SweepOverdue(t, limit)
	if err == nil {
		err = sweepInbox(t, limit, &swept)
	}
	return swept, err
})

// EndDead ends the leases of dead processes between two sweeps. What fails is left to the next
// sweep.
func (s *Maintainer) EndDead() {
	ctx, cancel := context.WithTimeout(context.Background(), endDeadTime)
	defer cancel()
	for ctx.Err() == nil {
		if swept, err := s.sweepOwners(ctx, sojourn.MaxBatch); err != nil || swept.Lost < sojourn.MaxBatch {
			return
		}
	}
}

// endDeadTime bounds EndDead.
const endDeadTime = 30 * time.Second

// sweepOwners ends the leases of dead processes before they expire.
func (s *Maintainer) sweepOwners(ctx context.Context, limit int) (swept driver.Swept, err error) {
	o, ok := s.core.DB.(sqldb.Owners)
	if !ok {
		return swept, nil
	}
	err = o.EndDead(ctx, func(owner string) (finished bool, err error) {
		for swept.Lost < limit { // the rest with the next sweep
			if err := ctx.Err(); err != nil {
				return false, err
			}
			// The transaction completes even if ctx ends: the owner is known to be dead only until
			// this function returns.
			n, err := txn.Do(context.WithoutCancel(ctx), s.core, ownerOp, 1, owner)
			if err != nil || n == 0 {
				return err == nil, err
			}
			swept.Lost += n
		}
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		return swept, ctx.Err()
	}
	if err != nil {
		return swept, s.core.Failed(err)
	}
	return swept, nil
}

// ownerOp ends the leases of a dead process, whose workers are named owner.something.
var ownerOp = txn.EachOp("owner", groupcommit.Claim, func(t *txn.Tx, owner string) (int, error) {
	var ids sqldb.Ints
	if v, ok := t.Core.DB.(sqldb.Verdicts); ok {
		if dead, err := v.Confirm(t.Conn, owner); err != nil || !dead {
			return 0, err
		}
	}
	// "/" follows "." in every collation that compares bytes.
	if err := t.Read(qRunningOf, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, owner+".", owner+"/", sojourn.MaxBatch); err != nil {
		return 0, err
	}
	found, err := t.Load(ids)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := lifecycle.ApplyEvent(t, found[sojourn.ID(id)], rules.Event{Type: rules.EventLeaseEnded}); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
})
