package sqlstore

import (
	"sync"
	"time"
)

// clock is the store's: every due, lease and deadline decision uses it and no other (inv:K1). It never goes back: it follows the wall
// clock forward, and between two looks at it the monotonic one, whichever is later.
type clock struct {
	wall   func() time.Time
	driven bool // a test moves it: no protection against jumps

	mu       sync.Mutex // guards the fields below
	last     int64      // the latest reading, microseconds
	seen     time.Time  // the wall reading it came from
	graceTil int64      // after a jump forward: no lease ends before this
	back     int        // steps back that were seen
}

// jump is how far the wall may run ahead of the monotonic clock before it counts as a jump (a resumed machine, a clock set).
const jump = 2 * time.Second

// reading is the clock at the start of a transaction.
type reading struct {
	now   int64 // microseconds since 1970
	grace int64 // leases stand until then, whatever their end
}

// read returns the time, never before floor. leaseUs is the longest lease in use, granted anew after a jump (inv:K3).
func (c *clock) read(leaseUs int64) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.wall()
	now := wall.UnixMicro()
	if !c.driven && !c.seen.IsZero() {
		elapsed := wall.Sub(c.seen) // monotonic
		walked := time.Duration(wall.UnixMicro()-c.seen.UnixMicro()) * time.Microsecond
		switch drift := walked - elapsed; {
		case drift > jump:
			c.graceTil = now + leaseUs
		case drift < -jump:
			c.back++
		}
		now = max(now, c.last+elapsed.Microseconds())
	}
	c.seen = wall
	c.last = max(c.last, now)
	return reading{now: c.last, grace: c.graceTil}
}

// floor makes the clock not read below us: the high water that an earlier process has left.
func (c *clock) floor(us int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, us)
}

// stepsBack is how often the wall was set back by more than two seconds.
func (c *clock) stepsBack() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}
