package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// A write begins with its first message, so that neither the beginning nor the clock costs a round trip of its own. The settings are local to the
// transaction, as a pooler wants it:
//   - The server ends the transaction of a client that has vanished, so that its locks hold up nobody for long.
//   - A prepared statement keeps the plan that it got when the tables were small, or had no statistics yet, and read all of a table that has grown
//     to 20,000 jobs since: a claim took 4.4 ms instead of 0.7. Every statement of a write finds its rows by an index, so nothing else is offered.
//   - What is not offered counts as very dear, and the server would compile a statement that has to read all of a small table, for 100 ms and more.
const (
	beginWrite = `begin isolation level read committed read write`
	openWrite  = `select set_config('idle_in_transaction_session_timeout', '30000', true), set_config('enable_seqscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
		set_config('jit', 'off', true),
		cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)`
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
func (c *conn) opening(batch []sqlstore.Statement) []sqlstore.Statement {
	if c.begun {
		return batch
	}
	return append([]sqlstore.Statement{{Text: beginWrite}, {Text: openWrite, Each: func(r sqlstore.Row) error {
		c.now, c.begun = r.Int(openedClock), true
		return nil
	}}}, batch...)
}

// writer is the conn of a transaction that this package has begun, and so may commit. It implements sqlstore.Committer.
type writer struct {
	conn
	over bool // committed, or nobody knows
}

// commitLimit is how long a message with a commit may take. A commit under way is never given up with its caller's context.
const commitLimit = time.Minute

// Commit implements sqlstore.Committer. A statement that changes another number of rows than wanted divides by zero, so that the server itself ends
// the transaction before it comes to the commit.
func (w *writer) Commit(batch []sqlstore.Statement) error {
	w.fold(batch)
	for i := range batch {
		if batch[i].Wanted > 0 {
			batch[i] = exactly(batch[i])
		}
	}
	m, err := queue(append(w.opening(batch), sqlstore.Statement{Text: "commit"}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), commitLimit)
	defer cancel()
	switch last, err := w.exchange(ctx, m); {
	case err == nil && last.String() != "COMMIT": // a statement had failed before, and whoever ran it went on
		return errors.New("the transaction was rolled back by the server")
	case err == nil:
		w.over = true
		return nil
	case code(err) == divisionByZero:
		return errors.Join(sqlstore.ErrRaced, err)
	case code(err) != "": // the server has refused
		return err
	default:
		w.over = true
		return &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Retryable: true, Err: err,
			Message: "the connection broke during a commit (" + err.Error() + "); it may or may not have been executed: repeat the call unchanged"}
	}
}

const divisionByZero = "22012"

// exactly makes a statement fail that changes or reads another number of rows than it wants.
func exactly(st sqlstore.Statement) sqlstore.Statement {
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
