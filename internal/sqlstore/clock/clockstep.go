package clock

import (
	"errors"
	"fmt"
)

// Shared is the record that all processes on one database share, in sj_meta.
type Record struct {
	Mark  int64 // the clock when the record was written
	Steps int64 // the sum of all steps by which leases were shifted
	since int64 // leases that were written before this time may end too early,
	gap   int64 // by this much
	Text  string
}

const MetaName = "clock"

// ErrStep ends a transaction that has read a clock that was set. It is run again after rebase.
var ErrStep = errors.New("the clock was set")

func ParseRecord(text string) (r Record) {
	fmt.Sscan(text, &r.Mark, &r.Steps, &r.since, &r.gap) // missing fields are 0
	r.Text = text
	return r
}

func (r Record) String() string { return fmt.Sprint(r.Mark, r.Steps, r.since, r.gap) }

// After returns the record after a step to now, or after a time without a process, which may have
// contained a step. An earlier gap counts as long as its grace is not over.
func (r Record) After(now, step int64) Record {
	gap := step
	if now-step < r.since+MaxGrace.Microseconds() {
		gap += r.gap
	}
	r.since, r.gap = now, max(gap, 0)
	return r
}

// Open loads the shared record when the store opens. It cannot know how much of the time
// since the mark was a step of the clock: until a lease after the opening, all of it may be one. A
// mark in the future is certainly a step back.
func (c *Clock) Open(r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Text == "" || c.Driven || c.Lone {
		return
	}
	switch gap := c.last - r.Mark; {
	case gap > MaxJump.Microseconds():
		r = r.After(c.last, gap)
	case gap < -MaxJump.Microseconds():
		r = r.After(c.last, gap)
		c.stepped, c.before = true, span{c.offset.low - gap, c.offset.high - gap}
	}
	c.shared = r
}

// Step is a step of the clock by which the leases were not shifted yet.
type Step struct {
	to    span  // the offset after it
	us    int64 // its size
	known int64 // the sum of the steps before it
}

func (c *Clock) PendingStep() Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stepped {
		return Step{to: c.offset}
	}
	return Step{c.offset, c.offset.middle() - c.before.middle(), c.shared.Steps}
}

// Remaining returns by how much the leases are still to be shifted if the record says steps: 0 if
// another process has done it. A step that differs from the recorded one is applied too, because
// shifting a correct lease extends it by one lease at most.
func (p Step) Remaining(steps int64) int64 {
	left := p.us - (steps - p.known)
	switch near := MaxJump.Microseconds(); {
	case max(left, -left) <= near, p.us < 0 && left < 0 && -left <= 10*near: // a mark is some seconds old
		return 0
	case left > 0 == (p.us > 0) && max(left, -left) < max(p.us, -p.us):
		return left
	}
	return p.us
}

// Rebased records that the leases fit the clock at the offset to.
func (c *Clock) Rebased(p Step, r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = r
	c.before = p.to
	c.stepped = c.offset.low > p.to.high+MaxJump.Microseconds() || c.offset.high < p.to.low-MaxJump.Microseconds()
}

func (c *Clock) HasStepped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stepped
}

// Unsaved returns the record to write if the stored one lacks the present grace.
func (c *Clock) Unsaved(now int64) (Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.shared
	if r.Text == "" || ParseRecord(r.Text).since >= r.since {
		return r, false
	}
	r.Mark = now
	return r, true
}

// Load loads the record of other processes; false while a step of this process is pending.
func (c *Clock) Load(r Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepped || c.Lone {
		return false
	}
	c.shared.Steps, c.shared.Text = r.Steps, r.Text
	return true
}
