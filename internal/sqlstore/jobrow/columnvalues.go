package jobrow

import (
	"bytes"
	"slices"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Columns holds the rows of a bulk by column: first the ids, then numbers, then texts, then bytes.
// The rows of one transaction agree in most columns; such a column is kept as one value
// (docs/internals/engine.md#unit-of-work).
type Columns struct {
	rows    int // expected number
	IDs     sqldb.Ints
	numbers columnValues[int64]
	texts   columnValues[string]
	blobs   []blobCells
}

// NewColumns makes a sheet with space for rows, and with columns of each type beside the ids.
func NewColumns(rows, numbers, texts, blobs int) *Columns {
	return &Columns{rows: rows, numbers: make(columnValues[int64], numbers), texts: make(columnValues[string], texts), blobs: make([]blobCells, blobs)}
}

// Row begins a row. The caller gives it the values of all columns, with the methods below.
func (s *Columns) Row(id int64) *Columns {
	if s.IDs == nil {
		s.IDs = make(sqldb.Ints, 0, s.rows)
	}
	s.IDs = append(s.IDs, id)
	return s
}

func (s *Columns) Ints(values ...int64) *Columns {
	s.numbers.add(s.rows, values)
	return s
}

func (s *Columns) Strings(values ...string) *Columns {
	s.texts.add(s.rows, values)
	return s
}

func (s *Columns) Bytes(values ...[]byte) {
	for i, v := range values {
		s.blobs[i].add(s.rows, v)
	}
}

// All are all but the ids.
func (s *Columns) All() []sqldb.Column {
	out := make([]sqldb.Column, 0, len(s.numbers)+len(s.texts)+len(s.blobs))
	for i := range s.numbers {
		if c := &s.numbers[i]; c.all != nil {
			out = append(out, sqldb.Ints(c.all))
		} else {
			out = append(out, sqldb.Same{Value: c.same, N: c.n})
		}
	}
	for i := range s.texts {
		if c := &s.texts[i]; c.all != nil {
			out = append(out, sqldb.Texts(c.all))
		} else {
			out = append(out, sqldb.Same{Value: c.same, N: c.n})
		}
	}
	for i := range s.blobs {
		if c := &s.blobs[i]; c.all != nil {
			out = append(out, c.all)
		} else {
			out = append(out, sqldb.Same{Value: append([]byte{}, c.same...), N: c.n})
		}
	}
	return out
}

// columnValues are columns of one sort.
type columnValues[T comparable] []cell[T]

// add adds a value to each column.
func (c columnValues[T]) add(rows int, values []T) {
	for i, v := range values {
		c[i].add(rows, v)
	}
}

// blobCells is a column of bytes; nil and empty bytes are the same.
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

// cell is one column.
type cell[T comparable] struct {
	same T
	n    int // rows with it, while there are no others
	all  []T // nil until then
}

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
