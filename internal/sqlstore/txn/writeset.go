package txn

import (
	"cmp"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// WriteSet is the write set of a transaction: writes that are decided but not sent, so that all
// requests of the transaction share one statement per table. The delay is invisible, because Flush
// precedes every other statement of the transaction, read or write
// (docs/internals/engine.md#unit-of-work).
type WriteSet struct {
	Inserts  []PendingInsert
	Saves    []savedRow         // in their order; see Save
	SaveOf   map[sojourn.ID]int // job → its row in Saves
	Ended    []EndedRow
	History  []HistoryRow
	Disposed [3]sqldb.Ints // jobs whose responses change: by QDispose, QTakenLate, QAttachedLate
	late     []Statement   // all other statements, after these
}

// savedRow is a live row to be updated.
type savedRow struct {
	state sojourn.State // in the database
	epoch int64         // in the database
	now   *jobrow.Row   // nil: it has changed once more, see Unsaved
	Only  jobrow.Change // what has changed it
}

// EndedRow is a live row to be moved to sj_final.
type EndedRow struct {
	State      sojourn.State // in the database
	Epoch      int64         // in the database
	Writer     int64         // the mark of the row if it is cached and was not read; else 0
	Now        *jobrow.Row
	Held       int64 // until when it keeps its key, microseconds; 0 = it does not
	Result     []byte
	ResultType string
	Awaited    bool       // it has keys of its waits
	Last       HistoryRow // its last row of the history, which is stored in sj_final
}

// HistoryRow is a row of the history, as it is stored.
type HistoryRow struct {
	Ints   [11]int64 // job, seq, generation, attempt, epoch, purpose, state, began, ended, stage, failure group
	Texts  [4]string // worker, outcome, reason, by whom
	Failed []byte    // the error
}

// None reports whether there is no row: each one has an outcome.
func (r *HistoryRow) None() bool { return r.Texts[1] == "" }

func (p *WriteSet) empty() bool {
	return len(p.Inserts)+len(p.Saves)+len(p.Ended)+len(p.History)+len(p.Disposed[0])+len(p.Disposed[1])+len(p.Disposed[2])+len(p.late) == 0
}

// Releases reports whether the write set changes responses that a job has taken.
func (p *WriteSet) Releases(id sojourn.ID) bool {
	return slices.Contains(p.Disposed[0], int64(id)) || slices.Contains(p.Disposed[1], int64(id))
}

// responseUpdates are the statements for WriteSet.Disposed.
var responseUpdates = [3]string{QDispose, QTakenLate, QAttachedLate}

// Statement is a pending statement. If it does not change the wanted number of rows, the
// transaction has lost a race: Raced says with which change.
type Statement struct {
	sqldb.Statement
	Raced string
}

// Add adds a statement to the write set. wanted rows must change; 0: any number. If others change,
// the error is Raced(raced).
func (t *Tx) Add(q string, wanted int, raced string, args ...any) {
	t.Writes.late = append(t.Writes.late, Statement{sqldb.Statement{Text: q, Args: args, Wanted: int64(wanted)}, raced})
}

// AddBulk is Add for a bulk statement. Its rows are columns of one length.
func (t *Tx) AddBulk(q string, wanted int, raced string, first sqldb.Ints, more ...sqldb.Column) {
	if len(first) > 0 {
		t.Writes.late = append(t.Writes.late, Statement{sqldb.Statement{Text: q, Rows: append([]sqldb.Column{first}, more...), Wanted: int64(wanted)}, raced})
	}
}

// AddColumns is AddBulk for rows that were collected in Columns.
func (t *Tx) AddColumns(q string, wanted int, raced string, s *jobrow.Columns) {
	t.AddBulk(q, wanted, raced, s.IDs, s.All()...)
}

// collect empties the write set and returns its statements. A statement has at most one row per
// job, so the order among the statements does not matter. Locks are taken in the order of lock.go:
// live rows, which were locked when they were read, then keys.
func (t *Tx) collect() []Statement {
	if t.Writes.empty() && t.Responses.empty() && !(t.ending && (t.Counts.Any() || t.Stats.Any() || t.Transitions.Seen)) {
		return nil
	}
	p := t.Writes
	t.Writes = WriteSet{}
	if t.HoldInserts {
		t.Writes.Inserts, p.Inserts = p.Inserts, nil
		if p.empty() && t.Responses.empty() {
			return nil
		}
	}
	t.collectInbox()
	for i, q := range responseUpdates {
		if len(p.Disposed[i]) > 0 {
			t.Add(q, 0, "", p.Disposed[i])
		}
	}
	t.flushSaves(p.Saves)
	t.flushEnded(p.Ended)
	t.flushHistory(p.History)
	late := append(t.Writes.late, p.late...)
	t.Writes.late = nil
	t.flushInserts(p.Inserts)
	if t.ending {
		WriteCounts(t)
		writeStats(t)
		writeTransitions(t)
	}
	late = append(late, t.Writes.late...)
	t.Writes = WriteSet{Inserts: t.Writes.Inserts}
	t.Wrote = true
	return late
}

// Flush sends the write set, in one message where the database supports that.
func (t *Tx) Flush() error { return t.flushWith(nil) }

// flushWith sends the write set and then reads, in one message.
func (t *Tx) flushWith(reads []sqldb.Statement) error {
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
			return Raced(st.Raced)
		}
	}
	return nil
}

// commitWith sends the write set, validates cached reads and assumed settings, and commits: all in
// one message.
func (t *Tx) commitWith(c sqldb.Committer) error {
	var late []Statement
	if t.Cache.Validators != nil {
		late = append(late, t.Cache.Validators.First)
	}
	late = append(late, t.collect()...)
	switch {
	case t.Cache.Validators.OfQueues():
		late = append(late, t.Cache.Validators.Last)
	case t.Wrote:
		late = append(late, t.stillAssumed()...)
	}
	if t.Wrote {
		late = append(late, t.readMark()...)
	}
	batch := make([]sqldb.Statement, len(late))
	for i, st := range late {
		batch[i] = st.Statement
	}
	t.render(batch)
	if s, ok := c.(sqldb.Silencer); ok && t.Silent && !t.Wrote {
		s.Silent()
	}
	if err := c.Commit(batch); err != nil || t.Cache.Validators == nil {
		return err
	}
	return t.ConfirmClock()
}

// render replaces the shared texts of statements by those of this database, and makes their
// arguments storable.
func (t *Tx) render(batch []sqldb.Statement) {
	for i := range batch {
		jobrow.StorableArgs(batch[i].Args)
		jobrow.StorableColumns(batch[i].Rows)
		batch[i].Text = t.Core.sql(batch[i].Text)
	}
}

// send runs statements together, in one message if the connection supports it.
func (t *Tx) send(batch []sqldb.Statement) error {
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

// ReadAll runs queries together after a flush, in one message where the database supports that. A
// statement with Rows runs for every row of them.
func (t *Tx) ReadAll(reads []sqldb.Statement) error {
	if _, ok := t.Conn.(sqldb.Sender); ok {
		return t.flushWith(reads)
	}
	for _, st := range reads {
		var err error
		if st.Rows != nil {
			err = t.ReadEach(st.Text, st.Each, st.Rows...)
		} else {
			err = t.Read(st.Text, st.Each, st.Args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changedInside is the error if a row differs from the row that was read. A live row was locked
// when it was read, so this is an assertion.
const changedInside = "a job changed inside a transaction"

// flushSaves adds the updates of rows.
func (t *Tx) flushSaves(all []savedRow) {
	var of [jobrow.ByAnswer + 1][]savedRow
	for _, r := range all {
		if r.now != nil {
			of[r.Only] = append(of[r.Only], r)
			t.Cache.Changed = append(t.Cache.Changed, r.now)
			t.Events.Dead++
		}
	}
	for only, rows := range of {
		t.addUpdate(&jobrow.Updates[only], rows)
	}
}

// Statements of ended jobs.
const (
	qDeleteLive = `delete from sj_live /*using each*/ where id = each($1 bigint) and state = each($2 bigint) and epoch = each($3 bigint) /*hit id*/`
	qAddFinal   = `insert into sj_final (id, state, priority, weight, run_at_us, generation, epoch, attempt, failures, crashes, history, has_data, finished_us,
		step_epoch, purpose, began_us, stage, failure, queue, kind, key, worker, outcome, by_whom, reason, result_type, error, result)
		rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint, $10 bigint, $11 bigint, $12 bigint, $13 bigint,
		$14 bigint, $15 bigint, $16 bigint, $17 bigint, $18 bigint, $19 text, $20 text, $21 text, $22 text, $23 text, $24 text, $25 text, $26 text, $27 bytea, $28 bytea)`
	qFreeKey = `update sj_key set live = 0, held_until_us = each($2 bigint) /*from each*/
		where kind = each($3 text) and key = each($4 text) and job = each($1 bigint)`
	qFreeAwaited = `update sj_key set live = 0 where job in (ints($1)) and own = 0`
)

// flushEnded moves jobs out of the hot table, in the transaction that ends them, with the last rows
// of their histories, and frees their keys.
func (t *Tx) flushEnded(rows []EndedRow) {
	if len(rows) == 0 {
		return
	}
	n := len(rows)
	t.Events.Dead += n
	final := jobrow.NewColumns(n, 17, 8, 2)
	var awaited sqldb.Ints
	for i := range rows {
		r := &rows[i]
		l := r.Now
		t.Cache.Changed = append(t.Cache.Changed, l)
		final.Row(int64(l.ID)).Ints(int64(l.State), int64(l.Priority), int64(l.Weight), l.RunAt, int64(l.Generation), l.Epoch, int64(l.Attempt),
			int64(l.Failures), int64(l.Crashes), int64(l.History), jobrow.Bit(l.HasData), r.Last.Ints[8], r.Last.Ints[4], r.Last.Ints[5], r.Last.Ints[7], int64(l.Stage), r.Last.Ints[10])
		final.Strings(l.Queue, l.Kind, l.Key, l.Worker, r.Last.Texts[1], r.Last.Texts[3], r.Last.Texts[2], r.ResultType).Bytes(r.Last.Failed, r.Result)
		if r.Awaited {
			awaited = append(awaited, int64(l.ID))
		}
	}
	t.deleteLive(rows)
	t.AddColumns(qAddFinal, 0, "", final)
	t.trimHistory(n, func(i int) *HistoryRow { return &rows[i].Last })
	t.freeKeys(rows)
	if len(awaited) > 0 {
		t.Add(qFreeAwaited, 0, "", awaited)
	}
}

// deleteLive deletes the rows of ended jobs, if they are still as they were read or cached.
func (t *Tx) deleteLive(rows []EndedRow) {
	slices.SortFunc(rows, func(a, b EndedRow) int { return cmp.Compare(a.Now.ID, b.Now.ID) }) // cached rows are locked only now
	read, cached := jobrow.NewColumns(len(rows), 2, 0, 0), jobrow.NewColumns(len(rows), 3, 0, 0)
	for i := range rows {
		if r := &rows[i]; r.Writer > 0 {
			cached.Row(int64(r.Now.ID)).Ints(int64(r.State), r.Epoch, r.Writer)
		} else {
			read.Row(int64(r.Now.ID)).Ints(int64(r.State), r.Epoch)
		}
	}
	t.AddColumns(qDeleteLive, len(read.IDs), changedInside, read)
	t.AddColumns(TextDeleteCached, len(cached.IDs), "a job has changed since it was claimed", cached)
}

// freeKeys frees the own keys of ended jobs, in one order everywhere.
func (t *Tx) freeKeys(rows []EndedRow) {
	var keyed []EndedRow
	for _, r := range rows {
		if r.Now.Key != "" {
			keyed = append(keyed, r)
		}
	}
	if len(keyed) == 0 {
		return
	}
	slices.SortFunc(keyed, func(a, b EndedRow) int {
		return cmp.Or(cmp.Compare(a.Now.Kind, b.Now.Kind), cmp.Compare(a.Now.Key, b.Now.Key))
	})
	s := jobrow.NewColumns(len(keyed), 1, 2, 0)
	for _, r := range keyed {
		s.Row(int64(r.Now.ID)).Ints(r.Held).Strings(r.Now.Kind, r.Now.Key)
	}
	t.AddColumns(qFreeKey, 0, "", s)
}

// Statements of the history.
const (
	qAddHistory = `insert into sj_history (job, seq, generation, attempt, epoch, purpose, state, began_us, ended_us, stage, failure, worker, outcome, reason, by_whom, error)
	rows($1 bigint, $2 bigint, $3 bigint, $4 bigint, $5 bigint, $6 bigint, $7 bigint, $8 bigint, $9 bigint, $10 bigint, $11 bigint, $12 text, $13 text, $14 text, $15 text, $16 bytea)`
	// qTrimHistory deletes the one entry in excess of the first and the newest sojourn.MaxHistory.
	qTrimHistory = `delete from sj_history /*using each*/ where job = each($1 bigint) and seq = each($2 bigint)`
)

// flushHistory adds rows to the history.
func (t *Tx) flushHistory(rows []HistoryRow) {
	if len(rows) == 0 {
		return
	}
	defer t.trimHistory(len(rows), func(i int) *HistoryRow { return &rows[i] })
	s := jobrow.NewColumns(len(rows), 10, 4, 1)
	for i := range rows {
		r := &rows[i]
		s.Row(r.Ints[0]).Ints(r.Ints[1:]...).Strings(r.Texts[:]...).Bytes(r.Failed)
	}
	t.AddColumns(qAddHistory, 0, "", s)
}

// trimHistory keeps the history of jobs within its bound, in the transaction that adds an entry.
// Most jobs have far fewer, and need no statement.
func (t *Tx) trimHistory(n int, row func(i int) *HistoryRow) {
	var s *jobrow.Columns
	for i := range n {
		r := row(i)
		if drop := r.Ints[1] - sojourn.MaxHistory; drop > 1 {
			if s == nil {
				s = jobrow.NewColumns(n, 1, 0, 0)
			}
			s.Row(r.Ints[0]).Ints(drop)
		}
	}
	if s != nil {
		t.AddColumns(qTrimHistory, 0, "", s)
	}
}
