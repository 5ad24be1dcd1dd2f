package sqlstore

import (
	"fmt"
	"sync"
	"time"
)

// clock is the store's clock: every due, lease and deadline decision uses it and no other. It
// follows the clock of the database server, or the wall clock if the database has none. After a
// small step back it stands still until the followed clock has caught up. A larger step is detected
// against the monotonic clock of this process, and followed only after the leases were shifted by
// it, see rebase (docs/decisions/046).
type clock struct {
	wall    func() time.Time
	elapsed func() time.Duration // the monotonic clock; nil: that of wall
	started time.Time            // the origin of the monotonic clock
	driven  bool                 // a test moves wall: no protection against steps
	lone    bool                 // a test wants no protection against steps

	mu      sync.Mutex // guards the fields below
	begun   bool
	offset  span  // of the followed clock to the monotonic one
	at      int64 // monotonic time at which offset was measured last
	last    int64 // the latest reading that was returned
	stepped bool  // the clock has been set, and the leases were not shifted yet
	before  span  // offset before that step
	asked   int64 // readings requested before this monotonic time precede the step
	shared  sharedClock
	back    int   // steps back
	forward int   // steps forward
	follows bool  // it reads the database's clock, with readFrom
	ahead   int64 // by how much this machine's clock is ahead of the database's
}

// span is a number of which only bounds are known.
type span struct{ low, high int64 }

func (s span) middle() int64 { return s.low + (s.high-s.low)/2 }

const (
	// jump is the difference to the monotonic clock above which a change counts as a step.
	jump = 2 * time.Second
	// graceMost bounds the extra time of a lease of unknown age after a step or an opening.
	graceMost = time.Minute
	// guessNear is the allowed difference between the clock and its estimate: no more than the
	// delay that is tolerated for job starts anyhow, see pollEvery.
	guessNear = 100 * time.Millisecond
)

// reading is the clock at the start of a transaction. All times are microseconds.
type reading struct {
	now     int64 // since 1970
	since   int64 // leases that were written before this time may end gap too early
	gap     int64
	stepped bool  // the leases have to be shifted before any is granted or ended
	taken   int64 // of a predicted time: the monotonic time
}

// monotonic is the time since the process opened the store, in microseconds.
func (c *clock) monotonic() int64 {
	if c.elapsed != nil {
		return c.elapsed().Microseconds()
	}
	return c.wall().Sub(c.started).Microseconds() // Sub uses the monotonic reading
}

// read is readFrom for a database without a clock of its own.
func (c *clock) read() reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven {
		c.last = max(c.last, c.wall().UnixMicro())
		return reading{now: c.last}
	}
	wall, now := c.wall(), c.monotonic()
	return c.observe(wall.UnixMicro(), now, now)
}

// readFrom returns the time for a reading of the database's clock that was requested at the
// monotonic time sent.
func (c *clock) readFrom(us, sent int64) reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follows, c.ahead = true, c.wall().UnixMicro()-us
	return c.observe(us, sent, c.monotonic())
}

// observe takes a reading of the followed clock. It was taken at some monotonic time from sent to
// got, so only bounds of its offset to the monotonic clock are known. It is a step only if these
// miss the bounds of earlier readings by more than jump, however late the answer came. c.mu is
// held.
func (c *clock) observe(us, sent, got int64) reading {
	now := span{us - got, us - sent}
	if !c.begun {
		c.begun, c.offset, c.at, c.last = true, now, got, us
	}
	if sent < c.asked {
		return reading{now: c.last, since: c.shared.since, gap: c.shared.gap, stepped: true}
	}
	slack := jump.Microseconds() + (got-c.at)>>10 // two clocks drift apart by less than 1/1024
	forward, back := now.low > c.offset.high+slack, now.high < c.offset.low-slack
	switch {
	case (forward || back) && c.lone:
		c.offset, c.last = now, us
	case forward || back:
		if !c.stepped {
			c.stepped, c.before = true, c.offset
		}
		c.shared = c.shared.after(us, now.middle()-c.offset.middle())
		c.offset, c.asked, c.last = now, got, us
		if back {
			c.back++
		} else {
			c.forward++
		}
	case now.low > c.offset.high || now.high < c.offset.low: // drift, or a small step
		c.offset = now
	default:
		c.offset = span{max(c.offset.low, now.low), min(c.offset.high, now.high)}
	}
	c.at, c.last = got, max(c.last, us)
	return reading{now: c.last, since: c.shared.since, gap: c.shared.gap, stepped: c.stepped}
}

// estimate returns the approximate time of the clock, outside of a transaction.
func (c *clock) estimate() int64 {
	if c.driven {
		return c.read().now // never back, as each transaction reads it
	}
	c.mu.Lock()
	begun, low := c.begun, c.offset.low
	c.mu.Unlock()
	if !begun {
		return c.wall().UnixMicro()
	}
	return c.monotonic() + low
}

// guess predicts the result of readFrom from this machine's clock; false if the database's clock
// was never read, has been set, or is behind. The prediction takes effect with confirm.
func (c *clock) guess() (reading, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven {
		c.last = max(c.last, c.wall().UnixMicro())
		return reading{now: c.last}, true
	}
	taken := c.monotonic()
	now := taken + c.offset.low
	if !c.follows || c.stepped || now < c.last-guessNear.Microseconds() {
		return reading{}, false
	}
	return reading{now: max(c.last, now), since: c.shared.since, gap: c.shared.gap, taken: taken}, true
}

// confirm records that the server has accepted a predicted time, so that no later reading is before
// it. us is the time of the server's clock after the prediction, however long ago that is.
func (c *clock) confirm(r reading, us int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stepped {
		c.last = max(c.last, r.now)
	}
	c.observe(us, r.taken, c.monotonic())
}

// describe tells Status whether the clock has been steady.
func (c *clock) describe() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := "steady"
	if c.back+c.forward > 0 {
		text = fmt.Sprintf("set forward %d times and back %d times", c.forward, c.back)
	}
	if c.follows {
		ahead := (time.Duration(c.ahead) * time.Microsecond).Round(time.Millisecond)
		text += fmt.Sprintf("; the clock of the database, this node's is %v ahead", ahead)
	}
	return text
}
