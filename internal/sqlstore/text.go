package sqlstore

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

func jsonText(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// micros is t in microseconds, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// storable is text as every database can store it: without NUL, and valid UTF-8. Keys and names
// that are not storable are refused. In reasons, log lines and the like such bytes are replaced,
// because they must never cause the loss of an outcome.
func storable(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// storableArgs replaces args in place, but not the elements of lists: these may belong to the
// caller, who reads them concurrently.
func storableArgs(args []any) []any {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			if clean := storable(a); clean != a {
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

func storableColumns(columns []sqldb.Column) []sqldb.Column {
	for i, c := range columns {
		switch c := c.(type) {
		case sqldb.Texts:
			if clean, changed := storableTexts(c); changed {
				columns[i] = clean
			}
		case sqldb.Same:
			if text, ok := c.Value.(string); ok && storable(text) != text {
				columns[i] = sqldb.Same{Value: storable(text), N: c.N}
			}
		}
	}
	return columns
}

func storableTexts(list sqldb.Texts) (clean sqldb.Texts, changed bool) {
	for i, text := range list {
		if one := storable(text); one != text {
			if !changed {
				list, changed = slices.Clone(list), true
			}
			list[i] = one
		}
	}
	return list, changed
}

// at converts a stored time; 0 is none.
func at(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
