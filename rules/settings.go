package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/inside"
	"github.com/sojourn-queue/sojourn/internal/jsonfield"
)

// ValidSettings checks the ranges of a queue's settings. The error has CodeInvalid or CodeTooLarge.
func ValidSettings(q sojourn.QueueSettings) error {
	defaults := q.Defaults
	if w := defaults.Weight; w != nil && (*w < 0 || *w > sojourn.MaxWeight) {
		return sojourn.Invalid("defaults.weight", "%d is out of range: 0 to %d", *w, sojourn.MaxWeight)
	}
	for _, check := range []func(sojourn.QueueSettings) error{validRetention, validFlow, validOrder, validShares, validPace, validIndex} {
		if err := check(q); err != nil {
			return err
		}
	}
	if _, err := inside.Calendar([]sojourn.Windows{q.Windows}); err != nil {
		return err
	}
	if len(defaults.Windows) > 0 {
		return sojourn.Invalid("defaults.windows", "a queue has windows of its own, for all of its jobs: set windows")
	}
	defaults.Priority, defaults.Weight = nil, nil
	probe := sojourn.NewJob("probe", nil)
	probe.Policy = defaults
	return probe.Validate(sojourn.MaxMaxBytes)
}

func validRetention(q sojourn.QueueSettings) error {
	r := q.Retention
	for _, c := range []struct {
		field string
		age   time.Duration
		count int64
	}{{"", r.Age, r.Count}, {"failed_", r.FailedAge, r.FailedCount}} {
		if c.age < -1 || c.age > sojourn.MaxHorizon {
			return sojourn.Invalid("retention."+c.field+"age", "%v is out of range: -1 (for ever), 0 (default) to 10 years", c.age)
		}
		if c.count < -1 {
			return sojourn.Invalid("retention."+c.field+"count", "%d is out of range: -1 (any number), 0 (default) or more", c.count)
		}
	}
	return nil
}

func validFlow(q sojourn.QueueSettings) error {
	for _, c := range []struct {
		field string
		n     int64
	}{{"limit", q.Limit}, {"group_limit", q.GroupLimit}, {"max_depth", q.MaxDepth}} {
		if c.n > sojourn.MaxLimit {
			return sojourn.Invalid(c.field, "%d is above %d; below 1 means none", c.n, int64(sojourn.MaxLimit))
		}
	}
	if len(q.PausedKinds) > sojourn.MaxBatch {
		return sojourn.Invalid("paused_kinds", "%d kinds exceed the limit of %d", len(q.PausedKinds), sojourn.MaxBatch)
	}
	for _, k := range q.PausedKinds {
		if err := sojourn.ValidName("paused_kinds", k); err != nil {
			return err
		}
	}
	return validSpan("reserve_after", q.ReserveAfter, time.Millisecond)
}

// validSpan checks a time of least to 24 h, where 0 is the default.
func validSpan(field string, d, least time.Duration) error {
	if d != 0 && (d < least || d > 24*time.Hour) {
		return sojourn.Invalid(field, "%v is out of range: %v to 24h, 0 for the default", d, least)
	}
	return nil
}

func validOrder(q sojourn.QueueSettings) error {
	switch q.Order {
	case "", sojourn.OrderPriority:
		if q.Bucket != 0 {
			return sojourn.Invalid("bucket", "bucket works only with the order time; remove it, or set the order to time")
		}
	case sojourn.OrderTime:
		if q.AgeStep != 0 {
			return sojourn.Invalid("age_step", "age_step works only with the order priority; remove it, or set the order to priority")
		}
	default:
		return sojourn.Invalid("order", "%.64q is not an order: use priority or time", q.Order)
	}
	if err := validSpan("bucket", q.Bucket, time.Second); err != nil {
		return err
	}
	return validSpan("age_step", q.AgeStep, time.Millisecond)
}

func validShares(q sojourn.QueueSettings) error {
	if len(q.Shares) == 0 {
		if q.Borrow {
			return sojourn.Invalid("borrow", "borrow needs shares; set shares, or remove borrow")
		}
		return nil
	}
	if q.Limit < 1 {
		return sojourn.Invalid("shares", "shares need a limit; set the limit of the queue")
	}
	if len(q.Shares) > sojourn.MaxShares {
		return sojourn.Invalid("shares", "%d groups exceed the limit of %d", len(q.Shares), sojourn.MaxShares)
	}
	sum := 0.0
	for group, f := range q.Shares {
		if err := sojourn.ValidKey("shares", group); err != nil {
			return err
		}
		if !(f > 0 && f <= 1) { // also NaN
			return sojourn.Invalid("shares", "%v for the group %.64q is out of range: above 0, at most 1", f, group)
		}
		sum += f
	}
	if sum > 1+1e-9 {
		return sojourn.Invalid("shares", "the shares add up to %.4g; reduce them to at most 1", sum)
	}
	return nil
}

func validPace(q sojourn.QueueSettings) error {
	if err := cmp.Or(validRate("rate", q.Rate), validRate("group_rate", q.GroupRate), validBreaker(q.Breaker)); err != nil {
		return err
	}
	if len(q.Throttle) > sojourn.MaxRule {
		return sojourn.TooLarge("throttle", len(q.Throttle), sojourn.MaxRule)
	}
	return nil
}

func validIndex(q sojourn.QueueSettings) error {
	if len(q.Index) > jsonfield.MaxPaths {
		return sojourn.Invalid("index", "%d paths exceed the limit of %d", len(q.Index), jsonfield.MaxPaths)
	}
	for i, path := range q.Index {
		if why := jsonfield.Valid(path); why != "" {
			return sojourn.Invalid("index", "%s", why)
		}
		if slices.Contains(q.Index[:i], path) {
			return sojourn.Invalid("index", "%s is given twice", path)
		}
	}
	return nil
}

func validRate(field string, r *sojourn.Rate) error {
	switch {
	case r == nil:
		return nil
	case r.Count < 1 || r.Count > sojourn.MaxStarts:
		return sojourn.Invalid(field+".count", "%d is out of range: 1 to %d", r.Count, sojourn.MaxStarts)
	case r.Per < time.Millisecond || r.Per > sojourn.MaxHold:
		return sojourn.Invalid(field+".per", "%v is out of range: 1ms to 24h", r.Per)
	case interval(r) < int64(time.Microsecond):
		return sojourn.Invalid(field, "%d per %v is more than one in 1 µs", r.Count, r.Per)
	case r.Burst < 0 || r.Burst > sojourn.MaxStarts || r.Burst > int64(sojourn.MaxHorizon)/interval(r):
		return sojourn.Invalid(field+".burst", "%d is out of range: 1 to %d, and what comes back within 10 years; 0 for the default", r.Burst, sojourn.MaxStarts)
	}
	return nil
}

// interval is the time that one start takes to come back, in nanoseconds, rounded up: the error is
// below 0.1 %, on the safe side.
func interval(r *sojourn.Rate) int64 { return (int64(r.Per) + r.Count - 1) / r.Count }

func validBreaker(b *sojourn.Breaker) error {
	switch {
	case b == nil:
		return nil
	case b.Failures < 1 || b.Failures > 1000:
		return sojourn.Invalid("breaker.failures", "%d is out of range: 1 to 1000", b.Failures)
	case b.Probes < 0 || b.Probes > 100:
		return sojourn.Invalid("breaker.probes", "%d is out of range: 1 to 100, 0 for the default", b.Probes)
	case len(b.Reasons) > sojourn.MaxTags:
		return sojourn.Invalid("breaker.reasons", "%d reasons exceed the limit of %d", len(b.Reasons), sojourn.MaxTags)
	}
	if err := validSpan("breaker.within", b.Within, time.Second); err != nil {
		return err
	}
	return validSpan("breaker.open", b.Open, time.Second)
}
