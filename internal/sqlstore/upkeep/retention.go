package upkeep

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/checkpointsize"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/errordetail"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/joblog"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/question"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/storeconfig"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/tag"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Final is a final job to be removed, with its columns as they were read.
type Final struct {
	ID, FinishedAt int64 // microseconds
	Generation     int64
	Queue          string
	Kind, Key      string
	State          sojourn.State
	Member         bool // of a workflow
}

// qExpiredJobs finds final jobs of one queue and state that ended before a time. It spares jobs
// that ended within IDLife, because their enqueue may be repeated, jobs that still hold their key,
// jobs that an archive has not exported, and awaited children of live jobs, whose results these
// read. The end counts, not the enqueue, because it is indexed: else each sweep would read all of a
// queue that finishes more jobs within IDLife than its count.
var (
	qExpiredJobs = `select f.id, f.finished_us, f.kind, f.key, (select count(*) from sj_member m where m.job = f.id), f.generation from sj_final f
		where f.queue = $1 and f.state = $2 and f.finished_us <= $3 and (f.finished_us <= $4 or f.finished_us < $5 or f.finished_us = $5 and f.id <= $6)
		and not exists (select 1 from sj_edge e where e.parent = f.id and e.open = 1)
		and not exists (select 1 from sj_child c join sj_live p on p.id = c.parent where c.child = f.id) and not exists
		(select 1 from sj_key k where k.kind = f.kind and k.key = f.key and k.job = f.id and k.held_until_us > $7) and not exists (` + query.HeldBy("$7") + `)
		order by f.finished_us, f.id limit $8`
	qNthNewest = `select finished_us, id from sj_final where queue = $1 and state = $2 order by finished_us desc, id desc limit 1 offset $3`
)

// expiredJobs reads the jobs that retention deletes: by age, and above the count.
func expiredJobs(t *txn.Tx, limit int) ([]Final, error) {
	queues, err := query.QueuesOf(t)
	if err != nil {
		return nil, err
	}
	var out []Final
	for _, q := range queues {
		for _, state := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
			age, count, ok := rules.RetentionOf(q.Settings.Retention, state)
			if !ok || len(out) >= limit {
				continue
			}
			var before int64
			if age < math.MaxInt64 {
				before = t.Now - age.Microseconds()
			}
			var nth Final
			if count < math.MaxInt64 {
				if err := t.Read(qNthNewest, func(r sqldb.Row) error { nth = Final{ID: r.Int(1), FinishedAt: r.Int(0)}; return nil }, q.Name, int64(state), count); err != nil {
					return nil, err
				}
			}
			latest := min(max(before, nth.FinishedAt), t.Now-sojourn.IDLife.Microseconds()-1)
			if err := t.Read(qExpiredJobs, func(r sqldb.Row) error {
				out = append(out, Final{r.Int(0), r.Int(1), r.Int(5), q.Name, r.Text(2), r.Text(3), state, r.Int(4) > 0})
				return nil
			}, q.Name, int64(state), latest, before, nth.FinishedAt, nth.ID, t.Now, limit-len(out)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// prunePerTx bounds one transaction of retention: a sweep uses several, so that other requests run
// in between.
const prunePerTx = 500

// prune deletes expired jobs, and returns how many were still there.
func (s *Maintainer) prune(ctx context.Context, expired []Final) (int, error) {
	total := 0
	for page := range slices.Chunk(expired, prunePerTx) {
		n, err := txn.Do(ctx, s.core, pruneOp, len(page), page)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// blockLife is how long a block of ids is stored. Jobs may be inserted with them for 15 minutes.
const blockLife = 24 * time.Hour

// Old rows of small tables: message ids outlive their responses, blocks of ids are deleted after a
// day, workers after the setting worker_life.
const (
	qOldMessages = `delete from sj_message where (scope, message_id) in (select scope, message_id from sj_message where at_us <= $1 order by at_us limit $2)`
	qOldBlocks   = `delete from sj_block where leased_us <= $1`
	qOldWorkers  = `delete from sj_worker where worker in (select worker from sj_worker where seen_us <= $1 order by seen_us limit $2)`
)

// pruneOp deletes jobs, and old rows of small tables at twice the rate at which jobs are deleted.
// It has the class of enqueues, so that retention delays no worker.
var pruneOp = txn.EachOp("prune", groupcommit.Enqueue, func(t *txn.Tx, expired []Final) (int, error) {
	total := 0
	slices.SortFunc(expired, func(a, b Final) int { return cmp.Compare(a.ID, b.ID) }) // two processes lock in one order
	ids := make(sqldb.Ints, len(expired))
	for i, f := range expired {
		ids[i] = f.ID
	}
	named, err := edge.Named(t, ids)
	if err != nil {
		return 0, err
	}
	fields, err := t.ReadInt(field.AnyRows)
	if err != nil {
		return 0, err
	}
	var removed sqldb.Ints
	for _, f := range expired {
		if named[f.ID] {
			continue
		}
		n, err := remove(t, f, fields > 0, qRetire, t.Now)
		if err != nil {
			return total, err
		}
		if total += int(n); n > 0 {
			removed = append(removed, f.ID)
		}
	}
	// Not those of a job that was redriven since it was found: it may have new ones.
	if err := edge.Forget(t, removed); err != nil {
		return total, err
	}
	life, err := storeconfig.WorkerLife(t)
	if err != nil {
		return total, err
	}
	if _, err := t.Write(qOldMessages, t.Now-sojourn.DefaultInboxKeep.Microseconds(), 2*len(expired)); err != nil {
		return total, err
	}
	if _, err := t.Write(qOldBlocks, t.Now-blockLife.Microseconds()); err != nil {
		return total, err
	}
	_, err = t.Write(qOldWorkers, t.Now-life.Microseconds(), 2*len(expired))
	return total, err
})

// qRemove checks that the job is still the final one that was read. After it the job's other rows
// are deleted.
const qRemove = `delete from sj_final where id = $1 and finished_us = $2 and state in (7, 8, 9)`

// qKeepState notes the state in which a member of a workflow ended, before its job is deleted.
const qKeepState = `update sj_member set state = coalesce((select state from sj_final where id = $1 and finished_us = $2 and state in (7, 8, 9)), state) where job = $1`

var qRemoveRest = []string{
	lifecycle.QForgetJob,
	`delete from sj_job where id = $1`,
	tag.QForget,
	`delete from sj_history where job = $1`,
	joblog.QForget,
	`delete from sj_data where job = $1`,
	errordetail.QForget,
	question.QForget,
	checkpointsize.QForget,
	`delete from sj_tick where job = $1`,
	`delete from sj_response where job = $1 and job > 0`,
	QForgetArchived, // after the row of sj_job, which locks out the archive that records the job
}

// Remove deletes a final job with all its rows, and frees its keys, also if an archive has not
// exported it. It returns 1, or 0 if the job has been redriven or removed since it was read.
func Remove(t *txn.Tx, f Final) (int64, error) { return remove(t, f, true, qRemove) }

// remove is Remove by a statement that deletes the final row, with further arguments of it. fields
// says that there may be rows of sj_field.
func remove(t *txn.Tx, f Final, fields bool, statement string, more ...any) (int64, error) {
	if f.Member {
		if _, err := t.Write(qKeepState, f.ID, f.FinishedAt); err != nil {
			return 0, err
		}
	}
	n, err := t.Write(statement, append([]any{f.ID, f.FinishedAt}, more...)...)
	if err != nil || n == 0 {
		return 0, err
	}
	if _, err := t.Write(qMissed, f.ID, f.Generation, f.Queue, f.Kind, int64(f.State)); err != nil {
		return 0, err
	}
	t.Counts.Removed(f.Queue, f.Kind, f.State)
	keys := []txn.KindKey{{Kind: f.Kind, Key: f.Key}}
	if err := t.Read(lifecycle.QAwaitedKeys, func(r sqldb.Row) error { keys = append(keys, txn.KindKey{Kind: r.Text(0), Key: r.Text(1)}); return nil }, f.ID); err != nil {
		return 0, err
	}
	for _, k := range keys {
		if err := lifecycle.RemoveHolder(t, f.ID, k); err != nil {
			return 0, err
		}
	}
	for _, q := range qRemoveRest {
		if _, err := t.Write(q, f.ID); err != nil {
			return 0, err
		}
	}
	if fields {
		_, err = t.Write(field.QForget, f.ID)
	}
	return n, err
}
