package server

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
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
	s.want("a workflow", s.send("PUT", "/v1/workflows/order", `{"members":[{"name":"a","job":{"kind":"k"}}]}`), 200, "")
	s.want("an open workflow", s.send("PUT", "/v1/workflows/more", `{"members":[{"name":"a","job":{"kind":"k"}}],"open":true}`), 200, "")
	s.want("a cancelled workflow", s.send("POST", "/v1/workflows/more/cancel", "{}"), 200, "")
	failOne(t, s)
	shown := s.send("GET", "/metrics", "").body
	for _, want := range []string{`sojourn_jobs_failures_total{kind="bank",queue="default",reason="bank_down"} 1`, `sojourn_workflows{state="running"} 1`, `sojourn_workflows{state="open"} 0`, `sojourn_workflows{state="cancelled"} 1`,
		`sojourn_workflow_problems 0`, "sojourn_workflow_oldest_seconds "} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is missing in\n%s", want, shown)
		}
	}
	if !strings.Contains(shown, `sojourn_schedule_runs_total{schedule="nightly"} 1`) || !strings.Contains(shown, `sojourn_schedule_lag_seconds{schedule="nightly"} 0`) {
		t.Errorf("the schedule is missing in\n%s", shown)
	}
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{} // metric → its row, without its meaning
	ofServer, _, _ := strings.Cut(string(page), "\n## Workers and sources\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `(sojourn_[a-z_]+)` \\| ([a-z]+) \\| (.*?)\\|").FindAllStringSubmatch(ofServer, -1) {
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

// failOne runs an attempt that fails, so that each metric has a sample.
func failOne(t *testing.T, s *site) {
	t.Helper()
	s.want("a job", s.send("POST", "/v1/jobs", `{"kind":"bank"}`), 201, "")
	store := driver.Of(s.client)
	got, err := store.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"bank"}, Max: 1, Capacity: 1, Lease: time.Minute})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if _, err := store.Finish(t.Context(), []sojourn.Outcome{{Lease: got[0].Lease, Type: sojourn.OutcomeError, Reason: "bank_down", Text: "no answer"}}); err != nil {
		t.Fatal(err)
	}
}

// TestMetricsOfWorkflowsStopAtGrants: a token counts the workflows within its grants only.
func TestMetricsOfWorkflowsStopAtGrants(t *testing.T) {
	s := newSite(t, Options{})
	admin := s.token(time.Hour, grant("", "", access.VerbAdmin))
	for _, queue := range []string{"att", "vic", "vic2"} {
		s.want("a workflow", s.send("PUT", "/v1/workflows/of-"+queue, `{"members":[{"name":"a","job":{"kind":"k","queue":"`+queue+`"}}]}`, admin), 200, "")
	}
	shown := s.send("GET", "/metrics", "", s.token(time.Hour, grant("att", "", access.VerbRead))).body
	if !strings.Contains(shown, `sojourn_workflows{state="running"} 1`) {
		t.Errorf("a token for one queue sees\n%s", shown)
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
