package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const second = int64(time.Second)

// TestRateIsABucket: for any sequence of calls, Room and Take keep a token bucket (spec:K8): in
// every span of time d at most burst + starts × d / per jobs start. A caller that takes all allowed
// starts gets at least that less one, over restarts (the state is one number) and clock changes.
func TestRateIsABucket(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		rate := &sojourn.Rate{Count: 1 + r.Int64N(20), Per: time.Duration(1+r.Int64N(5000)) * time.Millisecond, Burst: r.Int64N(10)}
		if err := ValidSettings(sojourn.QueueSettings{Rate: rate}); err != nil {
			t.Fatal(err)
		}
		var fullAt int64
		now := 1_800_000_000 * second
		begin := now
		greedy := r.IntN(2) == 0
		var starts []int64
		for range 200 {
			room, next := RateRoom(rate, fullAt, now)
			if room > rateBurst(rate) || room == 0 && next <= now || room > 0 && next != 0 {
				t.Fatalf("%+v at %d: room %d, next %d", rate, now, room, next)
			}
			take := room
			if !greedy {
				take = r.Int64N(room + 1)
			}
			fullAt = RateTake(rate, fullAt, now, take)
			for range take {
				starts = append(starts, now)
			}
			if room == 0 {
				if before, _ := RateRoom(rate, fullAt, next-1); before != 0 {
					t.Fatalf("%+v: next is %d, but a start has room before", rate, next)
				}
				if at, _ := RateRoom(rate, fullAt, next); at != 1 {
					t.Fatalf("%+v: at next the room is %d", rate, at)
				}
				now = next
			} else {
				now += r.Int64N(rateInterval(rate)) // less than a start, so that a greedy one never finds the bucket overflowing, if it holds two
			}
		}
		for i := range starts {
			for j := i; j < len(starts); j++ {
				d := starts[j] - starts[i]
				if most := rateBurst(rate) + d*rate.Count/int64(rate.Per); int64(j-i+1) > most {
					t.Fatalf("%+v: %d starts in %v, at most %d", rate, j-i+1, time.Duration(d), most)
				}
			}
		}
		if least := (now - begin) * 999 / 1000 * rate.Count / int64(rate.Per); greedy && rateBurst(rate) > 1 && int64(len(starts)) < least {
			t.Fatalf("%+v: %d starts in %v, at least %d", rate, len(starts), time.Duration(now-begin), least)
		}
	}
}

func TestRateBacksOffSafely(t *testing.T) {
	rate := &sojourn.Rate{Count: 10, Per: time.Second, Burst: 10}
	now := 1_800_000_000 * second
	full := RateTake(rate, 0, now, 10)
	if room, next := RateRoom(rate, full, now); room != 0 || next != now+second/10 {
		t.Errorf("an empty bucket: %d, %d", room, next-now)
	}
	// The clock steps back by an hour: nothing starts at once, and the wait is that of an empty
	// bucket, not an hour.
	back := now - 3600*second
	if room, next := RateRoom(rate, full, back); room != 0 || next != back+second/10 {
		t.Errorf("after a step back: %d, %v", room, time.Duration(next-back))
	}
	if room, _ := RateRoom(rate, full, back+second); room != 0 {
		t.Error("a state from the future must stay empty until it is written anew")
	}
	if room, next := RateRoom(nil, full, now); room != math.MaxInt64 || next != 0 {
		t.Error("no rate is no gate")
	}
	for rate, want := range map[sojourn.Rate]int64{{Count: 5, Per: time.Second}: 5, {Count: 1, Per: time.Hour}: 1, {Count: 600, Per: time.Minute}: 10} {
		if got := rateBurst(&rate); got != want {
			t.Errorf("%+v: burst %d, want %d", rate, got, want)
		}
	}
	for _, bad := range []sojourn.Rate{{Count: -1, Per: 1}, {Count: 1}, {Per: time.Second}, {Count: 1_000_000, Per: time.Millisecond}, {Count: 1, Per: time.Second, Burst: -1}, {Count: 1, Per: 24 * time.Hour, Burst: sojourn.MaxStarts}} {
		if ValidSettings(sojourn.QueueSettings{Rate: &bad}) == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestBreakerTable is the breaker's state machine, an event a line: seconds, what happens, the mode
// after it, the room, and until when.
func TestBreakerTable(t *testing.T) {
	b := sojourn.Breaker{Failures: 3, Within: time.Minute, Open: 30 * time.Second, Probes: 2, Reasons: []string{"http_5*", "timeout"}}
	const all = math.MaxInt64
	for i, c := range []struct {
		at    int64
		do    string // fail REASON, ok, start; began is the second in which the step began
		began int64
		mode  string
		room  int64
		next  int64
	}{
		{1, "fail http_503", 1, sojourn.BreakerClosed, all, 0},
		{2, "fail declined", 1, sojourn.BreakerClosed, all, 0}, // does not count
		{3, "fail http_500", 1, sojourn.BreakerClosed, all, 0},
		{62, "fail timeout", 1, sojourn.BreakerClosed, all, 0}, // the first is too long ago
		{62, "ok", 1, sojourn.BreakerClosed, all, 0},
		{62, "fail timeout", 1, sojourn.BreakerOpen, 0, 92},
		{63, "fail timeout", 1, sojourn.BreakerOpen, 0, 92}, // a step from before
		{70, "ok", 1, sojourn.BreakerOpen, 0, 92},
		{92, "", 0, sojourn.BreakerOpen, 2, 0},
		{93, "start", 0, sojourn.BreakerProbes, 1, 0},
		{94, "start", 0, sojourn.BreakerProbes, 0, 123},
		{95, "fail timeout", 1, sojourn.BreakerProbes, 0, 123}, // a step from before says nothing about now
		{95, "fail timeout", 0, sojourn.BreakerProbes, 0, 123}, // nor does one without a known result
		{96, "ok", 50, sojourn.BreakerProbes, 0, 123},
		{97, "ok", 93, sojourn.BreakerProbes, 0, 123},
		{98, "fail http_502", 94, sojourn.BreakerOpen, 0, 128},
		{128, "start", 0, sojourn.BreakerProbes, 1, 0},
		{129, "start", 0, sojourn.BreakerProbes, 0, 158},
		{158, "", 0, sojourn.BreakerProbes, 2, 0}, // the probes had no result: others
		{160, "start", 0, sojourn.BreakerProbes, 1, 0},
		{161, "ok", 128, sojourn.BreakerProbes, 1, 0}, // a probe that was given up
		{162, "ok", 160, sojourn.BreakerProbes, 1, 0},
		{163, "start", 0, sojourn.BreakerProbes, 0, 190},
		{164, "ok", 163, sojourn.BreakerClosed, all, 0},
	} {
		run(t, i, b, c.at, c.do, c.began, c.mode, c.room, c.next)
	}
	if f := running; f.RampFrom != 164_000_000 || len(f.Failures) != 0 {
		t.Errorf("closed with %+v, want a ramp", f)
	}
}

var running Pace // of TestBreakerTable

func run(t *testing.T, line int, b sojourn.Breaker, at int64, do string, began int64, mode string, room, next int64) {
	t.Helper()
	if line == 0 {
		running = Pace{}
	}
	var reason string
	now, began := at*1_000_000, began*1_000_000
	switch n, _ := fmt.Sscanf(do, "fail %s", &reason); {
	case n == 1:
		running = running.Failed(&b, reason, began, now)
	case do == "ok":
		running = running.Succeeded(&b, began, now)
	case do == "start":
		running = running.Started(nil, &b, 1, now)
	}
	gotRoom, gotNext := running.BreakerRoom(&b, now)
	if running.Mode != mode || gotRoom != room || gotNext != next*1_000_000 {
		t.Errorf("line %d (%d s, %s): mode %q, room %d, next %d s; want %q, %d, %d", line, at, do, running.Mode, gotRoom, gotNext/1_000_000, mode, room, next)
	}
}

// TestBreakerOff: without a number of failures it does nothing; with one, what happens on our own
// side does not count by default.
func TestBreakerOff(t *testing.T) {
	var f Pace
	for range 10_000 {
		f = f.Failed(nil, "timeout", 1, 2)
		f = f.Failed(&sojourn.Breaker{Failures: 1}, sojourn.ReasonLeaseLost, 1, 2)
		f = f.Failed(&sojourn.Breaker{Failures: 1}, sojourn.ReasonPanic, 1, 2)
	}
	if f.Mode != sojourn.BreakerClosed || len(f.Failures) > 0 {
		t.Errorf("got %+v", f)
	}
	if f = f.Failed(&sojourn.Breaker{Failures: 1}, sojourn.ReasonTimeout, 1, 2); f.Mode != sojourn.BreakerOpen {
		t.Errorf("a timeout counts by default: %+v", f)
	}
}

// TestHoldAndRamp: a hold stops starts; after it they are 1 in the first second and twice as many
// in each following one, for ten seconds.
func TestHoldAndRamp(t *testing.T) {
	const s = 1_000_000
	f := Pace{}.Hold(100*s, "Retry-After").Hold(50*s, "shorter")
	if room, next := f.HoldRoom(99 * s); room != 0 || next != 100*s || f.HoldReason != "Retry-After" {
		t.Errorf("on hold: %d, %d, %q", room, next, f.HoldReason)
	}
	var started []int64
	for now := int64(100 * s); now < 110*s; now += s / 4 {
		room, next := f.HoldRoom(now)
		if room == 0 && next != (now/s+1)*s {
			t.Errorf("at %d: next %d", now, next)
		}
		f = f.Started(nil, nil, room, now)
		if now%s == 0 {
			started = append(started, room)
		} else if room != 0 {
			t.Errorf("at %d: room for %d more", now, room)
		}
	}
	if want := []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}; !slices.Equal(started, want) {
		t.Errorf("the ramp gives %v, want %v", started, want)
	}
	if room, _ := f.HoldRoom(110 * s); room != math.MaxInt64 {
		t.Errorf("after the ramp: %d", room)
	}
	if f = f.Started(nil, nil, 5, 111*s); f.HoldUntil != 0 || f.RampFrom != 0 || f.HoldReason != "" {
		t.Errorf("a hold that is over is forgotten: %+v", f)
	}
	if f = (Pace{}).Hold(100*s, "x").Unhold(); f.HoldUntil != 0 || f.RampFrom != 0 {
		t.Errorf("unhold: %+v", f)
	}
	// A clock that was set back behind the hold's end waits again, until that end.
	f = Pace{}.Hold(100*s, "x").Started(nil, nil, 1, 101*s)
	if room, next := f.HoldRoom(90 * s); room != 0 || next != 100*s {
		t.Errorf("set back: %d, %d", room, next)
	}
}
