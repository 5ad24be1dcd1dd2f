package jobrow

import (
	"bytes"
	"slices"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Columns holds the rows of a bulk statement by column: first the ids, then numbers, then texts,
// then bytes. The rows of one transaction agree in most columns, and such a column is one value
// here (docs/internals/engine.md#unit-of-work).
type Columns struct {
	IDs     sqldb.Ints // the first column
	rows    int        // expected number
	numbers columnValues[int64]
	texts   columnValues[string]
	blobs   []blobCells
}

// NewColumns makes columns of each type beside the ids, with space for rows.
func NewColumns(rows, numbers, texts, blobs int) *Columns {
	return &Columns{rows: rows, numbers: make(columnValues[int64], numbers), texts: make(columnValues[string], texts), blobs: make([]blobCells, blobs)}
}

// Row begins a row. The caller then adds its values with Ints, Strings and Bytes, one for each
// column, or those of all rows with RowWrite.Fill.
func (c *Columns) Row(id int64) *Columns {
	if c.IDs == nil {
		c.IDs = make(sqldb.Ints, 0, c.rows)
	}
	c.IDs = append(c.IDs, id)
	return c
}

// Ints adds the numbers of the row.
func (c *Columns) Ints(values ...int64) *Columns {
	c.numbers.add(c.rows, values)
	return c
}

// Strings adds the texts of the row.
func (c *Columns) Strings(values ...string) *Columns {
	c.texts.add(c.rows, values)
	return c
}

// Bytes adds the bytes of the row, which are not copied.
func (c *Columns) Bytes(values ...[]byte) {
	for i, v := range values {
		c.blobs[i].add(c.rows, v)
	}
}

// All returns all columns but the ids.
func (c *Columns) All() []sqldb.Column {
	out := make([]sqldb.Column, 0, len(c.numbers)+len(c.texts)+len(c.blobs))
	for i := range c.numbers {
		if v := &c.numbers[i]; v.all != nil {
			out = append(out, sqldb.Ints(v.all))
		} else {
			out = append(out, sqldb.Same{Value: v.same, N: v.n})
		}
	}
	for i := range c.texts {
		if v := &c.texts[i]; v.all != nil {
			out = append(out, sqldb.Texts(v.all))
		} else {
			out = append(out, sqldb.Same{Value: v.same, N: v.n})
		}
	}
	for i := range c.blobs {
		if v := &c.blobs[i]; v.all != nil {
			out = append(out, v.all)
		} else {
			out = append(out, sqldb.Same{Value: append([]byte{}, v.same...), N: v.n})
		}
	}
	return out
}

// columnValues are the columns of one type.
type columnValues[T comparable] []cell[T]

// add adds a value to each column.
func (c columnValues[T]) add(rows int, values []T) {
	for i, v := range values {
		c[i].add(rows, v)
	}
}

// cell is one column: one value while all rows agree, and a list from the first row that differs.
type cell[T comparable] struct {
	same T
	n    int // rows, while all have the same value
	all  []T // nil while all have the same value
}

// add is small enough to be inlined.
func (c *cell[T]) add(rows int, v T) {
	if c.n > 0 && v != c.same || c.all != nil {
		c.differ(rows, v)
	} else {
		c.same, c.n = v, c.n+1
	}
}

// differ adds a value to a column whose values are not all the same.
func (c *cell[T]) differ(rows int, v T) {
	if c.all == nil {
		c.all = append(make([]T, 0, max(rows, c.n+1)), slices.Repeat([]T{c.same}, c.n)...)
	}
	c.all = append(c.all, v)
}

// blobCells is a column of bytes, as cell is one of other values; nil and empty bytes are equal.
type blobCells struct {
	same []byte
	n    int
	all  sqldb.Blobs
}

func (c *blobCells) add(rows int, v []byte) {
	switch {
	case c.all != nil:
		c.all = append(c.all, v)
	case c.n == 0 || bytes.Equal(v, c.same):
		c.same = v
		c.n++
	default:
		c.all = append(append(make(sqldb.Blobs, 0, max(rows, c.n+1)), slices.Repeat([][]byte{c.same}, c.n)...), v)
	}
}
