package member

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/workflow"
)

// States of sj_workflow that are no states of jobs.
const (
	StateOpen    = 1
	StateRunning = 2
	StateRemoved = 10 // its rows are being deleted
)

// Callbacks in Row.Owed.
const (
	owesEnd     = 1
	owesFailure = 2
)

// What a workflow does, in Row.Doing: a cancel begins with the blocked members, so that the end of
// others starts none of them.
const (
	CancelsBlocked = 1
	Cancels        = 2
	Redrives       = 3
)

// Row is a row of sj_workflow. Times are microseconds.
type Row struct {
	ID                           int64
	Name, Owner                  string
	Digest                       []byte
	State, Generation            int64
	Total                        int64
	Completed, Failed, Cancelled int64  // without the rows of sj_workflow_end
	OnEnd, OnFailure             string // templates
	EndJob, FailureJob           int64
	Owed, Fired                  int64
	Doing                        int64
	Done, By, Reason, Problem    string
	Due, Keep                    int64
	Created, Updated, Ended      int64
}

const (
	// Columns are the columns of sj_workflow that Scan reads.
	Columns = `w.id, w.name, w.owner, w.digest, w.state, w.generation, w.total, w.completed, w.failed, w.cancelled, w.on_end, w.on_failure, w.end_job, w.failure_job,
		w.owed, w.fired, w.doing, w.done, w.by_whom, w.reason, w.problem, w.due_us, w.keep_us, w.created_us, w.updated_us, w.ended_us`
	qLockID   = `select ` + Columns + ` from sj_workflow w where w.id = $1 /*lock w*/`
	qLockName = `select ` + Columns + ` from sj_workflow w where w.name = $1 /*lock w*/`
	qInsert   = `insert into sj_workflow (id, name, owner, digest, state, generation, total, completed, failed, cancelled, on_end, on_failure, end_job, failure_job,
		owed, fired, doing, done, by_whom, reason, problem, due_us, keep_us, created_us, updated_us, ended_us)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)`
	qUpdate = `update sj_workflow set state = $1, generation = $2, total = $3, completed = $4, failed = $5, cancelled = $6, end_job = $7, failure_job = $8, owed = $9,
		fired = $10, doing = $11, done = $12, by_whom = $13, reason = $14, problem = $15, due_us = $16, updated_us = $17, ended_us = $18 where id = $19`
)

// Scan reads Columns.
func Scan(r sqldb.Row) *Row {
	return &Row{ID: r.Int(0), Name: r.Text(1), Owner: r.Text(2), Digest: r.Bytes(3), State: r.Int(4), Generation: r.Int(5), Total: r.Int(6), Completed: r.Int(7),
		Failed: r.Int(8), Cancelled: r.Int(9), OnEnd: r.Text(10), OnFailure: r.Text(11), EndJob: r.Int(12), FailureJob: r.Int(13), Owed: r.Int(14), Fired: r.Int(15),
		Doing: r.Int(16), Done: r.Text(17), By: r.Text(18), Reason: r.Text(19), Problem: r.Text(20), Due: r.Int(21), Keep: r.Int(22), Created: r.Int(23),
		Updated: r.Int(24), Ended: r.Int(25)}
}

// Lock reads and locks the row of a workflow; nil if there is none, or it is being removed.
func Lock(t *txn.Tx, name string) (*Row, error) { return lock(t, qLockName, name) }

// LockID is Lock by the number.
func LockID(t *txn.Tx, id int64) (*Row, error) { return lock(t, qLockID, id) }

func lock(t *txn.Tx, q string, key any) (found *Row, err error) {
	err = t.Read(q, func(r sqldb.Row) error { found = Scan(r); return nil }, key)
	if found != nil && found.State == StateRemoved {
		found = nil
	}
	return found, err
}

// Insert stores a new row.
func (w *Row) Insert(t *txn.Tx) error {
	w.setDue(t)
	_, err := t.Write(qInsert, w.ID, w.Name, w.Owner, w.Digest, w.State, w.Generation, w.Total, w.Completed, w.Failed, w.Cancelled, w.OnEnd, w.OnFailure, w.EndJob,
		w.FailureJob, w.Owed, w.Fired, w.Doing, w.Done, w.By, w.Reason, w.Problem, w.Due, w.Keep, w.Created, w.Updated, w.Ended)
	return err
}

// Update writes the row, which is locked.
func (w *Row) Update(t *txn.Tx) error {
	w.setDue(t)
	w.Updated = max(t.Now, w.Updated)
	_, err := t.Write(qUpdate, w.State, w.Generation, w.Total, w.Completed, w.Failed, w.Cancelled, w.EndJob, w.FailureJob, w.Owed, w.Fired, w.Doing, w.Done, w.By,
		w.Reason, w.Problem, w.Due, w.Updated, w.Ended, w.ID)
	return err
}

// setDue sets when the sweep looks at the row: at once for what it does, later for a callback that
// was refused, and in the end to remove it.
func (w *Row) setDue(t *txn.Tx) {
	gone := int64(jobrow.Never)
	if w.IsFinal() {
		gone = w.Ended + w.Keep
	}
	switch {
	case w.Doing != 0:
		w.Due = t.Now
	case w.Owed != 0:
		w.Due = min(t.Now+refusedAgain.Microseconds(), gone)
	default:
		w.Due = gone
	}
}

// IsFinal reports whether the whole has ended.
func (w *Row) IsFinal() bool { return w.State >= int64(sojourn.Completed) && w.State < StateRemoved }

// Left is the number of members that have no counted end.
func (w *Row) Left() int64 { return w.Total - w.Completed - w.Failed - w.Cancelled }

var stateNames = map[int64]workflow.State{StateOpen: workflow.Open, StateRunning: workflow.Running, int64(sojourn.Completed): workflow.Completed,
	int64(sojourn.Failed): workflow.Failed, int64(sojourn.Cancelled): workflow.Cancelled}

// NumberOf is the stored number of a state; 0 if it is none.
func NumberOf(s workflow.State) int64 {
	for n, name := range stateNames {
		if name == s {
			return n
		}
	}
	return 0
}

// Status shows the row.
func (w *Row) Status() workflow.Status {
	s := workflow.Status{Name: w.Name, State: stateNames[w.State], Generation: int32(w.Generation), Total: w.Total, Counts: map[sojourn.State]int64{},
		EndJob: sojourn.ID(w.EndJob), FailureJob: sojourn.ID(w.FailureJob), Problem: w.Problem, Owner: w.Owner, Keep: time.Duration(w.Keep) * time.Microsecond,
		CreatedAt: jobrow.Time(w.Created), UpdatedAt: jobrow.Time(w.Updated), EndedAt: jobrow.Time(w.Ended)}
	for state, n := range map[sojourn.State]int64{sojourn.Completed: w.Completed, sojourn.Failed: w.Failed, sojourn.Cancelled: w.Cancelled} {
		if n != 0 {
			s.Counts[state] = n
		}
	}
	switch w.Doing {
	case CancelsBlocked, Cancels:
		s.Doing = workflow.ActionCancel
	case Redrives:
		s.Doing = workflow.ActionRedrive
	}
	return s
}

// over is the state of the whole when all members are final.
func (w *Row) over() int64 {
	switch {
	case w.Failed > 0:
		return int64(sojourn.Failed)
	case w.Cancelled > 0:
		return int64(sojourn.Cancelled)
	}
	return int64(sojourn.Completed)
}

// reopen begins another generation of a workflow that has ended. A callback that was refused so far
// is given up.
func (w *Row) reopen() {
	w.State, w.Generation, w.Ended, w.Owed, w.Problem = StateRunning, w.Generation+1, 0, 0, ""
}
