package sojourn

import (
	"math"
	"time"
)

// QueueDefaults are what jobs of a queue get where neither option nor kind says anything. nil and 0 mean the built-in default.
type QueueDefaults struct {
	Priority *int32 `json:"priority,omitempty"`
	Weight   *int32 `json:"weight,omitempty"`
	Policy   Policy `json:"policy,omitzero"`
}

// Retention says how long final jobs of a queue are kept. Completed and cancelled jobs go after an age or above a count; failed ones
// are kept until they are redriven, cancelled or purged, unless a cap is set. Nothing goes within IDLife of its enqueue.
type Retention struct {
	Age         time.Duration `json:"age,omitempty"`          // completed and cancelled; default 7 days, -1 = for ever
	Count       int64         `json:"count,omitempty"`        // completed and cancelled, each; default 50,000, -1 = any number
	FailedAge   time.Duration `json:"failed_age,omitempty"`   // default 0 = for ever
	FailedCount int64         `json:"failed_count,omitempty"` // default 0 = any number
}

// Retention defaults.
const (
	DefaultRetentionAge   = 7 * 24 * time.Hour
	DefaultRetentionCount = 50_000
)

// Of returns the age and count for jobs that ended in state s; ok is false where they are kept for ever, and for live jobs. Unlimited
// parts are the largest value.
func (r Retention) Of(s State) (age time.Duration, count int64, ok bool) {
	age, count = r.Age, r.Count
	pick(&age, DefaultRetentionAge)
	pick(&count, DefaultRetentionCount)
	if s == Failed {
		age, count = r.FailedAge, r.FailedCount
		pick(&age, -1)
		pick(&count, -1)
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

// QueueSettings are stored and changed at run time with Store.SetQueue; every process obeys them with its next transaction.
type QueueSettings struct {
	Paused    bool          `json:"paused,omitempty"` // hands out nothing; responses, timeouts and lease ends go on
	Defaults  QueueDefaults `json:"defaults,omitzero"`
	Retention Retention     `json:"retention,omitzero"`
	Windows   Windows       `json:"windows,omitempty"` // in which its jobs may start, beside their own; default always
}

// Validate checks the ranges.
func (q QueueSettings) Validate() error {
	if w := q.Defaults.Weight; w != nil && (*w < 0 || *w > MaxWeight) {
		return Invalid("defaults.weight", "%d is out of range: 0 to %d", *w, MaxWeight)
	}
	r := q.Retention
	for _, c := range []struct {
		field string
		age   time.Duration
		count int64
	}{{"", r.Age, r.Count}, {"failed_", r.FailedAge, r.FailedCount}} {
		if c.age < -1 || c.age > MaxHorizon {
			return Invalid("retention."+c.field+"age", "%v is out of range: -1 (for ever), 0 (default) to 10 years", c.age)
		}
		if c.count < -1 {
			return Invalid("retention."+c.field+"count", "%d is out of range: -1 (any number), 0 (default) or more", c.count)
		}
	}
	if _, err := q.Windows.compile(); err != nil {
		return err
	}
	if len(q.Defaults.Policy.Windows) > 0 {
		return Invalid("defaults.policy.windows", "a queue has windows of its own, for all of its jobs: set windows")
	}
	return q.Defaults.Policy.validate()
}

// QueueStatus is a queue with its counts.
type QueueStatus struct {
	Name     string          `json:"name"`
	Settings QueueSettings   `json:"settings"`
	Counts   map[State]int64 `json:"counts"`  // by state; states without jobs are missing
	Resumed  int64           `json:"resumed"` // of the ready ones
	Stalled  int64           `json:"stalled"` // running with a lease past its end
	// Unhandled are the ready jobs by kind for which no worker has asked in this queue within the last day: nobody will run them.
	Unhandled map[string]int64 `json:"unhandled,omitempty"`
	InFlight  int64            `json:"in_flight"`
}

// Rank is a job's place in its queue: claims take the smallest (r1, r2, id) first. In the order "priority" that is the priority,
// then run_at. A resumed job comes before all others, because it holds weight already.
func Rank(priority int32, runAt time.Time, resumed bool) (r1, r2 int64) {
	if resumed {
		return math.MinInt32 - 1, runAt.UnixMicro()
	}
	return int64(priority), runAt.UnixMicro()
}
