package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDrivenClockNeverGoesBack: inv:K1. A clock that a test drives stands still while it is set
// back, and otherwise shows the test's time.
func TestDrivenClockNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Now()
		c := Clock{Source: Source{Wall: func() time.Time { return wall }, Driven: true}}
		first := c.Read().Now
		wall = wall.Add(-time.Hour)
		if again := c.Read().Now; again != first {
			t.Errorf("went from %d to %d", first, again)
		}
		wall = wall.Add(2 * time.Hour)
		if later := c.Read().Now; later-first != time.Hour.Microseconds() {
			t.Errorf("a driven clock went on by %d", later-first)
		}
	})
}

// TestClockFollowsMonotonicTime: between two readings the clock advances with real time.
func TestClockFollowsMonotonicTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Clock{Source: Source{Wall: time.Now, Started: time.Now()}}
		first := c.Read()
		time.Sleep(time.Minute)
		second := c.Read()
		if second.Now-first.Now != time.Minute.Microseconds() || second.Stepped || c.Describe() != "steady" {
			t.Errorf("%+v %+v %s", first, second, c.Describe())
		}
	})
}

// TestClockSeesSteps: inv:K1, inv:K3. A reading is a step only if it fits no moment between its
// request and its answer; after one, no time is predicted until the leases were shifted.
func TestClockSeesSteps(t *testing.T) {
	const second, hour = int64(1_000_000), int64(3_600_000_000)
	elapsed := time.Duration(0)
	c := Clock{Source: Source{Wall: time.Now, Elapsed: func() time.Duration { return elapsed }}}
	for _, step := range []struct {
		name          string
		sent, got, us int64
		stepped       bool
		now           int64
	}{
		{"the first", 0, 0, hour, false, hour},
		{"a second", second, second, hour + second, false, hour + second},
		{"a slower clock is followed", 2 * second, 2 * second, hour + 2*second - 100_000, false, hour + 2*second - 100_000},
		{"an earlier reading that comes later", second, 3 * second, hour + second + 500_000, false, hour + 2*second - 100_000},
		{"an answer that took 10 s", 3 * second, 13 * second, hour + 4*second, false, hour + 4*second},
		{"a small step back stands still", 14 * second, 14 * second, hour + 3*second + 900_000, true, hour + 3*second + 900_000},
	} {
		elapsed = time.Duration(step.got) * time.Microsecond
		c.mu.Lock()
		r := c.observe(step.us, step.sent, step.got)
		c.mu.Unlock()
		if r.Now != step.now || r.Stepped != step.stepped {
			t.Errorf("%s: %+v, want now %d, stepped %v", step.name, r, step.now, step.stepped)
		}
	}
	if c.back != 1 || c.forward != 0 {
		t.Errorf("%d back, %d forward", c.back, c.forward)
	}
	c.follows = true
	if _, ok := c.Predict(); ok {
		t.Error("a time is predicted before the leases were shifted")
	}
	if r := c.observe(2*hour, 13*second, 15*second); !r.Stepped || c.forward != 0 {
		t.Errorf("a reading from before the step counts: %+v", r)
	}
	p := c.PendingStep()
	c.Rebased(p, Record{})
	if _, ok := c.Predict(); !ok {
		t.Error("no time is predicted after the leases were shifted")
	}
	elapsed += time.Second
	if r := c.observe(hour+5*second+2*hour, 15*second, 15*second); !r.Stepped || r.Gap < hour || r.Since != 3*hour+5*second {
		t.Errorf("a step forward: %+v", r)
	}
}

// TestStepsAreShared: a step that another process has applied is not applied again, and one that
// differs is.
func TestStepsAreShared(t *testing.T) {
	const second, hour = int64(1_000_000), int64(3_600_000_000)
	for name, c := range map[string]struct{ us, known, stored, want int64 }{
		"nobody has":                   {hour, 0, 0, hour},
		"another has":                  {hour, 5, hour + 5, 0},
		"another has, a second off":    {hour, 0, hour - second, 0},
		"another has a part":           {hour, 0, hour - 60*second, 60 * second},
		"another has seen another one": {10 * second, 0, hour, 10 * second},
		"back, by a mark of 9 s ago":   {-hour, 0, -hour + 9*second, 0},
		"back, and another was asleep": {-hour, 0, hour, -hour},
	} {
		if got := (Step{us: c.us, known: c.known}).Remaining(c.stored); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	r := ParseRecord("7 8 9 10")
	if r.Mark != 7 || r.Steps != 8 || r.since != 9 || r.gap != 10 || r.String() != "7 8 9 10" {
		t.Errorf("%+v", r)
	}
}

// TestClockPredicts: a prediction changes nothing until it is confirmed, a slow commit does not
// make the next one late, and no time is predicted while the database is behind.
func TestClockPredicts(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	elapsed := time.Duration(0)
	c := Clock{Source: Source{Wall: func() time.Time { return began.Add(elapsed) }, Elapsed: func() time.Duration { return elapsed }}}
	if _, ok := c.Predict(); ok {
		t.Error("a clock that was never read is predicted")
	}
	near := func(what string, got int64, want time.Time) {
		t.Helper()
		if d := time.UnixMicro(got).Sub(want).Abs(); d > 10*time.Millisecond {
			t.Errorf("%s is %v off", what, d)
		}
	}
	read := func(at time.Time) Reading { return c.ReadFrom(at.UnixMicro(), c.Monotonic()) }
	read(began)
	elapsed = time.Second
	real := began.Add(time.Second)
	r, _ := c.Predict()
	near("the next prediction", r.Now, real)
	elapsed += 300 * time.Millisecond
	c.Confirm(r, real.UnixMicro())
	real = real.Add(300 * time.Millisecond)
	r, _ = c.Predict()
	near("a prediction after a slow commit", r.Now, real)

	slow, before := r, real // its commit takes 5 s, while others read
	elapsed += 5 * time.Second
	real = real.Add(5 * time.Second)
	read(real)
	c.Confirm(slow, before.UnixMicro())
	if now := read(real); now.Stepped || now.Gap != 0 {
		t.Errorf("a slow commit counts as a step of the clock: %+v", now)
	}
	if _, ok := c.Predict(); !ok {
		t.Error("no time is predicted")
	}
	elapsed += time.Millisecond
	if now := read(real.Add(-time.Second)).Now; now < r.Now-300_000 {
		t.Errorf("it goes back by %d us", r.Now-now)
	}
	if _, ok := c.Predict(); ok {
		t.Error("a time is predicted while the database is behind")
	}
	elapsed += 2 * time.Second
	read(real.Add(time.Second))
	if _, ok := c.Predict(); !ok {
		t.Error("no time is predicted after the database has caught up")
	}
}
