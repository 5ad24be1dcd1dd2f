package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// conn implements sqldb.Conn, sqldb.Sender and sqldb.Clocked. It lives as long as one transaction,
// and holds its context for so long.
type conn struct {
	ctx context.Context
	raw *pgx.Conn
	now int64 // of the database, when the transaction began

	begun bool
	wrote bool      // a statement has inserted, updated or deleted rows
	same  *sameness // nil binds all columns as arrays
	link  *link     // nil in a transaction of the application
}

// Clock implements sqldb.Clocked.
func (c *conn) Clock() (int64, error) {
	err := c.begin()
	return c.now, err
}

// Exec implements sqldb.Conn.
func (c *conn) Exec(q string, args ...any) (int64, error) {
	values, err := bind(args)
	if err == nil {
		err = c.begin()
	}
	if err != nil {
		return 0, err
	}
	var tag pgconn.CommandTag
	err = c.link.exchange(false, func() (err error) {
		tag, err = c.raw.Exec(c.ctx, q, values...)
		return err
	})
	c.note(tag)
	return tag.RowsAffected(), err
}

// Query implements sqldb.Conn. It reads all rows before it calls each, because a connection runs
// one statement at a time and each may run another.
func (c *conn) Query(q string, each func(sqldb.Row) error, args ...any) error {
	values, err := bind(args)
	if err == nil {
		err = c.begin()
	}
	if err != nil {
		return err
	}
	r := row{types: c.raw.TypeMap()}
	var rows [][][]byte
	err = c.link.exchange(false, func() error {
		found, err := c.raw.Query(c.ctx, q, values...)
		if err != nil {
			return err
		}
		for found.Next() {
			rows = append(rows, own(found.RawValues()))
		}
		r.columns = found.FieldDescriptions()
		c.note(found.CommandTag())
		return found.Err()
	})
	if err != nil {
		return err
	}
	for _, r.values = range rows {
		if err := each(&r); err != nil {
			return err
		}
		if r.err != nil {
			return fmt.Errorf("%w: %s", r.err, q)
		}
	}
	return nil
}

// own copies the values of a row, which the next row would overwrite, into one piece of memory.
func own(raw [][]byte) [][]byte {
	size := 0
	for _, v := range raw {
		size += len(v)
	}
	memory := make([]byte, 0, size)
	values := make([][]byte, len(raw))
	for i, v := range raw {
		if v == nil {
			continue
		}
		from := len(memory)
		memory = append(memory, v...)
		values[i] = memory[from:len(memory):len(memory)]
	}
	return values
}

// Bulk implements sqldb.Conn.
func (c *conn) Bulk(q string, hit func(first int64), first sqldb.Ints, more ...sqldb.Column) error {
	args := make([]any, 1, 1+len(more))
	args[0] = first
	for i, column := range more {
		if column.Len() != len(first) {
			return fmt.Errorf("postgres: column %d has %d rows, the first has %d: %s", i+1, column.Len(), len(first), q)
		}
		args = append(args, column)
	}
	if len(first) == 0 {
		return nil
	}
	if hit == nil {
		_, err := c.Exec(q, args...)
		return err
	}
	return c.Query(q, func(r sqldb.Row) error { hit(r.Int(0)); return nil }, args...)
}

// Send implements sqldb.Sender.
func (c *conn) Send(batch []sqldb.Statement) error {
	c.fold(batch)
	opened := c.opening(batch)
	m, err := queue(opened)
	if err != nil {
		return err
	}
	err = c.link.exchange(false, func() error {
		_, err := c.exchange(c.ctx, m)
		return err
	})
	copy(batch, opened[len(opened)-len(batch):]) // how many rows each has changed
	return err
}

// note records that a statement has written.
func (c *conn) note(tag pgconn.CommandTag) {
	c.wrote = c.wrote || tag.RowsAffected() > 0 && (tag.Insert() || tag.Update() || tag.Delete())
}

func (c *conn) fold(batch []sqldb.Statement) {
	if c.same == nil {
		return
	}
	for i := range batch {
		c.same.fold(&batch[i])
	}
}

// message is a list of statements with their arguments in the form of the driver.
type message struct {
	batch  []sqldb.Statement
	driver pgx.Batch
}

func queue(batch []sqldb.Statement) (*message, error) {
	m := &message{batch: batch}
	for _, st := range batch {
		values, err := bind(append(st.Args, columnsOf(st.Rows)...))
		if err != nil {
			return nil, err
		}
		m.driver.Queue(st.Text, values...)
	}
	return m, nil
}

func columnsOf(rows []sqldb.Column) []any {
	args := make([]any, len(rows))
	for i, column := range rows {
		args[i] = column
	}
	return args
}

// exchange also returns the command tag of the last statement.
func (c *conn) exchange(ctx context.Context, m *message) (last pgconn.CommandTag, err error) {
	answers := c.raw.SendBatch(ctx, &m.driver)
	for i := range m.batch {
		if last, err = c.receive(answers, &m.batch[i]); err != nil {
			return last, errors.Join(err, answers.Close())
		}
	}
	return last, answers.Close()
}

func (c *conn) receive(answers pgx.BatchResults, st *sqldb.Statement) (pgconn.CommandTag, error) {
	found, err := answers.Query()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer found.Close()
	r := row{types: c.raw.TypeMap()}
	for found.Next() {
		if st.Each == nil {
			continue
		}
		r.columns, r.values = found.FieldDescriptions(), found.RawValues() // which hold until the next row
		if err := errors.Join(st.Each(&r), r.err); err != nil {
			return pgconn.CommandTag{}, err
		}
	}
	found.Close()
	st.Changed = found.CommandTag().RowsAffected()
	c.note(found.CommandTag())
	return found.CommandTag(), found.Err()
}

// bind converts arguments to values of the driver.
func bind(args []any) ([]any, error) {
	values := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case int64, string, nil:
			values[i] = a
		case int:
			values[i] = int64(a)
		case bool:
			values[i] = int64(0)
			if a {
				values[i] = int64(1)
			}
		case []byte:
			values[i] = a
			if a == nil {
				values[i] = []byte{}
			}
		case sqldb.Ints:
			values[i] = notNull(a)
		case sqldb.Texts:
			values[i] = notNull(a)
		case sqldb.Same:
			values[i] = a.Array()
		case sqldb.Blobs:
			values[i] = a.Array()
		default:
			return nil, fmt.Errorf("postgres: argument %d has type %T", i+1, a)
		}
	}
	return values, nil
}

// notNull makes an empty array of a nil slice, which would be NULL.
func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// row implements sqldb.Row.
type row struct {
	types   *pgtype.Map
	columns []pgconn.FieldDescription
	values  [][]byte
	before  []string // the texts of the row before: most are the same, and need no memory of their own
	err     error
}

func (r *row) scan(col int, into any) {
	if r.values[col] == nil {
		return
	}
	f := r.columns[col]
	if err := r.types.Scan(f.DataTypeOID, f.Format, r.values[col], into); err != nil && r.err == nil {
		r.err = fmt.Errorf("column %s: %w", f.Name, err)
	}
}

// Int implements sqldb.Row. Nearly all columns are bigints in binary: the driver's own way costs
// five times as much.
func (r *row) Int(col int) int64 {
	f, v := &r.columns[col], r.values[col]
	switch binaryOf := f.Format == pgx.BinaryFormatCode; {
	case binaryOf && len(v) == 8 && f.DataTypeOID == pgtype.Int8OID:
		return int64(binary.BigEndian.Uint64(v))
	case binaryOf && len(v) == 4 && f.DataTypeOID == pgtype.Int4OID:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case binaryOf && len(v) == 2 && f.DataTypeOID == pgtype.Int2OID:
		return int64(int16(binary.BigEndian.Uint16(v)))
	}
	return r.slowInt(col)
}

// slowInt is separate because a destination of the driver escapes to the heap.
func (r *row) slowInt(col int) (n int64) {
	r.scan(col, &n)
	return n
}

// Text implements sqldb.Row.
func (r *row) Text(col int) string {
	switch r.columns[col].DataTypeOID {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.UnknownOID: // the same in both formats
		if len(r.before) != len(r.columns) {
			r.before = make([]string, len(r.columns))
		}
		if r.before[col] != string(r.values[col]) {
			r.before[col] = string(r.values[col])
		}
		return r.before[col]
	}
	return r.slowText(col)
}

func (r *row) slowText(col int) (s string) {
	r.scan(col, &s)
	return s
}

// Bytes implements sqldb.Row.
func (r *row) Bytes(col int) []byte {
	f := r.columns[col]
	if v := r.values[col]; v != nil && f.DataTypeOID == pgtype.ByteaOID && f.Format == pgx.BinaryFormatCode {
		return append([]byte{}, v...)
	}
	var b []byte
	r.scan(col, &b)
	return b
}
