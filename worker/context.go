package worker

import (
	"context"
	"sync"
	"time"
)

// stepContext is the context of a handler. A context with a timer and a link to its parent costs
// more than a short handler, so the context is created lazily: when the handler first needs more
// than Deadline and Err.
type stepContext struct {
	base     context.Context // its parent, for values
	deadline time.Time       // zero = none
	over     error           // its cause once the deadline has passed

	mu    sync.Mutex // guards the fields below
	made  context.Context
	stop  context.CancelCauseFunc // of made
	free  context.CancelFunc      // of its timer; nil = none
	err   error                   // before it is made: that of a context that has ended
	cause error                   // with err
}

// endAfter sets the deadline: the limit, if any, or the time until the window closes, if there is
// one; counted from began.
func (c *stepContext) endAfter(began time.Time, limit *LimitError, window time.Duration) {
	switch {
	case window > 0 && (limit == nil || window < limit.Limit):
		c.deadline, c.over = began.Add(window), ErrWindowClosed
	case limit != nil:
		c.deadline, c.over = began.Add(limit.Limit), limit
	}
}

// Deadline implements context.Context.
func (c *stepContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *stepContext) Done() <-chan struct{} { return c.whole().Done() }

// Value implements context.Context. It creates the context, because context.Cause and child
// contexts find it by a key of their own.
func (c *stepContext) Value(key any) any { return c.whole().Value(key) }

// Err implements context.Context.
func (c *stepContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		return c.made.Err()
	}
	c.look()
	return c.err
}

// ended is context.Cause without creating the context.
func (c *stepContext) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		return context.Cause(c.made)
	}
	c.look()
	return c.cause
}

// look checks the deadline while there is no timer; c.mu is held.
func (c *stepContext) look() {
	if c.err == nil && !c.deadline.IsZero() && time.Until(c.deadline) <= 0 {
		c.err, c.cause = context.DeadlineExceeded, c.over
	}
}

// cancel ends the context, unless it has ended.
func (c *stepContext) cancel(cause error) {
	c.mu.Lock()
	stop, free := c.stop, c.free
	if c.made == nil {
		c.look()
		if c.err == nil {
			c.err, c.cause = context.Canceled, cause
		}
	}
	c.mu.Unlock()
	if stop != nil {
		stop(cause) // without the lock: child contexts end with it, and may call this one
	}
	if free != nil {
		free()
	}
}

// whole returns the context and creates it if needed.
func (c *stepContext) whole() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		return c.made
	}
	c.made, c.stop = context.WithCancelCause(c.base)
	c.look()
	if c.err == context.Canceled {
		c.stop(c.cause)
	}
	if !c.deadline.IsZero() {
		c.made, c.free = context.WithDeadlineCause(c.made, c.deadline, c.over)
	}
	return c.made
}
