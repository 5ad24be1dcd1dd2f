package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/workers"
)

// Run returns after the end of its context within the grace and these times, together less than 5
// s.
const (
	repeatTime = 900 * time.Millisecond  // to learn which jobs a cancelled claim has taken
	reactTime  = 1500 * time.Millisecond // for handlers to return after their contexts have ended
	reportTime = 2 * time.Second         // for the store to answer the last reports
	leaveTime  = 500 * time.Millisecond  // for the other roles to end, and the store to take the worker off its list
)

// drain ends a run after its last claim: it waits for the handlers, stops them, hands back their
// jobs, and ends the other roles.
func (r *run) drain(grace time.Duration) error {
	if !r.within(max(grace, 0), r.nothingLeft) {
		for _, s := range r.phased(running) {
			s.ctx.cancel(ErrShutdown)
		}
		r.within(reactTime, r.nothingRuns)
		for _, s := range r.phased(running) { // their handlers ignore the end of their contexts
			s.report(sojourn.Outcome{Type: sojourn.OutcomeReleased})
		}
		r.within(reportTime, r.nothingInHand)
	}
	r.stop()
	ended := make(chan struct{})
	go func() {
		r.leave()
		r.loops.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(leaveTime): // a store that ignores its context
	}
	return r.leftBehind()
}

// leave takes the worker off the store's list of workers. It is not repeated: if the call fails,
// the worker is listed until it has been silent for long enough. RunOnce does not leave, because
// its worker may be about to run the next job.
func (r *run) leave() {
	store, ok := r.w.store.(workers.Leaver)
	if !ok || r.once {
		return
	}
	ctx, cancel := context.WithTimeout(r.base, leaveTime)
	defer cancel()
	if err := store.LeaveWorker(ctx, r.w.id); err != nil {
		r.w.log.Debug("sojourn: the worker is still on the list of workers", "error", err)
	}
}

// leftBehind describes the handlers and outcomes that the drain could not end.
func (r *run) leftBehind() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.steps {
		s.phase = gone
	}
	if n := len(r.steps) + r.reports.abandoned; n > 0 {
		return fmt.Errorf("worker: stopped before the store has taken the reports about %d jobs; they run again when their leases end", n)
	}
	if r.active > 0 {
		return fmt.Errorf("worker: stopped while %d handlers ignore the end of their contexts; their jobs were handed back", r.active)
	}
	return nil
}

// await waits until done, and reports whether that was before ctx ended.
func (r *run) await(ctx context.Context, done func() bool) bool {
	for !done() {
		select {
		case <-r.changed:
		case <-ctx.Done():
			return done()
		}
	}
	return true
}

func (r *run) within(d time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return r.await(ctx, done)
}

func (r *run) nothingLeft() bool { return r.nothingRuns() && r.nothingInHand() }

func (r *run) nothingRuns() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active == 0
}

func (r *run) nothingInHand() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps) == 0
}

// phased lists the steps in a phase.
func (r *run) phased(p phase) (found []*step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.steps {
		if s.phase == p {
			found = append(found, s)
		}
	}
	return found
}
