package rules

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/throttle"
)

var gateNow = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// closedNow are windows that are closed at gateNow.
var closedNow = sojourn.Windows{{Start: "22:00", End: "23:00"}}

// TestGates checks the decision of each gate about one job. spec:K1, spec:K2, spec:K3, spec:K4,
// inv:T1, inv:T4, rules:B11
func TestGates(t *testing.T) {
	abc := map[string]float64{"a": .4, "b": .3}
	for _, c := range []struct {
		name     string
		settings sojourn.QueueSettings
		used     int64
		groups   string // "a=3 b=1"
		job      throttle.Candidate
		closed   string // the first closed gate, "" = none
		scope    string
	}{
		{"nothing set", sojourn.QueueSettings{}, 99, "", throttle.Candidate{Weight: 5}, "", ""},
		{"limit with room", sojourn.QueueSettings{Limit: 10}, 8, "", throttle.Candidate{Weight: 2}, "", ""},
		{"limit without enough room", sojourn.QueueSettings{Limit: 10}, 8, "", throttle.Candidate{Weight: 3}, sojourn.GateLimit, ScopeJob},
		{"limit used up", sojourn.QueueSettings{Limit: 10}, 10, "", throttle.Candidate{Weight: 1}, sojourn.GateLimit, ScopeQueue},
		{"limit lowered", sojourn.QueueSettings{Limit: 10}, 12, "", throttle.Candidate{Weight: 1}, sojourn.GateLimit, ScopeQueue},
		{"weight 0", sojourn.QueueSettings{Limit: 10}, 12, "", throttle.Candidate{}, "", ""},
		{"oversize alone", sojourn.QueueSettings{Limit: 10}, 0, "", throttle.Candidate{Weight: 11}, "", ""},
		{"oversize beside others", sojourn.QueueSettings{Limit: 10}, 1, "", throttle.Candidate{Weight: 11}, sojourn.GateLimit, ScopeJob},
		{"resumed", sojourn.QueueSettings{Limit: 10, GroupLimit: 1}, 12, "a=9", throttle.Candidate{Weight: 1, Group: "a", Purpose: sojourn.PurposeResume}, "", ""},
		{"a poll of a job in flight", sojourn.QueueSettings{Limit: 10, GroupLimit: 1, Windows: closedNow}, 12, "a=9", throttle.Candidate{Weight: 1, Group: "a", Purpose: sojourn.PurposePoll}, "", ""},
		{"a poll of a paused queue", sojourn.QueueSettings{Paused: true}, 0, "", throttle.Candidate{Weight: 1, Purpose: sojourn.PurposePoll}, sojourn.GatePause, ScopeQueue},
		{"group with room", sojourn.QueueSettings{GroupLimit: 2}, 9, "a=1", throttle.Candidate{Weight: 1, Group: "a"}, "", ""},
		{"group at its limit", sojourn.QueueSettings{GroupLimit: 2}, 9, "a=2", throttle.Candidate{Weight: 1, Group: "a"}, sojourn.GateGroup, ScopeGroup},
		{"heavy job of an idle group", sojourn.QueueSettings{GroupLimit: 2}, 9, "b=2", throttle.Candidate{Weight: 3, Group: "a"}, "", ""},
		{"no group", sojourn.QueueSettings{GroupLimit: 2}, 9, "=9", throttle.Candidate{Weight: 1}, "", ""},
		{"share with room", sojourn.QueueSettings{Limit: 10, Shares: abc}, 6, "a=3 b=3", throttle.Candidate{Weight: 1, Group: "a"}, "", ""},
		{"share used up", sojourn.QueueSettings{Limit: 10, Shares: abc}, 4, "a=4", throttle.Candidate{Weight: 1, Group: "a"}, sojourn.GateShare, ScopeGroup},
		{"the rest", sojourn.QueueSettings{Limit: 10, Shares: abc}, 2, "x=1 y=1", throttle.Candidate{Weight: 1, Group: "z"}, "", ""},
		{"the rest used up", sojourn.QueueSettings{Limit: 10, Shares: abc}, 3, "x=1 y=2", throttle.Candidate{Weight: 1, Group: "z"}, sojourn.GateShare, ScopeGroup},
		{"no rest", sojourn.QueueSettings{Limit: 10, Shares: map[string]float64{"a": 1}}, 0, "", throttle.Candidate{Weight: 1, Group: "z"}, sojourn.GateShare, ScopeGroup},
		{"paused", sojourn.QueueSettings{Paused: true}, 0, "", throttle.Candidate{Weight: 1, Purpose: sojourn.PurposeResume}, sojourn.GatePause, ScopeQueue},
		{"paused kind", sojourn.QueueSettings{PausedKinds: []string{"k"}}, 0, "", throttle.Candidate{Kind: "k"}, sojourn.GatePause, ScopeKind},
		{"another kind is paused", sojourn.QueueSettings{PausedKinds: []string{"k"}}, 0, "", throttle.Candidate{Kind: "l"}, "", ""},
	} {
		f := Flow{Now: gateNow, Settings: c.settings, Used: c.used, Groups: groupLoads(c.groups)}
		g := f.Ask(&c.job)
		if g.Open != (c.closed == "") || g.Name != c.closed || !g.Open && (g.Scope != c.scope || g.Text == "") {
			t.Errorf("%s: %+v, want %q closed for scope %q", c.name, g, c.closed, c.scope)
		}
		for i, g := range f.Gates(&c.job) {
			if g.Name != gates[i].name || !g.Open && g.Name == c.closed {
				continue
			} else if g.Name == c.closed {
				t.Errorf("%s: Gates says that %s is open", c.name, g.Name)
			}
		}
	}
}

func groupLoads(text string) map[string]int64 {
	loads := map[string]int64{}
	for _, part := range strings.Fields(text) {
		group, n, _ := strings.Cut(part, "=")
		var v int64
		fmt.Sscan(n, &v)
		loads[group] = v
	}
	return loads
}

// TestReserve walks a head that is overtaken through its life. inv:W3
func TestReserve(t *testing.T) {
	f := Flow{Now: gateNow, Settings: sojourn.QueueSettings{Limit: 10}, Used: 9, Groups: map[string]int64{}}
	heavy, light := &throttle.Candidate{ID: 1, Weight: 5}, &throttle.Candidate{ID: 2, Weight: 1}
	f.Refuse(heavy, f.Ask(heavy))
	if s := f.Close(); s.Head != 0 {
		t.Fatalf("nobody has overtaken the head, and it is remembered: %+v", s)
	}
	f.Start(light)
	f.State = f.Close()
	if f.State.Head != 1 || f.State.Overtook != 1 || !f.State.Since.Equal(gateNow) {
		t.Fatalf("overtaken once: %+v", f.State)
	}
	claim := func(after time.Duration, used int64) *Flow { // another claim, later
		n := Flow{Now: gateNow.Add(after), Settings: f.Settings, Used: used, Groups: map[string]int64{}, State: f.State}
		n.Refuse(heavy, n.Ask(heavy))
		return &n
	}
	if g := claim(sojourn.DefaultReserveAfter-1, 6).Ask(light); !g.Open {
		t.Errorf("before its time something is kept: %+v", g)
	}
	if g := claim(sojourn.DefaultReserveAfter, 6).Ask(light); g.Open || g.Scope != ScopeJob {
		t.Errorf("nothing is kept for the head: %+v", g)
	}
	if g := claim(sojourn.DefaultReserveAfter, 4).Ask(light); !g.Open {
		t.Errorf("a job that leaves enough for the head is held back: %+v", g)
	}
	if g := claim(sojourn.DefaultReserveAfter, 5).Ask(heavy); !g.Open {
		t.Errorf("the head itself: %+v", g)
	}
	gone := Flow{Now: gateNow.Add(time.Hour), Settings: f.Settings, Used: 6, State: f.State}
	if g := gone.Ask(light); !g.Open {
		t.Errorf("weight is kept for a head that nobody comes by any more: %+v", g)
	}
	n := claim(sojourn.DefaultReserveAfter, 5)
	n.Start(heavy)
	if s := n.Close(); s.Head != 0 || s.Overtook != 0 {
		t.Errorf("the head has started and is remembered: %+v", s)
	}
}

// TestFlowNeverExceeds lets random jobs start and end, and changes the limits. inv:T1, spec:K4
func TestFlowNeverExceeds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		f := Flow{Now: gateNow, Settings: sojourn.QueueSettings{Limit: r.Int64N(20), GroupLimit: r.Int64N(8)}, Groups: map[string]int64{}}
		if f.Settings.Limit > 0 && r.IntN(2) == 0 {
			f.Settings.Shares = map[string]float64{"a": .5, "b": .2}
		}
		var running []throttle.Candidate
		for step := range 100 {
			f.Now = f.Now.Add(time.Second)
			c := throttle.Candidate{ID: sojourn.ID(step + 1), Group: string(rune('a' + r.IntN(4))), Weight: int32(r.IntN(6))}
			if g := f.Ask(&c); g.Open {
				before := f.Used
				f.Start(&c)
				running = append(running, c)
				if l := f.Settings.Limit; l > 0 && c.Weight > 0 && f.Used > l && before > 0 {
					t.Fatalf("weight %d started at %d of %d", c.Weight, before, l)
				}
				if l, n := f.Settings.GroupLimit, f.Groups[c.Group]; l > 0 && c.Weight > 0 && n > l && n > int64(c.Weight) {
					t.Fatalf("group %s has %d of %d", c.Group, n, l)
				}
				if n, rest := f.Groups["c"]+f.Groups["d"], restOfLimit(f.Settings); f.Settings.Shares != nil && c.Group > "b" && c.Weight > 0 && n > rest && n > int64(c.Weight) {
					t.Fatalf("groups without a share have %d of %d", n, rest)
				}
			} else {
				f.Refuse(&c, g)
			}
			f.State = f.Close()
			f.overtaken, f.others = false, nil
			if len(running) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(running))
				f.Used -= int64(running[i].Weight)
				f.Groups[running[i].Group] -= int64(running[i].Weight)
				running = slices.Delete(running, i, i+1)
			}
		}
	}
}

// TestShareOf: 40/30/30 of 100, fractions that binary numbers miss, and the rest. spec:K4
func TestShareOf(t *testing.T) {
	for _, c := range []struct {
		limit  int64
		shares map[string]float64
		want   map[string]int64
	}{
		{100, map[string]float64{"e": .4, "n": .3, "w": .3}, map[string]int64{"e": 40, "n": 30, "w": 30, "x": 0}},
		{100, map[string]float64{"e": .29, "n": .57}, map[string]int64{"e": 29, "n": 57, "x": 14}},
		{10, map[string]float64{"e": 1. / 3}, map[string]int64{"e": 3, "x": 7}},
		{10, map[string]float64{"e": .001}, map[string]int64{"e": 1, "x": 9}},
		{1, map[string]float64{"e": .5, "n": .5}, map[string]int64{"e": 1, "n": 1, "x": 0}},
	} {
		for group, want := range c.want {
			if got := ShareOf(sojourn.QueueSettings{Limit: c.limit, Shares: c.shares}, group); got != want {
				t.Errorf("share of %s in %v of %d: %d, want %d", group, c.shares, c.limit, got, want)
			}
		}
	}
}

// TestFlowSettingsValidate: every field's ranges. spec:K1, spec:K4, spec:K8, spec:O3, spec:O4
func TestFlowSettingsValidate(t *testing.T) {
	share := func(f float64) map[string]float64 { return map[string]float64{"a": f} }
	for _, c := range []struct {
		q     sojourn.QueueSettings
		field string
	}{
		{sojourn.QueueSettings{Limit: sojourn.MaxLimit + 1}, "limit"},
		{sojourn.QueueSettings{GroupLimit: sojourn.MaxLimit + 1}, "group_limit"},
		{sojourn.QueueSettings{MaxDepth: sojourn.MaxLimit + 1}, "max_depth"},
		{sojourn.QueueSettings{PausedKinds: []string{"a b"}}, "paused_kinds"},
		{sojourn.QueueSettings{PausedKinds: make([]string, sojourn.MaxBatch+1)}, "paused_kinds"},
		{sojourn.QueueSettings{ReserveAfter: -1}, "reserve_after"},
		{sojourn.QueueSettings{ReserveAfter: 25 * time.Hour}, "reserve_after"},
		{sojourn.QueueSettings{Order: "random"}, "order"},
		{sojourn.QueueSettings{Bucket: time.Minute}, "bucket"},
		{sojourn.QueueSettings{Order: sojourn.OrderTime, Bucket: time.Millisecond}, "bucket"},
		{sojourn.QueueSettings{Order: sojourn.OrderTime, AgeStep: time.Second}, "age_step"},
		{sojourn.QueueSettings{AgeStep: time.Microsecond}, "age_step"},
		{sojourn.QueueSettings{Borrow: true}, "borrow"},
		{sojourn.QueueSettings{Shares: share(.5)}, "shares"},
		{sojourn.QueueSettings{Limit: 1, Shares: share(0)}, "shares"},
		{sojourn.QueueSettings{Limit: 1, Shares: share(1.1)}, "shares"},
		{sojourn.QueueSettings{Limit: 1, Shares: share(math.NaN())}, "shares"},
		{sojourn.QueueSettings{Limit: 1, Shares: map[string]float64{"a": .6, "b": .5}}, "shares"},
		{sojourn.QueueSettings{Limit: 1, Shares: map[string]float64{"": .6}}, "shares"},
		{sojourn.QueueSettings{Rate: &sojourn.Rate{}}, "rate.count"},
		{sojourn.QueueSettings{GroupRate: &sojourn.Rate{Count: 1, Per: 48 * time.Hour}}, "group_rate.per"},
		{sojourn.QueueSettings{Breaker: &sojourn.Breaker{}}, "breaker.failures"},
		{sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 1, Probes: 101}}, "breaker.probes"},
		{sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 1, Open: time.Millisecond}}, "breaker.open"},
		{sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 1, Within: 25 * time.Hour}}, "breaker.within"},
		{sojourn.QueueSettings{Throttle: strings.Repeat("x", sojourn.MaxRule+1)}, "throttle"},
	} {
		err := ValidSettings(c.q)
		code := sojourn.CodeInvalid
		if c.field == "throttle" {
			code = sojourn.CodeTooLarge
		}
		refuses(t, err, code, c.field)
	}
	full := sojourn.QueueSettings{Paused: true, PausedKinds: []string{"k"}, Limit: 10, ReserveAfter: time.Minute, MaxDepth: 9, Order: sojourn.OrderTime, Bucket: time.Hour,
		GroupLimit: 2, Shares: map[string]float64{"a": .4, "b": .6}, Borrow: true, Fair: true, Rate: &sojourn.Rate{Count: 5, Per: time.Second, Burst: 9}, GroupRate: &sojourn.Rate{Count: 1, Per: time.Second},
		Breaker: &sojourn.Breaker{Failures: 3, Within: time.Minute, Reasons: []string{"gateway"}, Open: time.Minute, Probes: 2}, Throttle: "true"}
	if err := ValidSettings(full); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var back sojourn.QueueSettings
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, full) {
		t.Errorf("through JSON %s became %+v, %v", b, back, err)
	}
}

// TestRankOfOrders: hipq's table by time, FIFO inside of a bucket and priority, and the bound of
// ageing. spec:O3, spec:O4, inv:W1, inv:W2
func TestRankOfOrders(t *testing.T) {
	before := func(q sojourn.QueueSettings, p1 int32, t1 time.Duration, p2 int32, t2 time.Duration) bool {
		a1, a2 := Rank(q, p1, gateNow.Add(t1), false)
		b1, b2 := Rank(q, p2, gateNow.Add(t2), false)
		return a1 < b1 || a1 == b1 && a2 < b2
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		bucket := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}[r.IntN(4)]
		q := sojourn.QueueSettings{Order: sojourn.OrderTime, Bucket: bucket}
		p1, p2 := int32(r.Uint32()), int32(r.Uint32())
		t1, t2 := time.Duration(r.Int64N(int64(1000*time.Hour))).Truncate(time.Millisecond), time.Duration(r.Int64N(int64(1000*time.Hour))).Truncate(time.Millisecond)
		us := bucket.Microseconds()
		b1, b2 := gateNow.Add(t1).UnixMicro()/us, gateNow.Add(t2).UnixMicro()/us
		want := b1 < b2 || b1 == b2 && (p1 < p2 || p1 == p2 && t1 < t2)
		if got := before(q, p1, t1, p2, t2); got != want {
			t.Fatalf("bucket %v: %d at %v before %d at %v: %v", bucket, p1, t1, p2, t2, got)
		}
		step := time.Duration(1+r.Int64N(1000)) * time.Millisecond
		aged := sojourn.QueueSettings{AgeStep: step}
		p1, p2 = p1%1000, p2%1000
		want = t1+time.Duration(p1)*step < t2+time.Duration(p2)*step
		if got := before(aged, p1, t1, p2, t2); got != want {
			t.Fatalf("age step %v: %d at %v before %d at %v: %v", step, p1, t1, p2, t2, got)
		}
	}
	for _, p := range []int32{math.MinInt32, math.MaxInt32} { // no overflow
		a := sojourn.QueueSettings{AgeStep: 24 * time.Hour}
		if before(a, p, 0, 0, 0) != (p < 0) || before(sojourn.QueueSettings{Order: sojourn.OrderTime, Bucket: 24 * time.Hour}, p, 0, 0, 0) != (p < 0) {
			t.Errorf("priority %d stands on the wrong side of 0", p)
		}
	}
}
