package upkeep

import (
	"context"
	"math"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// The rank of a live job, its place in the claim index, follows from the settings of its queue. So
// does its lane, which it has if the queue counts the weight in flight: the lane tells how the job
// counts, and lets claims find the first job of each group. Two partial indexes hold the lanes, so
// that jobs of other queues pay nothing. A change of these settings makes a new layout, and the
// queue's jobs are reindexed in batches while it is in use (docs/decisions/037).

const (
	// reindexRows is the number of live rows that a reindex reads in one transaction.
	reindexRows = 1000
	// finalsNext is the progress of a reindex that has read all live rows, and goes on with the
	// final jobs of a queue whose index has changed (package field).
	finalsNext = math.MaxInt64
	// finalsAtOnce bounds the batches of final jobs in one call. The sweep continues.
	finalsAtOnce = 20
	// resultsAtOnce bounds the slices of results in one sweep.
	resultsAtOnce = 40
)

const (
	qReindexPage = `select id, queue from sj_live where id > $1 order by id limit $2`
	qSetProgress = `update sj_queue set reshape = $1, flow = $2, max_weight = $3 where name = $4`
	qSetRank     = `update sj_live set r1 = $1, r2 = $2, lane = $3 where id = $4`
)

// Reindex runs at most batches steps of the reindex of a queue, if one is under way, and
// finalsAtOnce of final jobs. A sweep runs the rest, also if a transaction that has written by
// older settings stays open for too long.
func (s *Maintainer) Reindex(ctx context.Context, queue string, batches int) error {
	r := reindexRequest{queue: queue}
	for finals := 0; batches > 0 && finals < finalsAtOnce; {
		out, err := s.reindexBatch(ctx, r)
		if err != nil || out.done {
			return err
		}
		switch {
		case out.finals && !out.read:
			if r.ended, err = s.WaitForWriters(ctx); err != nil || !r.ended {
				return err
			}
			continue
		case out.finals:
			finals++
			continue
		}
		if len(out.writers) == 0 {
			batches--
			continue
		}
		if ended, err := s.writersEnded(ctx, out.writers); err != nil || !ended {
			return err
		}
		r.waited = out.layout
	}
	return nil
}

// reindexBatch runs the next batch. With concurrent writers it is a transaction of its own, because
// it waits for locks.
func (s *Maintainer) reindexBatch(ctx context.Context, r reindexRequest) (reindexed, error) {
	if !s.core.DB.Dialect().Concurrent {
		return txn.Do(ctx, s.core, reindexOp, reindexRows, r)
	}
	return txn.DoAlone(ctx, s.core, reindexOp, r)
}

// reindexRequest asks for the next batch.
type reindexRequest struct {
	queue  string
	waited int64 // the layout for which all writers by older settings have ended; 0 = none
	ended  bool  // all writers have ended that were there when the reindex came to final jobs
}

// reindexed is the result of a reindexRequest.
type reindexed struct {
	done    bool
	layout  int64
	writers sqldb.Texts // transactions whose end the reindex waits for before it begins
	finals  bool        // it was about final jobs
	read    bool        // and has read some; else all writers of this time must end before
}

// reindexOp reads the next batch of live rows, sets rank and lane of the queue's rows by its
// settings, and reports whether it was the last batch. Rows are locked before the queue, as
// everywhere.
var reindexOp = txn.EachOp("reindex", groupcommit.Claim, func(t *txn.Tx, r reindexRequest) (out reindexed, err error) {
	queue := r.queue
	q, err := t.ReadQueue(queue)
	if err != nil || q.Reindexed < 0 {
		return reindexed{done: true}, err
	}
	from := q.Reindexed
	if from == 0 { // not begun
		if t.Concurrent() && r.waited != q.Layout {
			out.layout = q.Layout
			if out.writers, err = writersOfLive(t); err != nil || len(out.writers) > 0 {
				return out, err
			}
		}
		return out, endReindexBatch(t, queue, q.Layout, 0, 1)
	}
	if from == finalsNext {
		return reindexFinals(t, r, q.Layout)
	}
	var mine sqldb.Ints
	seen, last := 0, from
	if err := t.Read(qReindexPage, func(r sqldb.Row) error {
		seen, last = seen+1, r.Int(0)
		if r.Text(1) == queue {
			mine = append(mine, r.Int(0))
		}
		return nil
	}, from-1, reindexRows); err != nil {
		return out, err
	}
	found, err := t.Load(mine)
	if err != nil {
		return out, err
	}
	var here []int64
	for _, id := range mine {
		was := found[sojourn.ID(id)]
		if was == nil || was.Queue != queue {
			continue
		}
		here = append(here, id)
		l := *was
		if !l.SetRank(q.QueueSettings) {
			continue
		}
		t.AddWeight(was, &l, l.Held)
		if _, err := t.Write(qSetRank, l.R1, l.R2, l.Lane, id); err != nil {
			return out, err
		}
	}
	t.Loaded.Leased = nil // it may contain changed rows
	if err := setFields(t, &q, queue, here); err != nil {
		return out, err
	}
	next := last + 1
	if seen < reindexRows {
		more, err := field.EnterFinals(t, queue)
		if err != nil {
			return out, err
		}
		if next = -1; more {
			next = finalsNext
		}
	}
	out.done = next < 0
	return out, endReindexBatch(t, queue, q.Layout, from, next)
})

// setFields indexes live jobs, if the index of the queue is not complete.
func setFields(t *txn.Tx, q *txn.QueueRow, queue string, ids []int64) error {
	if len(q.Index) == 0 || len(ids) == 0 {
		return nil
	}
	x, found, err := field.Of(t, queue)
	if err != nil || !found || x.Complete() {
		return err
	}
	return field.Set(t, queue, q.Index, ids...)
}

// reindexFinals indexes the next final jobs.
func reindexFinals(t *txn.Tx, r reindexRequest, layout int64) (out reindexed, err error) {
	begun, err := field.Begun(t, r.queue)
	out.finals, out.read = true, begun || r.ended
	if err != nil || !out.read {
		return out, err
	}
	if out.done, err = field.Build(t, r.queue); err != nil {
		return out, err
	}
	next := int64(finalsNext)
	if out.done {
		next = -1
	}
	return out, endReindexBatch(t, r.queue, layout, finalsNext, next)
}

// indexResults indexes results of jobs that have ended a while ago, in up to resultsAtOnce slices
// of each queue.
func (s *Maintainer) indexResults(ctx context.Context) error {
	var all []field.Index
	to := int64(0)
	behind := func(t *txn.Tx) (err error) {
		if to == 0 {
			to = t.Now - field.Lag
		}
		all, err = field.Marks(t, to)
		return err
	}
	if err := s.core.View(ctx, behind); err != nil || len(all) == 0 {
		return err
	}
	if ended, err := s.WaitForWriters(ctx); err != nil || !ended {
		return err
	}
	for n := 0; n < resultsAtOnce && len(all) > 0; n++ {
		for i := range all {
			if _, err := txn.Do(ctx, s.core, resultsOp, 1, &all[i]); err != nil {
				return err
			}
		}
		if err := s.core.View(ctx, behind); err != nil {
			return err
		}
	}
	return nil
}

// resultsOp indexes results of one queue.
var resultsOp = txn.EachOp("index results", groupcommit.Enqueue, func(t *txn.Tx, x *field.Index) (struct{}, error) { return struct{}{}, x.Advance(t) })

// endReindexBatch stores the progress of a reindex, unless another process has: next is the id
// after the batch, -1 after the last one. Then everything in flight is counted.
func endReindexBatch(t *txn.Tx, queue string, layout, from, next int64) error {
	if _, err := t.LockQueue(queue); err != nil {
		return err
	}
	q, err := t.ReadQueue(queue)
	if err != nil {
		return err
	}
	if q.Layout != layout || q.Reindexed != from {
		return txn.Raced("queue " + queue + " is reindexed by another process")
	}
	if next < 0 || next == finalsNext {
		q.Flow.Counting = false
		if q.MaxWeight, err = gate.MaxWeight(t, queue, q.QueueSettings); err != nil {
			return err
		}
		t.Events.Freed[queue] += sojourn.MaxBatch
	}
	text, err := jobrow.JSONText(q.Flow)
	if err != nil {
		return err
	}
	_, err = t.Write(qSetProgress, next, text, q.MaxWeight, queue)
	return err
}
