package sqlstore

import (
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// trusted are rows of running jobs as transactions of this process have left them, where others
// write beside it. The end of a step neither reads nor locks such a row: the database marks each
// row with the transaction that has written it, and the statement that deletes the row asks for the
// mark. If somebody has written the row since, the whole transaction is repeated, and reads
// (docs/decisions/032). Safe for concurrent use.
type trusted struct {
	mu   sync.Mutex
	rows map[sojourn.ID]trustedRow // at most recentRows
}

type trustedRow struct {
	row    *live
	writer int64
}

// keep remembers what a transaction has written that has committed.
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

// mayTrust reports whether a row is one of a step whose end concerns nothing but the job: nobody
// counts what is in flight, and it is not a poll.
func mayTrust(l *live) bool {
	return l.State == sojourn.Running && l.lane == laneNone && (l.Purpose == sojourn.PurposeStart || l.Purpose == sojourn.PurposeResume)
}

// trust takes the rows of all leases of a group as they are remembered, or none. Rows that are read
// are locked in one order before anything is decided, and those that are trusted only when they are
// deleted, so a group does not have both.
func (t *tx) trust(group []*request) bool {
	k := &t.s.trusted
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, r := range group {
		if r.step == stepFinish {
			n += r.rows
		}
	}
	rows, writers := make(map[sojourn.ID]*live, n), make(map[sojourn.ID]int64, n)
	for _, r := range group {
		if r.step == stepEnqueue || r.step == stepClaim {
			continue
		}
		if r.step != stepFinish {
			return false
		}
		outcomes := r.in.(finishAsk).outcomes
		for i := range outcomes {
			o := &outcomes[i]
			m, ok := k.rows[o.Lease.ID]
			if !ok || rows[o.Lease.ID] != nil || !m.row.stands(o.Lease) || o.Type != sojourn.OutcomeCompleted || len(o.Next) > 0 {
				return false
			}
			rows[o.Lease.ID], writers[o.Lease.ID] = m.row, m.writer
		}
	}
	t.leased, t.writers = rows, writers
	return len(rows) > 0
}

// forget drops what was trusted in vain.
func (k *trusted) forget(ids map[sojourn.ID]int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range ids {
		delete(k.rows, id)
	}
}

// TextDeleteTrusted is qDeleteLive for rows that were not read, for Dialect.Over: id, state, epoch
// and mark of each.
const TextDeleteTrusted = `delete from sj_live where id, state, epoch and mark are each those of rows($1 bigint, $2 bigint, $3 bigint, $4 bigint)`

// noteWriter asks for the mark of this transaction, if there is something to remember.
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
