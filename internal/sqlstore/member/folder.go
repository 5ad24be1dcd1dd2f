package member

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// foldShare: a process folds at once if it alone has ended one in foldShare of the members that
	// were left at its last fold. So a process folds a large workflow about foldShare * ln(members)
	// times, and a small one at each end.
	foldShare = 8
	// foldLater bounds the time until it folds otherwise.
	foldLater = 100 * time.Millisecond
	// maxFolding bounds the workflows that a process remembers.
	maxFolding = 10_000
	// expectFirst and expectLast are the first and the last pause of expect.
	expectFirst, expectLast = 10 * time.Millisecond, 10 * time.Second
)

// foldPerTx bounds the workflows of one transaction, so that other requests run in between.
const foldPerTx = 100

// Folder decides when a process folds. What it decides is only a matter of time: a sweep folds
// everything. Safe for concurrent use.
type Folder struct {
	counter *Counter
	op      *txn.Op[[]int64, map[int64]int64]

	mu      sync.Mutex // guards the fields below
	known   map[int64]*folding
	ready   map[int64]bool // to be folded
	awaited map[int64]*expected
	running bool
}

// folding is a workflow that this process has ended members of.
type folding struct {
	ended int64 // since the last fold of this process
	left  int64 // members without an end at that fold; 0: not known
	timed bool  // a timer runs
}

func (f *Folder) init(c *Counter) {
	f.counter, f.known, f.ready, f.awaited = c, map[int64]*folding{}, map[int64]bool{}, map[int64]*expected{}
	f.op = txn.EachOp("fold", groupcommit.Claim, c.foldAll)
}

// foldAll folds workflows, in one order in all transactions. It returns how many members of each
// are left; none for one that has ended.
func (s *Counter) foldAll(t *txn.Tx, ids []int64) (map[int64]int64, error) {
	left := map[int64]int64{}
	for _, id := range ids {
		w, err := LockID(t, id)
		if err != nil {
			return nil, err
		}
		if w == nil {
			continue
		}
		if _, err := s.Fold(t, w); err != nil {
			return nil, err
		}
		if !w.IsFinal() {
			left[id] = w.Left()
		}
	}
	return left, nil
}

// note is called after the commit of a transaction that has ended members, with their numbers.
func (f *Folder) note(ended map[int64]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) > maxFolding {
		clear(f.known)
	}
	for id, n := range ended {
		k := f.known[id]
		if k == nil {
			k = &folding{}
			f.known[id] = k
		}
		k.ended += n
		switch {
		case k.ended*foldShare >= k.left:
			f.start(id)
		case !k.timed:
			k.timed = true
			time.AfterFunc(foldLater, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				k.timed = false
				f.start(id)
			})
		}
	}
}

// expected is a workflow with ends in transactions of the application.
type expected struct {
	timer *time.Timer
	pause time.Duration // of the timer
}

// expect folds a workflow when the ends of a transaction of the application can be seen. It looks
// for them after expectFirst and then in growing intervals, and leaves the workflow to the sweeps
// after expectLast: the transaction was rolled back, or is very long.
func (f *Folder) expect(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.awaited[id]
	if e == nil && len(f.awaited) < maxFolding {
		e = &expected{}
		f.awaited[id], e.timer = e, time.AfterFunc(expectFirst, func() { f.look(id, e) })
	}
	if e != nil {
		e.pause = expectFirst
		e.timer.Reset(e.pause)
	}
}

// look folds a workflow if there are ends to add up, and looks again later if there are none.
func (f *Folder) look(id int64, e *expected) {
	var n int64
	err := f.counter.core.View(context.Background(), func(t *txn.Tx) (err error) {
		n, err = t.ReadInt(qHasEnds, id)
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > 0 {
		f.start(id)
	}
	if err != nil || e.pause >= expectLast {
		delete(f.awaited, id)
		return
	}
	e.pause *= 2 // also after a find: there may be other transactions
	e.timer.Reset(e.pause)
}

// start folds a workflow soon. f.mu is held.
func (f *Folder) start(id int64) {
	f.ready[id] = true
	if !f.running {
		f.running = true
		go f.run()
	}
}

// run folds until nothing is to be folded. While a fold is under way, more ends come together.
func (f *Folder) run() {
	for {
		f.mu.Lock()
		ids := slices.Sorted(maps.Keys(f.ready))
		ids = ids[:min(len(ids), foldPerTx)]
		if len(ids) == 0 {
			f.running = false
			f.mu.Unlock()
			return
		}
		for _, id := range ids {
			delete(f.ready, id)
			if k := f.known[id]; k != nil {
				k.ended = 0
			}
		}
		f.mu.Unlock()
		left, err := txn.Do(context.Background(), f.counter.core, f.op, len(ids), ids)
		f.mu.Lock()
		for _, id := range ids {
			if n := left[id]; err == nil && n > 0 {
				if k := f.known[id]; k != nil {
					k.left = n
				}
			} else if k := f.known[id]; k != nil && !k.timed { // a sweep goes on after an error
				delete(f.known, id)
			}
		}
		f.mu.Unlock()
	}
}

const qHasEnds = `select count(*) from (select 1 from sj_workflow_end where workflow = $1 limit 1) a`

const qUnfolded = `select distinct workflow from sj_workflow_end where workflow > $1 order by workflow limit $2`

// AnyDue reads whether a sweep has something to do: ends to add up, or a workflow that is due.
const AnyDue = `(select count(*) from (select 1 from sj_workflow_end where workflow > 0 limit 1) e) + (select count(*) from (select 1 from sj_workflow where due_us <= $1
	and due_us < 9223372036854775807 limit 1) d)`

// Sweep adds up all ends that it finds.
func (s *Counter) Sweep(ctx context.Context) error {
	for after := int64(0); ; {
		var ids []int64
		if err := s.core.View(ctx, func(t *txn.Tx) error {
			ids = nil
			return t.Read(qUnfolded, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, after, foldPerTx)
		}); err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		if err := s.FoldNow(ctx, ids...); err != nil {
			return err
		}
	}
}

// FoldNow folds workflows.
func (s *Counter) FoldNow(ctx context.Context, ids ...int64) error {
	_, err := txn.Do(ctx, s.core, s.folder.op, len(ids), ids)
	return err
}
