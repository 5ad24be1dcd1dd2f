package txn

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobstat"
)

// PendingInsert is the insert of a live row for a job that this transaction stores. Until it is
// sent, a claim of the same transaction can start the job: then the row is written once, as
// running, and never read (docs/internals/engine.md#claim-in-the-enqueuing-transaction).
type PendingInsert struct {
	Now     *jobrow.Row
	columns JobColumns // what the worker gets beside the row
	started bool       // a claim has started it
}

// AddInsert adds the row of a job that is stored in this transaction, with its rank and lane. The
// next flush sends it, unless HoldInserts is set.
func (t *Tx) AddInsert(l *jobrow.Row, c JobColumns) {
	l.UpdatedAt = max(t.Now, l.UpdatedAt)
	l.BornAt = l.UpdatedAt
	l.SetWakeAt()
	t.Writes.Inserts = append(t.Writes.Inserts, PendingInsert{Now: l, columns: c})
}

// InsertLive adds inserts that no claim of this transaction may start, as of redriven jobs. The
// rows were not claimed in their generation, and have their rank and lane.
func (t *Tx) InsertLive(ls []*jobrow.Row) {
	for _, l := range ls {
		l.UpdatedAt = max(t.Now, l.UpdatedAt)
		l.BornAt = l.UpdatedAt
		l.SetWakeAt()
		t.NoteChange(l)
		t.Counts.Stored(l)
		t.Transitions.Stored(l, false)
		t.Stats.Count(l.Queue, l.Kind, jobstat.Redriven, 1)
	}
	t.addInsert(&jobrow.InsertLinked, ls)
}

// CanHoldInserts reports whether HoldInserts may be set: then the inserts stay pending while claims
// search for jobs, and the claims find them here. Windows prevent it, because they are evaluated on
// rows in the database. Gates prevent it too, because they count there; the caller checks them.
func (t *Tx) CanHoldInserts() bool {
	if t.Core.Cfg.Without.ClaimInEnqueue && len(t.Writes.Inserts) > 0 {
		return false
	}
	return !slices.ContainsFunc(t.Writes.Inserts, func(f PendingInsert) bool {
		return len(f.Now.Policy.Windows) > 0 || f.Now.Dependents || f.Now.Workflow != 0
	})
}

// ReleaseInserts lets the next flush send all pending inserts.
func (t *Tx) ReleaseInserts() { t.HoldInserts = false }

// InsertsOf appends the pending jobs of a queue and kind that a claim may take to head, its
// candidates from the database.
func (t *Tx) InsertsOf(head []jobrow.Candidate, queue, kind string, r driver.ClaimRequest) []jobrow.Candidate {
	if !t.HoldInserts {
		return head
	}
	for _, f := range t.Writes.Inserts {
		if l := f.Now; l.State == sojourn.Ready && l.Queue == queue && l.Kind == kind && (int64(l.Weight) <= r.Capacity || l.RunAt <= ReserveBefore(t.Now, r)) {
			head = append(head, jobrow.Candidate{ID: int64(l.ID), R1: l.R1, R2: l.R2, Weight: int64(l.Weight)})
		}
	}
	return head
}

// TakeInserts adds the pending jobs among ids to found, and their columns to columns. rest are the
// ids that must be read from the database.
func (t *Tx) TakeInserts(ids sqldb.Ints, found map[sojourn.ID]*jobrow.Row, columns map[sojourn.ID]*JobColumns) (rest sqldb.Ints) {
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
			found[id], columns[id] = f.Now, &f.columns
		}
	}
	for _, id := range ids {
		if found[sojourn.ID(id)] == nil {
			rest = append(rest, id)
		}
	}
	return rest
}

// startInsert replaces the pending insert of was by l, and reports whether there is one.
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

// flushInserts adds the statements of pending inserts.
func (t *Tx) flushInserts(rows []PendingInsert) {
	var waiting, linked, started []*jobrow.Row
	for _, f := range rows {
		t.NoteChange(f.Now)
		t.Counts.Stored(f.Now)
		t.Transitions.Stored(f.Now, f.started)
		t.Stats.Count(f.Now.Queue, f.Now.Kind, jobstat.Enqueued, 1)
		if f.started {
			t.Cache.Changed = append(t.Cache.Changed, f.Now)
			started = append(started, f.Now)
		} else if f.Now.WaitsFor > 0 || f.Now.Dependents || f.Now.Workflow != 0 {
			linked = append(linked, f.Now)
		} else {
			waiting = append(waiting, f.Now)
		}
	}
	t.addInsert(&jobrow.InsertWaiting, waiting)
	t.addInsert(&jobrow.InsertLinked, linked)
	t.addInsert(&jobrow.InsertStarted, started)
}
