//go:build unix

package execjob

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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

// TestLastLinesAreRead: the output of a program before its end is logged, also by a slow log, and
// while another process holds the pipe open.
func TestLastLinesAreRead(t *testing.T) {
	n := 0
	p, err := newPipe(func(string) { time.Sleep(readLast / 20); n++ })
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", p.w.Fd()), os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	defer other.Close()
	const lines = 45 // of 1 KiB: two reads, the first of which takes longer than readLast
	if _, err := other.WriteString(strings.Repeat(strings.Repeat("x", 1023)+"\n", lines)); err != nil {
		t.Fatal(err)
	}
	p.start()
	p.end()
	if n != lines {
		t.Errorf("%d lines were logged of %d", n, lines)
	}
}
