package postgres

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// The first message of a write also begins its transaction and reads the clock, so that neither
// costs a round trip of its own. The settings are local to the transaction, as a pooler needs it:
//   - The server ends the transaction of a client that has vanished, so that it does not hold its
//     locks for long.
//   - A prepared statement keeps the plan that it got when the tables were small, or had no
//     statistics yet. It then read all of a table that had grown to 20,000 jobs: a claim took 4.4
//     ms instead of 0.7. Every statement of a write finds its rows by an index, so other plans are
//     disabled.
//   - A disabled plan has a very high cost, for which the server would JIT-compile a statement that
//     must read all of a small table, for 100 ms and more.
var openWrite = `select set_config('idle_in_transaction_session_timeout', '` + strconv.FormatInt(idleInTransaction.Milliseconds(), 10) + `', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
	set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
	cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)`

const (
	beginWrite  = `begin isolation level read committed read write`
	openedClock = 6 // its column
)

// begin begins the transaction, if it has not begun.
func (c *conn) begin() error {
	if c.begun {
		return nil
	}
	return c.Send(nil)
}

// opening is a batch, with the beginning of the transaction in front of the first one.
func (c *conn) opening(batch []sqldb.Statement) []sqldb.Statement {
	if c.begun {
		return batch
	}
	return append([]sqldb.Statement{{Text: beginWrite}, {Text: openWrite, Each: func(r sqldb.Row) error {
		c.now, c.begun = r.Int(openedClock), true
		return nil
	}}}, batch...)
}

// writer is the conn of a transaction that this package has begun, and so may commit. It implements
// sqldb.Committer and sqldb.Silencer.
type writer struct {
	conn
	over   bool // committed, or the outcome is unknown
	silent bool // its answer does not depend on its reads
	late   bool // the commit is still under way, and the link waits for its end
}

// Silent implements sqldb.Silencer.
func (w *writer) Silent() { w.silent = true }

// Commit implements sqldb.Committer. A statement that changes another number of rows than wanted
// divides by zero, so that the server itself ends the transaction before it comes to the commit.
func (w *writer) Commit(batch []sqldb.Statement) error {
	writes := w.wrote
	w.fold(batch)
	for i := range batch {
		writes = writes || certainlyWrites(&batch[i])
		if batch[i].Wanted > 0 {
			batch[i] = exactly(batch[i])
		}
	}
	batch = w.opening(batch)
	if !writes && !w.silent {
		batch = append(batch, sqldb.Statement{Text: waitForStandby})
	}
	m, err := queue(append(batch, sqldb.Statement{Text: "commit"}))
	if err != nil {
		return err
	}
	return w.commit(m)
}

// commit sends a message that ends with a commit. The end of the caller's context does not end the
// commit: a cancel request would end the wait for the synchronous standby, and make rows visible
// that the standby does not have. After the limit the caller is told that the outcome is unknown,
// and the link goes on waiting.
func (w *writer) commit(m *message) error {
	err := w.finish(m)
	var ours *sojourn.Error
	w.over = err == nil || errors.As(err, &ours)
	return err
}

// finish is commit; its error is an *Error if the outcome is unknown.
func (w *writer) finish(m *message) error {
	var last pgconn.CommandTag
	ctx := context.WithoutCancel(w.ctx)
	err := w.link.exchange(true, func() (err error) {
		last, err = w.exchange(ctx, m)
		return err
	})
	if !w.raw.IsClosed() {
		w.link.committed()
	}
	w.late = errors.Is(err, errLate)
	switch {
	case w.late:
		return unknown("the server has not answered a commit for "+w.link.db.limits.commit.String(), err)
	case tookUnreplicated(w.raw.PgConn()):
		return unknown("the server has given up waiting for its synchronous standby", err)
	case err == nil && last.String() != "COMMIT": // a statement had failed, and its caller went on
		return errors.New("the transaction was rolled back by the server")
	case err == nil:
		return nil
	case code(err) == divisionByZero:
		return errors.Join(sqldb.ErrRaced, err)
	case provesRollback(err):
		return err
	}
	return unknown("the connection broke during a commit ("+err.Error()+")", err)
}

func unknown(why string, err error) error {
	return &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Err: err,
		Message: why + "; it may or may not have been executed: repeat the call unchanged"}
}

const (
	divisionByZero = "22012"
	idleTooLong    = "25P03" // the server has ended the transaction because its client sent nothing for so long
)

// provesRollback reports whether an error proves that nothing was committed. An answer of the
// severity ERROR ends the transaction, and the server skips the rest of the message with the commit
// in it. FATAL does not prove that: a terminated backend sends it even after its commit. Neither do
// errors that a pooler makes when it has lost the server: class 08, and 57P and 58, which some use.
func provesRollback(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return pgconn.SafeToRetry(err) // nothing was sent
	}
	for _, class := range []string{"08", "57P", "58"} {
		if strings.HasPrefix(answer.Code, class) {
			return false
		}
	}
	return cmp.Or(answer.SeverityUnlocalized, answer.Severity) == "ERROR" || answer.Code == idleTooLong
}

// certainlyWrites reports whether a statement writes rows, or ends the transaction in an error.
func certainlyWrites(st *sqldb.Statement) bool {
	switch verb, _, _ := strings.Cut(st.Text, " "); verb {
	case "insert":
		return st.Wanted > 0 || !strings.Contains(st.Text, "on conflict")
	case "update", "delete":
		return st.Wanted > 0
	}
	return false
}

// exactly makes a statement fail that changes or reads another number of rows than it wants.
func exactly(st sqldb.Statement) sqldb.Statement {
	text := st.Text
	if !strings.HasPrefix(text, "select") && !strings.Contains(text, "returning") {
		text += " returning 1"
	}
	n := len(st.Args) + len(st.Rows) + 1
	st.Text = "with done as (" + text + ") select 1 / case when count(*) = $" + strconv.Itoa(n) + " then 1 else 0 end from done"
	st.Args = append(st.Args[:len(st.Args):len(st.Args)], columnsOf(st.Rows)...)
	st.Args, st.Rows = append(st.Args, st.Wanted), nil
	return st
}
