package meter

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

// Bounds of the series of a scrape. Further ones are summed up with the label "other".
const (
	maxPairs   = 500   // pairs of a queue and a kind
	maxReasons = 2_000 // combinations of a queue, a kind and a reason
)

// bounds are those of the histograms, in seconds. From 10 s on they are bounds of the store's own
// buckets.
var bounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 86400}

// Statistics adds the counters and histograms of the present UTC day that the store keeps by queue
// and kind, as far as the caller in ctx may read them. They begin again at midnight, like those of
// a process that restarts. A store without statistics has none.
func Statistics(ctx context.Context, state *prometheus.Registry, store sojourn.Store) error {
	keeper, ok := store.(statistics.Store)
	if !ok {
		return nil
	}
	rows, err := keeper.Statistics(ctx, statistics.Query{By: []statistics.Dimension{statistics.ByQueue, statistics.ByKind}, Histogram: true})
	if sojourn.ErrorCode(err) == sojourn.CodeInvalid { // more than statistics.MaxRows pairs
		rows, err = keeper.Statistics(ctx, statistics.Query{Histogram: true})
		for i := range rows {
			rows[i].Queue, rows[i].Kind = other, other
		}
	}
	if err != nil {
		return err
	}
	state.MustRegister(newDay(rows))
	return nil
}

// day is the statistics of a day as a collector.
type day struct {
	enqueued, ended, retried, failed *prometheus.CounterVec
	times                            []prometheus.Metric
}

// pair has the labels of most metrics.
type pair struct{ queue, kind string }

const other = "other"

func newDay(rows []statistics.Row) *day {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help + " since midnight UTC."}, append([]string{"queue", "kind"}, labels...))
	}
	d := &day{
		enqueued: counter("sojourn_jobs_enqueued_total", "New jobs"),
		ended:    counter("sojourn_jobs_ended_total", "Jobs that ended", "outcome"),
		retried:  counter("sojourn_jobs_retried_total", "Failed attempts after which the job went on"),
		failed:   counter("sojourn_jobs_failures_total", "Failed attempts, and jobs that failed without one,", "reason"),
	}
	names := []string{"sojourn_jobs_wait_seconds", "sojourn_jobs_run_seconds", "sojourn_jobs_response_wait_seconds"}
	sums := make([]map[pair]*sum, len(names))
	for i := range sums {
		sums[i] = map[pair]*sum{}
	}
	reasons := 0
	for i, r := range rows {
		l := pair{r.Queue, r.Kind}
		if i >= maxPairs {
			l = pair{other, other}
		}
		d.enqueued.WithLabelValues(l.queue, l.kind).Add(float64(r.Enqueued))
		d.retried.WithLabelValues(l.queue, l.kind).Add(float64(r.Retried))
		for outcome, n := range map[sojourn.State]int64{sojourn.Completed: r.Completed, sojourn.Failed: r.Failed, sojourn.Cancelled: r.Cancelled} {
			d.ended.WithLabelValues(l.queue, l.kind, outcome.String()).Add(float64(n))
		}
		for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) { // the same ones are summed up in each scrape
			shown := reason
			if reasons++; reasons > maxReasons {
				shown = other
			}
			d.failed.WithLabelValues(l.queue, l.kind, shown).Add(float64(r.Reasons[reason]))
		}
		for k, t := range []statistics.Times{r.Wait, r.Run, r.Response} {
			if sums[k][l] == nil {
				sums[k][l] = &sum{buckets: make(map[float64]uint64, len(bounds))}
			}
			sums[k][l].add(t)
		}
	}
	for k, name := range names {
		desc := prometheus.NewDesc(name, help[k]+" Since midnight UTC.", []string{"queue", "kind"}, nil)
		for l, s := range sums[k] {
			d.times = append(d.times, prometheus.MustNewConstHistogram(desc, s.count, s.seconds, s.buckets, l.queue, l.kind))
		}
	}
	return d
}

// help describes the three histograms.
var help = []string{"From when a job could start until a worker started it; each start counts.", "Steps that ran and were reported.",
	"From the begin of a wait until the response that ended it."}

// sum is a histogram in the making.
type sum struct {
	count   uint64
	seconds float64
	buckets map[float64]uint64
}

// add counts times. A bucket of the store that goes over a bound counts above it.
func (s *sum) add(t statistics.Times) {
	s.count += uint64(t.Count)
	s.seconds += t.Mean * float64(t.Count)
	for _, most := range bounds {
		n := uint64(0)
		for _, b := range t.Histogram {
			if b.To <= most {
				n += uint64(b.Count)
			}
		}
		s.buckets[most] += n
	}
}

// Describe implements prometheus.Collector; it describes nothing, because the labels are data.
func (*day) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d *day) Collect(to chan<- prometheus.Metric) {
	for _, c := range []*prometheus.CounterVec{d.enqueued, d.ended, d.retried, d.failed} {
		c.Collect(to)
	}
	for _, m := range d.times {
		to <- m
	}
}
