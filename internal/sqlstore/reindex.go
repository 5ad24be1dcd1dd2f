package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// A live job has a lane if its queue counts the weight in flight. The lane tells how the job
// counts, and lets claims find the first job of each group. Two partial indexes hold the lanes, so
// that jobs of other queues pay nothing.

// piece is the number of live rows that a reindexing reads in one transaction.
const piece = 1000

const (
	qPiece      = `select id, queue from sj_live where id > $1 order by id limit $2`
	qReshaped   = `update sj_queue set reshape = $1, flow = $2, max_weight = $3 where name = $4`
	qSetPlace   = `update sj_live set r1 = $1, r2 = $2, lane = $3 where id = $4`
	qReshapings = `select name from sj_queue where reshape >= 0`
)

// reshapeAsk requests the next batch of a reindexing.
type reshapeAsk struct {
	queue  string
	waited int64 // the shape for which all writers by older settings have ended; 0 = none
}

// reshaped is the result of a reshapeAsk.
type reshaped struct {
	done    bool
	shape   int64
	writers sqldb.Texts // transactions whose end it waits for
}

// reshapeOp reads the next batch of live rows and sets the rank and lane of the queue's rows by
// its settings. It reports whether it was the last batch. Rows are locked before the queue, as
// everywhere.
var reshapeOp = eachOp("reshape", groupcommit.Claim, func(t *tx, ask reshapeAsk) (out reshaped, err error) {
	queue := ask.queue
	q, err := t.queueRow(queue)
	if err != nil || q.reshape < 0 {
		return reshaped{done: true}, err
	}
	from := q.reshape
	if from == 0 { // not begun
		if t.concurrent() && ask.waited != q.shape {
			out.shape = q.shape
			if out.writers, err = t.writersOfLive(); err != nil || len(out.writers) > 0 {
				return out, err
			}
		}
		return out, t.endPiece(queue, q.shape, 0, 1)
	}
	var mine sqldb.Ints
	seen, last := 0, from
	if err := t.query(qPiece, func(r sqldb.Row) error {
		seen, last = seen+1, r.Int(0)
		if r.Text(1) == queue {
			mine = append(mine, r.Int(0))
		}
		return nil
	}, from-1, piece); err != nil {
		return out, err
	}
	found, err := t.load(mine)
	if err != nil {
		return out, err
	}
	for _, id := range mine {
		was := found[sojourn.ID(id)]
		if was == nil || was.queue != queue {
			continue
		}
		l := *was
		if !l.put(q.QueueSettings) {
			continue
		}
		t.land(was, &l, l.Held)
		if _, err := t.exec(qSetPlace, l.r1, l.r2, l.lane, id); err != nil {
			return out, err
		}
	}
	t.leased = nil // it may contain changed rows
	next := last + 1
	if seen < piece {
		next = -1
	}
	out.done = next < 0
	return out, t.endPiece(queue, q.shape, from, next)
})

// TextWriters lists the open transactions that have written live rows, for Dialect.Over.
const TextWriters = `select the name of each transaction that has written sj_live`

func (t *tx) writersOfLive() (list sqldb.Texts, err error) {
	err = t.query(TextWriters, func(r sqldb.Row) error { list = append(list, r.Text(0)); return nil })
	return list, err
}

const (
	// writersTime bounds how long a change of settings waits for transactions that have written by
	// the settings before. One of them may be the application's own.
	writersTime  = 2 * time.Second
	writersFirst = 2 * time.Millisecond // the first pause between two checks; each pause is twice the one before
)

// over waits until these transactions have ended, and reports whether they have. It blocks no other
// call: a lock that excludes them would also block all later writers.
func (s *operator) over(ctx context.Context, writers sqldb.Texts) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writersTime)
	defer cancel()
	for pause := writersFirst; ; pause *= 2 {
		var still sqldb.Texts
		err := s.core.view(ctx, func(t *tx) (err error) {
			still, err = t.writersOfLive()
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
func (t *tx) allWritten() error {
	if !t.concurrent() {
		return nil
	}
	for _, q := range []string{`set local lock_timeout = 500`, `lock table sj_live in share mode`, `set local lock_timeout = 0`} {
		if _, err := t.exec(q); err != nil {
			return err
		}
	}
	return nil
}

// endPiece advances the mark of a reindexing, unless another process has. After the last batch
// everything in flight is counted.
func (t *tx) endPiece(queue string, shape, from, next int64) error {
	if _, err := t.lockQueue(queue); err != nil {
		return err
	}
	q, err := t.queueRow(queue)
	if err != nil {
		return err
	}
	if q.shape != shape || q.reshape != from {
		return raced("queue " + queue + " is reshaped by somebody else")
	}
	if next < 0 {
		q.flow.Counting = false
		if q.maxWeight, err = mayHold(t, queue, q.QueueSettings); err != nil {
			return err
		}
		t.freed[queue] += sojourn.MaxBatch
	}
	text, err := jsonText(q.flow)
	if err != nil {
		return err
	}
	_, err = t.exec(qReshaped, next, text, q.maxWeight, queue)
	return err
}

// reshape runs at most pieces batches; the sweep runs the rest, also if an open transaction that
// has written by older settings does not end. With concurrent writers each batch is a transaction
// of its own, because it waits for locks.
func (s *operator) reshape(ctx context.Context, queue string, pieces int) error {
	ask := reshapeAsk{queue: queue}
	for pieces > 0 {
		out, err := s.reshapePiece(ctx, ask)
		if err != nil || out.done {
			return err
		}
		if len(out.writers) == 0 {
			pieces--
			continue
		}
		if over, err := s.over(ctx, out.writers); err != nil || !over {
			return err
		}
		ask.waited = out.shape
	}
	return nil
}

func (s *operator) reshapePiece(ctx context.Context, ask reshapeAsk) (reshaped, error) {
	if !s.core.db.Dialect().Concurrent {
		return do(ctx, s.core, reshapeOp, piece, ask)
	}
	return doAlone(ctx, s.core, reshapeOp, ask)
}
