package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// The intervals depend on the length L of the lease. A claim waits L/3 at most, one call extends
// all leases every L/3, and a handler's context ends L/6 before the lease does, counted from before
// the request was sent that won or extended it. An extend request times out after L/6 and is sent
// again. So two requests in a row may fail, or not be answered, before a handler is stopped, and it
// is stopped before another worker can have its job. A repeated claim returns leases that may be
// nearly over: they are extended at once, and if half of the time that is left until a handler
// would be stopped passes without an answer, another request is sent beside the first.

// watchPause is the shortest interval between two checks of all steps.
const watchPause = 10 * time.Millisecond

// leastBeside is the least time after which another request is sent beside one without an answer.
const leastBeside = 100 * time.Millisecond

// extendLoop extends the leases of all taken jobs. It has a goroutine of its own, so that no
// handler delays it.
func (r *run) extendLoop() {
	every := r.w.o.Lease / 3
	limit := max(every/2, min(every, leastAnswer))
	var calls sync.WaitGroup
	defer calls.Wait()
	for next := every; ; {
		sleep(r.calls, next, r.early)
		if r.calls.Err() != nil {
			return
		}
		r.overrun()
		answer := make(chan error, 1)
		calls.Go(func() {
			err := r.extendAll(limit)
			if err != nil && r.calls.Err() == nil {
				r.failed("extend", err)
			}
			answer <- err
		})
		select {
		case err := <-answer:
			if next = every; err != nil {
				next = min(every/10, max(r.left()/4, watchPause))
			}
		case <-time.After(min(limit, max(r.left()/2, leastBeside))):
			next = 0 // the one that is under way goes on: a slow answer counts too
		}
	}
}

// left is the time until the first handler is stopped unless its lease is extended; at most L.
func (r *run) left() time.Duration {
	now, left := time.Now(), r.w.o.Lease
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.steps {
		if s.phase == running && !s.warned && !s.as.noExtend && !s.inTx {
			left = min(left, s.handlerEnd().Sub(now))
		}
	}
	return left
}

// extendAll extends the leases of all taken jobs. This includes reported steps: a slow store must
// not treat a job as lost before its report is confirmed.
func (r *run) extendAll(limit time.Duration) (failed error) {
	r.mu.Lock()
	steps := make([]*step, 0, len(r.steps))
	for s := range r.steps {
		if !s.as.noExtend && !s.inTx {
			steps = append(steps, s)
		}
	}
	r.mu.Unlock()
	for chunk := range slices.Chunk(steps, sojourn.MaxBatch) {
		if err := r.extend(chunk, limit); err != nil {
			failed = err
		}
	}
	return failed
}

func (r *run) extend(steps []*step, limit time.Duration) error {
	leases := make([]sojourn.Lease, len(steps))
	for i, s := range steps {
		leases[i] = s.lease
	}
	call, cancel := context.WithTimeout(r.calls, limit)
	defer cancel()
	sent := time.Now()
	answers, err := r.w.store.Extend(call, leases)
	if err != nil {
		return err
	}
	kept := steps[:0]
	for i, s := range steps {
		if answers[i].Err != nil {
			s.lose(answers[i].Reason)
		} else {
			kept = append(kept, s)
		}
	}
	r.extended(kept, sent)
	r.observe(Event{Type: EventExtended, Count: len(kept), Took: time.Since(sent)})
	return nil
}

// extended records that the store has prolonged the leases of steps in a call that was sent then.
func (r *run) extended(steps []*step, sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range steps {
		if until := sent.Add(r.w.o.Lease); until.After(s.until) && !s.as.noExtend {
			s.until = until
		}
	}
}

// lose removes a step from the worker and ends its handler's context. A step whose report is being
// sent is not lost: the report itself may have ended the lease, and its result tells.
func (s *step) lose(reason string) {
	s.r.mu.Lock()
	if s.phase != running {
		s.r.mu.Unlock()
		return
	}
	s.forget()
	s.r.mu.Unlock()
	cause := sojourn.ErrLeaseLost
	if reason == driver.LostCancelled {
		cause = ErrCancelled
	}
	s.ctx.cancel(cause)
	s.r.observe(s.event(EventLost, reason))
	signal(s.r.changed)
}

// forget ends the worker's part in the step; r.mu is held.
func (s *step) forget() {
	s.phase = gone
	if s.held != nil {
		close(s.held)
		s.held = nil
	}
	delete(s.r.steps, s)
}

// handlerEnd is when the handler must stop unless the lease is extended; r.mu is held.
func (s *step) handlerEnd() time.Time { return s.until.Add(-s.r.w.o.Lease / 6) }

// watched makes sure that watchLoop checks the step at its handlerEnd; r.mu is held.
func (r *run) watched(s *step) {
	if end := s.handlerEnd(); end.Before(r.watchAt) {
		r.watchAt = end
		signal(r.sooner)
	}
}

// watchLoop ends the contexts of handlers whose leases were not extended. All steps share one
// timer: nearly all end long before their leases.
func (r *run) watchLoop() {
	for r.calls.Err() == nil {
		over, next := r.notExtended()
		for _, s := range over {
			s.leaseEnds()
		}
		sleep(r.calls, max(next, watchPause), r.sooner)
	}
}

// notExtended stops the steps that have reached their handlerEnd, and returns the time until the
// next check.
func (r *run) notExtended() (over []*step, next time.Duration) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := r.watchAt.Sub(now); left > 0 {
		return nil, left
	}
	r.watchAt = now.Add(r.w.o.Lease)
	for s := range r.steps {
		if s.phase != running || s.warned {
			continue
		}
		if end := s.handlerEnd(); !end.After(now) {
			s.warned = true
			over = append(over, s)
		} else if end.Before(r.watchAt) {
			r.watchAt = end
		}
	}
	return over, r.watchAt.Sub(now)
}

// leaseEnds ends the handler's context before the lease ends.
func (s *step) leaseEnds() {
	if s.as.noExtend {
		s.ctx.cancel(ErrLeaseOver)
		return
	}
	s.r.failed("extend", fmt.Errorf("job %d: %w", s.lease.ID, ErrNotExtended))
	s.ctx.cancel(ErrNotExtended)
}

// overrun reports a step, one lease after a limit of its job has passed, if its handler still runs.
// Such a handler occupies its capacity in the worker until it ends, but no longer has its job.
func (r *run) overrun() {
	now := time.Now()
	r.mu.Lock()
	var over []*step
	for s := range r.steps {
		if s.phase == running && s.limit != nil && now.Sub(s.began) > s.limit.Limit+r.w.o.Lease {
			over = append(over, s)
		}
	}
	r.mu.Unlock()
	for _, s := range over {
		text := s.limit.Error() + "; the handler has not returned since"
		r.w.log.Error("sojourn: a handler ignores the end of its context", "kind", s.as.kind, "job", s.lease.ID, "reason", s.limit.Reason)
		o := ended(sojourn.Outcome{Type: sojourn.OutcomeError, Text: text}, s.limit)
		if s.purpose == sojourn.PurposePoll {
			o.Type = sojourn.OutcomeNoAnswer
		}
		s.report(o)
	}
}
