package operate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

// expired is a final job that retention deletes, with the columns as they were read.
type expired struct {
	id, finished int64
	kind, key    string
}

// qOld finds final jobs of one queue and state that ended before a time. It spares jobs that ended
// within IDLife, because their enqueue may be repeated, and jobs that still hold their key. The end
// counts, not the enqueue, because it is indexed: else each sweep would read all of a queue that
// finishes more jobs within IDLife than its count.
const (
	qOld = `select f.id, f.finished_us, f.kind, f.key from sj_final f
		where f.queue = $1 and f.state = $2 and f.finished_us <= $3 and (f.finished_us <= $4 or f.finished_us < $5 or f.finished_us = $5 and f.id <= $6)
		and not exists
		(select 1 from sj_key k where k.kind = f.kind and k.key = f.key and k.job = f.id and k.held_until_us > $7)
		order by f.finished_us, f.id limit $8`
	qNthNewest = `select finished_us, id from sj_final where queue = $1 and state = $2 order by finished_us desc, id desc limit 1 offset $3`
)

// oldJobs reads the jobs that retention deletes: by age, and above the count.
func oldJobs(t *txn.Tx, limit int) ([]expired, error) {
	var queues []sojourn.QueueStatus
	if _, err := query.ListQueues(t, nil, &queues); err != nil {
		return nil, err
	}
	var old []expired
	for _, q := range queues {
		for _, state := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
			age, count, ok := rules.RetentionOf(q.Settings.Retention, state)
			if !ok || len(old) >= limit {
				continue
			}
			var before int64
			if age < math.MaxInt64 {
				before = t.Now - age.Microseconds()
			}
			var nth expired
			if count < math.MaxInt64 {
				if err := t.Read(qNthNewest, func(r sqldb.Row) error { nth = expired{id: r.Int(1), finished: r.Int(0)}; return nil }, q.Name, int64(state), count); err != nil {
					return nil, err
				}
			}
			err := t.Read(qOld, func(r sqldb.Row) error {
				old = append(old, expired{r.Int(0), r.Int(1), r.Text(2), r.Text(3)})
				return nil
			},
				q.Name, int64(state), min(max(before, nth.finished), t.Now-sojourn.IDLife.Microseconds()), before, nth.finished, nth.id, t.Now, limit-len(old))
			if err != nil {
				return nil, err
			}
		}
	}
	return old, nil
}

// Housekeeping of small tables: message ids outlive their responses, blocks and workers are deleted
// after a day.
const (
	qOldMessages = `delete from sj_message where (scope, message_id) in (select scope, message_id from sj_message where at_us <= $1 order by at_us limit $2)`
	qOldBlocks   = `delete from sj_block where leased_us <= $1`
	qOldWorkers  = `delete from sj_worker where worker in (select worker from sj_worker where seen_us <= $1 order by seen_us limit $2)`
)

var pruneOp = txn.EachOp("prune", groupcommit.Enqueue, func(t *txn.Tx, old []expired) (int, error) {
	n := 0
	slices.SortFunc(old, func(a, b expired) int { return cmp.Compare(a.id, b.id) }) // two processes lock in one order
	for _, e := range old {
		gone, err := remove(t, e)
		if err != nil {
			return n, err
		}
		n += int(gone)
	}
	day := sojourn.WorkerLife.Microseconds()
	if _, err := t.Write(qOldMessages, t.Now-sojourn.DefaultInboxKeep.Microseconds(), 2*len(old)); err != nil {
		return n, err
	}
	if _, err := t.Write(qOldBlocks, t.Now-day); err != nil {
		return n, err
	}
	_, err := t.Write(qOldWorkers, t.Now-day, 2*len(old))
	return n, err
})

// prunePerTx bounds one transaction of retention: a pass uses several, so that other requests run
// in between.
const prunePerTx = 500

func (s *Operator) prune(ctx context.Context, old []expired) (int, error) {
	total := 0
	for len(old) > 0 {
		page := old[:min(len(old), prunePerTx)]
		old = old[len(page):]
		n, err := txn.Do(ctx, s.Core, pruneOp, len(page), page)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// qRemove checks that the job is still the final one that was read. After it the job's other rows
// are deleted.
const qRemove = `delete from sj_final where id = $1 and finished_us = $2 and state in (7, 8, 9)`

var qRemoveRest = []string{
	lifecycle.QForgetJob,
	`delete from sj_job where id = $1`,
	`delete from sj_history where job = $1`,
	`delete from sj_log where job = $1`,
	`delete from sj_data where job = $1`,
	`delete from sj_response where job = $1 and job > 0`,
}

// remove deletes a final job for good.
func remove(t *txn.Tx, e expired) (int64, error) {
	n, err := t.Write(qRemove, e.id, e.finished)
	if err != nil || n == 0 {
		return 0, err
	}
	keys := []txn.KindKey{{Kind: e.kind, Key: e.key}}
	if err := t.Read(lifecycle.QAwaitedKeys, func(r sqldb.Row) error { keys = append(keys, txn.KindKey{Kind: r.Text(0), Key: r.Text(1)}); return nil }, e.id); err != nil {
		return 0, err
	}
	for _, k := range keys {
		if err := lifecycle.RemoveHolder(t, e.id, k); err != nil {
			return 0, err
		}
	}
	for _, q := range qRemoveRest {
		if _, err := t.Write(q, e.id); err != nil {
			return 0, err
		}
	}
	return n, nil
}
