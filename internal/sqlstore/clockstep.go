package sqlstore

import (
	"errors"
	"fmt"
)

// sharedClock is the record that all processes on one database share, in sj_meta.
type sharedClock struct {
	mark  int64 // the clock when the record was written
	steps int64 // the sum of all steps by which leases were shifted
	since int64 // leases that were written before this time may end too early,
	gap   int64 // by this much
	text  string
}

const metaClock = "clock"

// errClockStep ends a transaction that has read a clock that was set. It is run again after rebase.
var errClockStep = errors.New("the clock was set")

func readShared(text string) (r sharedClock) {
	fmt.Sscan(text, &r.mark, &r.steps, &r.since, &r.gap) // missing fields are 0
	r.text = text
	return r
}

func (r sharedClock) String() string { return fmt.Sprint(r.mark, r.steps, r.since, r.gap) }

// after returns the record after a step to now, or after a time without a process, which may have
// contained a step. An earlier gap counts as long as its grace is not over.
func (r sharedClock) after(now, step int64) sharedClock {
	gap := step
	if now-step < r.since+graceMost.Microseconds() {
		gap += r.gap
	}
	r.since, r.gap = now, max(gap, 0)
	return r
}

// open loads the shared record when the store opens. It cannot know how much of the time
// since the mark was a step of the clock: until a lease after the opening, all of it may be one. A
// mark in the future is certainly a step back.
func (c *clock) open(r sharedClock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.text == "" || c.driven || c.lone {
		return
	}
	switch gap := c.last - r.mark; {
	case gap > jump.Microseconds():
		r = r.after(c.last, gap)
	case gap < -jump.Microseconds():
		r = r.after(c.last, gap)
		c.stepped, c.before = true, span{c.offset.low - gap, c.offset.high - gap}
	}
	c.shared = r
}

// clockStep is a step of the clock by which the leases were not shifted yet.
type clockStep struct {
	to    span  // the offset after it
	us    int64 // its size
	known int64 // the sum of the steps before it
}

func (c *clock) pendingStep() clockStep {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stepped {
		return clockStep{to: c.offset}
	}
	return clockStep{c.offset, c.offset.middle() - c.before.middle(), c.shared.steps}
}

// remaining returns by how much the leases are still to be shifted if the record says steps: 0 if
// another process has done it. A step that differs from the recorded one is applied too, because
// shifting a correct lease extends it by one lease at most.
func (p clockStep) remaining(steps int64) int64 {
	left := p.us - (steps - p.known)
	switch near := jump.Microseconds(); {
	case max(left, -left) <= near, p.us < 0 && left < 0 && -left <= 10*near: // a mark is some seconds old
		return 0
	case left > 0 == (p.us > 0) && max(left, -left) < max(p.us, -p.us):
		return left
	}
	return p.us
}

// rebased records that the leases fit the clock at the offset to.
func (c *clock) rebased(p clockStep, r sharedClock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = r
	c.before = p.to
	c.stepped = c.offset.low > p.to.high+jump.Microseconds() || c.offset.high < p.to.low-jump.Microseconds()
}

func (c *clock) hasStepped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stepped
}

// unsaved returns the record to write if the stored one lacks the present grace.
func (c *clock) unsaved(now int64) (sharedClock, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.shared
	if r.text == "" || readShared(r.text).since >= r.since {
		return r, false
	}
	r.mark = now
	return r, true
}

// sync loads the record of other processes; false while a step of this process is pending.
func (c *clock) sync(r sharedClock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepped || c.lone {
		return false
	}
	c.shared.steps, c.shared.text = r.steps, r.text
	return true
}
