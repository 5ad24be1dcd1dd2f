// Package clock is the time of a store. Every decision about leases, deadlines and due times uses
// it, so that nodes with different clocks make the same decisions, and a clock that is set neither
// ends leases early nor holds jobs back.
//
// A [Clock] follows the clock of the database server, or the wall clock if the database has none. A
// transaction takes one [Reading] at its beginning, or predicts it and lets the server confirm it
// at the commit. A [Step] is a sudden change of the followed clock. The processes on one database
// share a [Record] of all steps, stored in sj_meta, so that only one of them shifts the leases
// (docs/decisions/046).
//
// All times are microseconds since 1970, all differences microseconds. A Clock is safe for
// concurrent use; the other types are values.
package clock

import (
	"fmt"
	"sync"
	"time"
)

// Clock is the clock of a store. It never goes back by a small step: it stands still until the
// followed clock has caught up. A step of more than MaxJump is detected against the monotonic clock
// of this process; its readings are Stepped until the leases were shifted, see Rebased. Safe for
// concurrent use.
type Clock struct {
	Source

	mu      sync.Mutex // guards the fields below
	begun   bool       // it was read
	offset  span       // of the followed clock to the monotonic one
	at      int64      // monotonic time at which offset was measured last
	last    int64      // the latest reading that was returned
	stepped bool       // a step is pending: the leases were not shifted yet
	before  span       // offset before that step
	asked   int64      // readings requested before this monotonic time precede the step
	shared  Record     // as this process knows it
	back    int        // steps back, for Describe
	forward int        // steps forward
	follows bool       // it reads the database's clock, with ReadFrom
	ahead   int64      // by how much this machine's clock is ahead of the database's
}

// Source is where a Clock gets its times. It does not change after the first use.
type Source struct {
	Wall    func() time.Time     // the clock of this machine, or of a test
	Elapsed func() time.Duration // the monotonic clock of this process; nil: that of Wall
	Started time.Time            // the origin of the monotonic clock
	Driven  bool                 // a test moves Wall: no protection against steps
	Lone    bool                 // a test wants no protection against steps
}

// Bounds of a step of the clock, and of its cost.
const (
	// MaxJump is the difference to the monotonic clock above which a change counts as a step.
	MaxJump = 2 * time.Second
	// MaxGrace bounds the extra time of a lease of unknown age after a step or an opening.
	MaxGrace = time.Minute
	// Tolerance is the allowed difference between the server's clock and a predicted time. A job
	// may start as late as that anyhow, see txn.PollEvery.
	Tolerance = 100 * time.Millisecond
)

// Reading is the clock at the start of a transaction.
type Reading struct {
	Now     int64 // the time of all decisions and writes of the transaction
	Since   int64 // a lease that was written before this time may end by Gap too early
	Gap     int64 // see txn.Tx.InGrace
	Stepped bool  // the leases must be shifted before any is granted or ended, see ErrStep
	taken   int64 // the monotonic time of a prediction
}

// span is a number of which only bounds are known.
type span struct{ low, high int64 }

func (s span) middle() int64 { return s.low + (s.high-s.low)/2 }

// Monotonic returns the monotonic time of this process. It does not change when a clock is set.
func (c *Clock) Monotonic() int64 {
	if c.Elapsed != nil {
		return c.Elapsed().Microseconds()
	}
	return c.Wall().Sub(c.Started).Microseconds() // Sub uses the monotonic reading
}

// Read reads this machine's clock, for a database without a clock of its own.
func (c *Clock) Read() Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Driven {
		c.last = max(c.last, c.Wall().UnixMicro())
		return Reading{Now: c.last}
	}
	wall, now := c.Wall(), c.Monotonic()
	return c.observe(wall.UnixMicro(), now, now)
}

// ReadFrom takes us, a reading of the database's clock that was requested at the monotonic time
// sent.
func (c *Clock) ReadFrom(us, sent int64) Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follows, c.ahead = true, c.Wall().UnixMicro()-us
	return c.observe(us, sent, c.Monotonic())
}

// Predict predicts the result of ReadFrom; false if the database's clock was never read, has been
// set, or is behind. The prediction has no effect on later readings until Confirm.
func (c *Clock) Predict() (Reading, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Driven {
		c.last = max(c.last, c.Wall().UnixMicro())
		return Reading{Now: c.last}, true
	}
	taken := c.Monotonic()
	now := taken + c.offset.low
	if !c.follows || c.stepped || now < c.last-Tolerance.Microseconds() {
		return Reading{}, false
	}
	return Reading{Now: max(c.last, now), Since: c.shared.since, Gap: c.shared.gap, taken: taken}, true
}

// Confirm records that a transaction with a predicted time was committed, so that no later reading
// is before it. us is a reading of the server's clock after the prediction, however old.
func (c *Clock) Confirm(r Reading, us int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stepped {
		c.last = max(c.last, r.Now)
	}
	c.observe(us, r.taken, c.Monotonic())
}

// Estimate returns the approximate time of the clock, for timers outside of transactions. It may
// differ from the next reading in both directions, and reads no database.
func (c *Clock) Estimate() int64 {
	if c.Driven {
		return c.Read().Now // never back, as each transaction reads it
	}
	c.mu.Lock()
	begun, low := c.begun, c.offset.low
	c.mu.Unlock()
	if !begun {
		return c.Wall().UnixMicro()
	}
	return c.Monotonic() + low
}

// Describe returns a text for Status: whether the clock has been set, and how far this machine's
// clock is from it.
func (c *Clock) Describe() string {
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

// observe takes a reading of the followed clock. The server took it at some monotonic time between
// sent and got, so only bounds of its offset to the monotonic clock are known. It is a step only if
// these bounds and those of earlier readings are more than MaxJump apart, however late the reading
// arrived. The caller holds mu.
func (c *Clock) observe(us, sent, got int64) Reading {
	now := span{us - got, us - sent}
	if !c.begun {
		c.begun, c.offset, c.at, c.last = true, now, got, us
	}
	if sent < c.asked {
		return Reading{Now: c.last, Since: c.shared.since, Gap: c.shared.gap, Stepped: true}
	}
	slack := MaxJump.Microseconds() + (got-c.at)>>10 // two clocks drift apart by less than 1/1024
	forward, back := now.low > c.offset.high+slack, now.high < c.offset.low-slack
	switch {
	case (forward || back) && c.Lone:
		c.offset, c.last = now, us
	case forward || back:
		if !c.stepped {
			c.stepped, c.before = true, c.offset
		}
		c.shared = c.shared.After(us, now.middle()-c.offset.middle())
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
	return Reading{Now: c.last, Since: c.shared.since, Gap: c.shared.gap, Stepped: c.stepped}
}
