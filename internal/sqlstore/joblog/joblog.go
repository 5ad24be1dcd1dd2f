// Package joblog stores and reads the lines of a job's own log: those of its handler, which come
// with the writes under its lease, and those of operators.
package joblog

import (
	"context"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/joblog"
)

const (
	qLast    = `select coalesce(max(seq), 0) from sj_log where job = $1`
	qAdd     = `insert into sj_log (job, seq, at_us, attempt, level, text, dropped, by_whom) values ($1, $2, $3, $4, $5, $6, $7, $8)`
	qDropped = `select coalesce(sum(1 + dropped), 0) from sj_log where job = $1 and seq > 1 and seq <= $2`
	qTrim    = `delete from sj_log where job = $1 and seq > 1 and seq <= $2`
	// qNoteDropped: the numbers have gaps only where lines were dropped before, so the line after
	// upTo exists.
	qNoteDropped = `update sj_log set dropped = dropped + $1 where job = $2 and seq = $3`
	// QForget deletes the log of a job that is deleted.
	QForget = `delete from sj_log where job = $1`
	// Query reads a job's log for Scan.
	Query = `select at_us, attempt, level, text, by_whom, dropped from sj_log where job = $1 order by seq`
)

// Scan reads a row of Query.
func Scan(r sqldb.Row) sojourn.LogLine {
	return sojourn.LogLine{At: jobrow.Time(r.Int(0)), Attempt: int32(r.Int(1)), Level: r.Text(2), Text: r.Text(3), By: r.Text(4), Dropped: r.Int(5)}
}

// Add appends lines of an attempt to a job's log, which keeps the first and the newest 99. A
// handler passes no names: by is the operator, or "". Two transactions that add lines to one job at
// once draw the same number; then the database refuses one, and it runs again.
func Add(t *txn.Tx, id sojourn.ID, attempt int32, by string, lines []sojourn.LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	last, err := t.ReadInt(qLast, int64(id))
	if err != nil {
		return err
	}
	for _, line := range lines {
		last++
		_, err := t.Write(qAdd, int64(id), last, t.Now, int64(attempt), sojourn.Cut(line.Level, sojourn.MaxReason), sojourn.Cut(line.Text, sojourn.MaxProgress), line.Dropped, by)
		if err != nil {
			return err
		}
	}
	return trim(t, id, last-(sojourn.MaxLogLines-1))
}

// trim drops the lines from the second to number upTo. The next line records how many were
// dropped.
func trim(t *txn.Tx, id sojourn.ID, upTo int64) error {
	dropped, err := t.ReadInt(qDropped, int64(id), upTo)
	if err != nil || dropped == 0 {
		return err
	}
	if _, err := t.Write(qTrim, int64(id), upTo); err != nil {
		return err
	}
	_, err = t.Write(qNoteDropped, dropped, int64(id), upTo+1)
	return err
}

// Writer writes lines of operators. Safe for concurrent use.
type Writer struct{ core *txn.Core }

// NewWriter makes the writer of a store.
func NewWriter(c *txn.Core) *Writer { return &Writer{c} }

// note is a line of an operator for a job.
type note struct {
	id     sojourn.ID
	line   joblog.Line
	caller *access.Caller
}

// WriteLog adds a line of an operator to the log of a job; see joblog.Store. The row of the job is
// locked, so that it is neither deleted meanwhile nor changes its queue, but not written: caches of
// running jobs stay valid.
func (w *Writer) WriteLog(ctx context.Context, id sojourn.ID, l joblog.Line) (sojourn.LogLine, error) {
	if err := l.Validate(); err != nil {
		return sojourn.LogLine{}, err
	}
	c := access.CallerOf(ctx)
	if c != nil {
		l.By = strings.TrimSuffix(c.Token+"/"+l.By, "/")
	}
	if l.By == "" {
		return sojourn.LogLine{}, sojourn.Invalid("by", "the name is missing; say who writes the line")
	}
	l.By = sojourn.Cut(l.By, sojourn.MaxKey)
	return txn.Do(ctx, w.core, noteOp, 1, note{id, l, c})
}

var noteOp = txn.EachOp("write log", groupcommit.Finish, func(t *txn.Tx, n note) (sojourn.LogLine, error) {
	queue, kind, attempt, err := locked(t, n.id)
	if err != nil {
		return sojourn.LogLine{}, err
	}
	if queue == "" || !n.caller.Allows(access.VerbOperate, queue, kind) {
		return sojourn.LogLine{}, sojourn.NotFound("no job has the id %d", n.id)
	}
	out := sojourn.LogLine{At: jobrow.Time(t.Now), Attempt: attempt, Level: "INFO", Text: n.line.Text, By: n.line.By}
	return out, Add(t, n.id, attempt, n.line.By, []sojourn.LogLine{out})
})

const (
	qLive  = `select l.queue, l.kind, l.attempt from sj_live l where l.id = $1 /*lock l*/`
	qFinal = `select f.queue, f.kind, f.attempt from sj_final f where f.id = $1 /*lock f*/`
	qThere = `select count(*) from sj_job where id = $1`
)

// locked locks the row of a job, live or final. The queue is empty if there is no such job.
func locked(t *txn.Tx, id sojourn.ID) (queue, kind string, attempt int32, err error) {
	for _, q := range []string{qLive, qFinal} {
		err := t.Read(q, func(r sqldb.Row) error { queue, kind, attempt = r.Text(0), r.Text(1), int32(r.Int(2)); return nil }, int64(id))
		if err != nil || queue != "" {
			return queue, kind, attempt, err
		}
	}
	n, err := t.ReadInt(qThere, int64(id))
	if err == nil && n > 0 {
		err = txn.Raced("a job was redriven between the two reads")
	}
	return "", "", 0, err
}
