package execjob

import (
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// TestLinesAreBounded: a line without an end needs no room, and says how long it was.
func TestLinesAreBounded(t *testing.T) {
	var got []string
	l := lines{log: func(line string) { got = append(got, line) }}
	chunk := []byte(strings.Repeat("x", 32<<10))
	for range 100 {
		if n, err := l.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	if room := cap(l.part) + cap(l.tail); room > 64<<10 {
		t.Errorf("%d bytes are kept of an endless line", room)
	}
	_, _ = l.Write([]byte("\n\n  \nnext\r\nno end"))
	l.flush()
	if len(got) != 3 || !strings.HasSuffix(got[0], "xx… [cut, 3276800 bytes]") || len(got[0]) > sojourn.MaxProgress || got[1] != "next" || got[2] != "no end" {
		t.Errorf("%d lines: %.80q", len(got), got)
	}
}
