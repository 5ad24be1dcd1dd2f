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
	t.insertWaiting(waiting)
	t.insertStarted(started)
}

const (
	qInsertLive = `insert into sj_live (id, state, r1, r2, priority, weight, run_at_us, wake_at_us, generation, epoch, deadline_us, history, has_data,
	updated_us, queue, kind, key, worker, lane) rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint,
	$10 bigint, $11 bigint, $12 bigint, $13 bigint, $14 bigint, $15 text, $16 text, $17 text, $18 text, $19 text)`

	// The insert of qInsertLive with the changes of qSaveStart.
	qInsertStarted = `insert into sj_live (id, state, r1, r2, priority, weight, run_at_us, wake_at_us, generation, epoch, deadline_us, history, has_data,
	updated_us, purpose, lease_until_us, lease_us, began_us, attempt, attempt_open, claimed, retry_handler, held, given, timeout_at_us, queue, kind, key, worker, lane)
	rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint, $10 bigint, $11 bigint, $12 bigint,
	$13 bigint, $14 bigint, $15 bigint, $16 bigint, $17 bigint, $18 bigint, $19 bigint, $20 bigint, $21 bigint, $22 bigint, $23 bigint, $24 bigint,
	$25 bigint, $26 text, $27 text, $28 text, $29 text, $30 text)`
)

// insertLive adds rows of jobs that were not claimed in their generation and have their rank and
// lane.
func (t *tx) insertLive(ls []*live) {
	for _, l := range ls {
		l.updated = max(t.now, l.updated)
		l.wake()
		t.noteChange(l)
	}
	t.insertWaiting(ls)
}

func (t *tx) insertWaiting(ls []*live) {
	n := len(ls)
	if n == 0 {
		return
	}
	s := newSheet(n, 13, 5, 0)
	for _, l := range ls {
		s.row(int64(l.ID)).ints(int64(l.State), l.r1, l.r2, int64(l.priority), int64(l.Weight), l.runAt, l.wakeAt, int64(l.generation),
			l.epoch, l.deadline, int64(l.history), bit(l.hasData), l.updated).strings(l.queue, l.kind, l.key, l.worker, l.lane)
	}
	t.laterSheet(qInsertLive, 0, "", s)
}

func (t *tx) insertStarted(ls []*live) {
	n := len(ls)
	if n == 0 {
		return
	}
	s := newSheet(n, 24, 5, 0)
	for _, l := range ls {
		s.row(int64(l.ID)).ints(int64(l.State), l.r1, l.r2, int64(l.priority), int64(l.Weight), l.runAt, l.wakeAt, int64(l.generation),
			l.epoch, l.deadline, int64(l.history), bit(l.hasData), l.updated, int64(l.Purpose), l.leaseUntil, l.leaseUs, l.began, int64(l.Attempt),
			bit(l.AttemptOpen), bit(l.Claimed), bit(l.RetryHandler), int64(l.Held), bit(l.Given), l.timeoutAt).strings(l.queue, l.kind, l.key, l.worker, l.lane)
	}
	t.laterSheet(qInsertStarted, 0, "", s)
}
