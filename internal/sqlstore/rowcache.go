package sqlstore

import (
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// trusted is a cache of the rows of running jobs as this process's transactions left them, where
// others write concurrently. A finish neither reads nor locks a cached row: the database marks each
// row with the transaction that wrote it, and the delete compares the mark. If another transaction
// has written the row since, the whole transaction is repeated with reads
// (docs/internals/engine.md#row-cache). Safe for concurrent use.
type trusted struct {
	mu   sync.Mutex
	rows map[sojourn.ID]trustedRow // at most recentRows
}

type trustedRow struct {
	row    *live
	writer int64
}

// keep caches the rows of a committed transaction.
func (k *trusted) keep(t *tx) {
	if len(t.changed) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows == nil || len(k.rows)+len(t.changed) > recentRows {
		k.rows = map[sojourn.ID]trustedRow{}
	}
	for _, l := range t.changed {
		if t.writer > 0 && !t.altered && mayTrust(l) {
			k.rows[l.ID] = trustedRow{l, t.writer}
		} else {
			delete(k.rows, l.ID)
		}
	}
}

// mayTrust reports whether the end of a row's step concerns only the job: its queue does not count
// the weight in flight, and the step is not a poll.
func mayTrust(l *live) bool {
	return l.State == sojourn.Running && l.lane == laneNone && (l.Purpose == sojourn.PurposeStart || l.Purpose == sojourn.PurposeResume)
}

// trust takes the rows of all leases of a group from the cache, or none. Rows that are read are
// locked in one order before decisions; cached rows are locked only when they are deleted. So a
// group does not mix both.
func (t *tx) trust(group []call) bool {
	k := &t.s.trusted
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, c := range group {
		c.leases(func(sojourn.Lease, bool) { n++ })
	}
	rows, writers := make(map[sojourn.ID]*live, n), make(map[sojourn.ID]int64, n)
	all := true
	for _, c := range group {
		if !c.cached() {
			return false
		}
		c.leases(func(l sojourn.Lease, final bool) {
			m, ok := k.rows[l.ID]
			if !ok || !final || rows[l.ID] != nil || !m.row.stands(l) {
				all = false
				return
			}
			rows[l.ID], writers[l.ID] = m.row, m.writer
		})
		if !all {
			return false
		}
	}
	t.leased, t.writers = rows, writers
	return len(rows) > 0
}

// forget removes rows from the cache that turned out to be stale.
func (k *trusted) forget(ids map[sojourn.ID]int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range ids {
		delete(k.rows, id)
	}
}

// TextDeleteTrusted is qDeleteLive for cached rows, for Dialect.Over: id, state, epoch and mark of
// each.
const TextDeleteTrusted = `delete from sj_live where id, state, epoch and mark are each those of rows($1 bigint, $2 bigint, $3 bigint, $4 bigint)`

// noteWriter asks for the mark of this transaction, if there are rows to cache.
func (t *tx) noteWriter() []statement {
	q := t.s.db.Dialect().Writer
	if q == "" {
		return nil
	}
	for _, l := range t.changed {
		if mayTrust(l) {
			return []statement{{Statement: sqldb.Statement{Text: q, Each: func(r sqldb.Row) error { t.writer = r.Int(0); return nil }}}}
		}
	}
	return nil
}
