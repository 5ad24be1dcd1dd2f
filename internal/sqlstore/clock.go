package sqlstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// clock is the store's: every due, lease and deadline decision uses it and no other (inv:K1). It never goes back: it follows the wall
// clock forward, and between two looks at it the monotonic one, whichever is later.
type clock struct {
	wall   func() time.Time
	driven bool // a test moves it: no protection against jumps

	mu       sync.Mutex // guards the fields below
	started  time.Time  // the first look; elapsed time is counted from it
	elapsed  int64      // monotonic time at the latest look, microseconds since started
	seen     int64      // what the wall showed then
	last     int64      // the latest reading that was given out
	graceTil int64      // after a jump forward: no lease ends before this
	back     int        // steps back that were seen
	follows  bool       // it reads the database's clock, with readFrom
	behind   bool       // at the latest look it was behind what was given out before, by more than guessNear
	ahead    int64      // by how much this machine's clock was ahead of it at the latest look, with the time a statement takes
}

// jump is how far the wall may run ahead of the monotonic clock before it counts as a jump (a resumed machine, a clock set).
const jump = 2 * time.Second

// reading is the clock at the start of a transaction.
type reading struct {
	now   int64 // microseconds since 1970
	grace int64 // leases stand until then, whatever their end
	taken int64 // of a guess: the monotonic time, as clock.elapsed
}

// read returns the time. leaseUs is the longest lease in use, granted anew after a jump.
func (c *clock) read(leaseUs int64) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.wall()
	if c.driven {
		c.last = max(c.last, wall.UnixMicro())
		return reading{now: c.last}
	}
	if c.started.IsZero() {
		c.started, c.seen = wall, wall.UnixMicro()
	}
	return c.advance(wall.Sub(c.started).Microseconds(), wall.UnixMicro(), leaseUs) // Sub is monotonic
}

// advance is read for a monotonic and a wall reading. A wall that ran ahead of the monotonic clock has jumped forward: leases get grace
// (inv:K3). One that fell behind was set back: the store's clock goes on with the monotonic one, and the step is counted.
func (c *clock) advance(elapsed, wall, leaseUs int64) reading {
	walked := elapsed - c.elapsed
	switch drift := wall - c.seen - walked; {
	case drift > jump.Microseconds():
		c.graceTil = max(wall, c.last) + leaseUs
	case drift < -jump.Microseconds():
		c.back++
	}
	c.last = max(wall, c.last+walked)
	c.elapsed, c.seen = elapsed, wall
	return reading{now: c.last, grace: c.graceTil}
}

// readFrom is read with a reading of the database's own clock, which all processes share: it is followed exactly, except that this process never
// sees it go back. After a step back by more than jump the clock goes on with the monotonic one, from where it was, until it is overtaken.
func (c *clock) readFrom(us, leaseUs int64) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	here := c.wall()
	if c.started.IsZero() {
		c.started, c.seen, c.last = here, us, max(c.last, us)
	}
	c.follows, c.ahead = true, here.UnixMicro()-us
	return c.follow(here.Sub(c.started).Microseconds(), us, leaseUs)
}

func (c *clock) follow(elapsed, us, leaseUs int64) reading {
	walked := max(elapsed-c.elapsed, 0) // transactions are read in another order than they began
	switch drift := us - c.seen - walked; {
	case drift > jump.Microseconds():
		c.graceTil = max(us, c.last) + leaseUs
	case drift < -jump.Microseconds():
		c.back++
	}
	c.seen, c.behind = us, us < c.last-guessNear.Microseconds()
	c.elapsed += walked
	if us < c.last-jump.Microseconds() {
		us = c.last + walked
	}
	c.last = max(c.last, us)
	return reading{now: c.last, grace: c.graceTil}
}

// estimate is about what the clock shows now, outside of a transaction.
func (c *clock) estimate() int64 {
	c.mu.Lock()
	follows, started, elapsed, last := c.follows, c.started, c.elapsed, c.last
	c.mu.Unlock()
	if !follows {
		return c.read(sojourn.DefaultLease.Microseconds()).now
	}
	return last + c.wall().Sub(started).Microseconds() - elapsed
}

// guess is what readFrom would read now if the database's clock went on as this machine's; false if it was never read, or is
// behind. Only stood makes it count.
func (c *clock) guess() (reading, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven {
		c.last = max(c.last, c.wall().UnixMicro())
		return reading{now: c.last}, true
	}
	if !c.follows || c.behind {
		return reading{}, false
	}
	taken := c.wall().Sub(c.started).Microseconds()
	return reading{now: c.last + max(taken-c.elapsed, 0), grace: c.graceTil, taken: taken}, true
}

// stood says that a guess was right, so that no later reading is before it, and what the database's clock has shown just after it, however long ago that is:
// a commit may be slow.
func (c *clock) stood(r reading, us, leaseUs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, r.now)
	if r.taken > c.elapsed { // else there was a later look
		c.follow(r.taken, us, leaseUs)
	}
}

// clockStood says that the transaction's reading was right, if that was a guess, after the message that has brought what the database's clock shows.
func (t *tx) clockStood() error {
	own, ok := t.Conn.(Clocked)
	if !ok || t.s.cfg.Driven {
		return nil
	}
	now, err := own.Clock()
	if err == nil {
		t.s.clock.stood(t.reading, now, sojourn.DefaultLease.Microseconds())
	}
	return err
}

// floor makes the clock not read below us: the high water that an earlier process has left.
func (c *clock) floor(us int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, us)
}

// describe says for Status whether the clock has been steady.
func (c *clock) describe() string {
	text := "steady"
	if n := c.stepsBack(); n > 0 {
		text = fmt.Sprintf("stepped back %d times", n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.follows {
		ahead := (time.Duration(c.ahead) * time.Microsecond).Round(time.Millisecond)
		text += fmt.Sprintf("; the clock of the database, this node's is %v ahead", ahead)
	}
	return text
}

// stepsBack is how often the wall was set back by more than two seconds.
func (c *clock) stepsBack() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}

// at is a time as it is stored; 0 is none.
func at(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
