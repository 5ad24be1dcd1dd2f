package failure

import (
	"context"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/failure"
)

const (
	// foldGroups bounds the groups of one transaction, so that other requests run in between.
	foldGroups = 200
	// movedJobs bounds the jobs that one transaction moves to the group of other causes.
	movedJobs = 500
)

const (
	// AnyDue reads whether a sweep has something to do: counts to add up, or groups that may be
	// kept no longer.
	AnyDue = `(select count(*) from (select 1 from sj_failure_new where id > 0 limit 1) n) + (select count(*) from (select 1 from sj_failure where due_us <= $1 limit 1) g)`

	qAnyNew      = `select count(*) from (select 1 from sj_failure_new where id > 0 limit 1) a`
	qLock        = `insert into sj_meta (name, value) values ('failures', '') on conflict (name) do update set value = excluded.value`
	qNextNew     = `select distinct id from sj_failure_new where id > 0 order by id limit $1`
	qTakeNew     = `delete from sj_failure_new where id in (ints($1)) returning id, attempts, failed, first_us, last_us, sample_job, queue, kind, reason, pattern, sample`
	qKnown       = `select id from sj_failure where id in (ints($1))`
	qGroups      = `select count(*) from (select 1 from sj_failure where queue = $1 and other = 0 limit $2) a`
	qMoveFinal   = `update sj_final set failure = $1 where id in (select id from sj_final where failure = $2 and failure <> 0 order by id limit $3)`
	qMoveHistory = `update sj_history set failure = $1 where (job, seq) in (select job, seq from sj_history where failure = $2 and failure <> 0 order by job, seq limit $3)`

	qDue    = `select id from sj_failure f where due_us <= $1 order by due_us limit $2`
	qForget = `delete from sj_failure where id in (ints($1)) and not exists (select 1 from sj_final f where f.failure = sj_failure.id and f.failure <> 0)
		and not exists (select 1 from sj_failure_new n where n.id = sj_failure.id)`
	qLater = `update sj_failure set due_us = $1 where id in (ints($2))`
)

// qAddTo adds counts to a group that is there, or stores it.
const qAddTo = `insert into sj_failure (id, attempts, failed, first_us, last_us, sample_job, due_us, other, muted_us, muted_until_us, queue, kind, reason, pattern, muted_by, mute_reason, sample)
	rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint, $10 bigint, $11 text, $12 text, $13 text, $14 text, $15 text, $16 text, $17 bytea)
	on conflict (id) do update set attempts = sj_failure.attempts + excluded.attempts, failed = sj_failure.failed + excluded.failed,
		first_us = case when excluded.first_us < sj_failure.first_us then excluded.first_us else sj_failure.first_us end,
		last_us = case when excluded.last_us > sj_failure.last_us then excluded.last_us else sj_failure.last_us end,
		due_us = case when excluded.due_us > sj_failure.due_us then excluded.due_us else sj_failure.due_us end,
		sample_job = excluded.sample_job, sample = excluded.sample`

// otherPattern is the pattern of the group of all causes beyond the limit. No fingerprint is equal
// to it, because fingerprints have no leading space.
const otherPattern = " other"

// Groups keeps the failure groups of one store. Safe for concurrent use.
type Groups struct {
	core     *txn.Core
	foldOp   *txn.Op[int, bool]
	forgetOp *txn.Op[int, bool]
	muteOp   *txn.Op[muteRequest, muted]
}

// New makes the groups of a store.
func New(c *txn.Core) *Groups {
	s := &Groups{core: c}
	s.foldOp = txn.EachOp("fold failures", groupcommit.Enqueue, fold)
	s.forgetOp = txn.EachOp("forget failures", groupcommit.Enqueue, forget)
	s.muteOp = txn.EachOp("mute failure", groupcommit.Finish, s.mute)
	return s
}

// SweepFailures adds up all counts that it finds, and deletes groups that are kept no longer.
func (s *Groups) SweepFailures(ctx context.Context) error {
	for _, op := range []*txn.Op[int, bool]{s.foldOp, s.forgetOp} {
		for more := true; more; {
			var err error
			if more, err = txn.Do(ctx, s.core, op, foldGroups, foldGroups); err != nil {
				return err
			}
		}
	}
	return nil
}

// foldNow adds up the counts, if there are any.
func (s *Groups) foldNow(ctx context.Context) error {
	found := int64(0)
	if err := s.core.View(ctx, func(t *txn.Tx) (err error) { found, err = t.ReadInt(qAnyNew); return err }); err != nil || found == 0 {
		return err
	}
	for more := true; more; {
		var err error
		if more, err = txn.Do(ctx, s.core, s.foldOp, foldGroups, foldGroups); err != nil {
			return err
		}
	}
	return nil
}

// lock makes transactions wait for each other that change groups by new counts or delete them.
func lock(t *txn.Tx) error {
	if !t.Concurrent() {
		return nil
	}
	_, err := t.Write(qLock)
	return err
}

// fold adds up the counts of up to limit groups, and reports whether there may be more.
func fold(t *txn.Tx, limit int) (more bool, err error) {
	if err := lock(t); err != nil {
		return false, err
	}
	var ids sqldb.Ints
	if err := t.Read(qNextNew, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, limit); err != nil || len(ids) == 0 {
		return false, err
	}
	all := tally{}
	if err := t.Read(qTakeNew, func(r sqldb.Row) error {
		c := &counts{cause{r.Text(6), r.Text(7), r.Text(8), r.Text(9)}, r.Int(1), r.Int(2), r.Int(3), r.Int(4), r.Int(5), string(r.Bytes(10))}
		if known := all[r.Int(0)]; known != nil {
			known.add(c)
		} else {
			all[r.Int(0)] = c
		}
		return nil
	}, ids); err != nil {
		return false, err
	}
	t.Wrote = true
	if err := bound(t, ids, all); err != nil {
		return false, err
	}
	groups := all.columns(true)
	return len(all) >= limit, t.WriteBulk(qAddTo, func(int64) {}, groups.IDs, groups.All()...)
}

// bound moves the counts of new groups into the group of other causes, where a queue has as many
// groups as it may. Their failed jobs and steps move with them.
func bound(t *txn.Tx, ids sqldb.Ints, all tally) error {
	known := map[int64]bool{}
	if err := t.Read(qKnown, func(r sqldb.Row) error { known[r.Int(0)] = true; return nil }, ids); err != nil {
		return err
	}
	room := map[string]int64{}
	for _, id := range ids {
		c := all[id]
		if known[id] || c.pattern == otherPattern {
			continue
		}
		left, counted := room[c.queue]
		if !counted {
			n, err := t.ReadInt(qGroups, c.queue, failure.MaxGroups)
			if err != nil {
				return err
			}
			left = failure.MaxGroups - n
		}
		if left > 0 {
			room[c.queue] = left - 1
			continue
		}
		room[c.queue] = 0
		moved := *c
		moved.reason, moved.pattern = "", otherPattern
		to := moved.cause.id()
		delete(all, id)
		if group := all[to]; group != nil {
			group.add(&moved)
		} else {
			all[to] = &moved
		}
		for _, q := range []string{qMoveFinal, qMoveHistory} {
			for n := int64(movedJobs); n == movedJobs; {
				var err error
				if n, err = t.Write(q, to, id, movedJobs); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// forget deletes groups without failures for a long time and without failed jobs, and reports
// whether there may be more.
func forget(t *txn.Tx, limit int) (more bool, err error) {
	if err := lock(t); err != nil {
		return false, err
	}
	var ids sqldb.Ints
	if err := t.Read(qDue, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, t.Now, limit); err != nil || len(ids) == 0 {
		return false, err
	}
	if _, err := t.Write(qForget, ids); err != nil {
		return false, err
	}
	// Those that are left have failed jobs.
	_, err = t.Write(qLater, t.Now+failure.Keep.Microseconds()/30, ids)
	return len(ids) == limit, err
}
