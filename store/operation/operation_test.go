package operation

import (
	"testing"

	"github.com/sojourn-queue/sojourn"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "50": 50, "50/s": 50, "90/m": 1.5, "36/h": 0.01, "0.5": 0.5} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"fast", "0", "-1", "50/d", "/s", "NaN", "50/s/s"} {
		if got, err := ParseRate(text); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
