package operate

import (
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// A live job has a lane if its queue counts the weight in flight. The lane tells how the job
// counts, and lets claims find the first job of each group. Two partial indexes hold the lanes, so
// that jobs of other queues pay nothing.

// reindexBatch is the number of live rows that a reindexing reads in one transaction.
const reindexBatch = 1000

const (
	qReindexPage = `select id, queue from sj_live where id > $1 order by id limit $2`
	qReindexed   = `update sj_queue set reshape = $1, flow = $2, max_weight = $3 where name = $4`
	qSetPlace    = `update sj_live set r1 = $1, r2 = $2, lane = $3 where id = $4`
	qReindexes   = `select name from sj_queue where reshape >= 0`
)

// reindexAsk requests the next batch of a reindexing.
type reindexAsk struct {
	queue  string
	waited int64 // the shape for which all writers by older settings have ended; 0 = none
}

// reindexed is the result of a reindexAsk.
type reindexed struct {
	done    bool
	shape   int64
	writers sqldb.Texts // transactions whose end it waits for
}

// reindexOp reads the next batch of live rows and sets the rank and lane of the queue's rows by
// its settings. It reports whether it was the last batch. Rows are locked before the queue, as
// everywhere.
var reindexOp = txn.EachOp("reshape", groupcommit.Claim, func(t *txn.Tx, ask reindexAsk) (out reindexed, err error) {
	queue := ask.queue
	q, err := t.ReadQueue(queue)
	if err != nil || q.Reindexed < 0 {
		return reindexed{done: true}, err
	}
	from := q.Reindexed
	if from == 0 { // not begun
		if t.Concurrent() && ask.waited != q.Layout {
			out.shape = q.Layout
			if out.writers, err = writersOfLive(t); err != nil || len(out.writers) > 0 {
				return out, err
			}
		}
		return out, endReindexBatch(t, queue, q.Layout, 0, 1)
	}
	var mine sqldb.Ints
	seen, last := 0, from
	if err := t.Read(qReindexPage, func(r sqldb.Row) error {
		seen, last = seen+1, r.Int(0)
		if r.Text(1) == queue {
			mine = append(mine, r.Int(0))
		}
		return nil
	}, from-1, reindexBatch); err != nil {
		return out, err
	}
	found, err := t.Load(mine)
	if err != nil {
		return out, err
	}
	for _, id := range mine {
		was := found[sojourn.ID(id)]
		if was == nil || was.Queue != queue {
			continue
		}
		l := *was
		if !l.SetRank(q.QueueSettings) {
			continue
		}
		t.AddWeight(was, &l, l.Held)
		if _, err := t.Write(qSetPlace, l.R1, l.R2, l.Lane, id); err != nil {
			return out, err
		}
	}
	t.Loaded.Leased = nil // it may contain changed rows
	next := last + 1
	if seen < reindexBatch {
		next = -1
	}
	out.done = next < 0
	return out, endReindexBatch(t, queue, q.Layout, from, next)
})

// TextWriters lists the open transactions that have written live rows, for Dialect.Over.
const TextWriters = `select the name of each transaction that has written sj_live`

func writersOfLive(t *txn.Tx) (list sqldb.Texts, err error) {
	err = t.Read(TextWriters, func(r sqldb.Row) error { list = append(list, r.Text(0)); return nil })
	return list, err
}

const (
	// writersTime bounds how long a change of settings waits for transactions that have written by
	// the settings before. One of them may be the application's own.
	writersTime  = 2 * time.Second
	writersFirst = 2 * time.Millisecond // the first pause between two checks; each pause is twice the one before
)

// writersEnded waits until these transactions have ended, and reports whether they have. It blocks
// no other call: a lock that excludes them would also block all later writers.
func (s *Operator) writersEnded(ctx context.Context, writers sqldb.Texts) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writersTime)
	defer cancel()
	for pause := writersFirst; ; pause *= 2 {
		var still sqldb.Texts
		err := s.Core.View(ctx, func(t *txn.Tx) (err error) {
			still, err = writersOfLive(t)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err != nil:
			return false, err
		case !slices.ContainsFunc(still, func(w string) bool { return slices.Contains(writers, w) }):
			return true, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// allWritten waits until all transactions that have written live rows have ended, and locks out
// further writers. New writers queue behind the lock while it waits. So it gives up soon, and the
// whole transaction is tried again.
func allWritten(t *txn.Tx) error {
	if !t.Concurrent() {
		return nil
	}
	for _, q := range []string{`set local lock_timeout = 500`, `lock table sj_live in share mode`, `set local lock_timeout = 0`} {
		if _, err := t.Write(q); err != nil {
			return err
		}
	}
	return nil
}

// endReindexBatch advances the mark of a reindexing, unless another process has. After the last
// batch everything in flight is counted.
func endReindexBatch(t *txn.Tx, queue string, shape, from, next int64) error {
	if _, err := t.LockQueue(queue); err != nil {
		return err
	}
	q, err := t.ReadQueue(queue)
	if err != nil {
		return err
	}
	if q.Layout != shape || q.Reindexed != from {
		return txn.Raced("queue " + queue + " is reshaped by somebody else")
	}
	if next < 0 {
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
	_, err = t.Write(qReindexed, next, text, q.MaxWeight, queue)
	return err
}

// reindex runs at most pieces batches; the sweep runs the rest, also if an open transaction that
// has written by older settings does not end. With concurrent writers each batch is a transaction
// of its own, because it waits for locks.
func (s *Operator) reindex(ctx context.Context, queue string, pieces int) error {
	ask := reindexAsk{queue: queue}
	for pieces > 0 {
		out, err := s.reindexOne(ctx, ask)
		if err != nil || out.done {
			return err
		}
		if len(out.writers) == 0 {
			pieces--
			continue
		}
		if over, err := s.writersEnded(ctx, out.writers); err != nil || !over {
			return err
		}
		ask.waited = out.shape
	}
	return nil
}

func (s *Operator) reindexOne(ctx context.Context, ask reindexAsk) (reindexed, error) {
	if !s.Core.DB.Dialect().Concurrent {
		return txn.Do(ctx, s.Core, reindexOp, reindexBatch, ask)
	}
	return txn.DoAlone(ctx, s.Core, reindexOp, ask)
}
