package txn

import (
	"encoding/json"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// QueueRow is a queue as it is stored. One that does not exist has the default settings.
type QueueRow struct {
	sojourn.QueueSettings
	Found        bool            // it exists
	Layout       int64           // number that rises when jobrow.LayoutOf the settings changes
	Reindexed    int64           // progress of the reindexing: the next id; -1 = done
	MaxWeight    int64           // the largest weight of its jobs
	Flow         rules.FlowState // the state of its gates
	SettingsText string          // the settings, as stored
	FlowText     string          // the state of its gates, as stored
}

// QueueGate has the columns of a queue that every claim needs.
type QueueGate struct {
	Paused bool
	Gated  bool  // a claim must read its gates
	Layout int64 // see QueueRow
}

// Statements of queues.
const (
	// QQueueGates reads the columns of a QueueGate.
	QQueueGates = `select q.name, q.paused, q.gated, q.shape from sj_queue q /*, each*/ where q.name = each($1 text)`
	// QQueueRows reads rows for ScanQueueRow.
	QQueueRows = `select q.name, q.settings, q.flow, q.shape, q.reshape, q.max_weight from sj_queue q /*, each*/ where q.name = each($1 text)`

	qLockedQueue = `select q.name from sj_queue q where q.name = $1 /*lock q*/`
	qFreeQueue   = `select name from sj_queue where name = $1 /*lock*/`
	qSeeQueue    = `insert into sj_queue (name, seq) select $1, coalesce((select max(seq) from sj_queue), 0) + 1 where 1 = 1
		on conflict (name) do nothing`
)

// ReadQueue reads the row of a queue.
func (t *Tx) ReadQueue(name string) (QueueRow, error) {
	found, err := t.ReadQueues(sqldb.Texts{name})
	return *found[name], err
}

// ReadQueues reads the rows of queues. The result has a row for each name, also for a queue that
// does not exist.
func (t *Tx) ReadQueues(names sqldb.Texts) (map[string]*QueueRow, error) {
	rows := missing(names)
	return rows, t.readEachBy(t.Peek, QQueueRows, func(r sqldb.Row) error { return t.ScanQueueRow(r, rows) }, names)
}

// missing returns rows for queues that do not exist.
func missing(names sqldb.Texts) map[string]*QueueRow {
	rows := make(map[string]*QueueRow, len(names))
	for _, name := range names {
		rows[name] = &QueueRow{Reindexed: -1}
	}
	return rows
}

// ScanQueueRow reads a row of QQueueRows into the one of that name.
func (t *Tx) ScanQueueRow(r sqldb.Row, rows map[string]*QueueRow) (err error) {
	q := rows[r.Text(0)]
	if q == nil {
		return nil // rows has the name as it was before StorableArgs
	}
	q.Found, q.SettingsText, q.FlowText, q.Layout, q.Reindexed, q.MaxWeight = true, r.Text(1), r.Text(2), r.Int(3), r.Int(4), r.Int(5)
	if q.FlowText != "" {
		if err := json.Unmarshal([]byte(q.FlowText), &q.Flow); err != nil {
			return err
		}
	}
	q.QueueSettings, err = t.Core.QueueSettings(r.Text(1))
	return err
}

// QueueSettings decodes stored settings. The result is shared and must not be changed.
func (s *Core) QueueSettings(text string) (q sojourn.QueueSettings, err error) {
	if text == "" {
		return q, nil
	}
	if known, ok := s.Caches.settings.Get(text); ok {
		return known, nil
	}
	if err = json.Unmarshal([]byte(text), &q); err == nil {
		s.Caches.settings.Put(text, q)
	}
	return q, err
}

// LockQueue locks the row of a queue: no other transaction can change its settings, or claim from
// it if its gates count. It waits if queues are locked in the order of their names. Out of that
// order it does not wait, so that there is no deadlock, and reports false if another transaction
// has the lock.
func (t *Tx) LockQueue(queue string) (bool, error) {
	if t.OwnsQueue(queue) {
		return true, nil
	}
	q := qLockedQueue
	if len(t.Queues.locked) > 0 && queue < slices.Max(t.Queues.locked) {
		q = qFreeQueue
	}
	got := false
	err := t.Read(q, func(sqldb.Row) error { got = true; return nil }, queue)
	if got {
		t.Queues.locked = append(t.Queues.locked, queue)
	}
	return got, err
}

// OwnsQueue reports whether no other transaction can claim from the queue until the end of this
// one.
func (t *Tx) OwnsQueue(queue string) bool {
	return !t.Concurrent() || slices.Contains(t.Queues.locked, queue)
}

// NoteQueue creates a queue that does not exist yet. It runs after the insert of its first job:
// ForgetQueue waits for transactions that have inserted jobs, so either it sees the job, or this
// statement creates the queue again.
func (t *Tx) NoteQueue(name string) error {
	_, err := t.Write(qSeeQueue, name)
	return err
}
