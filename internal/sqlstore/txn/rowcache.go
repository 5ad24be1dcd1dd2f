package txn

import (
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// TextDeleteCached is qDeleteLive for cached rows, for Dialect.Over: it compares the mark too.
const TextDeleteCached = `delete from sj_live where id, state, epoch and mark are each those of rows($1 bigint, $2 bigint, $3 bigint, $4 bigint)`

// rowCache is a cache of the rows of running jobs as this process's transactions left them, where
// others write concurrently. A finish neither reads nor locks a cached row: the database marks each
// row with the transaction that wrote it, and the delete compares the mark. If another transaction
// has written the row since, the whole transaction is repeated with reads
// (docs/internals/engine.md#row-cache). Safe for concurrent use.
type rowCache struct {
	mu   sync.Mutex
	rows map[sojourn.ID]cachedRow // at most maxCachedRows
}

// cachedRow is a row with its mark.
type cachedRow struct {
	row    *jobrow.Row
	writer int64
}

// Keep caches the rows that a committed transaction has written, and removes those that it has
// ended.
func (k *rowCache) Keep(t *Tx) {
	if len(t.Cache.Changed) == 0 || t.Core.Cfg.Without.RowCache || t.Core.DB.Dialect().Writer == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows == nil || len(k.rows)+len(t.Cache.Changed) > maxCachedRows {
		k.rows = map[sojourn.ID]cachedRow{}
	}
	for _, l := range t.Cache.Changed {
		if t.Cache.writer > 0 && !t.Cache.Altered && mayCache(l) {
			k.rows[l.ID] = cachedRow{l, t.Cache.writer}
		} else {
			delete(k.rows, l.ID)
		}
	}
}

// Forget removes rows that a failed transaction has used, because they may be stale.
func (k *rowCache) Forget(ids map[sojourn.ID]int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range ids {
		delete(k.rows, id)
	}
}

// mayCache reports whether the end of a row's step concerns only the job: its queue does not count
// the weight in flight, and the step is not a poll.
func mayCache(l *jobrow.Row) bool {
	return l.State == sojourn.Running && l.Lane == jobrow.LaneNone && (l.Purpose == sojourn.PurposeStart || l.Purpose == sojourn.PurposeResume)
}

// cachedLeases takes the rows of all leases of a group from the cache, or none. Rows that are read
// are locked in one order before decisions; cached rows are locked only when they are deleted. So a
// group does not mix both.
func (t *Tx) cachedLeases(group []Call) bool {
	if t.Core.Cfg.Without.RowCache {
		return false
	}
	k := &t.Core.Caches.Rows
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, c := range group {
		c.leases(func(sojourn.Lease, bool) { n++ })
	}
	rows, writers := make(map[sojourn.ID]*jobrow.Row, n), make(map[sojourn.ID]int64, n)
	all := true
	for _, c := range group {
		if !c.cached() {
			return false
		}
		c.leases(func(l sojourn.Lease, final bool) {
			m, ok := k.rows[l.ID]
			if !ok || !final || rows[l.ID] != nil || !m.row.HasLease(l) {
				all = false
				return
			}
			if t.Core.Spoils("row") {
				m = cachedRow{stale(m.row), m.writer - 1} // later transactions may be those that write the row
			}
			rows[l.ID], writers[l.ID] = m.row, m.writer
		})
		if !all {
			return false
		}
	}
	t.Loaded.Leased, t.Cache.Writers = rows, writers
	return len(rows) > 0
}

// readMark returns the read of this transaction's mark, if there are rows to cache.
func (t *Tx) readMark() []Statement {
	q := t.Core.DB.Dialect().Writer
	if q == "" || t.Core.Cfg.Without.RowCache {
		return nil
	}
	for _, l := range t.Cache.Changed {
		if mayCache(l) {
			return []Statement{{Statement: sqldb.Statement{Text: q, Each: func(r sqldb.Row) error { t.Cache.writer = r.Int(0); return nil }}}}
		}
	}
	return nil
}
