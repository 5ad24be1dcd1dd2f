package rules

import (
	"cmp"
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// ResumedRank is the r1 of resumed jobs. They come before all others, because they hold weight
// already.
const ResumedRank = math.MinInt32 - 1

// Rank is a job's place in its queue: claims take the smallest (r1, r2, id) first.
func Rank(q sojourn.QueueSettings, priority int32, runAt time.Time, resumed bool) (r1, r2 int64) {
	us := runAt.UnixMicro()
	switch {
	case resumed:
		return ResumedRank, us
	case q.Order == sojourn.OrderTime:
		bucket := q.Bucket
		bucket = cmp.Or(bucket, sojourn.DefaultBucket)
		width := bucket.Microseconds()
		unit := width>>31 + 1 // so that the rest of run_at, by which equals stand in line, fits behind the priority
		cut := us - us%width
		return cut, int64(priority)<<31 + us%width/unit
	case q.AgeStep > 0:
		step := max(q.AgeStep.Microseconds(), 1)
		return 0, us + max(min(int64(priority), maxAge/step), -maxAge/step)*step
	}
	return int64(priority), us
}

// maxAge bounds what a priority counts in microseconds with ageing: beyond it priorities do not
// differ any more.
const maxAge = 1 << 61

// Counted reports whether the weight in flight matters to a gate.
func Counted(q sojourn.QueueSettings) bool { return q.Limit > 0 || Grouped(q) || q.Throttle != "" }

// Grouped reports whether groups take turns.
func Grouped(q sojourn.QueueSettings) bool {
	return q.GroupLimit > 0 || len(q.Shares) > 0 || q.GroupRate != nil || q.Fair || q.Throttle != ""
}

// Gated reports whether claims must ask the gates at all. A queue that is only paused needs none.
func Gated(q sojourn.QueueSettings) bool {
	return Counted(q) || len(q.PausedKinds) > 0 || len(q.Windows) > 0 || q.Rate != nil || q.Breaker != nil
}

// ShareOf is the part of the limit that a group may use; groups without a share of their own get
// the rest, together.
func ShareOf(q sojourn.QueueSettings, group string) int64 {
	if f, ok := q.Shares[group]; ok {
		return partOfLimit(q, f)
	}
	return restOfLimit(q)
}

func partOfLimit(q sojourn.QueueSettings, fraction float64) int64 {
	return max(int64(float64(q.Limit)*fraction+1e-6), 1) // 0.29 × 100 is a little less than 29
}

func restOfLimit(q sojourn.QueueSettings) int64 {
	rest := q.Limit
	for _, f := range q.Shares {
		rest -= partOfLimit(q, f)
	}
	return max(rest, 0)
}

func reserveAfter(q sojourn.QueueSettings) time.Duration {
	return cmp.Or(q.ReserveAfter, sojourn.DefaultReserveAfter)
}

// rateInterval is the time that one start takes to come back, in nanoseconds, rounded up: the error
// is below 0.1 %, on the safe side.
func rateInterval(r *sojourn.Rate) int64 { return (int64(r.Per) + r.Count - 1) / r.Count }

func rateBurst(r *sojourn.Rate) int64 {
	if r.Burst > 0 {
		return r.Burst
	}
	return max(int64(time.Second)/rateInterval(r), 1)
}

// RateRoom says how many jobs may start now, and, if that is none, when the next may. The whole
// state of a bucket is fullAt, the moment at which it will be full again, in nanoseconds since 1970
// by the store's clock; 0 is a full one. A bucket that would be full further ahead than it can hold
// (the clock was set back, or the rate raised) counts as empty, so it opens late but never twice.
func RateRoom(r *sojourn.Rate, fullAt, now int64) (starts, next int64) {
	if r == nil {
		return math.MaxInt64, 0
	}
	interval := rateInterval(r)
	owed := min(max(fullAt-now, 0), rateBurst(r)*interval)
	starts = (rateBurst(r)*interval - owed) / interval
	if starts == 0 {
		next = now + owed - (rateBurst(r)-1)*interval
	}
	return starts, next
}

// RateTake returns the state of a bucket after so many starts, at most what RateRoom has said.
func RateTake(r *sojourn.Rate, fullAt, now, starts int64) int64 {
	if r == nil {
		return 0
	}
	interval := rateInterval(r)
	return now + min(max(fullAt-now, 0), rateBurst(r)*interval) + starts*interval
}

// RetentionOf returns the age and count for jobs that ended in state s; ok is false where they are
// kept for ever, and for live jobs. Unlimited parts are the largest value.
func RetentionOf(r sojourn.Retention, s sojourn.State) (age time.Duration, count int64, ok bool) {
	age, count = r.Age, r.Count
	age = cmp.Or(age, sojourn.DefaultRetentionAge)
	count = cmp.Or(count, sojourn.DefaultRetentionCount)
	if s == sojourn.Failed {
		age, count = r.FailedAge, r.FailedCount
		age = cmp.Or(age, -1)
		count = cmp.Or(count, -1)
	}
	ok = s.Final() && (age > 0 || count > 0)
	if age < 0 {
		age = math.MaxInt64
	}
	if count < 0 {
		count = math.MaxInt64
	}
	return age, count, ok
}
