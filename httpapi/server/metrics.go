package server

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/meter"
	"github.com/sojourn-queue/sojourn/internal/version"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/workflow"
)

// meters holds this server's own metrics. /metrics shows them with those of the store.
type meters struct {
	registry *prometheus.Registry
	took     *prometheus.HistogramVec
	swept    prometheus.Counter
}

func newMeters() *meters {
	m := &meters{registry: prometheus.NewRegistry(),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sojourn_http_request_seconds", Help: "Duration of requests, including long polls.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"route", "status"}),
		swept: prometheus.NewCounter(prometheus.CounterOpts{Name: "sojourn_swept_total", Help: "Overdue items that the sweep of this server has handled."}),
	}
	m.registry.MustRegister(m.took, m.swept)
	return m
}

// watch registers the gauges that are read from the server at each scrape.
func (m *meters) watch(s *Server) {
	gauge := func(name, help string, fn func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, fn))
	}
	gauge("sojourn_http_requests_at_work", "Requests at work in this server, long polls not counted.", func() float64 { return float64(s.admit.Requests()) })
	gauge("sojourn_http_bodies", "Requests whose body this server is reading; they have no slot yet.", func() float64 { return float64(s.arriving.Load()) })
	gauge("sojourn_http_long_polls", "Requests that wait in this server for something to happen.", func() float64 { return float64(s.admit.Waiting()) })
	gauge("sojourn_sweep_lag_seconds", "Seconds since the sweep of this server has last succeeded; since its start if it never has.", func() float64 { return s.sweepLag().Seconds() })
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_build_info", Help: "1; the labels have the version of the program."}, []string{"version", "go"})
	m.registry.MustRegister(build)
	build.WithLabelValues(version.Current().Version, runtime.Version()).Set(1)
}

// request counts one request. The label is the pattern of the route, never the path, so that
// callers cannot create new labels.
func (m *meters) request(pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = "other"
	}
	m.took.WithLabelValues(pattern, strconv.Itoa(status)).Observe(took.Seconds())
}

func (m *meters) sweep(s driver.Swept) { m.swept.Add(float64(s.Total())) }

// metricsRoute serves the metrics for Prometheus. They name queues and kinds, so the route needs a
// token like any other read. It is admitted in the class of claims: metrics are needed most when
// the server is overloaded.
var metricsRoute = route{method: http.MethodGet, path: "/metrics", id: "metrics", verb: access.VerbRead, class: admission.Claiming, serve: metrics}

func metrics(c *call) (any, error) {
	if err := c.begin(0); err != nil {
		return nil, err
	}
	queues, err := c.store.Queues(c.ctx)
	if err != nil {
		return nil, err
	}
	status, err := c.store.Status(c.ctx)
	if err != nil {
		return nil, err
	}
	state := prometheus.NewRegistry()
	vec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		state.MustRegister(v)
		return v
	}
	meter.Store(state, status)
	if err := c.inboxMetrics(vec("sojourn_inbox_responses", "Responses that no job has taken, each outcome counted up to 10,000.", "outcome")); err != nil {
		return nil, err
	}
	if err := meter.Schedules(c.ctx, state, schedule.StoreOf(c.store), status.Now); err != nil {
		return nil, err
	}
	if err := meter.Workflows(c.ctx, state, workflow.StoreOf(c.store), status.Now); err != nil {
		return nil, err
	}
	if err := meter.Statistics(c.ctx, state, c.store); err != nil {
		return nil, err
	}
	meter.Queues(state, slices.DeleteFunc(queues, func(q sojourn.QueueStatus) bool { return !c.who.sees(q.Name) }), status.Now)
	promhttp.HandlerFor(prometheus.Gatherers{c.meters.registry, state}, promhttp.HandlerOpts{}).ServeHTTP(c.w, c.r)
	return done{}, nil
}

// inboxMetrics counts the inbox for callers that may see all of it.
func (c *call) inboxMetrics(lying *prometheus.GaugeVec) error {
	if !c.who.everywhere(access.VerbRead) {
		return nil
	}
	counts, err := c.store.CountInbox(c.ctx)
	for outcome, n := range counts.Lying {
		lying.WithLabelValues(string(outcome)).Set(float64(n))
	}
	return err
}
