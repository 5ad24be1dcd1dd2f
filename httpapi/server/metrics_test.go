package server

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// TestMetricsReferenceIsComplete compares docs/reference/metrics.md with a server's metrics: each
// with its type and labels.
func TestMetricsReferenceIsComplete(t *testing.T) {
	s := newSite(t, Options{Open: true})
	if err := s.client.Queues().Set(t.Context(), "default", sojourn.QueueSettings{Limit: 5}); err != nil {
		t.Fatal(err)
	}
	s.want("a job", s.send("POST", "/v1/jobs", `{"kind":"k"}`), 201, "")
	s.want("a schedule", s.send("PUT", "/v1/schedules/nightly", `{"cron":"@daily","job":{"kind":"k"}}`), 200, "")
	s.want("a run", s.send("POST", "/v1/schedules/nightly/run", ""), 200, "")
	shown := s.send("GET", "/metrics", "").body
	if !strings.Contains(shown, `sojourn_schedule_runs_total{schedule="nightly"} 1`) || !strings.Contains(shown, `sojourn_schedule_lag_seconds{schedule="nightly"} 0`) {
		t.Errorf("the schedule is missing in\n%s", shown)
	}
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{} // metric → its row, without its meaning
	for _, row := range regexp.MustCompile("(?m)^\\| `(sojourn_[a-z_]+)` \\| ([a-z]+) \\| (.*?)\\|").FindAllStringSubmatch(string(page), -1) {
		written[row[1]] = row[2] + " " + strings.TrimSpace(row[3])
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(shown, -1) {
		sample := regexp.MustCompile(`(?m)^` + m[1] + `(?:_bucket)?(?:\{(.*)\})? `).FindStringSubmatch(shown)
		var labels []string
		for _, l := range regexp.MustCompile(`([a-z]+)="`).FindAllStringSubmatch(sample[1], -1) {
			if l[1] != "le" {
				labels = append(labels, "`"+l[1]+"`")
			}
		}
		want := map[string]bool{}
		for _, l := range labels {
			want[l] = true
		}
		row, ok := written[m[1]]
		if !ok || !strings.HasPrefix(row, m[2]+" ") {
			t.Errorf("%s, a %s, is written as %q", m[1], m[2], row)
		}
		for l := range want {
			if !strings.Contains(row, l) {
				t.Errorf("%s: the label %s is missing in %q", m[1], l, row)
			}
		}
		if n := strings.Count(row, "`") / 2; n != len(want) {
			t.Errorf("%s: %q names %d labels, there are %d", m[1], row, n, len(want))
		}
		delete(written, m[1])
	}
	for name := range written {
		t.Errorf("%s is written and not shown", name)
	}
}

// TestMetricsOfSchedulesStopAtGrants: a token sees the schedules into its queues only.
func TestMetricsOfSchedulesStopAtGrants(t *testing.T) {
	s := newSite(t, Options{})
	admin := s.token(time.Hour, grant("", "", access.VerbAdmin))
	for _, queue := range []string{"att", "vic"} {
		s.want("a schedule", s.send("PUT", "/v1/schedules/of-"+queue, `{"cron":"@daily","job":{"kind":"k","queue":"`+queue+`"}}`, admin), 200, "")
	}
	shown := s.send("GET", "/metrics", "", s.token(time.Hour, grant("att", "", access.VerbRead))).body
	if !strings.Contains(shown, `schedule="of-att"`) || strings.Contains(shown, "of-vic") {
		t.Errorf("a token for one queue sees\n%s", shown)
	}
}
