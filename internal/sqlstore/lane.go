package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// A live job of a queue whose weight in flight matters has a lane. Lanes say what counts, and where
// claims find the first of each group; two partial indexes hold them, so that jobs of other queues
// pay nothing.
const (
	laneNone     = ""  // the queue counts nothing
	lanePlain    = "-" // counts; the queue has no groups
	laneCritical = "0" // weighs nothing, so that no limit holds it back
	laneGroup    = ":" // and the group: counts, and takes turns with other groups
	beforeGroups = "9" // between laneCritical and the first group
	afterGroups  = ";" // after the last one
)

// laneOf is where a job of weight w belongs. What is in flight stays in the lane it was claimed
// from.
func laneOf(q sojourn.QueueSettings, group string, w int32) string {
	switch {
	case !q.Counted():
		return laneNone
	case w == 0:
		return laneCritical
	case q.Grouped():
		return laneGroup + group
	}
	return lanePlain
}

// shape is what of a queue's settings decides where its jobs stand in line.
type shape struct {
	order            sojourn.Order
	bucket, ageStep  time.Duration
	counted, grouped bool
}

func shapeOf(q sojourn.QueueSettings) shape {
	s := shape{q.Order, q.Bucket, q.AgeStep, q.Counted(), q.Grouped()}
	if s.order == "" {
		s.order = sojourn.OrderPriority
	}
	if s.order == sojourn.OrderTime && s.bucket == 0 {
		s.bucket = sojourn.DefaultBucket
	}
	return s
}

// put gives a row its rank and lane by the queue's settings, and reports whether they are others
// than before.
func (l *live) put(q sojourn.QueueSettings) bool {
	r1, r2, lane := l.r1, l.r2, l.lane
	l.r1, l.r2 = q.Rank(l.priority, at(l.runAt), l.Resumed)
	l.lane = laneOf(q, l.group, l.Weight)
	return r1 != l.r1 || r2 != l.r2 || lane != l.lane
}

// place puts a row into line where it has to stand anew: after a retry, an edit, an answer. The
// settings are read after the row was locked: so either they are the newest, or the reshaping that
// follows a change of them finds this row.
func (t *tx) place(was, l *live) error {
	if l.Resumed {
		l.r1, l.r2 = sojourn.QueueSettings{}.Rank(l.priority, at(l.runAt), true)
		return nil
	}
	same := was.r1 != sojourn.ResumedRank && l.queue == was.queue && l.priority == was.priority && l.runAt == was.runAt &&
		l.Weight == was.Weight && l.group == was.group
	waits := l.State == sojourn.Ready || l.State == sojourn.Scheduled || l.State == sojourn.Errored || l.State == sojourn.Blocked
	if same || !waits {
		return nil
	}
	q, ok := t.places[l.queue]
	if !ok {
		var err error
		if q, err = t.queueRow(l.queue); err != nil {
			return err
		}
		if t.places == nil {
			t.places = map[string]queueRow{}
		}
		t.places[l.queue] = q
	}
	l.put(q.QueueSettings)
	return nil
}

// rely notes that the transaction writes rows by settings that it has read without a lock.
// checkRelied looks, after these writes, whether they have changed meanwhile: then the transaction
// is repeated. If not, the reshaping that follows a later change waits for these writes.
func (t *tx) rely(queue string, shape int64) {
	if !t.concurrent() {
		return
	}
	if t.relied == nil {
		t.relied = map[string]int64{}
	}
	t.relied[queue] = shape
}

const (
	qShapes     = `select name, shape from sj_queue where name in (texts($1))`
	qSameShapes = `select q.name from sj_queue q /*, each*/ where q.name = each($1 text) and q.shape = each($2 bigint)`
)

// stillRelied is checkRelied as a statement that must find every queue.
func (t *tx) stillRelied() []statement {
	if len(t.relied) == 0 {
		return nil
	}
	var names sqldb.Texts
	var shapes sqldb.Ints
	for name, shape := range t.relied {
		names, shapes = append(names, name), append(shapes, shape)
	}
	return []statement{{sqldb.Statement{Text: qSameShapes, Rows: []sqldb.Column{names, shapes}, Wanted: int64(len(names))}, "settings have changed meanwhile"}}
}

func (t *tx) checkRelied() error {
	if len(t.relied) == 0 || !t.wrote {
		return nil
	}
	names := make(sqldb.Texts, 0, len(t.relied))
	for name := range t.relied {
		names = append(names, name)
	}
	if err := t.query(qShapes, func(r sqldb.Row) error {
		if shape, ok := t.relied[r.Text(0)]; ok && shape == r.Int(1) {
			delete(t.relied, r.Text(0))
		}
		return nil
	}, names); err != nil {
		return err
	}
	for name := range t.relied {
		return raced("the settings of queue " + name + " have changed meanwhile")
	}
	return nil
}

// piece is how many live rows a reshaping looks at in one transaction.
const piece = 1000

const (
	qPiece      = `select id, queue from sj_live where id > $1 order by id limit $2`
	qReshaped   = `update sj_queue set reshape = $1, flow = $2, max_weight = $3 where name = $4`
	qSetPlace   = `update sj_live set r1 = $1, r2 = $2, lane = $3 where id = $4`
	qReshapings = `select name from sj_queue where reshape >= 0`
)

// reshapeAsk asks for the next piece of a reshaping.
type reshapeAsk struct {
	queue  string
	waited int64 // the shape of which those have ended who have written by an older one; 0 = none
}

// reshaped is what became of it.
type reshaped struct {
	done    bool
	shape   int64
	writers sqldb.Texts // whose end it waits for
}

// stepReshape looks at the next piece of the live rows and puts those of the queue where its
// settings want them. It reports whether it was the last one. Rows are locked before the queue, as
// everywhere.
var stepReshape = eachStep("reshape", func(t *tx, ask reshapeAsk) (out reshaped, err error) {
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
	t.leased = nil // some may be among them
	next := last + 1
	if seen < piece {
		next = -1
	}
	out.done = next < 0
	return out, t.endPiece(queue, q.shape, from, next)
})

// TextWriters lists the transactions that have written live rows and are not over, for
// Dialect.Over.
const TextWriters = `select the name of each transaction that has written sj_live`

func (t *tx) writersOfLive() (list sqldb.Texts, err error) {
	err = t.query(TextWriters, func(r sqldb.Row) error { list = append(list, r.Text(0)); return nil })
	return list, err
}

const (
	// writersTime is how long a change of settings waits for those who have written by the ones
	// before. One of them may be a caller's own transaction.
	writersTime  = 2 * time.Second
	writersFirst = 2 * time.Millisecond // the first pause between two looks; each is twice the one before
)

// over waits until these transactions are over, and reports whether they are. It holds nothing up:
// a lock that excludes them would also make all wait who come after it.
func (s *Store) over(ctx context.Context, writers sqldb.Texts) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, writersTime)
	defer cancel()
	for pause := writersFirst; ; pause *= 2 {
		var still sqldb.Texts
		err := s.view(ctx, func(t *tx) (err error) {
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

// allWritten waits until all transactions are over that have written live rows, and keeps others
// from writing. Whoever wants to write waits behind the lock while it waits itself; so it gives up
// soon, and the whole transaction is tried again.
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

// endPiece moves the mark of a reshaping on, if nobody else has. With the last piece everything in
// flight is counted.
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
		if q.maxWeight, err = t.mayHold(queue, q.QueueSettings); err != nil {
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

// mayHold is the weight that may be in flight: the limit, or what is in flight above it.
func (t *tx) mayHold(queue string, q sojourn.QueueSettings) (int64, error) {
	if q.Limit < 1 {
		return 0, nil
	}
	used, _, err := t.inFlight(queue)
	return max(used, q.Limit), err
}

// reshape runs at most so many pieces; the sweep runs the rest, also where somebody's open
// transaction has written by older settings and does not end. Where others write beside it each
// piece is a transaction of its own: it waits for locks.
func (s *Store) reshape(ctx context.Context, queue string, pieces int) error {
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

func (s *Store) reshapePiece(ctx context.Context, ask reshapeAsk) (reshaped, error) {
	if !s.db.Dialect().Concurrent {
		return do[reshaped](ctx, s, classClaim, stepReshape, piece, ask)
	}
	r := &request{step: stepReshape, in: ask}
	if err := s.batch.alone(ctx, r); err != nil {
		return reshaped{}, err
	}
	return r.out.(reshaped), nil
}
