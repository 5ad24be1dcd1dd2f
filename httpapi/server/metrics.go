package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sojourn-queue/sojourn"
)

// meters are what /metrics tells beside the state of the store.
type meters struct {
	registry *prometheus.Registry
	took     *prometheus.HistogramVec
	swept    prometheus.Counter
}

func newMeters() *meters {
	m := &meters{registry: prometheus.NewRegistry(),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sojourn_http_request_seconds", Help: "Time of requests, long polls included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"route", "status"}),
		swept: prometheus.NewCounter(prometheus.CounterOpts{Name: "sojourn_swept_total", Help: "Overdue things that the sweep of this server has handled."}),
	}
	m.registry.MustRegister(m.took, m.swept)
	return m
}

// request counts one. The label is the pattern of the route, never the path, so that nobody can make new ones.
func (m *meters) request(pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = "other"
	}
	m.took.WithLabelValues(pattern, strconv.Itoa(status)).Observe(took.Seconds())
}

func (m *meters) sweep(s sojourn.Swept) { m.swept.Add(float64(s.Total())) }

// metricsRoute shows what Prometheus reads. It names queues and kinds, so it takes a token like any other look.
var metricsRoute = route{method: http.MethodGet, path: "/metrics", id: "metrics", verb: sojourn.VerbRead, class: reading, serve: metrics}

func metrics(c *call) (any, error) {
	queues, err := c.store.Queues(c.ctx)
	if err != nil {
		return nil, err
	}
	state := prometheus.NewRegistry()
	jobs := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_jobs", Help: "Jobs by queue and state."}, []string{"queue", "state"})
	used := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_limit_used", Help: "Weight in flight."}, []string{"queue"})
	most := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_limit_capacity", Help: "Limit of the weight in flight; queues without one are missing."}, []string{"queue"})
	paused := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_queue_paused", Help: "1 while the queue hands out nothing."}, []string{"queue"})
	stalled := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_stalled_jobs", Help: "Running jobs whose lease is past its end."}, []string{"queue"})
	unhandled := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_unhandled_jobs", Help: "Ready jobs of kinds for which no worker has asked within a day."}, []string{"queue", "kind"})
	state.MustRegister(jobs, used, most, paused, stalled, unhandled)
	for _, q := range queues {
		if !c.who.sees(q.Name) {
			continue
		}
		for s, n := range q.Counts {
			jobs.WithLabelValues(q.Name, s.String()).Set(float64(n))
		}
		used.WithLabelValues(q.Name).Set(float64(q.InFlight))
		stalled.WithLabelValues(q.Name).Set(float64(q.Stalled))
		if q.Settings.Limit > 0 {
			most.WithLabelValues(q.Name).Set(float64(q.Settings.Limit))
		}
		pause := 0.0
		if q.Settings.Paused {
			pause = 1
		}
		paused.WithLabelValues(q.Name).Set(pause)
		for kind, n := range q.Unhandled {
			unhandled.WithLabelValues(q.Name, kind).Set(float64(n))
		}
	}
	promhttp.HandlerFor(prometheus.Gatherers{c.meters.registry, state}, promhttp.HandlerOpts{}).ServeHTTP(c.w, c.r)
	return done{}, nil
}
