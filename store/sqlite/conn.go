package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// conn is one connection to the database and implements sqldb.Conn while a transaction is open. One
// goroutine uses it at a time.
type conn struct {
	raw     *sqlite.Conn
	ended   error         // why no statement may run: outside of a transaction, or SQLite has rolled it back
	broken  error         // the first I/O error or corruption seen, even if no caller reported it
	running []string      // the queries whose rows are being read, innermost last
	stop    chan struct{} // closing it interrupts the statement, see interruptBy; nil if nothing can
	calm    func() bool   // keeps stop from being closed from now on; nil if nothing would close it
	reading bool          // in memory: this is a View
	after   func(error)   // see Ended; nil if there is no callback
	silent  bool          // see Silent
	version int64         // what Version has returned to the transaction; 0 = it was not asked
}

var errOutside = errors.New("sqlite: the Conn was used outside of its transaction")

// transact runs fn between begin and end. begin may start several times, until it finds the
// database free or ctx ends. When fn fails, panics or comes too late for ctx, everything is rolled
// back.
func (c *conn) transact(ctx context.Context, begin, end func() error, fn func(sqldb.Conn) error) error {
	c.interruptBy(ctx)
	defer c.undisturbed()
	if err := c.patiently(ctx, begin); err != nil {
		if !c.raw.AutocommitEnabled() { // begin was interrupted half way, and its own rollback with it
			c.undisturbed()
			c.note(run(c.raw, "rollback"))
		}
		return because(ctx, err)
	}
	c.ended = nil
	defer func() {
		c.ended = errOutside
		c.running = c.running[:0]
		if !c.raw.AutocommitEnabled() {
			c.undisturbed() // which would end the rollback too
			c.note(run(c.raw, "rollback"))
		}
	}()
	if err := fn(c); err != nil {
		return because(ctx, err)
	}
	if c.ended != nil { // fn has swallowed the error that ended the transaction
		return because(ctx, c.ended)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// From here ctx no longer affects the outcome: the caller must learn whether the transaction is
	// written.
	c.undisturbed()
	if err := c.patiently(context.WithoutCancel(ctx), end); err != nil {
		return c.note(fmt.Errorf("sqlite: the end of a transaction: %w", err))
	}
	return nil
}

// because prefers the reason of an interruption to the interruption.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultInterrupt {
		return ctx.Err()
	}
	return err
}

// interruptBy ends statements under way when ctx ends, from now on until undisturbed. The driver's
// SetInterrupt costs a goroutine and a look at every cached statement, so it is called again only
// after it was needed.
func (c *conn) interruptBy(ctx context.Context) {
	c.undisturbed()
	if c.stop == nil {
		c.stop = make(chan struct{})
		c.raw.SetInterrupt(c.stop)
	}
	stop := c.stop
	c.calm = context.AfterFunc(ctx, func() { close(stop) })
}

// undisturbed lets statements run to their end again.
func (c *conn) undisturbed() {
	if c.calm != nil && !c.calm() {
		<-c.stop // it is being closed
		c.raw.SetInterrupt(nil)
		c.stop = nil
	}
	c.calm = nil
}

// The pauses between two tries on a busy database. SQLite's own busy handler sleeps up to 100 ms,
// in which a second process with one transaction after the other would starve this one.
const (
	firstPause = 250 * time.Microsecond
	lastPause  = 4 * time.Millisecond
)

// patiently repeats do until the database is not busy any more or ctx ends.
func (c *conn) patiently(ctx context.Context, do func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if !busy(err) {
			return c.note(err)
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("sqlite: the database stayed busy: %w", err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note records the effect of an error on the connection, and returns the error.
func (c *conn) note(err error) error {
	if err == nil {
		return nil
	}
	if c.broken == nil && broken(err) {
		c.broken = err
	}
	// After some errors (a full disk, an interrupted write) SQLite has rolled everything back. The
	// next statement would commit by itself then, so none may follow.
	if c.ended == nil && c.raw.AutocommitEnabled() {
		c.ended = fmt.Errorf("sqlite: the transaction was rolled back: %w", err)
	}
	return err
}

// prepare returns the statement of a text, from the connection's cache if it ran before.
func (c *conn) prepare(q string, args int) (*sqlite.Stmt, error) {
	if c.ended != nil {
		return nil, c.ended
	}
	if c.reading && !strings.HasPrefix(q, "select") && !strings.HasPrefix(q, "with") && !strings.HasPrefix(q, "pragma") {
		return nil, fmt.Errorf("sqlite: a write in a read-only transaction: %w: %s", sqlite.ResultReadOnly.ToError(), q)
	}
	if slices.Contains(c.running, q) {
		return nil, fmt.Errorf("sqlite: the rows of this query are still being read: %s", q)
	}
	st, err := c.raw.Prepare(q)
	if err != nil {
		return nil, c.note(err)
	}
	if n := st.BindParamCount(); n != args {
		return nil, fmt.Errorf("sqlite: %d arguments for %d parameters: %s", args, n, q)
	}
	return st, nil
}

// Exec implements sqldb.Conn.
func (c *conn) Exec(q string, args ...any) (int64, error) {
	st, err := c.prepare(q, len(args))
	if err != nil {
		return 0, err
	}
	if err := bind(st, args); err != nil {
		return 0, err
	}
	if err := finish(st); err != nil {
		return 0, c.note(err)
	}
	return int64(c.raw.Changes()), nil
}

// finish runs a statement to its end and makes it ready for the next time.
func finish(st *sqlite.Stmt) error {
	for {
		if more, err := st.Step(); err != nil {
			return err
		} else if !more {
			return st.Reset()
		}
	}
}

// Query implements sqldb.Conn.
func (c *conn) Query(q string, each func(sqldb.Row) error, args ...any) error {
	st, err := c.prepare(q, len(args))
	if err != nil {
		return err
	}
	if err := bind(st, args); err != nil {
		return err
	}
	depth := len(c.running)
	c.running = append(c.running, q)
	defer func() {
		st.Reset() // repeats the error of Step, if there was one
		c.running = c.running[:min(depth, len(c.running))]
	}()
	for {
		more, err := st.Step()
		if err != nil {
			return c.note(err)
		}
		if !more {
			return nil
		}
		if err := each(row{st}); err != nil {
			return err
		}
	}
}

// Version implements sqldb.Versioned.
func (c *conn) Version() (version int64, err error) {
	err = c.Query("pragma data_version", func(r sqldb.Row) error { version = r.Int(0); return nil })
	c.version = version
	return version, err
}

// Ended implements sqldb.Versioned.
func (c *conn) Ended(fn func(failed error)) { c.after = fn }

// Silent implements sqldb.Versioned.
func (c *conn) Silent() { c.silent = true }

// text is run as a function.
func (c *conn) text(q string) func() error { return func() error { return run(c.raw, q) } }

// Bulk implements sqldb.Conn.
func (c *conn) Bulk(q string, hit func(first int64), first sqldb.Ints, more ...sqldb.Column) error {
	for i, column := range more {
		if column.Len() != len(first) {
			return fmt.Errorf("sqlite: column %d has %d rows, the first has %d: %s", i+1, column.Len(), len(first), q)
		}
	}
	if len(first) == 0 {
		return nil
	}
	st, err := c.prepare(q, 1+len(more))
	if err != nil {
		return err
	}
	for i, id := range first {
		st.BindInt64(1, id)
		if err := bindRow(st, more, i); err != nil {
			return err
		}
		if err := finish(st); err != nil {
			return c.note(fmt.Errorf("row %d: %w", i, err))
		}
		if hit != nil && c.raw.Changes() > 0 {
			hit(id)
		}
	}
	return nil
}

// bindRow binds row i of a Bulk to its statement. A parameter stays bound from row to row, so only
// changed values are bound: rows that are written together have most values in common.
func bindRow(st *sqlite.Stmt, columns []sqldb.Column, i int) error {
	for k, column := range columns {
		switch column := column.(type) { // without At, which allocates for each value
		case sqldb.Same:
			if i == 0 {
				bindSame(st, k+2, column.Value)
			}
		case sqldb.Ints:
			if i == 0 || column[i] != column[i-1] {
				st.BindInt64(k+2, column[i])
			}
		case sqldb.Texts:
			if i == 0 || column[i] != column[i-1] {
				st.BindText(k+2, column[i])
			}
		case sqldb.Blobs:
			if i == 0 || !bytes.Equal(column[i], column[i-1]) {
				st.BindBytes(k+2, column[i])
			}
		default:
			return fmt.Errorf("sqlite: column %d has type %T", k+1, column)
		}
	}
	return nil
}

func bindSame(st *sqlite.Stmt, param int, value any) {
	switch v := value.(type) {
	case int64:
		st.BindInt64(param, v)
	case string:
		st.BindText(param, v)
	case []byte:
		st.BindBytes(param, v)
	}
}

// bind binds the arguments of a statement that was just prepared.
func bind(st *sqlite.Stmt, args []any) error {
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			st.BindInt64(i+1, a)
		case int:
			st.BindInt64(i+1, int64(a))
		case bool:
			st.BindBool(i+1, a)
		case string:
			st.BindText(i+1, a)
		case []byte:
			st.BindBytes(i+1, a) // nil as empty bytes
		case nil:
			st.BindNull(i + 1)
		case sqldb.Ints:
			st.BindText(i+1, a.JSON())
		case sqldb.Texts:
			st.BindText(i+1, a.JSON())
		default:
			return fmt.Errorf("sqlite: argument %d has type %T", i+1, a)
		}
	}
	return nil
}

// row implements sqldb.Row.
type row struct{ st *sqlite.Stmt }

func (r row) Int(col int) int64   { return r.st.ColumnInt64(col) }
func (r row) Text(col int) string { return r.st.ColumnText(col) }

func (r row) Bytes(col int) []byte {
	n := r.st.ColumnLen(col)
	if n == 0 && r.st.ColumnIsNull(col) {
		return nil
	}
	b := make([]byte, n)
	r.st.ColumnBytes(col, b)
	return b
}

// run executes a text without parameters, outside of the rules of a transaction.
func run(raw *sqlite.Conn, q string) error {
	st, err := raw.Prepare(q)
	if err != nil {
		return err
	}
	return finish(st)
}

// ask returns the first column of the first row, as text.
func ask(raw *sqlite.Conn, q string) (answer string, err error) {
	st, err := raw.Prepare(q)
	if err != nil {
		return "", err
	}
	defer st.Reset()
	if more, err := st.Step(); err != nil || !more {
		return "", err
	}
	return st.ColumnText(0), nil
}
