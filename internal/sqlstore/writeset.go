package sqlstore

import (
	"cmp"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// pending is the write set of a transaction: writes that are decided but not sent, so that all
// requests of the transaction share one statement per table. The delay is invisible: flush precedes
// every other statement of the transaction, read or write.
type pending struct {
	fresh   []freshRow
	saves   []savedRow
	place   map[sojourn.ID]int // job → its row in saves
	ended   []endedRow
	history []historyRow
	hands   [3]sqldb.Ints // jobs whose responses change, for each of putDowns
	late    []statement   // all other statements, after these
}

// savedRow is a live row to be updated, where state and epoch are still those that were read.
type savedRow struct {
	state sojourn.State
	epoch int64
	now   *live
	only  changed
}

// endedRow is a live row to be moved to sj_final.
type endedRow struct {
	state      sojourn.State // as read
	epoch      int64
	writer     int64 // the mark of the row if it is cached and was not read; else 0
	now        *live
	held       int64
	result     []byte
	resultType string
	awaited    bool       // it has keys of its waits
	last       historyRow // with the end's time, reason and error, even if it is not stored in the history
}

// historyRow is a row of the history.
type historyRow struct {
	ints   [9]int64  // job, seq, generation, attempt, epoch, purpose, state, began, ended
	texts  [4]string // worker, outcome, reason, by whom
	failed []byte
}

func (r *historyRow) none() bool { return r.texts[1] == "" }

func (p *pending) empty() bool {
	return len(p.fresh)+len(p.saves)+len(p.ended)+len(p.history)+len(p.hands[0])+len(p.hands[1])+len(p.hands[2])+len(p.late) == 0
}

// putDowns change the responses of jobs; pending.hands has the jobs of each.
var putDowns = [3]string{qPutDown, qHandLate, qKeptLate}

// statement is a pending statement. If it does not change the wanted number of rows, another
// transaction was faster.
type statement struct {
	sqldb.Statement
	raced string
}

// later adds a statement to the write set. wanted rows must change; 0 for any number.
func (t *tx) later(q string, wanted int, raced string, args ...any) {
	t.pending.late = append(t.pending.late, statement{sqldb.Statement{Text: q, Args: args, Wanted: int64(wanted)}, raced})
}

// laterBulk adds a bulk statement to the write set. wanted rows must change; 0 for any number.
func (t *tx) laterBulk(q string, wanted int, raced string, first sqldb.Ints, more ...sqldb.Column) {
	if len(first) > 0 {
		t.pending.late = append(t.pending.late, statement{sqldb.Statement{Text: q, Rows: append([]sqldb.Column{first}, more...), Wanted: int64(wanted)}, raced})
	}
}

// collect builds statements from the write set. A statement has at most one row per job, so the
// order among the statements does not matter. Locks are taken in the order of lock.go: live rows,
// which were locked when they were read, then keys.
func (t *tx) collect() []statement {
	if t.pending.empty() && t.inbox.empty() {
		return nil
	}
	p := t.pending
	t.pending = pending{}
	if t.holding {
		t.pending.fresh, p.fresh = p.fresh, nil
		if p.empty() && t.inbox.empty() {
			return nil
		}
	}
	t.collectInbox()
	for i, q := range putDowns {
		if len(p.hands[i]) > 0 {
			t.later(q, 0, "", p.hands[i])
		}
	}
	t.flushSaves(p.saves)
	t.flushEnded(p.ended)
	t.flushHistory(p.history)
	late := append(t.pending.late, p.late...)
	t.pending.late = nil
	t.flushFresh(p.fresh)
	late = append(late, t.pending.late...)
	t.pending = pending{fresh: t.pending.fresh}
	t.wrote = true
	return late
}

// flush sends the write set, in one message.
func (t *tx) flush() error { return t.flushWith(nil) }

// flushWith sends the write set and then reads, in one message.
func (t *tx) flushWith(reads []sqldb.Statement) error {
	late := t.collect()
	if len(late)+len(reads) == 0 {
		return nil
	}
	batch := make([]sqldb.Statement, len(late), len(late)+len(reads))
	for i, st := range late {
		batch[i] = st.Statement
	}
	if err := t.send(append(batch, reads...)); err != nil {
		return err
	}
	for i, st := range late {
		if st.Wanted > 0 && batch[i].Changed != st.Wanted {
			return raced(st.raced)
		}
	}
	return nil
}

// commitWith sends the write set, validates the settings and cached reads that the transaction
// relied on, and commits: all in one message.
func (t *tx) commitWith(c sqldb.Committer) error {
	var late []statement
	if t.guessed != nil {
		late = append(late, t.guessed.first)
	}
	late = append(late, t.collect()...)
	switch {
	case t.guessed.ofQueues():
		late = append(late, t.guessed.last)
	case t.wrote:
		late = append(late, t.stillRelied()...)
	}
	if t.wrote {
		late = append(late, t.noteWriter()...)
	}
	batch := make([]sqldb.Statement, len(late))
	for i, st := range late {
		batch[i] = st.Statement
	}
	t.render(batch)
	if s, ok := c.(sqldb.Silencer); ok && t.silent && !t.wrote {
		s.Silent()
	}
	if err := c.Commit(batch); err != nil || t.guessed == nil {
		return err
	}
	return t.confirmClock()
}

func (t *tx) render(batch []sqldb.Statement) {
	for i := range batch {
		storableArgs(batch[i].Args)
		storableColumns(batch[i].Rows)
		batch[i].Text = t.s.sql(batch[i].Text)
	}
}

// send runs statements together, in one message if the connection supports it.
func (t *tx) send(batch []sqldb.Statement) error {
	t.render(batch)
	if c, ok := t.Conn.(sqldb.Sender); ok {
		return c.Send(batch)
	}
	for i := range batch {
		st := &batch[i]
		var err error
		switch {
		case st.Rows != nil:
			err = t.Bulk(st.Text, func(int64) { st.Changed++ }, st.Rows[0].(sqldb.Ints), st.Rows[1:]...)
		case st.Each != nil:
			err = t.Query(st.Text, st.Each, st.Args...)
		default:
			st.Changed, err = t.Exec(st.Text, st.Args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readAll runs queries together. Those with Rows run for every row.
func (t *tx) readAll(reads []sqldb.Statement) error {
	if _, ok := t.Conn.(sqldb.Sender); ok {
		return t.flushWith(reads)
	}
	for _, st := range reads {
		var err error
		if st.Rows != nil {
			err = t.each(st.Text, st.Each, st.Rows...)
		} else {
			err = t.query(st.Text, st.Each, st.Args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) flushSaves(all []savedRow) {
	var of [byAnswer + 1][]savedRow
	for _, r := range all {
		if r.now != nil {
			of[r.only] = append(of[r.only], r)
			t.changed = append(t.changed, r.now)
			t.dead++
		}
	}
	for only, rows := range of {
		t.laterUpdate(&saves[only], rows)
	}
}

// changedInside is the error if a row differs from the row that was read. A live row was locked
// when it was read, so for live rows this is an assertion.
const changedInside = "a job changed inside a transaction"

const (
	qDeleteLive = `delete from sj_live /*using each*/ where id = each($1 bigint) and state = each($2 bigint) and epoch = each($3 bigint) /*hit id*/`
	qAddFinal   = `insert into sj_final (id, state, priority, weight, run_at_us, generation, epoch, attempt, failures, crashes, history, has_data, finished_us,
		step_epoch, purpose, began_us, queue, kind, key, worker, outcome, by_whom, reason, result_type, error, result)
		rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint, $10 bigint, $11 bigint, $12 bigint, $13 bigint,
		$14 bigint, $15 bigint, $16 bigint, $17 text, $18 text, $19 text, $20 text, $21 text, $22 text, $23 text, $24 text, $25 bytea, $26 bytea)`
	qFreeKey = `update sj_key set live = 0, held_until_us = each($2 bigint) /*from each*/
		where kind = each($3 text) and key = each($4 text) and job = each($1 bigint)`
	qFreeAwaited = `update sj_key set live = 0 where job in (ints($1)) and own = 0`
)

// flushEnded moves jobs out of the hot table, in the transaction that ends them, with the last rows
// of their histories, and frees their keys.
func (t *tx) flushEnded(rows []endedRow) {
	if len(rows) == 0 {
		return
	}
	n := len(rows)
	t.dead += n
	final := newSheet(n, 15, 8, 2)
	var awaited sqldb.Ints
	for i := range rows {
		r := &rows[i]
		l := r.now
		t.changed = append(t.changed, l)
		final.row(int64(l.ID)).ints(int64(l.State), int64(l.priority), int64(l.Weight), l.runAt, int64(l.generation), l.epoch, int64(l.Attempt),
			int64(l.Failures), int64(l.Crashes), int64(l.history), bit(l.hasData), r.last.ints[8], r.last.ints[4], r.last.ints[5], r.last.ints[7])
		final.strings(l.queue, l.kind, l.key, l.worker, r.last.texts[1], r.last.texts[3], r.last.texts[2], r.resultType).bytes(r.last.failed, r.result)
		if r.awaited {
			awaited = append(awaited, int64(l.ID))
		}
	}
	t.deleteLive(rows)
	t.laterSheet(qAddFinal, 0, "", final)
	t.trimHistory(n, func(i int) *historyRow { return &rows[i].last })
	t.freeKeys(rows)
	if len(awaited) > 0 {
		t.later(qFreeAwaited, 0, "", awaited)
	}
}

// deleteLive deletes the rows of ended jobs, matching the row that was read or cached.
func (t *tx) deleteLive(rows []endedRow) {
	slices.SortFunc(rows, func(a, b endedRow) int { return cmp.Compare(a.now.ID, b.now.ID) }) // cached rows are locked only now
	read, trusted := newSheet(len(rows), 2, 0, 0), newSheet(len(rows), 3, 0, 0)
	for i := range rows {
		if r := &rows[i]; r.writer > 0 {
			trusted.row(int64(r.now.ID)).ints(int64(r.state), r.epoch, r.writer)
		} else {
			read.row(int64(r.now.ID)).ints(int64(r.state), r.epoch)
		}
	}
	t.laterSheet(qDeleteLive, len(read.ids), changedInside, read)
	t.laterSheet(TextDeleteTrusted, len(trusted.ids), "a job has changed since it was claimed", trusted)
}

// freeKeys frees the jobs' own keys, in one order everywhere.
func (t *tx) freeKeys(rows []endedRow) {
	var keyed []endedRow
	for _, r := range rows {
		if r.now.key != "" {
			keyed = append(keyed, r)
		}
	}
	if len(keyed) == 0 {
		return
	}
	slices.SortFunc(keyed, func(a, b endedRow) int {
		return cmp.Or(cmp.Compare(a.now.kind, b.now.kind), cmp.Compare(a.now.key, b.now.key))
	})
	s := newSheet(len(keyed), 1, 2, 0)
	for _, r := range keyed {
		s.row(int64(r.now.ID)).ints(r.held).strings(r.now.kind, r.now.key)
	}
	t.laterSheet(qFreeKey, 0, "", s)
}

const qAddHistory = `insert into sj_history (job, seq, generation, attempt, epoch, purpose, state, began_us, ended_us, worker, outcome, reason, by_whom, error)
	rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint, $10 text, $11 text, $12 text, $13 text, $14 bytea)`

// qTrimHistory deletes the one entry in excess of the first and the newest MaxHistory.
const qTrimHistory = `delete from sj_history /*using each*/ where job = each($1 bigint) and seq = each($2 bigint)`

// trimHistory keeps the history of jobs within its bound, in the transaction that adds an entry.
// Most jobs have far fewer, and need no statement.
func (t *tx) trimHistory(n int, row func(i int) *historyRow) {
	var s *sheet
	for i := range n {
		r := row(i)
		if drop := r.ints[1] - sojourn.MaxHistory; drop > 1 {
			if s == nil {
				s = newSheet(n, 1, 0, 0)
			}
			s.row(r.ints[0]).ints(drop)
		}
	}
	if s != nil {
		t.laterSheet(qTrimHistory, 0, "", s)
	}
}

func (t *tx) flushHistory(rows []historyRow) {
	if len(rows) == 0 {
		return
	}
	defer t.trimHistory(len(rows), func(i int) *historyRow { return &rows[i] })
	s := newSheet(len(rows), 8, 4, 1)
	for i := range rows {
		r := &rows[i]
		s.row(r.ints[0]).ints(r.ints[1:]...).strings(r.texts[:]...).bytes(r.failed)
	}
	t.laterSheet(qAddHistory, 0, "", s)
}
