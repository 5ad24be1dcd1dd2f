package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Causes with which the context of a handler ends, besides *LimitError and sojourn.ErrLeaseLost.
// Use context.Cause.
var (
	// ErrShutdown: the worker is told to stop and the grace is over. A handler that returns an
	// error now hands its job back.
	ErrShutdown = errors.New("worker: shutting down")
	// ErrCancelled: the job was ended while it ran. It is also sojourn.ErrLeaseLost: nothing of the
	// step is stored any more.
	ErrCancelled = fmt.Errorf("worker: the job was cancelled: %w", sojourn.ErrLeaseLost)
	// ErrNotExtended: the lease could not be extended in time, so another worker may have the job
	// now. It is also sojourn.ErrLeaseLost. The handler's result is still reported, and counts if
	// the lease is still valid.
	ErrNotExtended = fmt.Errorf("worker: the lease could not be extended in time: %w", sojourn.ErrLeaseLost)
	// ErrLeaseOver: the kind's leases are not extended (Policy.NoExtend), and this one ends. It is
	// also sojourn.ErrLeaseLost.
	ErrLeaseOver = fmt.Errorf("worker: the lease ends, and the kind's policy NoExtend forbids to extend it: %w", sojourn.ErrLeaseLost)
	// ErrWindowClosed: the windows of the job have closed, and its policy says StopAtWindowEnd. An
	// error that the handler returns now hands the job back: it continues the attempt when they
	// open again.
	ErrWindowClosed = errors.New("worker: the windows of the job have closed")
)

// LimitError is the cause with which the context of a handler ends when one of its job's clocks has
// run out. It is also context.DeadlineExceeded.
type LimitError struct {
	Reason string        // sojourn.ReasonRunTimeout, ReasonTimeout or ReasonDeadline
	Limit  time.Duration // the rest of it when the step began
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("worker: %s: over after %v in this step", e.Reason, e.Limit)
}

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *LimitError) Is(target error) bool { return target == context.DeadlineExceeded }
