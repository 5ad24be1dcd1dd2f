package plain

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", 5 * time.Millisecond: "5 ms", 59 * time.Second: "59 s", 90 * time.Second: "1 min 30 s", 61 * time.Minute: "1 h 1 min",
		26 * time.Hour: "1 d 2 h", 300 * time.Hour: "12 d", -time.Minute: "1 min"} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := Number(-1234567); got != "-1,234,567" {
		t.Errorf("number: %q", got)
	}
}
