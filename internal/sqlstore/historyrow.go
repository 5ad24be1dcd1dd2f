package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

const (
	historyColumns = `seq, generation, attempt, epoch, purpose, worker, outcome, state, reason, error, by_whom, began_us, ended_us`
	historyCount   = 13
)

// lastColumns are historyColumns of sj_final, which contains the last history row of a final job
// unless its outcome is empty.
const lastColumns = `history, generation, attempt, step_epoch, purpose, case when step_epoch > 0 then worker else '' end, outcome, state, reason, error, by_whom,
		began_us, finished_us`

func scanHistory(r sqldb.Row) sojourn.Attempt {
	return sojourn.Attempt{Seq: int32(r.Int(0)), Generation: int32(r.Int(1)), Attempt: int32(r.Int(2)), Epoch: r.Int(3), Purpose: sojourn.Purpose(r.Int(4)),
		Worker: r.Text(5), Outcome: r.Text(6), State: sojourn.State(r.Int(7)), Reason: r.Text(8), Error: string(r.Bytes(9)), By: r.Text(10),
		BeganAt: at(r.Int(11)), EndedAt: at(r.Int(12))}
}

// endedInError selects the history rows that closed an attempt, without later decisions and changes
// by operators.
const endedInError = `reason <> '' and outcome in ('error', 'await', 'lost', 'timed_out', 'responded')`
