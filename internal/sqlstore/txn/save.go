package txn

import (
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/rules"
)

// Save adds the update of a row: was is the row as it was read or saved last, l its changed copy.
// It sets the rank, and the times of the update and of the next check. The update fails if the row
// in the database has another state or epoch than the row that was read (inv:F2).
func (t *Tx) Save(was, l *jobrow.Row) error {
	l.UpdatedAt = max(t.Now, was.UpdatedAt)
	l.SetWakeAt()
	if err := t.placeRow(was, l); err != nil {
		return err
	}
	state, epoch, err := t.Unsaved(was)
	if err != nil {
		return err
	}
	p := &t.Writes
	if p.SaveOf == nil {
		p.SaveOf = map[sojourn.ID]int{}
	}
	t.AddWeight(was, l, l.Held)
	t.Counts.Moved(was, l, l.Held)
	t.Transitions.Moved(was, l, l.UpdatedAt)
	p.SaveOf[l.ID] = len(p.Saves)
	p.Saves = append(p.Saves, savedRow{state: state, epoch: epoch, now: l})
	t.NoteChange(l)
	if l.Workflow != 0 && l.Queue != was.Queue {
		t.Events.Moved = append(t.Events.Moved, l)
	}
	return nil
}

// SaveStart is Save for a row whose only change is that a claim has started it. If the insert of
// the row is pending, l replaces it.
func (t *Tx) SaveStart(was, l *jobrow.Row) error {
	if t.startInsert(was, l) {
		return nil
	}
	_, changed := t.Writes.SaveOf[was.ID]
	err := t.Save(was, l)
	if err == nil && !changed {
		t.Writes.Saves[len(t.Writes.Saves)-1].Only = jobrow.ByClaim
	}
	return err
}

// Unsaved removes the pending update of a row that changes once more, and returns the state and the
// epoch that the row has in the database.
func (t *Tx) Unsaved(was *jobrow.Row) (sojourn.State, int64, error) {
	delete(t.Loaded.Leased, was.ID)
	i, ok := t.Writes.SaveOf[was.ID]
	if !ok {
		return was.State, was.Epoch, nil
	}
	before := t.Writes.Saves[i]
	if before.now.State != was.State || before.now.Epoch != was.Epoch {
		return 0, 0, ErrChanged(was.ID)
	}
	delete(t.Writes.SaveOf, was.ID)
	t.Writes.Saves[i].now = nil
	return before.state, before.epoch, nil
}

// ErrChanged returns the error for a row that is not as this transaction has read or saved it last.
func ErrChanged(id sojourn.ID) error {
	return Raced("job " + strconv.FormatInt(int64(id), 10) + " changed inside a transaction")
}

// placeRow sets the rank of a row that takes another place in its queue: after a retry, an edit, a
// response. The settings are read after the row was locked: so either they are the newest, or the
// reindexing after a later change finds this row.
func (t *Tx) placeRow(was, l *jobrow.Row) error {
	if l.Resumed {
		l.R1, l.R2 = rules.Rank(sojourn.QueueSettings{}, l.Priority, jobrow.Time(l.RunAt), true)
		return nil
	}
	same := was.R1 != rules.ResumedRank && l.Queue == was.Queue && l.Priority == was.Priority && l.RunAt == was.RunAt &&
		l.Weight == was.Weight && l.Group == was.Group
	waits := l.State == sojourn.Ready || l.State == sojourn.Scheduled || l.State == sojourn.Errored || l.State == sojourn.Blocked ||
		l.State == sojourn.Awaiting && l.Priority != was.Priority
	if same || !waits {
		return nil
	}
	q, ok := t.Loaded.Queues[l.Queue]
	if !ok {
		var err error
		if q, err = t.ReadQueue(l.Queue); err != nil {
			return err
		}
		if t.Loaded.Queues == nil {
			t.Loaded.Queues = map[string]QueueRow{}
		}
		t.Loaded.Queues[l.Queue] = q
	}
	l.SetRank(q.QueueSettings)
	return nil
}

// addUpdate adds the update of rows to the write set.
func (t *Tx) addUpdate(w *jobrow.RowWrite, rows []savedRow) {
	if len(rows) == 0 {
		return
	}
	s := jobrow.NewColumns(len(rows), 2+len(w.Numbers), len(w.Texts), 0)
	now := make([]*jobrow.Row, len(rows))
	for i := range rows {
		r := &rows[i]
		now[i] = r.now
		s.Row(int64(r.now.ID)).Ints(int64(r.state), r.epoch)
	}
	w.Fill(s, 2, now)
	t.AddColumns(w.Text, len(rows), changedInside, s)
}

// addInsert adds the insert of rows to the write set.
func (t *Tx) addInsert(w *jobrow.RowWrite, rows []*jobrow.Row) {
	if len(rows) == 0 {
		return
	}
	s := jobrow.NewColumns(len(rows), len(w.Numbers), len(w.Texts), 0)
	for _, l := range rows {
		s.Row(int64(l.ID))
	}
	w.Fill(s, 0, rows)
	t.AddColumns(w.Text, 0, "", s)
}
