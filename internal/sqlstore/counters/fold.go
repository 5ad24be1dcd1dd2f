package counters

import (
	"context"
	"sync/atomic"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobcount"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// foldRows bounds the changes that one transaction adds up. A process folds after it has added
	// as many, and so bounds what a read sums.
	foldRows = 1000
	// foldMost bounds the transactions of one sweep.
	foldMost = 20
)

// TextTake takes up to $1 changes that no other transaction has locked, for Dialect.Over.
const TextTake = `take $1 rows of sj_count_change`

// AnyChange reads whether there are changes to be added up.
const AnyChange = `select count(*) from (select 1 from sj_count_change limit 1) n`

// Folder adds the rows of sj_count_change up. Safe for concurrent use.
type Folder struct {
	core  *txn.Core
	added atomic.Int64 // rows of this process since its last fold
	busy  atomic.Bool
}

// NewFolder makes the folder of a store.
func NewFolder(c *txn.Core) *Folder { return &Folder{core: c} }

// foldOp adds some changes up, and returns how many.
var foldOp = txn.EachOp("fold counts", groupcommit.Enqueue, func(t *txn.Tx, most int) (int, error) {
	var sums jobcount.Changes
	n := 0
	if err := t.Read(TextTake, func(r sqldb.Row) error {
		n++
		sums.Correct(scanRow(r))
		return nil
	}, most); err != nil {
		return 0, err
	}
	t.Wrote = t.Wrote || n > 0
	t.Events.Dead += n
	txn.FoldCounts(t, sums.Take())
	return n, nil
})

// Sweep adds up the changes that it finds, in transactions of their own.
func (f *Folder) Sweep(ctx context.Context) error {
	for range foldMost {
		n, err := txn.DoAlone(ctx, f.core, foldOp, foldRows)
		if err != nil || n < foldRows {
			return err
		}
	}
	return nil
}

// Note counts the rows that a committed transaction has added, and may start a fold in the
// background. If that fails, a sweep folds.
func (f *Folder) Note(rows int) {
	if rows == 0 || f.added.Add(int64(rows)) < foldRows || f.busy.Swap(true) {
		return
	}
	f.added.Store(0)
	go func() {
		defer f.busy.Store(false)
		_ = f.Sweep(context.Background())
	}()
}
