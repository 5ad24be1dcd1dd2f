package jobcmd

import (
	"fmt"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// What a job waits for stands on its page, with the clocks of the wait.
func TestWaits(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	a := &sojourn.Waiting{Mode: sojourn.WaitAll, Keys: []string{"stock", "credit"}, Answered: []string{"credit"}, Until: now.Add(time.Hour),
		Beat: now.Add(time.Minute), Poll: now.Add(10 * time.Second), Polls: 2}
	want := `[[awaits all of stock, credit] [answered credit] [within 2026-03-02T10:00:00Z (in 1h00m)] [beat 2026-03-02T09:01:00Z (in 1m00s)] ` +
		`[poll 2026-03-02T09:00:10Z (in 10s), after 2 polls without an answer]]`
	if got := fmt.Sprint(waits(a, now)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := fmt.Sprint(waits(&sojourn.Waiting{}, now)); got != "[[awaits its id or a token] [answered ] [within ] [beat ] [poll ]]" {
		t.Errorf("a wait for nothing in particular shows as %s", got)
	}
	if waits(nil, now) != nil {
		t.Error("a job that does not wait shows that it does")
	}
}
