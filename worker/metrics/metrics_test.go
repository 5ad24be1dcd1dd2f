package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/sojourntest"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/worker/metrics"
)

// A worker's life: two attempts, of which the first fails, are counted with their reason. spec:X2
func TestWorker(t *testing.T) {
	m := metrics.New()
	h := sojourntest.New(t, sojourntest.WithWorker(worker.Options{Observer: m}))
	kind := sojourn.Kind[int]{Name: "charge", Queue: "money"}
	sojourntest.Handle(h, kind, func(_ context.Context, job *sojourn.Job, _ int) error {
		if got := text(t, m, "sojourn_worker_in_flight"); got != `sojourn_worker_in_flight{kind="charge",queue="money"} 1` {
			t.Errorf("in flight: %s", got)
		}
		if job.Attempt == 1 {
			return sojourn.WithReason("bank_down", errors.New("no answer"))
		}
		return nil
	})
	h.Enqueue(kind.New(1))
	h.RunUntilIdle()
	h.Advance(sojourn.DefaultTimeout)
	h.RunUntilIdle()
	for name, want := range map[string]string{
		"sojourn_worker_started_total": `sojourn_worker_started_total{kind="charge",queue="money"} 2`,
		"sojourn_worker_ended_total": `sojourn_worker_ended_total{kind="charge",outcome="completed",queue="money",reason=""} 1
sojourn_worker_ended_total{kind="charge",outcome="error",queue="money",reason="bank_down"} 1`,
		"sojourn_worker_in_flight": `sojourn_worker_in_flight{kind="charge",queue="money"} 0`,
	} {
		if got := text(t, m, name); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	waits := text(t, m, "sojourn_worker_wait_seconds")
	if !strings.Contains(waits, `sojourn_worker_wait_seconds_count{kind="charge",queue="money"} 2`) || strings.Contains(waits, `_sum{kind="charge",queue="money"} 0`) {
		t.Errorf("the second start has waited since its run_at:\n%s", waits)
	}
	for _, name := range []string{"sojourn_worker_run_seconds", "sojourn_worker_commit_jobs", "sojourn_worker_commit_seconds"} {
		if got := text(t, m, name); !strings.Contains(got, "_count") || strings.Contains(got, "_count 0") {
			t.Errorf("%s has no sample:\n%s", name, got)
		}
	}
}

// Reasons and kinds that come from outside make a bounded number of series.
func TestBounds(t *testing.T) {
	m := metrics.New()
	for i := range 2 * metrics.MaxKinds {
		m.Observe(worker.Event{Type: worker.EventFinished, Job: sojourn.ID(i + 1), Queue: "q", Kind: fmt.Sprint("k", i), Outcome: sojourn.OutcomeCompleted})
	}
	for i := range 2 * metrics.MaxReasons {
		m.Observe(worker.Event{Type: worker.EventFinished, Job: sojourn.ID(i + 1), Queue: "q", Kind: "k0", Outcome: sojourn.OutcomeError, Reason: fmt.Sprint("r", i)})
		m.Response(fmt.Sprint("s", i), "applied")
	}
	m.Observe(worker.Event{Type: worker.EventFinished, Queue: "q", Kind: "k0", Outcome: sojourn.OutcomeError, Reason: sojourn.ReasonPanic})
	if got, want := 1+strings.Count(text(t, m, "sojourn_worker_ended_total"), "\n"), metrics.MaxKinds+1+metrics.MaxReasons+1+1; got != want {
		t.Errorf("%d series of ends, want %d", got, want)
	}
	if got, want := 1+strings.Count(text(t, m, "sojourn_source_messages_total"), "\n"), metrics.MaxSources+1; got != want {
		t.Errorf("%d series of messages, want %d", got, want)
	}
	ends := text(t, m, "sojourn_worker_ended_total")
	for _, want := range []string{`kind="other",outcome="completed",queue="other",reason=""} 500`, `reason="other"} 100`, `reason="panic"} 1`} {
		if !strings.Contains(ends, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// Two workers of a process: one reports the loss of a job after the other has started it.
func TestInFlightDoesNotDrift(t *testing.T) {
	m := metrics.New()
	for _, e := range []worker.EventType{worker.EventStarted, worker.EventStarted, worker.EventLost, worker.EventFinished} {
		m.Observe(worker.Event{Type: e, Job: 7, Queue: "q", Kind: "k"})
	}
	if got := text(t, m, "sojourn_worker_in_flight"); got != `sojourn_worker_in_flight{kind="k",queue="q"} 0` {
		t.Error(got)
	}
}

func TestSource(t *testing.T) {
	m := metrics.New()
	observe := m.Source("bank")
	observe(source.Handled{})
	observe(source.Handled{Response: &sojourn.Response{}, Answer: sojourn.Responded{Outcome: sojourn.Applied}})
	want := `sojourn_source_messages_total{outcome="applied",source="bank"} 1
sojourn_source_messages_total{outcome="passed_over",source="bank"} 1`
	if got := text(t, m, "sojourn_source_messages_total"); got != want {
		t.Error(got)
	}
}

// text is the samples of one metric, in the text format of Prometheus.
func text(t *testing.T, m *metrics.Metrics, name string) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	to := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(to, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(to.Body.String()) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}

// TestReference compares docs/reference/metrics.md with the metrics: each with its type and labels.
func TestReference(t *testing.T) {
	m := metrics.New()
	for _, e := range []worker.EventType{worker.EventStarted, worker.EventFinished, worker.EventLost, worker.EventFailure} {
		m.Observe(worker.Event{Type: e, Purpose: sojourn.PurposeStart})
	}
	m.Response("s", "applied")
	shown := text(t, m, "")
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, ours, _ := strings.Cut(string(page), "\n## Workers and sources\n")
	rows := regexp.MustCompile("(?m)^\\| `(sojourn_[a-z_]+)` \\| ([a-z]+) \\| (.*?)\\|").FindAllStringSubmatch(ours, -1)
	for _, row := range rows {
		if !strings.Contains(shown, "# TYPE "+row[1]+" "+row[2]+"\n") {
			t.Errorf("%s is no %s", row[1], row[2])
		}
		sample := regexp.MustCompile(`(?m)^` + row[1] + `(?:_count)?(?:\{(.*)\})? `).FindStringSubmatch(shown)
		labels := regexp.MustCompile(`([a-z]+)="`).FindAllStringSubmatch(sample[1], -1)
		for _, l := range labels {
			if !strings.Contains(row[3], "`"+l[1]+"`") {
				t.Errorf("%s: the label %s is missing in the page", row[1], l[1])
			}
		}
		if n := strings.Count(row[3], "`") / 2; n != len(labels) {
			t.Errorf("%s: the page names %d labels, there are %d", row[1], n, len(labels))
		}
	}
	if n := strings.Count(shown, "# TYPE "); n != len(rows) {
		t.Errorf("the page has %d metrics, there are %d", len(rows), n)
	}
}
