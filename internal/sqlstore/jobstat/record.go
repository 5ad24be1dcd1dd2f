package jobstat

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/sojourn-queue/sojourn/store/statistics"
)

// Counts are numbers of events, in the order of the constants.
type Counts [counters]int64

// The places of Counts.
const (
	Enqueued = iota
	Completed
	Failed    // jobs that ended as failed
	Cancelled // jobs that ended as cancelled
	Retried   // failed attempts after which the job goes on
	Redriven  // redrives of final jobs
	Failures  // failed attempts, and ends as failed without one: the sum of the reasons
	counters
)

// The places of Record.Times.
const (
	Wait     = iota // from when the job could start until a worker started it
	Run             // steps that ran, as their workers reported
	Response        // from the begin of a wait until the response that ended it
	Total           // from the enqueue or redrive until the job was completed or failed
	Measures
)

const (
	// MaxReasons is the number of reasons of one queue, kind and day.
	MaxReasons = statistics.MaxReasons
	// Other has the failures of all further reasons.
	Other = statistics.Other
	// Unknown has the failures without a reason.
	Unknown = statistics.Unknown
)

// Key identifies a record.
type Key struct {
	Day         int64 // since 1970, UTC
	Queue, Kind string
}

// DayOf returns the UTC day of a time in microseconds since 1970.
func DayOf(us int64) int64 { return us / day }

// Compare orders keys by day, queue and kind.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Day, o.Day), cmp.Compare(k.Queue, o.Queue), cmp.Compare(k.Kind, o.Kind))
}

// Record is the statistics of a key, or of several keys together. The zero value has counted
// nothing.
type Record struct {
	Counts
	Reasons map[string]int64
	Times   [Measures]Times
}

// Times are times of one measure in microseconds: Welford's moments and a histogram.
type Times struct {
	N         int64
	Mean      float64
	Squares   float64 // the sum of the squared distances from the mean
	Max       int64
	Histogram map[int]int64 // by the number of the bucket; without empty buckets
}

// Add counts one time; one below 0 is 0.
func (t *Times) Add(us int64) {
	us = max(us, 0)
	t.N++
	d := float64(us) - t.Mean
	t.Mean += d / float64(t.N)
	t.Squares += d * (float64(us) - t.Mean)
	t.Max = max(t.Max, us)
	t.bucket(BucketOf(us), 1)
}

func (t *Times) bucket(n int, count int64) {
	if t.Histogram == nil {
		t.Histogram = map[int]int64{}
	}
	t.Histogram[n] += count
}

// Merge adds other times, by the formula of Chan et al. The result is that of adding them one by
// one, but for the rounding of the mean and of Squares.
func (t *Times) Merge(o *Times) {
	if o.N > 0 {
		n := t.N + o.N
		d := o.Mean - t.Mean
		t.Mean += d * float64(o.N) / float64(n)
		t.Squares += o.Squares + d*d*float64(t.N)*float64(o.N)/float64(n)
		t.N, t.Max = n, max(t.Max, o.Max)
	}
	t.MergeHistogram(o)
}

// MergeHistogram adds only the histogram of other times.
func (t *Times) MergeHistogram(o *Times) {
	for b, count := range o.Histogram {
		t.bucket(b, count)
	}
}

// Variance is the sample variance; 0 for fewer than two times.
func (t *Times) Variance() float64 {
	if t.N < 2 {
		return 0
	}
	return max(t.Squares/float64(t.N-1), 0)
}

// Quantile returns the time in microseconds at or below which a share q of the times lie: the time
// of rank ⌈q·n⌉, placed within its bucket by its rank. NaN without a histogram.
func (t *Times) Quantile(q float64) float64 {
	n := int64(0)
	for _, count := range t.Histogram {
		n += count
	}
	if n == 0 {
		return math.NaN()
	}
	rank := min(max(int64(math.Ceil(q*float64(n))), 1), n)
	for _, b := range slices.Sorted(maps.Keys(t.Histogram)) {
		count := t.Histogram[b]
		if rank <= count {
			from, to := BucketFrom(b), BucketFrom(b+1)
			at := float64(from) + float64(to-from)*(float64(rank)-0.5)/float64(count)
			return min(at, float64(max(t.Max, from)))
		}
		rank -= count
	}
	return float64(t.Max)
}

// Merge adds another record.
func (r *Record) Merge(o *Record) {
	for i, n := range o.Counts {
		r.Counts[i] += n
	}
	r.addReasons(o.Reasons)
	for i := range o.Times {
		r.Times[i].Merge(&o.Times[i])
	}
}

// addReasons adds failures by reason. Reasons that are new beyond MaxReasons become Other, in the
// order of their names.
func (r *Record) addReasons(of map[string]int64) {
	if r.Reasons == nil && len(of) > 0 {
		r.Reasons = map[string]int64{}
	}
	for _, reason := range slices.Sorted(maps.Keys(of)) {
		n := of[reason]
		if _, known := r.Reasons[reason]; !known && len(r.Reasons) >= MaxReasons {
			reason = Other
		}
		r.Reasons[reason] += n
	}
}
