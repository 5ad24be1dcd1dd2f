package txn

import (
	"errors"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// TestStorable: inv:C6. Text that no database can store is replaced, other text is unchanged.
func TestStorable(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"plain ä€😀 \x7f", "plain ä€😀 \x7f"}, {"a\x00b\x00", "a\uFFFDb\uFFFD"}, {"\xff\xfe", "\uFFFD"}, {"\xed\xa0\x80x", "\uFFFDx"},
	} {
		if got := jobrow.Storable(c.text); got != c.want {
			t.Errorf("storable(%q) = %q, want %q", c.text, got, c.want)
		}
	}
	own := sqldb.Texts{"a", "\xff"}
	args := jobrow.StorableArgs([]any{int64(1), "\x00", own, []byte{0}})
	columns := jobrow.StorableColumns([]sqldb.Column{own})
	if columns[0].(sqldb.Texts)[1] != "\uFFFD" || own[1] != "\xff" {
		t.Errorf("%q, of the caller %q", columns, own)
	}
	if args[1] != "\uFFFD" || args[2].(sqldb.Texts)[1] != "\uFFFD" || string(args[3].([]byte)) != "\x00" {
		t.Errorf("%q", args)
	}
}

// TestRacedIsNoAnswer: a lost race has no code, so no batch takes it for the refusal of one item.
func TestRacedIsNoAnswer(t *testing.T) {
	if err := Raced("a key was taken"); sojourn.ErrorCode(err) != "" || !errors.Is(err, sqldb.ErrRaced) {
		t.Error(err)
	}
}
