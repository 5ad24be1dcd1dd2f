package worker

import (
	"runtime/debug"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Observer gets the events of a worker, for metrics and traces. Observe is called from many
// goroutines at the same time and blocks them, so it must be quick. A panic in it is logged and has
// no other effect.
type Observer interface {
	Observe(e Event)
}

// EventType is the type of an Event.
type EventType string

// The events of a worker. In brackets the fields of Event that are set.
const (
	EventClaimed  EventType = "claimed"  // jobs came [Count, Took: since the request, waiting included]
	EventStarted  EventType = "started"  // a handler begins [of the job, Attempt, Waited]
	EventFinished EventType = "finished" // the store has taken a report [of the job, Outcome, State, Reason, Ran, Took: from the end of the handler to the store's answer; Err: returned after FinishTx was committed, in vain]
	EventLost     EventType = "lost"     // a lease has ended under a step [of the job, Reason: driver.LostEnded, LostCancelled, LostRevoked, LostTaken]
	EventReported EventType = "reported" // outcomes were stored in one call [Count, Took]
	EventExtended EventType = "extended" // leases were prolonged in one call [Count, Took]
	EventSwept    EventType = "swept"    // a sweep found something [Count, Took]
	EventFailure  EventType = "failure"  // a call to the store failed and will be repeated [Call, Err]
)

// Event is an event of a worker. Fields that do not belong to its type are zero.
type Event struct {
	Type    EventType
	Kind    string // of the job, as Queue, Job and Purpose
	Queue   string
	Job     sojourn.ID
	Purpose sojourn.Purpose
	Outcome sojourn.OutcomeType
	State   sojourn.State // of the job after it
	Reason  string
	Count   int
	Attempt int32
	Waited  time.Duration // of purpose start: from the job's run_at until its claim, by the store's clock
	Ran     time.Duration // from the claim to the end of the handler
	Took    time.Duration
	Call    string // claim, extend, save, finish or sweep
	Err     error
}

func (r *run) observe(e Event) {
	if r.w.o.Observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			r.w.log.Error("sojourn: the observer panicked", "event", e.Type, "panic", panicked(v, debug.Stack()))
		}
	}()
	r.w.o.Observer.Observe(e)
}

// started is the event of a step whose handler begins.
func (s *step) started() Event {
	return Event{Type: EventStarted, Kind: s.as.kind, Queue: s.as.queue, Job: s.lease.ID, Purpose: s.purpose, Attempt: s.log.attempt, Waited: s.waited}
}

// event is one about the step. The outcome is set where there is one.
func (s *step) event(t EventType, reason string) Event {
	return Event{Type: t, Kind: s.as.kind, Queue: s.as.queue, Job: s.lease.ID, Purpose: s.purpose, Outcome: s.out.Type, Reason: reason}
}
