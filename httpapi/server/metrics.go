package server

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
	"github.com/sojourn-queue/sojourn/schedule"
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
	version := "(devel)"
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		version = b.Main.Version
	}
	build.WithLabelValues(version, runtime.Version()).Set(1)
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
	vec("sojourn_store_bytes", "Size of the store on disk, in bytes.").WithLabelValues().Set(float64(status.Bytes))
	if err := c.inboxMetrics(vec("sojourn_inbox_responses", "Responses that no job has taken, each outcome counted up to 10,000.", "outcome")); err != nil {
		return nil, err
	}
	if err := c.scheduleMetrics(state, vec, status.Now); err != nil {
		return nil, err
	}
	jobs := vec("sojourn_jobs", "Number of jobs.", "queue", "state")
	used := vec("sojourn_limit_used", "Weight in flight.", "queue")
	most := vec("sojourn_limit_capacity", "Limit of the weight in flight; absent for queues without a limit.", "queue")
	paused := vec("sojourn_queue_paused", "1 while the queue is paused.", "queue")
	stalled := vec("sojourn_stalled_jobs", "Running jobs whose lease has expired.", "queue")
	oldest := vec("sojourn_oldest_ready_seconds", "Age of the oldest ready job; 0 without ready jobs.", "queue")
	unhandled := vec("sojourn_unhandled_jobs", "Ready jobs of kinds that no worker has tried to claim within a day.", "queue", "kind")
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
		wait := 0.0
		if !q.OldestReady.IsZero() {
			wait = max(status.Now.Sub(q.OldestReady).Seconds(), 0)
		}
		paused.WithLabelValues(q.Name).Set(boolGauge(q.Settings.Paused))
		oldest.WithLabelValues(q.Name).Set(wait)
		for kind, n := range q.Unhandled {
			unhandled.WithLabelValues(q.Name, kind).Set(float64(n))
		}
	}
	promhttp.HandlerFor(prometheus.Gatherers{c.meters.registry, state}, promhttp.HandlerOpts{}).ServeHTTP(c.w, c.r)
	return done{}, nil
}

// scheduleMetrics shows the schedules that the caller may see.
func (c *call) scheduleMetrics(state *prometheus.Registry, vec func(name, help string, labels ...string) *prometheus.GaugeVec, now time.Time) error {
	count := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"schedule"})
		state.MustRegister(v)
		return v
	}
	lag := vec("sojourn_schedule_lag_seconds", "Seconds since the next tick of the schedule is due; 0 if none is due, or while it is paused.", "schedule")
	stopped := vec("sojourn_schedule_stopped", "1 while ticks of the schedule make no jobs because of a problem.", "schedule")
	paused := vec("sojourn_schedule_paused", "1 while the schedule is paused.", "schedule")
	runs := count("sojourn_schedule_runs_total", "Jobs that the schedule has made.")
	skipped := count("sojourn_schedule_skipped_total", "Ticks of the schedule without a job.")
	keeper := schedule.StoreOf(c.store)
	for after := ""; ; {
		page, err := keeper.Schedules(c.ctx, "", after, sojourn.MaxFind)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, d := range page {
			after = d.Name
			stopped.WithLabelValues(d.Name).Set(boolGauge(d.Problem != ""))
			paused.WithLabelValues(d.Name).Set(boolGauge(d.Paused))
			lag.WithLabelValues(d.Name).Set(tickLag(&d, now).Seconds())
			runs.WithLabelValues(d.Name).Add(float64(d.Runs))
			skipped.WithLabelValues(d.Name).Add(float64(d.Skipped))
		}
	}
}

func boolGauge(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// tickLag is how long the next tick of a schedule is overdue.
func tickLag(d *schedule.Schedule, now time.Time) time.Duration {
	after := d.UpdatedAt
	if d.LastTick.After(after) {
		after = d.LastTick
	}
	next, err := d.Ticks(after, 1)
	if err != nil || d.Paused || len(next) == 0 {
		return 0
	}
	return max(now.Sub(next[0]), 0)
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
