package events

import (
	"context"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/event"
)

// Each delete checks followers and positions by its own snapshot. So an event that the statement
// finds was committed before each follower that it does not find. Each looks at the first events
// only: if these stay, no later one goes.
const (
	qRead = `delete from sj_event where (xid, id) in (select e.xid, e.id from (select xid, id from sj_event order by xid, id limit $1) e
		where not exists (select 1 from sj_follower f where (f.xid, f.id) < (e.xid, e.id)))`
	// TextExpired deletes those among the first $2 events that are older than $1. PostgreSQL has a
	// text of its own: an event behind an open transaction stays, because that one may still commit
	// an event in front of it.
	TextExpired = `delete from sj_event where (xid, id) in (select xid, id from (select xid, id, at_us from sj_event order by xid, id limit $2) e where at_us < $1)
		returning xid, id`
	qMissed = `update sj_follower set xid = $1, id = $2, gap = 1 where (xid, id) < ($1, $2)`
	qUnused = `delete from sj_follower where seen_us < $1`
)

const (
	// sweepRows bounds the events that one transaction deletes, sweepMost the transactions of one
	// sweep.
	sweepRows = 1000
	sweepMost = 20
)

// SweepEvents deletes followers that were not used for event.KeepFollower, and events that all
// followers have acknowledged or that are older than event.Keep.
func (s *Follower) SweepEvents(ctx context.Context) error {
	for range sweepMost {
		if more, err := txn.DoAlone(ctx, s.core, s.sweepOp, sweepRows); err != nil || !more {
			return err
		}
	}
	return nil
}

// sweep deletes up to limit events of each cause, and reports whether there may be more.
func sweep(t *txn.Tx, limit int) (more bool, err error) {
	if _, err := t.Write(qUnused, t.Now-event.KeepFollower.Microseconds()); err != nil {
		return false, err
	}
	read, err := t.Write(qRead, limit)
	if err != nil {
		return false, err
	}
	expired, xid, id := 0, int64(0), int64(0)
	if err := t.Read(TextExpired, func(r sqldb.Row) error {
		expired++
		if x, i := r.Int(0), r.Int(1); x > xid || x == xid && i > id {
			xid, id = x, i
		}
		return nil
	}, t.Now-event.Keep.Microseconds(), limit); err != nil {
		return false, err
	}
	if expired > 0 {
		t.Wrote = true
		if _, err := t.Write(qMissed, xid, id); err != nil {
			return false, err
		}
	}
	return read == int64(limit) || expired == limit, nil
}
