// Package statistics reads what a store has counted about its jobs, by queue, kind and UTC day: how
// many were enqueued, completed, failed, retried and cancelled, the reasons of failures, and how
// long they waited, ran, awaited responses, and took in total.
//
// Numbers are exact at each commit, whatever the number of processes. Days are kept for
// DefaultDays, their histograms for DefaultHistogramDays.
package statistics

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const (
	// DefaultDays is the number of days, today included, that a store keeps.
	DefaultDays = 30
	// DefaultHistogramDays is the number of days whose histograms a store keeps.
	DefaultHistogramDays = 7
	// MaxDays is the largest number of days that a store can be told to keep.
	MaxDays = 3660
	// MaxRows is the largest number of rows of one answer.
	MaxRows = 10_000
	// MaxReasons is the number of reasons of one row. Failures with further reasons count as Other.
	MaxReasons = 100
	// Other is the reason of failures with reasons beyond MaxReasons.
	Other = "other"
	// Unknown is the reason of failures without a reason.
	Unknown = "unknown"
)

// A Dimension is what rows are grouped by.
type Dimension string

// The dimensions of Query.By.
const (
	ByDay   Dimension = "day"
	ByQueue Dimension = "queue"
	ByKind  Dimension = "kind"
)

// Query chooses jobs, and how their numbers are added up.
type Query struct {
	Queue     string
	Kind      string
	Days      int         // the last days, today included; 0 = 1, only today
	By        []Dimension // one row for each combination; none = one row in total
	Histogram bool        // with Times.Histogram
}

// Validate checks the ranges.
func (q Query) Validate() error {
	if q.Days < 0 || q.Days > MaxDays {
		return sojourn.Invalid("days", "%d is out of range: 1 to %d, 0 for today", q.Days, MaxDays)
	}
	for _, d := range q.By {
		if !slices.Contains([]Dimension{ByDay, ByQueue, ByKind}, d) {
			return sojourn.Invalid("by", "%.64q is unknown: allowed are day, queue and kind", string(d))
		}
	}
	return nil
}

// ValidDays checks how many days of statistics and of histograms a store is to keep.
func ValidDays(days, histograms int) error {
	for _, n := range []int{days, histograms} {
		if n < 0 || n > MaxDays {
			return sojourn.Invalid("KeepStatistics", "%d days are out of range; allowed are 1 to %d, 0 for the default", n, MaxDays)
		}
	}
	return nil
}

// Row has the numbers of the jobs of a query, or of one combination of its dimensions. Times are by
// the store's clock. An event belongs to the day on which it happened: an enqueue on one day and an
// end on another are in two rows.
type Row struct {
	Day       string `json:"day,omitempty"` // UTC, such as 2026-03-02; only with ByDay
	Queue     string `json:"queue,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Enqueued  int64  `json:"enqueued"`  // new jobs, without duplicates
	Completed int64  `json:"completed"` // jobs that ended so
	Failed    int64  `json:"failed"`    // jobs that ended so; one that was redriven and fails again counts twice
	Cancelled int64  `json:"cancelled"` // jobs that ended so
	Retried   int64  `json:"retried"`   // failed attempts after which the job went on
	Redriven  int64  `json:"redriven"`  // failed or cancelled jobs that were started again
	Failures  int64  `json:"failures"`  // failed attempts, and ends as failed without one, as by a deadline
	// Reasons has the failures by reason; their sum is Failures.
	Reasons map[string]int64 `json:"reasons,omitempty"`

	Wait     Times `json:"wait"`     // from when a job could start until a worker started it; each start counts
	Run      Times `json:"run"`      // steps that ran and were reported by their workers
	Response Times `json:"response"` // from the begin of a wait until the response that ended it
	Total    Times `json:"total"`    // from the enqueue or redrive until the job was completed or failed
}

// Times are the times of one measure, in seconds. Means and variances are computed by Welford's
// method, and merged by that of Chan et al.
type Times struct {
	Count    int64   `json:"count"`
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"` // of a sample; 0 for fewer than two times
	Max      float64 `json:"max"`
	// Percentiles are read from the histograms, so they cover the days that have some; 0 without.
	// Each is in the same bucket as the exact one. So it is off by less than 10 % (or 100 µs) below
	// 10 s, then by less than 1 s up to 1 minute, 1 minute up to 1 hour, 15 minutes up to 1 day,
	// 1 hour up to 3 days, and 1 day.
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	// Histogram has the buckets that are not empty, in their order; only with Query.Histogram.
	Histogram []Bucket `json:"histogram,omitempty"`
}

// Text is p50 and p99, such as "1.5s/2.0min"; the mean where no histogram is left, and "" without
// times.
func (t Times) Text() string {
	switch {
	case t.Count == 0:
		return ""
	case t.P50 == 0 && t.P999 == 0 && t.Mean > 0:
		return "mean " + short(t.Mean)
	}
	return short(t.P50) + "/" + short(t.P99)
}

// short is a time with two or three digits.
func short(seconds float64) string {
	d := Duration(seconds)
	for _, u := range []struct {
		from, unit time.Duration
		name       string
	}{{48 * time.Hour, 24 * time.Hour, "d"}, {time.Hour, time.Hour, "h"}, {time.Minute, time.Minute, "min"}, {time.Second, time.Second, "s"}} {
		if d >= u.from {
			return digits(float64(d)/float64(u.unit)) + u.name
		}
	}
	return digits(float64(d)/float64(time.Millisecond)) + "ms"
}

func digits(x float64) string {
	switch {
	case x == 0 || x >= 10:
		return fmt.Sprintf("%.0f", x)
	case x >= 1:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// Bucket is the number of times of a range in seconds: From is in it, To is not.
type Bucket struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int64   `json:"count"`
}

// Duration converts seconds to a time.Duration, in microseconds.
func Duration(seconds float64) time.Duration {
	return time.Duration(seconds*1e6+0.5) * time.Microsecond
}

// Store is an optional ability of a sojourn.Store: it has statistics. Safe for concurrent use. On
// behalf of an access token they cover only queues and kinds that it may read.
type Store interface {
	// Statistics returns rows, ordered by day, queue and kind as far as they have these.
	Statistics(ctx context.Context, q Query) ([]Row, error)
}

// Statistics are the calls about statistics of a client. Safe for concurrent use.
type Statistics struct{ store Store }

// Of returns the calls about statistics of a client. If its store has none, each call returns an
// error with CodeInvalid. The stores of this module have them.
func Of(c *sojourn.Client) Statistics { return Statistics{StoreOf(c.Store())} }

// StoreOf is a store's ability to have statistics. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if stats, ok := s.(Store); ok {
		return stats
	}
	return none{}
}

// Rows returns the rows of a query, ordered by day, queue and kind. A query without dimensions has
// one row.
func (s Statistics) Rows(ctx context.Context, q Query) ([]Row, error) {
	return s.store.Statistics(ctx, q)
}

// none is a store without statistics.
type none struct{}

func (none) Statistics(context.Context, Query) ([]Row, error) {
	return nil, sojourn.Invalid("store", "this store has no statistics; use one of store/sqlite, store/postgres or httpapi")
}
