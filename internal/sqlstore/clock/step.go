package clock

import (
	"errors"
	"fmt"
)

// MetaName is the name of the Record in sj_meta.
const MetaName = "clock"

// ErrStep ends a transaction whose Reading is Stepped. It is run again after the leases were
// shifted.
var ErrStep = errors.New("the clock was set")

// Record is what the processes on one database share about the clock. Its text is one value in
// sj_meta. A step is added to it in the transaction that shifts the leases.
type Record struct {
	Mark  int64  // the clock when the record was written
	Steps int64  // the sum of all steps by which leases were shifted
	since int64  // Reading.Since
	gap   int64  // Reading.Gap
	Text  string // as it was read; "" if it was not
}

// ParseRecord parses a stored record. Missing fields are 0.
func ParseRecord(text string) (r Record) {
	fmt.Sscan(text, &r.Mark, &r.Steps, &r.since, &r.gap)
	r.Text = text
	return r
}

// String returns the text to store.
func (r Record) String() string { return fmt.Sprint(r.Mark, r.Steps, r.since, r.gap) }

// After returns the record after a step that has set the clock to now, or after a time without a
// process, which may have contained a step of that size. An earlier gap is added as long as its
// grace is not over.
func (r Record) After(now, step int64) Record {
	gap := step
	if now-step < r.since+MaxGrace.Microseconds() {
		gap += r.gap
	}
	r.since, r.gap = now, max(gap, 0)
	return r
}

// Open takes the shared record when the store opens. All of the time since its mark may have been a
// step of the clock, because no process watched it: so leases from before get a grace. A mark in
// the future shows a step back.
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

// Step is a step of the clock.
type Step struct {
	to    span  // the offset after it
	us    int64 // its size; negative: back
	known int64 // Record.Steps when it was detected
}

// PendingStep returns the step by which the leases were not shifted yet. Its size is 0 if there is
// none.
func (c *Clock) PendingStep() Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stepped {
		return Step{to: c.offset}
	}
	return Step{c.offset, c.offset.middle() - c.before.middle(), c.shared.Steps}
}

// Remaining returns by how much the leases are still to be shifted, given the stored sum of steps:
// 0 if another process has shifted them. In doubt it is the whole step, because shifting a correct
// lease extends it by one lease at most.
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

// Rebased records that the leases were shifted by p, and that r is stored. The clock is still
// stepped if it was set once more meanwhile.
func (c *Clock) Rebased(p Step, r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = r
	c.before = p.to
	c.stepped = c.offset.low > p.to.high+MaxJump.Microseconds() || c.offset.high < p.to.low-MaxJump.Microseconds()
}

// HasStepped reports whether a step is pending.
func (c *Clock) HasStepped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stepped
}

// Unsaved returns the record to write at now, and true, if the stored one lacks the present grace.
// Its Text is that of the stored one, for the comparison.
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

// Load takes the steps that other processes have recorded. It reports false and changes nothing
// while a step of this process is pending.
func (c *Clock) Load(r Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepped || c.Lone {
		return false
	}
	c.shared.Steps, c.shared.Text = r.Steps, r.Text
	return true
}
