package sqlstore

import (
	"context"
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// expired is a final job that retention wants gone, as it was when it was read.
type expired struct{ id, finished int64 }

// qOld finds final jobs of one queue and state that ended before a time. None goes while somebody may repeat its enqueue (IDLife), or while
// it still holds its key.
const (
	qOld = `select f.id, f.finished_us from sj_final f join sj_job j on j.id = f.id
		where f.queue = $1 and f.state = $2 and f.finished_us <= $3 and j.created_us <= $4
		and not exists (select 1 from sj_key k where k.kind = f.kind and k.key = f.key and k.job = f.id and k.held_until_us > $5)
		order by f.finished_us, f.id limit $6`
	qNthNewest = `select finished_us from sj_final where queue = $1 and state = $2 order by finished_us desc, id desc limit 1 offset $3`
)

// oldJobs reads what retention wants gone: by age, and above the count. Among jobs that ended in the same microsecond as the newest one above
// the count all go.
func (t *tx) oldJobs(limit int) ([]expired, error) {
	var queues []sojourn.QueueStatus
	if _, err := t.listQueues(nil, &queues); err != nil {
		return nil, err
	}
	var old []expired
	for _, q := range queues {
		for _, state := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
			age, count, ok := q.Settings.Retention.Of(state)
			if !ok || len(old) >= limit {
				continue
			}
			before := int64(math.MinInt64)
			if age < math.MaxInt64 {
				before = t.now - age.Microseconds()
			}
			if count < math.MaxInt64 {
				nth, err := t.num(qNthNewest, q.Name, int64(state), count)
				if err != nil {
					return nil, err
				}
				before = max(before, nth)
			}
			err := t.query(qOld, func(r Row) error { old = append(old, expired{r.Int(0), r.Int(1)}); return nil },
				q.Name, int64(state), before, t.now-sojourn.IDLife.Microseconds(), t.now, limit-len(old))
			if err != nil {
				return nil, err
			}
		}
	}
	return old, nil
}

// housekeeping of small tables: message ids outlive their responses, blocks and workers are forgotten after a day.
const (
	qOldMessages = `delete from sj_message where (source, message_id) in (select source, message_id from sj_message where at_us <= $1 order by at_us limit $2)`
	qOldBlocks   = `delete from sj_block where leased_us <= $1`
	qOldWorkers  = `delete from sj_worker where worker in (select worker from sj_worker where seen_us <= $1 order by seen_us limit $2)`
)

var stepPrune = eachStep("prune", func(t *tx, old []expired) (int, error) {
	n := 0
	for _, e := range old {
		gone, err := t.remove(e)
		if err != nil {
			return n, err
		}
		n += int(gone)
	}
	day := (24 * time.Hour).Microseconds()
	if _, err := t.exec(qOldMessages, t.now-sojourn.DefaultInboxKeep.Microseconds(), 2*len(old)); err != nil {
		return n, err
	}
	if _, err := t.exec(qOldBlocks, t.now-day); err != nil {
		return n, err
	}
	_, err := t.exec(qOldWorkers, t.now-day, 2*len(old))
	return n, err
})

// prunePerTx bounds one transaction of retention: a pass is several, so that workers get their turn between them.
const prunePerTx = 500

func (s *Store) prune(ctx context.Context, old []expired) (int, error) {
	total := 0
	for len(old) > 0 {
		page := old[:min(len(old), prunePerTx)]
		old = old[len(page):]
		n, err := do[int](ctx, s, classEnqueue, stepPrune, len(page), page)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// qRemove repeats what was read: the job is still the same final one. After it everything else of the job goes.
const qRemove = `delete from sj_final where id = $1 and finished_us = $2 and state in (7, 8, 9)`

var qRemoveRest = []string{
	`delete from sj_key where job = $1 and own = 0`,
	`delete from sj_key where (kind, key) in (select kind, key from sj_job where id = $1) and job = $1`,
	`delete from sj_job where id = $1`,
	`delete from sj_history where job = $1`,
	`delete from sj_log where job = $1`,
	`delete from sj_data where job = $1`,
	`delete from sj_response where job = $1 and job > 0`,
}

// remove deletes a final job for good.
func (t *tx) remove(e expired) (int64, error) {
	n, err := t.exec(qRemove, e.id, e.finished)
	if err != nil || n == 0 {
		return 0, err
	}
	for _, q := range qRemoveRest {
		if _, err := t.exec(q, e.id); err != nil {
			return 0, err
		}
	}
	return n, nil
}
