package rules

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// spec:O4, spec:J11: priority (lower first), then run_at; FIFO among equals for all values. A
// resumed job comes before all.
func TestRankOrders(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	type job struct {
		priority int32
		runAt    time.Time
		resumed  bool
	}
	inOrder := []job{
		{math.MaxInt32, now, true},
		{math.MinInt32, now.Add(time.Hour), true},
		{math.MinInt32, time.Time{}, false},
		{math.MinInt32, now.Add(sojourn.MaxHorizon), false},
		{-1, now, false},
		{0, now.Add(-time.Hour), false},
		{0, now, false},
		{0, now.Add(time.Microsecond), false},
		{99, now.Add(sojourn.MaxHorizon), false},
		{100, time.Unix(0, 0), false},
		{100, now, false},
		{math.MaxInt32, now.Add(-time.Hour), false},
		{math.MaxInt32, now, false},
	}
	type place struct{ r1, r2 int64 }
	rank := func(j job) place {
		r1, r2 := Rank(sojourn.QueueSettings{}, j.priority, j.runAt, j.resumed)
		return place{r1, r2}
	}
	less := func(a, b place) bool { return a.r1 < b.r1 || a.r1 == b.r1 && a.r2 < b.r2 }
	for i, a := range inOrder {
		for k, b := range inOrder {
			if less(rank(a), rank(b)) != (i < k) {
				t.Errorf("%+v before %+v: %v", a, b, less(rank(a), rank(b)))
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a := job{int32(random.Uint32()), now.Add(time.Duration(random.Int64N(int64(sojourn.MaxHorizon)))), false}
		b := a
		b.runAt = b.runAt.Add(time.Duration(1+random.Int64N(1000)) * time.Microsecond)
		if !less(rank(a), rank(b)) {
			t.Fatalf("of equal priority %d, %v does not come before %v", a.priority, a.runAt, b.runAt)
		}
		if b.priority > math.MinInt32 {
			if b.priority--; !less(rank(b), rank(a)) {
				t.Fatalf("priority %d does not come before %d", b.priority, a.priority)
			}
		}
		if b.resumed = true; !less(rank(b), rank(a)) {
			t.Fatalf("resumed does not come before %+v", a)
		}
	}
}

// spec:X8, spec:X9, spec:R10
func TestRetentionOf(t *testing.T) {
	const ever = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		name  string
		r     sojourn.Retention
		of    []sojourn.State
		age   time.Duration
		count int64
		ok    bool
	}{
		{"default", sojourn.Retention{}, []sojourn.State{sojourn.Completed, sojourn.Cancelled}, 7 * 24 * time.Hour, 50_000, true},
		{"failed jobs are kept", sojourn.Retention{}, []sojourn.State{sojourn.Failed}, ever, math.MaxInt64, false},
		{"failed jobs are kept whatever the others do", sojourn.Retention{Age: time.Hour, Count: 1}, []sojourn.State{sojourn.Failed}, ever, math.MaxInt64, false},
		{"given", sojourn.Retention{Age: time.Hour, Count: 3}, []sojourn.State{sojourn.Completed, sojourn.Cancelled}, time.Hour, 3, true},
		{"by age alone", sojourn.Retention{Age: time.Hour, Count: -1}, []sojourn.State{sojourn.Completed, sojourn.Cancelled}, time.Hour, math.MaxInt64, true},
		{"by count alone", sojourn.Retention{Age: -1, Count: 3}, []sojourn.State{sojourn.Completed, sojourn.Cancelled}, ever, 3, true},
		{"for ever", sojourn.Retention{Age: -1, Count: -1}, []sojourn.State{sojourn.Completed, sojourn.Cancelled, sojourn.Failed}, ever, math.MaxInt64, false},
		{"failed by age", sojourn.Retention{FailedAge: time.Hour}, []sojourn.State{sojourn.Failed}, time.Hour, math.MaxInt64, true},
		{"failed by count", sojourn.Retention{FailedCount: 9}, []sojourn.State{sojourn.Failed}, ever, 9, true},
	} {
		for _, s := range c.of {
			if age, count, ok := RetentionOf(c.r, s); age != c.age || count != c.count || ok != c.ok {
				t.Errorf("%s, %s: %v, %d, %v; want %v, %d, %v", c.name, s, age, count, ok, c.age, c.count, c.ok)
			}
		}
	}
	for _, s := range []sojourn.State{sojourn.Blocked, sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored} {
		if _, _, ok := RetentionOf(sojourn.Retention{}, s); ok { // inv:R1
			t.Errorf("retention takes jobs that are %s", s)
		}
	}
}
