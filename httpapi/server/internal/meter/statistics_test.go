package meter

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

// The histograms are cumulative, and end with the number of all times. spec:X1
func TestStatistics(t *testing.T) {
	rows := []statistics.Row{{Queue: "q", Kind: "k", Enqueued: 3, Completed: 1, Failed: 1, Retried: 2, Failures: 3, Reasons: map[string]int64{"panic": 3},
		Wait: statistics.Times{Count: 3, Mean: 2, Histogram: []statistics.Bucket{{From: .0009, To: .00099, Count: 1}, {From: .0099, To: .0108, Count: 1}, {From: 59, To: 60, Count: 1}}}}}
	shown := scrape(t, newDay(rows))
	for _, want := range []string{
		`sojourn_jobs_enqueued_total{kind="k",queue="q"} 3`, `sojourn_jobs_ended_total{kind="k",outcome="cancelled",queue="q"} 0`,
		`sojourn_jobs_ended_total{kind="k",outcome="failed",queue="q"} 1`, `sojourn_jobs_retried_total{kind="k",queue="q"} 2`,
		`sojourn_jobs_failures_total{kind="k",queue="q",reason="panic"} 3`,
		`sojourn_jobs_wait_seconds_bucket{kind="k",queue="q",le="0.001"} 1`, `sojourn_jobs_wait_seconds_bucket{kind="k",queue="q",le="0.01"} 1`,
		`sojourn_jobs_wait_seconds_bucket{kind="k",queue="q",le="0.025"} 2`, `sojourn_jobs_wait_seconds_bucket{kind="k",queue="q",le="60"} 3`,
		`sojourn_jobs_wait_seconds_count{kind="k",queue="q"} 3`, `sojourn_jobs_wait_seconds_sum{kind="k",queue="q"} 6`,
	} {
		if !strings.Contains(shown, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, shown)
		}
	}
}

// Queues, kinds and reasons come from outside, so their series are bounded, and nothing is lost.
func TestStatisticsAreBounded(t *testing.T) {
	var rows []statistics.Row
	for i := range 2 * maxPairs {
		r := statistics.Row{Queue: "q", Kind: fmt.Sprintf("k%04d", i), Enqueued: 1, Reasons: map[string]int64{}}
		for n := range 5 {
			r.Reasons[fmt.Sprint("r", n)] = 1
		}
		rows = append(rows, r)
	}
	shown := scrape(t, newDay(rows))
	if n := strings.Count(shown, "\nsojourn_jobs_enqueued_total{"); n != maxPairs+1 {
		t.Errorf("%d series of pairs, want %d", n, maxPairs+1)
	}
	if n := strings.Count(shown, "\nsojourn_jobs_failures_total{"); n > maxReasons+maxPairs+1 {
		t.Errorf("%d series of reasons", n)
	}
	if want := fmt.Sprintf(`sojourn_jobs_enqueued_total{kind="other",queue="other"} %d`, maxPairs); !strings.Contains(shown, want) {
		t.Errorf("%s is missing", want)
	}
}

// crowded is a store with more pairs of a queue and a kind than it lists.
type crowded struct{ sojourn.Store }

func (crowded) Statistics(_ context.Context, q statistics.Query) ([]statistics.Row, error) {
	if len(q.By) > 0 {
		return nil, sojourn.Invalid("by", "this would be too many rows")
	}
	return []statistics.Row{{Enqueued: statistics.MaxRows + 1}}, nil
}

// A store with very many queues and kinds does not end the scrape: they are one sum.
func TestStatisticsOfVeryManyPairs(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := Statistics(t.Context(), registry, crowded{}); err != nil {
		t.Fatal(err)
	}
	if shown, want := gather(registry), `sojourn_jobs_enqueued_total{kind="other",queue="other"} 10001`; !strings.Contains(shown, want+"\n") {
		t.Errorf("%s is missing in\n%s", want, shown)
	}
}

// The reasons that are summed up are the same in each scrape, so that no counter goes down.
func TestReasonsStay(t *testing.T) {
	row := statistics.Row{Queue: "q", Kind: "k", Reasons: map[string]int64{}}
	for n := range maxReasons + 50 {
		row.Reasons[fmt.Sprintf("r%04d", n)] = int64(n + 1)
	}
	first := scrape(t, newDay([]statistics.Row{row}))
	for range 3 {
		if again := scrape(t, newDay([]statistics.Row{row})); again != first {
			t.Fatal("two scrapes of the same statistics differ")
		}
	}
}

func scrape(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return gather(registry)
}

func gather(registry *prometheus.Registry) string {
	to := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(to, httptest.NewRequest("GET", "/metrics", nil))
	return to.Body.String()
}
