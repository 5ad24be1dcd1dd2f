package worker

import (
	"errors"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// A handler may complete its job inside its own transaction (sqlite.FinishTx, postgres.FinishTx).
// The worker does not see whether that is committed, so it reports the outcome of a rollback: an
// error. After a commit the lease is no longer valid, and the report changes nothing.

func (s *step) leftAlone() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.inTx
}

// rolledBack is the outcome of a handler that has returned nil after FinishTx, unless the job is
// completed.
func rolledBack() sojourn.Outcome {
	err := errors.New("the handler returned nil, but the transaction in which FinishTx completed the job was not committed")
	return sojourn.OutcomeOf(sojourn.WithReason(sojourn.ReasonRolledBack, err))
}

// committed tells from the answer to a report whether the transaction has completed the job; r.mu
// is held.
func (s *step) committed(a driver.Finished) bool {
	return s.inTx && a.Status == driver.FinishLost && a.Reason == driver.LostEnded && a.State == sojourn.Completed
}

// afterCommit is the event of a committed step. Its Err is the ignored error of the handler.
func (s *step) afterCommit() Event {
	e := s.event(EventFinished, "")
	e.Outcome = sojourn.OutcomeCompleted
	if s.out.Type == sojourn.OutcomeError && s.out.Reason != sojourn.ReasonRolledBack {
		e.Err = errors.New(s.out.Text)
	}
	return e
}
