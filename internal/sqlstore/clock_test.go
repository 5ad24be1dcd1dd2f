package sqlstore

import (
	"testing"
	"testing/synctest"
	"time"
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
