package ui

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// TestStatistics: the page counts jobs by queue and kind, for some days and one queue (spec:H11).
func TestStatistics(t *testing.T) {
	b := mount(t, Options{})
	for range 3 {
		b.enqueue(sojourn.NewJob("charge", nil, sojourn.Queue("pay")))
	}
	b.finish(b.claim("w", "pay", "charge"), sojourn.Outcome{Type: sojourn.OutcomeCompleted})
	b.finish(b.claim("w", "pay", "charge"), sojourn.OutcomeOf(sojourn.Abort(sojourn.WithReason("declined", errors.New("no money")))))
	b.enqueue(sojourn.NewJob("send", nil, sojourn.Queue("mail")))
	for path, jobs := range map[string]string{"statistics": "4", "statistics?days=30": "4", "statistics?queue=pay&days=7": "3", "statistics?days=x": "4"} {
		body := b.see(path, `<b>`+jobs+`</b><span class="muted">enqueued`, ">pay</a>", ">charge</a>", "declined", "failures?kind=charge&amp;queue=pay")
		if !regexp.MustCompile(`data-h="ran">[0-9.]+(ms|s|min)/[0-9.]+(ms|s|min)</td>`).MatchString(body) {
			t.Errorf("%s: shows no times", path)
		}
		if mail := strings.Contains(body, ">mail</a>"); mail == strings.Contains(path, "queue=") {
			t.Errorf("%s: shows queue mail: %v", path, mail)
		}
		if bars := strings.Count(body, "<g><title>"); bars != map[string]int{"statistics": 0, "statistics?days=30": 30, "statistics?queue=pay&days=7": 7}[path] {
			t.Errorf("%s: %d bars", path, bars)
		}
	}
	b.see("statistics?queue=none", "Nothing has happened today")
	b.see("", "Statistics of days")
	b.see("queue?name=pay", "statistics?queue=pay")
}
