package sqlstore

import (
	"encoding/json"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// door holds the columns of a queue that every claim needs.
type door struct {
	paused, gated bool
	shape         int64
}

// missing returns empty rows for queues that were not read yet.
func missing(names sqldb.Texts) map[string]*queueRow {
	rows := make(map[string]*queueRow, len(names))
	for _, name := range names {
		rows[name] = &queueRow{reshape: -1}
	}
	return rows
}

const qDoors = `select q.name, q.paused, q.gated, q.shape from sj_queue q /*, each*/ where q.name = each($1 text)`

const qFreeQueue = `select name from sj_queue where name = $1 /*lock*/`

const qLockedQueue = `select q.name from sj_queue q where q.name = $1 /*lock q*/`

const qQueueRows = `select q.name, q.settings, q.flow, q.shape, q.reshape, q.max_weight from sj_queue q /*, each*/ where q.name = each($1 text)`

const qSeeQueue = `insert into sj_queue (name, seq) select $1, coalesce((select max(seq) from sj_queue), 0) + 1 where 1 = 1
		on conflict (name) do nothing`

// queueRow is a queue as it is stored. One that does not exist has the defaults.
type queueRow struct {
	sojourn.QueueSettings
	found     bool
	shape     int64 // changes with the settings that determine the order of jobs
	reshape   int64 // progress of the reindexing: the next id; -1 = done
	maxWeight int64
	flow      rules.FlowState
	text      string // the settings, as stored
	flowText  string
}

// lockQueue keeps other transactions from changing the queue, and from claiming if its gates count.
// It waits for them in the order of the names; out of that order it does not wait, and reports
// false if another transaction has the lock.
func (t *tx) lockQueue(queue string) (bool, error) {
	if t.owns(queue) {
		return true, nil
	}
	q := qLockedQueue
	if len(t.locked) > 0 && queue < slices.Max(t.locked) {
		q = qFreeQueue
	}
	got := false
	err := t.query(q, func(sqldb.Row) error { got = true; return nil }, queue)
	if got {
		t.locked = append(t.locked, queue)
	}
	return got, err
}

// owns reports whether this transaction excludes other claims from the queue until its end.
func (t *tx) owns(queue string) bool { return !t.concurrent() || slices.Contains(t.locked, queue) }

func (t *tx) queueRow(name string) (queueRow, error) {
	found, err := t.queueRows(sqldb.Texts{name})
	return *found[name], err
}

// queueRows has a row for each name.
func (t *tx) queueRows(names sqldb.Texts) (map[string]*queueRow, error) {
	rows := missing(names)
	return rows, t.eachBy(t.peek, qQueueRows, func(r sqldb.Row) error { return t.scanQueueRow(r, rows) }, names)
}

func (t *tx) scanQueueRow(r sqldb.Row, rows map[string]*queueRow) (err error) {
	q := rows[r.Text(0)]
	if q == nil {
		return nil // the name that was asked for cannot be stored
	}
	q.found, q.text, q.flowText, q.shape, q.reshape, q.maxWeight = true, r.Text(1), r.Text(2), r.Int(3), r.Int(4), r.Int(5)
	if q.flowText != "" {
		if err := json.Unmarshal([]byte(q.flowText), &q.flow); err != nil {
			return err
		}
	}
	q.QueueSettings, err = t.s.queueSettings(r.Text(1))
	return err
}

// seeQueue creates a queue that does not exist yet. It runs after the job's insert, for whose
// transaction ForgetQueue waits: so either the job is seen there, or the queue is missed here.
func (t *tx) seeQueue(name string) error {
	_, err := t.exec(qSeeQueue, name)
	return err
}

// queueSettings decodes stored settings. The result is shared and must not be changed.
func (s *core) queueSettings(text string) (q sojourn.QueueSettings, err error) {
	if text == "" {
		return q, nil
	}
	if known, ok := s.settings.get(text); ok {
		return known, nil
	}
	if err = json.Unmarshal([]byte(text), &q); err == nil {
		s.settings.put(text, q)
	}
	return q, err
}
