package terminal

import (
	"testing"
	"time"
)

func TestHuman(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 999 * time.Millisecond: "999ms", 59 * time.Second: "59s", 61 * time.Second: "1m01s", time.Hour: "1h00m",
		47*time.Hour + 59*time.Minute: "47h59m", 48 * time.Hour: "2d00h", -time.Minute: "-1m00s", 1<<63 - 1: "106751d23h",
	} {
		if got := Human(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// What jobs carry comes from anywhere: nothing of it may command the terminal.
func TestNothingCommandsTheTerminal(t *testing.T) {
	evil := "a\x1b[2J\x00\r\xff\u009b31m\tz\n"
	for name, got := range map[string]string{"clean": Clean(evil), "short": Short(evil, 8), "printable": Printable(evil)} {
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%s lets %q through: %q", name, r, got)
			}
		}
	}
	if got := BytesText([]byte("{\"a\":1}\n")); got != "{\"a\":1}\n" {
		t.Errorf("text: %q", got)
	}
	if got := BytesText([]byte{0, 'a', 0xff}); got != "00000000  00 61 ff                                          |.a.|" {
		t.Errorf("bytes: %q", got)
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{"order-1": "order-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "a;b": "'a;b'", "ä": "'ä'"} {
		if got := Quote(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
