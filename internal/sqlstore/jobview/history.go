package jobview

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

const (
	// HistoryColumns are the columns of sj_history that ScanHistory reads.
	HistoryColumns = `seq, generation, attempt, epoch, purpose, worker, outcome, state, reason, error, by_whom, began_us, ended_us, stage`
	// LastColumns are HistoryColumns of sj_final, which holds the last history row of a final job
	// unless its outcome is empty.
	LastColumns = `history, generation, attempt, step_epoch, purpose, case when step_epoch > 0 then worker else '' end, outcome, state, reason, error, by_whom,
		began_us, finished_us, stage`
	historyColumnCount = 14
)

const (
	// endedInError selects the history rows that closed an attempt, without later decisions and
	// changes by operators.
	endedInError = `reason <> '' and outcome in ('error', 'await', 'lost', 'timed_out', 'responded')`
	qLastErrors  = `select h.job, h.reason, h.error, h.seq from sj_history h /*, each*/ where h.job = each($1 bigint)
		and h.seq = (select max(seq) from sj_history where job = each($1 bigint) and generation = each($2 bigint) and stage = each($3 bigint) and ` + endedInError + `)`
	qErrors = `select ` + HistoryColumns + `, job from sj_history /*, each*/ where job = each($1 bigint) and generation = each($2 bigint) and stage = each($3 bigint) and ` + endedInError + `
		order by job, seq`
)

// LastErrors reads the last errors of the jobs that have failed before and are not final.
func LastErrors(t *txn.Tx, l *List) error {
	generations, stages := make(sqldb.Ints, len(l.failed)), make(sqldb.Ints, len(l.failed))
	for i, id := range l.failed {
		j := l.byID[sojourn.ID(id)]
		generations[i], stages[i] = int64(j.Generation), int64(j.Stage)
	}
	return t.ReadEach(qLastErrors, func(r sqldb.Row) error {
		j := l.byID[sojourn.ID(r.Int(0))]
		j.Reason, j.Error = r.Text(1), string(r.Bytes(2))
		if l.full != nil {
			l.seqs[j.ID] = r.Int(3)
		}
		return nil
	}, l.failed, generations, stages)
}

// ErrorsOf reads the errors of the jobs in their present stages, for retry policies.
func ErrorsOf(t *txn.Tx, jobs map[sojourn.ID]*driver.Claimed) error {
	var ids, generations, stages sqldb.Ints
	for id, c := range jobs {
		ids, generations, stages = append(ids, int64(id)), append(generations, int64(c.Job.Generation)), append(stages, int64(c.Job.Stage))
	}
	return t.ReadEach(qErrors, func(r sqldb.Row) error {
		c := jobs[sojourn.ID(r.Int(historyColumnCount))]
		c.History = append(c.History, ScanHistory(r))
		return nil
	}, ids, generations, stages)
}

// ScanHistory reads HistoryColumns.
func ScanHistory(r sqldb.Row) sojourn.HistoryEntry {
	return sojourn.HistoryEntry{Seq: int32(r.Int(0)), Generation: int32(r.Int(1)), Attempt: int32(r.Int(2)), Epoch: r.Int(3), Purpose: sojourn.Purpose(r.Int(4)),
		Worker: r.Text(5), Outcome: r.Text(6), State: sojourn.State(r.Int(7)), Reason: r.Text(8), Error: string(r.Bytes(9)), By: r.Text(10),
		BeganAt: jobrow.Time(r.Int(11)), EndedAt: jobrow.Time(r.Int(12)), Stage: int32(r.Int(13))}
}
