package main

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("other"), exitFailed},
		{sojourn.Invalid("key", "no"), exitUsage},
		{sojourn.TooLarge("args", 2, 1), exitUsage},
		{sojourn.NotFound("no"), exitNotFound},
		{fmt.Errorf("wrapped: %w", sojourn.ErrNotFound), exitNotFound},
		{sojourn.Conflict("no"), exitConflict},
		{sojourn.ErrLeaseLost, exitConflict},
		{sojourn.ErrClosed, exitUnavailable},
		{&sojourn.Error{Code: sojourn.CodeUnavailable}, exitUnavailable},
		{&sojourn.Error{Code: sojourn.CodeUnknown}, exitUnavailable},
		{&unusableError{sojourn.Invalid("path", "no database")}, exitUnavailable},
		{&unusableError{fs.ErrPermission}, exitUnavailable},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// What a job waits for stands on its page, with the clocks of the wait.
func TestWaits(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	a := &sojourn.Awaits{Mode: sojourn.WaitAll, Keys: []string{"stock", "credit"}, Answered: []string{"credit"}, Until: now.Add(time.Hour),
		Beat: now.Add(time.Minute), Poll: now.Add(10 * time.Second), Polls: 2}
	want := `[[awaits all of stock, credit] [answered credit] [within 2026-03-02T10:00:00Z (in 1h00m)] [beat 2026-03-02T09:01:00Z (in 1m00s)] ` +
		`[poll 2026-03-02T09:00:10Z (in 10s), after 2 polls without an answer]]`
	if got := fmt.Sprint(waits(a, now)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprint(waits(&sojourn.Awaits{}, now)); got != "[[awaits its id or a token] [answered ] [within ] [beat ] [poll ]]" {
		t.Errorf("a wait for nothing in particular shows as %s", got)
	}
	if waits(nil, now) != nil {
		t.Error("a job that does not wait shows that it does")
	}
}

func TestDiagnose(t *testing.T) {
	d := diagnose([]string{"a", "b"}, []driver.Violation{{Check: "b", Detail: "1"}, {Check: "new", Detail: "2"}, {Check: "b", Detail: "3"}})
	if got, want := fmt.Sprint(d), "{false [] [{a []} {b [1 3]} {new [2]}]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if d := diagnose([]string{"a"}, nil); !d.Healthy {
		t.Error("nothing found, and not healthy")
	}
}

func TestHuman(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 999 * time.Millisecond: "999ms", 59 * time.Second: "59s", 61 * time.Second: "1m01s", time.Hour: "1h00m",
		47*time.Hour + 59*time.Minute: "47h59m", 48 * time.Hour: "2d00h", -time.Minute: "-1m00s", 1<<63 - 1: "106751d23h",
	} {
		if got := human(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// What jobs carry comes from anywhere: nothing of it may command the terminal.
func TestNothingCommandsTheTerminal(t *testing.T) {
	evil := "a\x1b[2J\x00\r\xff\u009b31m\tz\n"
	for name, got := range map[string]string{"clean": clean(evil), "short": short(evil, 8), "printable": printable(evil)} {
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%s lets %q through: %q", name, r, got)
			}
		}
	}
	if got := bytesText([]byte("{\"a\":1}\n")); got != "{\"a\":1}\n" {
		t.Errorf("text: %q", got)
	}
	if got := bytesText([]byte{0, 'a', 0xff}); got != "00000000  00 61 ff                                          |.a.|" {
		t.Errorf("bytes: %q", got)
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{"order-1": "order-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "a;b": "'a;b'", "ä": "'ä'"} {
		if got := quote(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
