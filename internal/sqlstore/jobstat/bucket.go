package jobstat

import "math"

// A histogram has these buckets, from the lowest to the highest:
//
//   - below 10 s the first two digits of the time in decimals, from 100 µs on, so that a bucket is
//     at most a tenth as wide as its times are long; times below 100 µs share one
//   - each second below 1 minute, each minute below 1 hour, each quarter of an hour below 1 day,
//     each hour below 3 days, and each day from then on
//
// Both layouts of qless are exact sums of them: no bucket crosses a bound of those.
const (
	decades    = 5 // from 100 µs to 10 s
	perDecade  = 90
	firstSmall = 100 // µs
	second     = int64(1_000_000)
	minute     = 60 * second
	hour       = 60 * minute
	day        = 24 * hour
)

// parts are the parts of the histogram from 10 s on: times below the limit have buckets of one
// width.
var parts = []struct{ from, limit, width int64 }{
	{10 * second, minute, second},
	{minute, hour, minute},
	{hour, day, hour / 4},
	{day, 3 * day, hour},
	{3 * day, math.MaxInt64, day},
}

// BucketOf returns the number of the bucket of a time in microseconds.
func BucketOf(us int64) int {
	if us < firstSmall {
		return 0
	}
	step := int64(firstSmall / 10)
	for d := range decades {
		if us < 100*step {
			return 1 + d*perDecade + int(us/step) - 10
		}
		step *= 10
	}
	n := 1 + decades*perDecade
	for _, p := range parts {
		if us < p.limit {
			return n + int((us-p.from)/p.width)
		}
		n += int((p.limit - p.from) / p.width)
	}
	return n // for the largest number
}

// BucketFrom returns the lower bound of a bucket in microseconds. The next bucket begins at its
// upper bound.
func BucketFrom(n int) int64 {
	if n <= 0 {
		return 0
	}
	n--
	step := int64(firstSmall / 10)
	for range decades {
		if n < perDecade {
			return int64(n+10) * step
		}
		n -= perDecade
		step *= 10
	}
	for _, p := range parts[:len(parts)-1] {
		in := int((p.limit - p.from) / p.width)
		if n < in {
			return p.from + int64(n)*p.width
		}
		n -= in
	}
	last := parts[len(parts)-1]
	return last.from + int64(min(n, maxDays))*last.width
}

// maxDays bounds the last buckets, so that their bounds are numbers.
const maxDays = 100_000
