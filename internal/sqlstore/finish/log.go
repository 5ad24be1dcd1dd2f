package finish

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	qLastLog = `select coalesce(max(seq), 0) from sj_log where job = $1`
	qAddLog  = `insert into sj_log (job, seq, at_us, attempt, level, text, dropped) values ($1, $2, $3, $4, $5, $6, $7)`
	qDropped = `select coalesce(sum(1 + dropped), 0) from sj_log where job = $1 and seq > 1 and seq <= $2`
	qTrimLog = `delete from sj_log where job = $1 and seq > 1 and seq <= $2`
	// qNoteDropped: the numbers have gaps only where lines were dropped before, so the line after
	// upTo exists.
	qNoteDropped = `update sj_log set dropped = dropped + $1 where job = $2 and seq = $3`
)

// addLog appends lines to the job's log, which keeps the first and the newest 99.
func addLog(t *txn.Tx, l *jobrow.Row, lines []sojourn.LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	last, err := t.ReadInt(qLastLog, int64(l.ID))
	if err != nil {
		return err
	}
	for _, line := range lines {
		last++
		_, err := t.Write(qAddLog, int64(l.ID), last, t.Now, int64(l.Attempt), sojourn.Cut(line.Level, sojourn.MaxReason), sojourn.Cut(line.Text, sojourn.MaxProgress), line.Dropped)
		if err != nil {
			return err
		}
	}
	return trimLog(t, l.ID, last-(sojourn.MaxLogLines-1))
}

// trimLog drops the lines from the second to number upTo. The next line records how many were
// dropped.
func trimLog(t *txn.Tx, id sojourn.ID, upTo int64) error {
	dropped, err := t.ReadInt(qDropped, int64(id), upTo)
	if err != nil || dropped == 0 {
		return err
	}
	if _, err := t.Write(qTrimLog, int64(id), upTo); err != nil {
		return err
	}
	_, err = t.Write(qNoteDropped, dropped, int64(id), upTo+1)
	return err
}
