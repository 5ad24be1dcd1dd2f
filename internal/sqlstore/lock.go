package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

func raced(what string) error {
	return fmt.Errorf("%s: %w", what, sqldb.ErrRaced) // without a code: it is never an answer for one item
}

// Where transactions run concurrently they lock in one order: first the live rows that the whole
// group names, ascending, then keys. A claim and a sweep skip locked rows, so they never wait.
// Locks out of this order (rows that are found on the way) may end in a deadlock, which the
// database detects and DB.Update repeats.
const (
	qLockLive  = `select l.id from sj_live l where l.id in (ints($1)) order by l.id /*lock l*/`
	qLockFinal = `select f.id from sj_final f where f.id in (ints($1)) order by f.id /*lock f*/`
	qLockKey   = `select k.job, k.live, k.held_until_us from sj_key k where k.kind = $1 and k.key = $2 /*lock k*/`
)

func (t *tx) concurrent() bool { return t.s.db.Dialect().Concurrent }

// lock waits for rows that others are changing and keeps them unchanged until the end of the
// transaction.
func (t *tx) lock(q string, ids sqldb.Ints) error {
	if len(ids) == 0 || !t.concurrent() {
		return nil
	}
	return t.query(q, func(sqldb.Row) error { return nil }, ids)
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
