package jobrow

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// JSONText returns the JSON of v as a text.
func JSONText(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// Micros converts a time to a stored one: microseconds since 1970, 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time converts a stored time, in microseconds since 1970, to UTC. 0 is the zero time.
func Time(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Storable returns a text as every database can store it: without NUL, and valid UTF-8. Other bytes
// are replaced by U+FFFD, because a reason or a log line must never cause the loss of an outcome.
// Keys and names with such bytes were refused before (inv:C6).
func Storable(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// StorableArgs makes the texts among the arguments of a statement storable. It replaces args in
// place, but not the elements of lists: these may belong to the caller, who reads them
// concurrently.
func StorableArgs(args []any) []any {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			if clean := Storable(a); clean != a {
				args[i] = clean
			}
		case sqldb.Texts:
			if clean, changed := storableTexts(a); changed {
				args[i] = clean
			}
		}
	}
	return args
}

// StorableColumns is StorableArgs for the columns of a bulk statement.
func StorableColumns(columns []sqldb.Column) []sqldb.Column {
	for i, c := range columns {
		switch c := c.(type) {
		case sqldb.Texts:
			if clean, changed := storableTexts(c); changed {
				columns[i] = clean
			}
		case sqldb.Same:
			if text, ok := c.Value.(string); ok && Storable(text) != text {
				columns[i] = sqldb.Same{Value: Storable(text), N: c.N}
			}
		}
	}
	return columns
}

// storableTexts returns a list with storable texts: a copy if one of them has changed.
func storableTexts(list sqldb.Texts) (clean sqldb.Texts, changed bool) {
	for i, text := range list {
		if one := Storable(text); one != text {
			if !changed {
				list, changed = slices.Clone(list), true
			}
			list[i] = one
		}
	}
	return list, changed
}
