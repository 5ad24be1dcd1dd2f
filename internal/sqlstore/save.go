package sqlstore

import (
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// laterUpdate adds the update of rows to the write set.
func (t *tx) laterUpdate(w *rowWrite, rows []savedRow) {
	if len(rows) == 0 {
		return
	}
	s := newSheet(len(rows), 2+len(w.numbers), len(w.texts), 0)
	now := make([]*live, len(rows))
	for i := range rows {
		r := &rows[i]
		now[i] = r.now
		s.row(int64(r.now.ID)).ints(int64(r.state), r.epoch)
	}
	w.fill(s, 2, now)
	t.laterSheet(w.text, len(rows), changedInside, s)
}

// laterInsert adds the insert of rows to the write set.
func (t *tx) laterInsert(w *rowWrite, rows []*live) {
	if len(rows) == 0 {
		return
	}
	s := newSheet(len(rows), len(w.numbers), len(w.texts), 0)
	for _, l := range rows {
		s.row(int64(l.ID))
	}
	w.fill(s, 0, rows)
	t.laterSheet(w.text, 0, "", s)
}

// place sets the rank of a row that is ordered again: after a retry, an edit, a response. The
// settings are read after the row was locked. So either they are the newest, or the reindexing
// after a later change finds this row.
func (t *tx) place(was, l *live) error {
	if l.Resumed {
		l.r1, l.r2 = rules.Rank(sojourn.QueueSettings{}, l.priority, at(l.runAt), true)
		return nil
	}
	same := was.r1 != rules.ResumedRank && l.queue == was.queue && l.priority == was.priority && l.runAt == was.runAt &&
		l.Weight == was.Weight && l.group == was.group
	waits := l.State == sojourn.Ready || l.State == sojourn.Scheduled || l.State == sojourn.Errored || l.State == sojourn.Blocked
	if same || !waits {
		return nil
	}
	q, ok := t.places[l.queue]
	if !ok {
		var err error
		if q, err = t.queueRow(l.queue); err != nil {
			return err
		}
		if t.places == nil {
			t.places = map[string]queueRow{}
		}
		t.places[l.queue] = q
	}
	l.put(q.QueueSettings)
	return nil
}

// save writes a row back, with the next flush, if its state and epoch are still the ones that were
// read.
func (t *tx) save(was, l *live) error {
	l.updated = max(t.now, was.updated)
	l.wake()
	if err := t.place(was, l); err != nil {
		return err
	}
	state, epoch, err := t.unsaved(was)
	if err != nil {
		return err
	}
	p := &t.pending
	if p.place == nil {
		p.place = map[sojourn.ID]int{}
	}
	t.land(was, l, l.Held)
	p.place[l.ID] = len(p.saves)
	p.saves = append(p.saves, savedRow{state: state, epoch: epoch, now: l})
	t.noteChange(l)
	return nil
}

// saveStart is save after a claim.
func (t *tx) saveStart(was, l *live) error {
	if t.startFresh(was, l) {
		return nil
	}
	_, changed := t.pending.place[was.ID]
	err := t.save(was, l)
	if err == nil && !changed {
		t.pending.saves[len(t.pending.saves)-1].only = byClaim
	}
	return err
}

// unsaved removes the pending save of a row that changes once more, and returns its state and epoch
// in the database.
func (t *tx) unsaved(was *live) (sojourn.State, int64, error) {
	delete(t.leased, was.ID)
	i, ok := t.pending.place[was.ID]
	if !ok {
		return was.State, was.epoch, nil
	}
	before := t.pending.saves[i]
	if before.now.State != was.State || before.now.epoch != was.epoch {
		return 0, 0, errChanged(was.ID)
	}
	delete(t.pending.place, was.ID)
	t.pending.saves[i].now = nil
	return before.state, before.epoch, nil
}

// noteChange collects the events to publish after the commit.
func (t *tx) noteChange(l *live) {
	if l.State == sojourn.Ready || l.State == sojourn.Errored {
		t.ready[place{l.queue, l.kind}]++
	}
	if l.pollAt > 0 {
		t.polls = append(t.polls, poll{place{l.queue, l.kind}, l.pollAt})
	}
	if l.wakeAt < never && (t.due == 0 || l.wakeAt < t.due) {
		t.due = l.wakeAt
	}
}

func errChanged(id sojourn.ID) error {
	return raced("job " + strconv.FormatInt(int64(id), 10) + " changed inside a transaction")
}

// laterSheet adds a bulk of rows to the write set. wanted rows must change; 0 for any number.
func (t *tx) laterSheet(q string, wanted int, raced string, s *sheet) {
	t.laterBulk(q, wanted, raced, s.ids, s.columns()...)
}
