package txn

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// PendingInsert is the pending insert of a live row for a job that this transaction stores. Until
// it is written, a claim of the same transaction can start the job: then the row is written once,
// as running, and never read (docs/internals/engine.md#claim-in-the-enqueuing-transaction).
type PendingInsert struct {
	Now     *jobrow.Row
	carried JobColumns
	started bool
}

// AddInsert adds the row of a job with its rank and lane. The next flush writes it, unless that
// holds fresh rows back.
func (t *Tx) AddInsert(l *jobrow.Row, c JobColumns) {
	l.UpdatedAt = max(t.Now, l.UpdatedAt)
	l.SetWakeAt()
	t.Writes.Inserts = append(t.Writes.Inserts, PendingInsert{Now: l, carried: c})
}

// CanHoldInserts reports whether the pending rows may be held back while claims search for jobs,
// which find them here. Windows prevent it: they are evaluated on rows in the database. So do
// gates, which count there.
func (t *Tx) CanHoldInserts() bool {
	if t.Core.Cfg.Without.ClaimInEnqueue && len(t.Writes.Inserts) > 0 {
		return false
	}
	return !slices.ContainsFunc(t.Writes.Inserts, func(f PendingInsert) bool { return len(f.Now.Policy.Windows) > 0 })
}

// ReleaseInserts lets the next flush write all pending rows.
func (t *Tx) ReleaseInserts() { t.HoldInserts = false }

// InsertsOf adds the held-back jobs of a queue to its head.
func (t *Tx) InsertsOf(line []jobrow.Candidate, queue, kind string, r driver.ClaimRequest) []jobrow.Candidate {
	if !t.HoldInserts {
		return line
	}
	for _, f := range t.Writes.Inserts {
		if l := f.Now; l.State == sojourn.Ready && l.Queue == queue && l.Kind == kind && (int64(l.Weight) <= r.Capacity || l.RunAt <= ReserveBefore(t.Now, r)) {
			line = append(line, jobrow.Candidate{ID: int64(l.ID), R1: l.R1, R2: l.R2, Weight: int64(l.Weight)})
		}
	}
	return line
}

// TakeInserts moves the held-back jobs from ids to found and carries.
func (t *Tx) TakeInserts(ids sqldb.Ints, found map[sojourn.ID]*jobrow.Row, carries map[sojourn.ID]*JobColumns) (rest sqldb.Ints) {
	if !t.HoldInserts || len(t.Writes.Inserts) == 0 {
		return ids
	}
	wanted := make(map[sojourn.ID]bool, len(ids))
	for _, id := range ids {
		wanted[sojourn.ID(id)] = true
	}
	for i := range t.Writes.Inserts {
		f := &t.Writes.Inserts[i]
		if id := f.Now.ID; wanted[id] {
			found[id], carries[id] = f.Now, &f.carried
		}
	}
	for _, id := range ids {
		if found[sojourn.ID(id)] == nil {
			rest = append(rest, id)
		}
	}
	return rest
}

// startInsert replaces a pending row by l, and reports whether was is one.
func (t *Tx) startInsert(was, l *jobrow.Row) bool {
	for i := range t.Writes.Inserts {
		if f := &t.Writes.Inserts[i]; f.Now == was {
			l.UpdatedAt = max(t.Now, was.UpdatedAt)
			l.SetWakeAt()
			t.AddWeight(was, l, l.Held)
			f.Now, f.started = l, true
			return true
		}
	}
	return false
}

func (t *Tx) flushInserts(rows []PendingInsert) {
	var waiting, started []*jobrow.Row
	for _, f := range rows {
		t.NoteChange(f.Now)
		if f.started {
			t.Changed = append(t.Changed, f.Now)
			started = append(started, f.Now)
		} else {
			waiting = append(waiting, f.Now)
		}
	}
	t.addInsert(&jobrow.InsertWaiting, waiting)
	t.addInsert(&jobrow.InsertStarted, started)
}

// InsertLive adds rows of jobs that were not claimed in their generation and have their rank and
// lane.
func (t *Tx) InsertLive(ls []*jobrow.Row) {
	for _, l := range ls {
		l.UpdatedAt = max(t.Now, l.UpdatedAt)
		l.SetWakeAt()
		t.NoteChange(l)
	}
	t.addInsert(&jobrow.InsertWaiting, ls)
}
