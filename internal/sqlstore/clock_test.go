package sqlstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// TestClockNeverGoesBack: inv:K1. The wall clock is set back by an hour: the store's clock goes on with the monotonic one, and the step is counted.
func TestClockNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Now()
		c := clock{wall: func() time.Time { return wall }, driven: true}
		first := c.read(0).now
		wall = wall.Add(-time.Hour)
		if again := c.read(0).now; again != first {
			t.Errorf("went from %d to %d", first, again)
		}
		wall = wall.Add(2 * time.Hour)
		if later := c.read(0).now; later-first != time.Hour.Microseconds() {
			t.Errorf("a driven clock went on by %d", later-first)
		}
		c.floor(first + 2*time.Hour.Microseconds())
		if floor := c.read(0).now; floor != first+2*time.Hour.Microseconds() {
			t.Error("below its floor:", floor)
		}
	})
}

// TestClockFollowsMonotonicTime: between two looks the clock advances with real time.
func TestClockFollowsMonotonicTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{wall: time.Now}
		first := c.read(0)
		time.Sleep(time.Minute)
		second := c.read(0)
		if second.now-first.now != time.Minute.Microseconds() || second.grace != 0 || c.stepsBack() != 0 {
			t.Errorf("%+v %+v", first, second)
		}
	})
}

// TestClockGrantsGraceAfterAJump: inv:K3. A machine resumes after an hour: the wall has gone on, the monotonic clock has not. Every lease gets
// one more lease.
func TestClockGrantsGraceAfterAJump(t *testing.T) {
	const second, hour = int64(1_000_000), int64(3_600_000_000)
	c := clock{seen: hour, last: hour}
	lease := 30 * second
	if r := c.advance(second, hour+second, lease); r != (reading{now: hour + second}) {
		t.Errorf("an honest second: %+v", r)
	}
	if r := c.advance(2*second, 2*hour, lease); r != (reading{now: 2 * hour, grace: 2*hour + lease}) {
		t.Errorf("a jump forward: %+v", r)
	}
	if c.stepsBack() != 0 {
		t.Error("counted as a step back")
	}
	if r := c.advance(3*second, hour, lease); r.now != 2*hour+second {
		t.Errorf("a step back: %+v", r)
	}
	if c.stepsBack() != 1 {
		t.Error("steps back:", c.stepsBack())
	}
	if r := c.advance(4*second, hour+second, lease); r.now != 2*hour+2*second || c.stepsBack() != 1 {
		t.Errorf("after the step back: %+v", r)
	}
}

// TestClockFollowsTheDatabase: inv:K1, inv:K3. The clock of a server is followed exactly, by all nodes alike; it never goes back here, a jump
// forward grants grace, and after a step back time goes on.
func TestClockFollowsTheDatabase(t *testing.T) {
	const second, hour = int64(1_000_000), int64(3_600_000_000)
	c := clock{seen: hour, last: hour}
	lease := 30 * second
	for _, step := range []struct {
		name        string
		elapsed, us int64
		want        reading
		back        int
	}{
		{"a second", second, hour + second, reading{now: hour + second}, 0},
		{"a slower clock is followed, not overtaken", 2 * second, hour + second + second*9/10, reading{now: hour + second + second*9/10}, 0},
		{"an earlier reading that comes later", 2*second + 1, hour + second, reading{now: hour + second + second*9/10}, 0},
		{"a jump forward", 3 * second, 2 * hour, reading{now: 2 * hour, grace: 2*hour + lease}, 0},
		{"a step back", 4 * second, hour, reading{now: 2*hour + second, grace: 2*hour + lease}, 1},
		{"after it", 6 * second, hour + 2*second, reading{now: 2*hour + 3*second, grace: 2*hour + lease}, 1},
	} {
		if got := c.follow(step.elapsed, step.us, lease); got != step.want || c.stepsBack() != step.back {
			t.Errorf("%s: %+v, %d back; want %+v, %d", step.name, got, c.stepsBack(), step.want, step.back)
		}
	}
}

// TestClockGuesses: a guess moves nothing until it has stood, a slow commit does not make the next one late, and nothing is guessed while the database is behind.
func TestClockGuesses(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	here := began
	c := clock{wall: func() time.Time { return here }}
	lease := sojourn.DefaultLease.Microseconds()
	if _, ok := c.guess(); ok {
		t.Error("a clock that was never read is guessed")
	}
	near := func(what string, got int64, want time.Time) {
		t.Helper()
		if d := time.UnixMicro(got).Sub(want).Abs(); d > 10*time.Millisecond {
			t.Errorf("%s is %v off", what, d)
		}
	}
	c.readFrom(began.UnixMicro(), lease)
	here = began.Add(time.Hour)
	if r, ok := c.guess(); !ok {
		t.Error("it is not guessed")
	} else {
		near("a guess", r.now, here)
	}
	real := began.Add(time.Second) // it was wrong
	near("a reading after a wrong guess", c.readFrom(real.UnixMicro(), lease).now, real)

	here, real = here.Add(time.Second), real.Add(time.Second)
	r, _ := c.guess()
	near("the next guess", r.now, real)
	here = here.Add(300 * time.Millisecond)
	c.stood(r, real.UnixMicro(), lease)
	real = real.Add(300 * time.Millisecond)
	r, _ = c.guess()
	near("a guess after a slow commit", r.now, real)

	slow := r // its commit takes 5 s, while others read
	before := real
	here, real = here.Add(5*time.Second), real.Add(5*time.Second)
	c.readFrom(real.UnixMicro(), lease)
	c.stood(slow, before.UnixMicro(), lease)
	if now := c.readFrom(real.UnixMicro(), lease); now.grace != 0 || c.stepsBack() > 1 { // one by the wrong guess above
		t.Errorf("a slow commit counts as a step of the clock: %+v, %d back", now, c.stepsBack())
	}
	r, ok := c.guess()

	back := real.Add(-time.Second)
	here = here.Add(time.Millisecond)
	if now := c.readFrom(back.UnixMicro(), lease).now; now < r.now-300_000 {
		t.Errorf("it goes back by %d us", r.now-now)
	}
	if _, guessed := c.guess(); !ok || guessed {
		t.Error("it is guessed while the database is behind")
	}
	here, real = here.Add(2*time.Second), real.Add(time.Second)
	c.readFrom(real.UnixMicro(), lease)
	if _, ok = c.guess(); !ok {
		t.Error("it is not guessed after it was overtaken")
	}
}
