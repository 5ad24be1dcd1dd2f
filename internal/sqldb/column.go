package sqldb

import (
	"slices"
	"strconv"
)

// Column is an argument of Bulk: Ints, Texts, Blobs or Same.
type Column interface {
	// Len is the number of rows.
	Len() int
	// At is the value of row i: int64, string or []byte (never nil).
	At(i int) any
	// Array is the whole column as []int64, []string or [][]byte (without nil entries).
	Array() any
}

// The columns. Ints and Texts are also arguments of Exec and Query.
type (
	// Ints is a column of integers.
	Ints []int64
	// Texts is a column of texts.
	Texts []string
	// Blobs is a column of bytes; nil entries stand for empty bytes.
	Blobs [][]byte
)

// Len is the number of rows.
func (v Ints) Len() int { return len(v) }

// At is the value of row i, an int64.
func (v Ints) At(i int) any { return v[i] }

// Array is the column as []int64, not a copy.
func (v Ints) Array() any { return []int64(v) }

// JSON renders the column as a JSON array of numbers, for databases without arrays.
func (v Ints) JSON() string {
	b := make([]byte, 0, 2+len(v)*12)
	b = append(b, '[')
	for i, n := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}

// Len is the number of rows.
func (v Texts) Len() int { return len(v) }

// At is the value of row i, a string.
func (v Texts) At(i int) any { return v[i] }

// Array is the column as []string, not a copy.
func (v Texts) Array() any { return []string(v) }

// JSON renders the column as a JSON array of strings. Invalid UTF-8 is written unchanged
// (encoding/json would replace it), and SQLite reads it back unchanged.
func (v Texts) JSON() string {
	const hex = "0123456789abcdef"
	size := 2
	for _, s := range v {
		size += len(s) + 3
	}
	b := make([]byte, 0, size)
	b = append(b, '[')
	for i, s := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		for k := range len(s) {
			switch c := s[k]; {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < 0x20:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				b = append(b, c)
			}
		}
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

// Len is the number of rows.
func (v Blobs) Len() int { return len(v) }

// At is the value of row i, a []byte.
func (v Blobs) At(i int) any {
	if v[i] == nil {
		return []byte{}
	}
	return v[i]
}

// Array is the column as [][]byte; a copy only if an entry is nil.
func (v Blobs) Array() any {
	for i := range v {
		if v[i] == nil {
			w := make([][]byte, len(v))
			for k := range v {
				w[k] = v.At(k).([]byte)
			}
			return w
		}
	}
	return [][]byte(v)
}

// Same is a column of N rows with one value: an int64, a string or a []byte (never nil).
type Same struct {
	Value any
	N     int
}

// Len is the number of rows.
func (s Same) Len() int { return s.N }

// At is the value of row i.
func (s Same) At(int) any { return s.Value }

// Array is the whole column as []int64, []string or [][]byte.
func (s Same) Array() any {
	switch v := s.Value.(type) {
	case int64:
		return slices.Repeat([]int64{v}, s.N)
	case string:
		return slices.Repeat([]string{v}, s.N)
	case []byte:
		return slices.Repeat([][]byte{v}, s.N)
	}
	return nil
}
