// Package metrics counts the work of workers and sources for Prometheus. A Metrics observes any
// number of both, and is a collector:
//
//	m := metrics.New()
//	w := worker.New(client, worker.Options{Observer: m})
//	s, err := source.New(client, broker, source.Options{Observe: m.Source("bank"), …})
//	prometheus.MustRegister(m)
//
// It counts what happens in this process. The metrics of the store as a whole, such as the number
// of jobs by state, are those of a server (httpapi/server).
//
// Labels are bounded, because each combination is a time series: see MaxKinds, MaxReasons and
// MaxSources.
package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/worker"
)

// Bounds of the values of labels. Further values are counted as Other.
const (
	MaxKinds   = 500 // pairs of a queue and a kind
	MaxReasons = 100 // reasons that are not among those of package sojourn; handlers choose them
	MaxSources = 100 // names given to Metrics.Source
	Other      = "other"
)

// seconds are the bounds of the histograms of times: from 1 ms to 1 day, because a job may wait and
// run for hours.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 86400}

var batches = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

// Metrics is a worker.Observer and a prometheus.Collector. Safe for concurrent use.
type Metrics struct {
	started  *prometheus.CounterVec
	ended    *prometheus.CounterVec
	lost     *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	wait     *prometheus.HistogramVec
	run      *prometheus.HistogramVec
	claimed  prometheus.Histogram
	reported prometheus.Histogram
	commit   prometheus.Histogram
	extend   prometheus.Histogram
	swept    prometheus.Counter
	failures *prometheus.CounterVec
	messages *prometheus.CounterVec

	mu      sync.Mutex // guards the fields below
	running map[sojourn.ID]pair
	kinds   map[pair]bool
	reasons map[string]bool
	sources map[string]bool
}

// pair is the labels of most metrics.
type pair struct{ queue, kind string }

// New returns a Metrics that has counted nothing yet.
func New() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	}
	return &Metrics{
		started: counter("sojourn_worker_started_total", "Steps whose handler, or poll function, has begun.", "queue", "kind"),
		ended: counter("sojourn_worker_ended_total", "Steps whose outcome is stored. The reason is empty without an error; beyond 100 of handlers it is other.",
			"queue", "kind", "outcome", "reason"),
		lost: counter("sojourn_worker_lost_leases_total", "Leases that ended under a running step.", "queue", "kind", "reason"),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sojourn_worker_in_flight", Help: "Steps that run, or whose outcome is not stored yet."},
			[]string{"queue", "kind"}),
		wait:     prometheus.NewHistogramVec(histogram("sojourn_worker_wait_seconds", "From the run_at of a job until a worker started it; each start counts.", seconds), []string{"queue", "kind"}),
		run:      prometheus.NewHistogramVec(histogram("sojourn_worker_run_seconds", "From the claim of a step to the end of its handler.", seconds), []string{"queue", "kind"}),
		claimed:  prometheus.NewHistogram(histogram("sojourn_worker_claim_jobs", "Jobs of a claim that got some.", batches)),
		reported: prometheus.NewHistogram(histogram("sojourn_worker_commit_jobs", "Outcomes that were stored together.", batches)),
		commit:   prometheus.NewHistogram(histogram("sojourn_worker_commit_seconds", "Duration of the calls that store outcomes.", seconds)),
		extend:   prometheus.NewHistogram(histogram("sojourn_worker_extend_seconds", "Duration of the calls that extend leases.", seconds)),
		swept:    prometheus.NewCounter(prometheus.CounterOpts{Name: "sojourn_worker_swept_total", Help: "Overdue items that the sweeps of workers have handled."}),
		failures: counter("sojourn_worker_store_failures_total", "Calls to the store that failed, and are repeated.", "call"),
		messages: counter("sojourn_source_messages_total", "Messages of sources, by the outcome of their response; passed_over without one.", "source", "outcome"),
		running:  map[sojourn.ID]pair{}, kinds: map[pair]bool{}, reasons: map[string]bool{}, sources: map[string]bool{},
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.started, m.ended, m.lost, m.inFlight, m.wait, m.run, m.claimed, m.reported, m.commit, m.extend, m.swept, m.failures, m.messages}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
}

// Observe implements worker.Observer.
func (m *Metrics) Observe(e worker.Event) {
	switch e.Type {
	case worker.EventClaimed:
		m.claimed.Observe(float64(e.Count))
	case worker.EventStarted:
		m.start(e)
	case worker.EventFinished:
		l := m.end(e)
		m.ended.WithLabelValues(l.queue, l.kind, string(e.Outcome), m.reason(e.Reason)).Inc()
		m.run.WithLabelValues(l.queue, l.kind).Observe(e.Ran.Seconds())
	case worker.EventLost:
		l := m.end(e)
		m.lost.WithLabelValues(l.queue, l.kind, e.Reason).Inc()
	case worker.EventReported:
		m.reported.Observe(float64(e.Count))
		m.commit.Observe(e.Took.Seconds())
	case worker.EventExtended:
		m.extend.Observe(e.Took.Seconds())
	case worker.EventSwept:
		m.swept.Add(float64(e.Count))
	case worker.EventFailure:
		m.failures.WithLabelValues(e.Call).Inc()
		if e.Job != 0 {
			m.end(e)
		}
	}
}

// start counts a step that begins.
func (m *Metrics) start(e worker.Event) {
	l := m.labels(e)
	m.started.WithLabelValues(l.queue, l.kind).Inc()
	if e.Purpose == sojourn.PurposeStart {
		m.wait.WithLabelValues(l.queue, l.kind).Observe(e.Waited.Seconds())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, ok := m.running[e.Job]; ok { // another worker of this process has lost the job and has not reported it yet
		m.inFlight.WithLabelValues(before.queue, before.kind).Dec()
	}
	m.running[e.Job] = l
	m.inFlight.WithLabelValues(l.queue, l.kind).Inc()
}

// end counts a step out. Steps that were handed back before their handler began are not in flight.
func (m *Metrics) end(e worker.Event) pair {
	l := m.labels(e)
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.running[e.Job]; ok {
		delete(m.running, e.Job)
		m.inFlight.WithLabelValues(was.queue, was.kind).Dec()
	}
	return l
}

// labels returns the queue and kind of an event.
func (m *Metrics) labels(e worker.Event) pair {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := pair{e.Queue, e.Kind}
	if !admit(m.kinds, l, MaxKinds) {
		return pair{Other, Other}
	}
	return l
}

// known are the reasons that do not count against MaxReasons.
var known = map[string]bool{"": true, sojourn.ReasonLeaseLost: true, sojourn.ReasonTimeout: true, sojourn.ReasonRunTimeout: true, sojourn.ReasonBeat: true,
	sojourn.ReasonDeadline: true, sojourn.ReasonKeyConflict: true, sojourn.ReasonUndecodable: true, sojourn.ReasonDependency: true, sojourn.ReasonPanic: true,
	sojourn.ReasonRolledBack: true}

func (m *Metrics) reason(r string) string {
	if known[r] {
		return r
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !admit(m.reasons, r, MaxReasons) {
		return Other
	}
	return r
}

// admit adds v to seen while there is room, and reports whether it is in it.
func admit[T comparable](seen map[T]bool, v T, most int) bool {
	if !seen[v] && len(seen) < most {
		seen[v] = true
	}
	return seen[v]
}

// Source returns the function for source.Options.Observe of the source with this name.
func (m *Metrics) Source(name string) func(source.Handled) {
	return func(h source.Handled) {
		outcome := "passed_over"
		if h.Response != nil {
			outcome = string(h.Answer.Outcome)
		}
		m.Response(name, outcome)
	}
}

// Response counts a message that was received in another way than by a source.Source, such as by a
// webhook receiver. outcome is one of a few values, such as those of sojourn.ResponseOutcome.
func (m *Metrics) Response(name, outcome string) {
	m.mu.Lock()
	if !admit(m.sources, name, MaxSources) {
		name = Other
	}
	m.mu.Unlock()
	m.messages.WithLabelValues(name, outcome).Inc()
}
