package sojourn

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"
)

// spec:J24, spec:R8: the formula, with and without its parts.
func TestBackoffDelay(t *testing.T) {
	for _, c := range []struct {
		name string
		b    Backoff
		n    int32
		want time.Duration
	}{
		{"first", Backoff{First: 10 * time.Second, Factor: 3, Jitter: -1}, 1, 10 * time.Second},
		{"second", Backoff{First: 10 * time.Second, Factor: 3, Jitter: -1}, 2, 30 * time.Second},
		{"third", Backoff{First: 10 * time.Second, Factor: 3, Jitter: -1}, 3, 90 * time.Second},
		{"the default factor", Backoff{First: time.Second, Jitter: -1}, 3, 16 * time.Second},
		{"the default first", Backoff{Jitter: -1}, 1, 5 * time.Second},
		{"the default cap", Backoff{Jitter: -1}, 50, time.Hour},
		{"a cap below the first", Backoff{First: time.Minute, Limit: time.Second, Jitter: -1}, 1, time.Second},
		{"constant", Backoff{First: time.Minute, Factor: 1, Jitter: -1}, math.MaxInt32, time.Minute},
		{"none at all", Backoff{First: -1}, 7, 0},
		{"before the first failure", Backoff{First: 10 * time.Second, Jitter: -1}, 0, 10 * time.Second},
		{"milliseconds", Backoff{First: 7 * time.Millisecond, Factor: 2, Jitter: -1}, 3, 28 * time.Millisecond},
		{"a cap that no float64 can hold", Backoff{First: time.Hour, Factor: 1000, Limit: 1<<53 + 3, Jitter: -1}, 99, 1<<53 + 3},
	} {
		if got := c.b.Delay(7, c.n); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// inv:N1: never negative, never above the cap, up to the largest number of failures; inv:B1: full
// jitter by default.
func TestBackoffHasAFloorACapAndFullJitter(t *testing.T) {
	b := Backoff{First: 10 * time.Second, Factor: 2, Limit: time.Hour}
	for _, n := range []int32{math.MinInt32, -1, 0, 1, 2, 30, 63, 64, 65, 1000, 1 << 20, math.MaxInt32 - 1, math.MaxInt32} {
		top := Backoff{First: b.First, Factor: b.Factor, Limit: b.Limit, Jitter: -1}.Delay(1, n)
		for id := range ID(200) {
			if d := b.Delay(id, n); d < time.Second || d > top {
				t.Fatalf("n %d, id %d: %v is outside 1s to %v", n, id, d, top)
			}
		}
	}
	var last time.Duration
	for n := int32(1); n < 100; n++ {
		d := Backoff{First: time.Millisecond, Factor: 1.5, Limit: time.Hour, Jitter: -1}.Delay(1, n)
		if d < last {
			t.Fatalf("without jitter the delay shrinks from %v to %v at n %d", last, d, n)
		}
		last = d
	}
	tenths, sum := map[int]int{}, time.Duration(0)
	const jobs = 20000
	for id := range ID(jobs) {
		d := b.Delay(1<<40+id, 100)
		tenths[int(10*d/(time.Hour+1))]++
		sum += d
	}
	for k := range 10 {
		if tenths[k] < jobs/10*8/10 || tenths[k] > jobs/10*12/10 {
			t.Errorf("of %d delays %d lie in tenth %d of the hour: no full jitter", jobs, tenths[k], k)
		}
	}
	if mean := sum / jobs; mean < 29*time.Minute || mean > 31*time.Minute {
		t.Errorf("the mean is %v, want half of the cap", mean)
	}
}

// The same failure always gets the same delay, and different jobs get different delays.
func TestBackoffIsReproducible(t *testing.T) {
	b := Backoff{First: time.Minute}
	if first, again := b.Delay(4711, 3), b.Delay(4711, 3); first != again {
		t.Error("the same failure waits two times")
	}
	seen := map[time.Duration]bool{}
	for id := range ID(100) {
		for n := int32(1); n <= 10; n++ {
			seen[Backoff{First: time.Minute, Factor: 1}.Delay(id, n)] = true
		}
	}
	if len(seen) < 950 { // a few lie on the floor of one second
		t.Errorf("1,000 failures wait only %d different times", len(seen))
	}
	half := Backoff{First: time.Minute, Factor: 1, Jitter: 0.5}
	for id := range ID(1000) {
		if d := half.Delay(id, 1); d < 30*time.Second || d > time.Minute {
			t.Fatalf("half jitter of a minute gives %v", d)
		}
	}
}

func FuzzBackoff(f *testing.F) {
	f.Add(int64(0), 0.0, int64(0), 0.0, int64(1), int32(1))
	f.Add(int64(-1), 4.0, int64(time.Hour), 1.0, int64(7), int32(math.MaxInt32))
	f.Add(int64(time.Second), 1000.0, int64(MaxHorizon), -1.0, int64(math.MaxInt64), int32(500))
	f.Add(int64(1), 1.0000001, int64(1), 0.5, int64(-1), int32(math.MinInt32))
	f.Add(int64(1<<53+1), 1.5, int64(1<<53+3), -1.0, int64(9), int32(3))
	f.Add(int64(MaxHorizon), 999.9, int64(MaxHorizon-1), 1e-9, int64(1<<53-1), int32(77))
	f.Fuzz(func(t *testing.T, first int64, factor float64, limit int64, jitter float64, id int64, n int32) {
		b := Backoff{First: time.Duration(first), Factor: factor, Limit: time.Duration(limit), Jitter: jitter}
		if b.validate() != nil {
			t.Skip()
		}
		d, full := b.Delay(ID(id), n), b.withDefaults()
		if d < 0 || d > full.Limit {
			t.Fatalf("%+v: %v after failure %d, outside 0 to %v", b, d, n, full.Limit)
		}
		if floor := min(full.First, full.Limit, time.Second); d < floor {
			t.Fatalf("%+v: %v after failure %d, below %v", b, d, n, floor)
		}
		if d != b.Delay(ID(id), n) {
			t.Fatalf("%+v: not reproducible", b)
		}
		top := b
		top.Jitter = -1
		if next := top.Delay(ID(id), n); d > next {
			t.Fatalf("%+v: %v with jitter, %v without", b, d, next)
		}
		if n < math.MaxInt32 && top.Delay(ID(id), n) > top.Delay(ID(id), n+1) {
			t.Fatalf("%+v: shrinks after failure %d", b, n)
		}
	})
}

// spec:A12 an option wins over the kind, the kind over the queue; 0 says nothing.
func TestPolicyOr(t *testing.T) {
	a := Policy{MaxAttempts: 2, Timeout: time.Hour, Backoff: Backoff{First: time.Second}, OnPanic: Fail}
	b := Policy{MaxAttempts: 9, MaxCrashes: Unlimited, Timeout: time.Minute, RunTimeout: 1, Deadline: 2, DecideWithin: 3, KeepKey: 4,
		Backoff: Backoff{Limit: time.Hour}, OnLost: Fail, LateToInbox: new(true), NoExtend: new(true)}
	want := Policy{MaxAttempts: 2, MaxCrashes: Unlimited, Timeout: time.Hour, RunTimeout: 1, Deadline: 2, DecideWithin: 3, KeepKey: 4,
		Backoff: Backoff{First: time.Second}, OnLost: Fail, OnPanic: Fail, LateToInbox: new(true), NoExtend: new(true)}
	for _, d := range unequal(a.or(b), want) {
		t.Error(d)
	}
	for _, d := range unequal(Policy{}.or(b), b) {
		t.Error(d)
	}
}

func TestPolicyTravelsAsJSON(t *testing.T) {
	p := Policy{MaxAttempts: Unlimited, MaxCrashes: 1, RunTimeout: 2, Timeout: 3, Deadline: 4, DecideWithin: 5, KeepKey: 6,
		Backoff: Backoff{First: -1, Factor: 1.5, Limit: 7, Jitter: 0.25}, OnLost: Fail, OnPanic: Fail, LateToInbox: new(true), NoExtend: new(true)}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var got Policy
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v: %+v, want %+v", err, got, p)
	}
	if text, _ = json.Marshal(Policy{}); string(text) != "{}" {
		t.Errorf("the empty policy is %s", text)
	}
}
