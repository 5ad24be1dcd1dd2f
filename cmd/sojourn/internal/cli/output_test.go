package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// TestJSONIsThatOfTheAPI: durations have a unit, bytes that are JSON are JSON, other bytes are
// marked as base64, and a value takes one line.
func TestJSONIsThatOfTheAPI(t *testing.T) {
	var out strings.Builder
	a := &App{Out: &out}
	for _, v := range []any{
		map[string]any{"ran": 90 * time.Second, "keep": sojourn.None, "html": "<&>"},
		struct {
			Args   []byte `json:"args"`
			Result []byte `json:"result"`
			Body   []byte `json:"body,omitempty"`
		}{Args: []byte("{\"to\": \"ada\"}\n"), Result: []byte{0, 1, 255}},
		sojourn.Policy{RunTimeout: 1500 * time.Millisecond, OnLost: sojourn.Fail},
	} {
		if err := a.JSON(v); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"html":"<&>","keep":"none","ran":"90s"}` + "\n" + `{"args":{"to":"ada"},"result":{"$base64":"AAH/"}}` + "\n" + `{"run_timeout":"1.5s","on_lost":"fail"}` + "\n"
	if out.String() != want {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
}
