package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
)

// SQLTx is a Joined over the application's *sql.Tx.
type SQLTx struct {
	ctx  context.Context
	tx   *sql.Tx
	bind func(arg any) (any, error)
	loop bool
}

// JoinSQL begins a savepoint in tx. bind converts an argument of a Conn to a value of the driver.
// With loop a Bulk is a loop over one prepared statement that looks at its change counter,
// otherwise one statement with whole columns as arguments.
func JoinSQL(ctx context.Context, tx *sql.Tx, bind func(arg any) (any, error), loop bool) (*SQLTx, error) {
	_, err := tx.ExecContext(ctx, "savepoint sojourn")
	return &SQLTx{ctx: ctx, tx: tx, bind: bind, loop: loop}, err
}

// Undo implements Joined.
func (c *SQLTx) Undo() error {
	_, err := c.tx.ExecContext(context.WithoutCancel(c.ctx), "rollback to savepoint sojourn")
	return err
}

// Keep implements Joined.
func (c *SQLTx) Keep() error {
	_, err := c.tx.ExecContext(c.ctx, "release savepoint sojourn")
	return err
}

func (c *SQLTx) bound(args []any) ([]any, error) {
	values := make([]any, len(args))
	for i, a := range args {
		v, err := c.bind(a)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		values[i] = v
	}
	return values, nil
}

// Exec implements Conn.
func (c *SQLTx) Exec(q string, args ...any) (int64, error) {
	values, err := c.bound(args)
	if err != nil {
		return 0, err
	}
	result, err := c.tx.ExecContext(c.ctx, q, values...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query implements Conn. It reads all rows before it calls each, because not every driver runs a
// statement while the rows of another are open.
func (c *SQLTx) Query(q string, each func(Row) error, args ...any) error {
	values, err := c.bound(args)
	if err != nil {
		return err
	}
	found, err := c.read(q, values)
	if err != nil {
		return err
	}
	for _, values := range found {
		r := sqlRow{values: values}
		if err := each(&r); err != nil {
			return err
		}
		if r.err != nil {
			return fmt.Errorf("%w: %s", r.err, q)
		}
	}
	return nil
}

func (c *SQLTx) read(q string, values []any) (found [][]any, err error) {
	rows, err := c.tx.QueryContext(c.ctx, q, values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// Bulk implements Conn.
func (c *SQLTx) Bulk(q string, hit func(first int64), first Ints, more ...Column) error {
	for i, column := range more {
		if column.Len() != len(first) {
			return fmt.Errorf("column %d has %d rows, the first has %d: %s", i+1, column.Len(), len(first), q)
		}
	}
	switch {
	case len(first) == 0:
		return nil
	case c.loop:
		return c.eachRow(q, hit, first, more)
	}
	args := []any{first}
	for _, column := range more {
		args = append(args, column)
	}
	if hit == nil {
		_, err := c.Exec(q, args...)
		return err
	}
	return c.Query(q, func(r Row) error { hit(r.Int(0)); return nil }, args...)
}

func (c *SQLTx) eachRow(q string, hit func(first int64), first Ints, more []Column) error {
	st, err := c.tx.PrepareContext(c.ctx, q)
	if err != nil {
		return err
	}
	defer st.Close()
	args := make([]any, 1+len(more))
	for i, id := range first {
		args[0] = id
		for k, column := range more {
			args[k+1] = column.At(i)
		}
		values, err := c.bound(args)
		if err != nil {
			return err
		}
		result, err := st.ExecContext(c.ctx, values...)
		if err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if hit != nil && n > 0 {
			hit(id)
		}
	}
	return nil
}

// sqlRow reads a row in any types of the driver: a number may be a text, a text may be bytes.
type sqlRow struct {
	values []any
	err    error
}

// Int implements Row.
func (r *sqlRow) Int(col int) int64 {
	switch v := r.values[col].(type) {
	case nil:
		return 0
	case int64:
		return v
	case bool:
		if v {
			return 1
		}
		return 0
	}
	n, err := strconv.ParseInt(r.Text(col), 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %d: %w", col, err)
	}
	return n
}

// Text implements Row.
func (r *sqlRow) Text(col int) string {
	switch v := r.values[col].(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// Bytes implements Row.
func (r *sqlRow) Bytes(col int) []byte {
	switch v := r.values[col].(type) {
	case nil:
		return nil
	case []byte:
		return v // Scan has copied it
	default:
		return []byte(r.Text(col))
	}
}
