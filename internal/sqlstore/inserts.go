package sqlstore

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// freshRow is the pending insert of a live row for a job that this transaction stores. Until it is
// written, a claim of the same transaction can start the job: then the row is written once, as
// running, and never read (docs/internals/engine.md#claim-in-the-enqueuing-transaction).
type freshRow struct {
	now     *live
	carried carried
	started bool
}

// addFresh adds the row of a job with its rank and lane. The next flush writes it, unless that
// holds fresh rows back.
func (t *tx) addFresh(l *live, c carried) {
	l.updated = max(t.now, l.updated)
	l.wake()
	t.pending.fresh = append(t.pending.fresh, freshRow{now: l, carried: c})
}

// canHold reports whether the pending rows may be held back while claims search for jobs, which
// find them here. Windows prevent it: they are evaluated on rows in the database. So do gates,
// which count there.
func (t *tx) canHold() bool {
	return !slices.ContainsFunc(t.pending.fresh, func(f freshRow) bool { return len(f.now.Policy.Windows) > 0 })
}

// release lets the next flush write all pending rows.
func (t *tx) release() { t.holding = false }

// freshLine adds the held-back jobs of a queue to its head.
func (t *tx) freshLine(line []candidate, queue, kind string, r driver.ClaimRequest) []candidate {
	if !t.holding {
		return line
	}
	for _, f := range t.pending.fresh {
		if l := f.now; l.State == sojourn.Ready && l.queue == queue && l.kind == kind && (int64(l.Weight) <= r.Capacity || l.runAt <= reserveBefore(t.now, r)) {
			line = append(line, candidate{int64(l.ID), l.r1, l.r2, int64(l.Weight)})
		}
	}
	return line
}

// takeFresh moves the held-back jobs from ids to found and carries.
func (t *tx) takeFresh(ids sqldb.Ints, found map[sojourn.ID]*live, carries map[sojourn.ID]*carried) (rest sqldb.Ints) {
	if !t.holding || len(t.pending.fresh) == 0 {
		return ids
	}
	wanted := make(map[sojourn.ID]bool, len(ids))
	for _, id := range ids {
		wanted[sojourn.ID(id)] = true
	}
	for i := range t.pending.fresh {
		f := &t.pending.fresh[i]
		if id := f.now.ID; wanted[id] {
			found[id], carries[id] = f.now, &f.carried
		}
	}
	for _, id := range ids {
		if found[sojourn.ID(id)] == nil {
			rest = append(rest, id)
		}
	}
	return rest
}

// startFresh replaces a pending row by l, and reports whether was is one.
func (t *tx) startFresh(was, l *live) bool {
	for i := range t.pending.fresh {
		if f := &t.pending.fresh[i]; f.now == was {
			l.updated = max(t.now, was.updated)
			l.wake()
			t.land(was, l, l.Held)
			f.now, f.started = l, true
			return true
		}
	}
	return false
}

func (t *tx) flushFresh(rows []freshRow) {
	var waiting, started []*live
	for _, f := range rows {
		t.noteChange(f.now)
		if f.started {
			t.changed = append(t.changed, f.now)
			started = append(started, f.now)
		} else {
			waiting = append(waiting, f.now)
		}
	}
	t.laterInsert(&insertWaiting, waiting)
	t.laterInsert(&insertStarted, started)
}

// insertLive adds rows of jobs that were not claimed in their generation and have their rank and
// lane.
func (t *tx) insertLive(ls []*live) {
	for _, l := range ls {
		l.updated = max(t.now, l.updated)
		l.wake()
		t.noteChange(l)
	}
	t.laterInsert(&insertWaiting, ls)
}
