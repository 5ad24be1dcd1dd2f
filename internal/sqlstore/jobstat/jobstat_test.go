package jobstat

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBuckets: the buckets follow each other without gaps, every time is in its own one, and no
// bucket crosses a bound of the layouts of qless.
func TestBuckets(t *testing.T) {
	const last = 1 + decades*perDecade + 50 + 59 + 92 + 48 + 400
	for n := range last {
		from, to := BucketFrom(n), BucketFrom(n+1)
		if from >= to {
			t.Fatalf("bucket %d is from %d to %d", n, from, to)
		}
		for _, us := range []int64{from, (from + to) / 2, to - 1} {
			if got := BucketOf(us); got != n {
				t.Fatalf("%d µs is in bucket %d, want %d", us, got, n)
			}
		}
		if from >= firstSmall && from < 10*second && (to-from)*10 > from {
			t.Errorf("bucket %d is %d wide from %d on", n, to-from, from)
		}
	}
	layouts := map[string][]struct{ from, to, width int64 }{
		"A": {{0, minute, second}, {minute, hour, minute}, {hour, day, hour / 4}, {day, 3 * day, hour}, {3 * day, 30 * day, day}},
		"B": {{0, minute, second}, {0, hour, minute}, {0, day, hour}, {0, 30 * day, day}},
	}
	for name, layout := range layouts {
		for _, part := range layout {
			for bound := part.from; bound <= part.to; bound += part.width {
				if BucketFrom(BucketOf(bound)) != bound {
					t.Errorf("layout %s: %d µs is inside bucket %d", name, bound, BucketOf(bound))
				}
			}
		}
	}
	if n := BucketOf(math.MaxInt64); n < last {
		t.Errorf("the longest time is in bucket %d", n)
	}
}

// draw returns times of all sizes.
func draw(dice *rand.Rand, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(math.Exp(dice.Float64() * 26)) // up to two days
	}
	return out
}

// TestMergeIsAddition: the times of several nodes, merged in any way, have the moments, histogram
// and quantiles of all of them together; each quantile is in the bucket of the exact one.
func TestMergeIsAddition(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		all := draw(dice, 1+dice.IntN(2000))
		parts := make([]Times, 1+dice.IntN(5))
		sum := 0.0
		for _, us := range all {
			parts[dice.IntN(len(parts))].Add(us)
			sum += float64(us)
		}
		var merged Times
		for i := range parts {
			merged.Merge(&parts[i])
		}
		mean, squares := sum/float64(len(all)), 0.0
		for _, us := range all {
			squares += (float64(us) - mean) * (float64(us) - mean)
		}
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Fatalf("%s is %v, want %v", what, got, want)
			}
		}
		near("mean", merged.Mean, mean)
		if len(all) > 1 {
			near("variance", merged.Variance(), squares/float64(len(all)-1))
		}
		slices.Sort(all)
		if merged.N != int64(len(all)) || merged.Max != all[len(all)-1] {
			t.Fatal(merged.N, merged.Max)
		}
		for _, q := range []float64{0, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
			exact := all[max(int(math.Ceil(q*float64(len(all)))), 1)-1]
			if got := merged.Quantile(q); BucketOf(int64(got)) != BucketOf(exact) {
				t.Fatalf("quantile %v is %v, the exact one is %d", q, got, exact)
			}
		}
	}
	if one := (Times{}); !math.IsNaN(one.Quantile(0.5)) || one.Variance() != 0 {
		t.Error("no times have a quantile or a variance")
	}
}

// TestEvents: what a transaction has collected is what a record has after AddEvents, and a record
// is read as it was stored.
func TestEvents(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	var c Changes
	want := map[string]*Record{}
	for range 3000 {
		kind := fmt.Sprint("kind-", dice.IntN(9))
		r := want[kind]
		if r == nil {
			r = &Record{}
			want[kind] = r
		}
		us := draw(dice, 1)[0]
		c.Count("q", kind, Enqueued, 1)
		c.Time("q", kind, Run, us)
		r.Counts[Enqueued]++
		r.Times[Run].Add(us)
		if dice.IntN(3) == 0 {
			reason := []string{"", "timeout"}[dice.IntN(2)]
			c.Failure("q", kind, reason)
			if reason == "" {
				reason = Unknown
			}
			r.Counts[Failures]++
			r.addReasons(map[string]int64{reason: 1})
		}
	}
	events := c.Take()
	if c.Any() {
		t.Error("taken changes are still there")
	}
	got := map[string]*Record{}
	if err := AddEvents(events, func(queue, kind string) *Record {
		if queue != "q" || kind == "kind-0" {
			return nil
		}
		got[kind] = &Record{}
		return got[kind]
	}); err != nil {
		t.Fatal(err)
	}
	delete(want, "kind-0")
	for kind, r := range want {
		if g := got[kind]; g == nil || fmt.Sprint(*g) != fmt.Sprint(*r) {
			t.Errorf("%s is %v, want %v", kind, g, *r)
		}
		var stored Record
		if err := stored.AddData(r.Data()); err != nil {
			t.Fatal(err)
		}
		if err := stored.AddHistograms(r.Histograms()); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(stored) != fmt.Sprint(*r) {
			t.Errorf("%s is read as %v, want %v", kind, stored, *r)
		}
	}
	for n := range len(events) { // a part of it is an error or a shorter list, never a panic
		_ = AddEvents(events[:n], func(string, string) *Record { return &Record{} })
	}
	var r Record
	for _, bad := range [][]byte{nil, {2}, {1, 255}} {
		if r.AddData(bad) == nil || r.AddHistograms(bad) == nil || AddEvents(bad, func(string, string) *Record { return nil }) == nil {
			t.Errorf("%v is read", bad)
		}
	}
}

// TestReasonsAreBounded: further reasons are counted as Other.
func TestReasonsAreBounded(t *testing.T) {
	var r Record
	for i := range 3 * MaxReasons {
		r.Merge(&Record{Reasons: map[string]int64{fmt.Sprint(i): 1}})
	}
	sum := int64(0)
	for n := range maps.Values(r.Reasons) {
		sum += n
	}
	if len(r.Reasons) != MaxReasons+1 || sum != 3*MaxReasons || r.Reasons[Other] != 2*MaxReasons {
		t.Errorf("%d reasons, %d failures: %v", len(r.Reasons), sum, r.Reasons)
	}
}

// TestOff: without statistics nothing is collected.
func TestOff(t *testing.T) {
	c := Changes{Off: true}
	c.Count("q", "k", Enqueued, 1)
	c.Failure("q", "k", "x")
	c.Time("q", "k", Wait, 1)
	if c.Any() {
		t.Error("something is counted")
	}
}
