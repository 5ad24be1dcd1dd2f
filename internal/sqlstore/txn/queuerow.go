package txn

import (
	"encoding/json"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// QueueGate holds the columns of a queue that every claim needs.
type QueueGate struct {
	Paused, Gated bool
	Layout        int64
}

// missing returns empty rows for queues that were not read yet.
func missing(names sqldb.Texts) map[string]*QueueRow {
	rows := make(map[string]*QueueRow, len(names))
	for _, name := range names {
		rows[name] = &QueueRow{Reindexed: -1}
	}
	return rows
}

const QQueueGates = `select q.name, q.paused, q.gated, q.shape from sj_queue q /*, each*/ where q.name = each($1 text)`

const qFreeQueue = `select name from sj_queue where name = $1 /*lock*/`

const qLockedQueue = `select q.name from sj_queue q where q.name = $1 /*lock q*/`

const QQueueRows = `select q.name, q.settings, q.flow, q.shape, q.reshape, q.max_weight from sj_queue q /*, each*/ where q.name = each($1 text)`

const qSeeQueue = `insert into sj_queue (name, seq) select $1, coalesce((select max(seq) from sj_queue), 0) + 1 where 1 = 1
		on conflict (name) do nothing`

// QueueRow is a queue as it is stored. One that does not exist has the defaults.
type QueueRow struct {
	sojourn.QueueSettings
	Found        bool
	Layout       int64 // changes with the settings that determine the order of jobs
	Reindexed    int64 // progress of the reindexing: the next id; -1 = done
	MaxWeight    int64
	Flow         rules.FlowState
	SettingsText string // the settings, as stored
	FlowText     string
}

// LockQueue keeps other transactions from changing the queue, and from claiming if its gates count.
// It waits for them in the order of the names; out of that order it does not wait, and reports
// false if another transaction has the lock.
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

// OwnsQueue reports whether this transaction excludes other claims from the queue until its end.
func (t *Tx) OwnsQueue(queue string) bool {
	return !t.Concurrent() || slices.Contains(t.Queues.locked, queue)
}

func (t *Tx) ReadQueue(name string) (QueueRow, error) {
	found, err := t.ReadQueues(sqldb.Texts{name})
	return *found[name], err
}

// ReadQueues has a row for each name.
func (t *Tx) ReadQueues(names sqldb.Texts) (map[string]*QueueRow, error) {
	rows := missing(names)
	return rows, t.readEachBy(t.Peek, QQueueRows, func(r sqldb.Row) error { return t.ScanQueueRow(r, rows) }, names)
}

func (t *Tx) ScanQueueRow(r sqldb.Row, rows map[string]*QueueRow) (err error) {
	q := rows[r.Text(0)]
	if q == nil {
		return nil // the name that was asked for cannot be stored
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

// NoteQueue creates a queue that does not exist yet. It runs after the job's insert, for whose
// transaction ForgetQueue waits: so either the job is seen there, or the queue is missed here.
func (t *Tx) NoteQueue(name string) error {
	_, err := t.Write(qSeeQueue, name)
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
