package worker

import (
	"context"
	"log/slog"

	"github.com/sojourn-queue/sojourn"
)

// failedAttempt is an attempt whose failure the store has accepted.
type failedAttempt struct {
	kind, queue, reason, text string
	job                       sojourn.ID
	attempt                   int32
	state                     sojourn.State // of the job after it
}

// addFailure appends the attempt of a step to those that have failed, if it has.
func (s *step) addFailure(all []failedAttempt, state sojourn.State) []failedAttempt {
	switch s.out.Type {
	case sojourn.OutcomeError, sojourn.OutcomeAbort, sojourn.OutcomeUndecodable:
	case sojourn.OutcomeDecided:
		if state != sojourn.Failed {
			return all // the attempt failed before
		}
	default:
		return all
	}
	return append(all, failedAttempt{s.as.kind, s.as.queue, s.out.Reason, s.out.Text, s.lease.ID, s.log.attempt, state})
}

// log logs the failure: as an error if the job has failed for good or the handler has panicked,
// else as a warning.
func (f failedAttempt) log(to *slog.Logger) {
	level, message := slog.LevelWarn, "sojourn: an attempt failed"
	if f.state == sojourn.Failed {
		level, message = slog.LevelError, "sojourn: a job failed"
	} else if f.reason == sojourn.ReasonPanic {
		level = slog.LevelError
	}
	to.Log(context.Background(), level, message, "kind", f.kind, "queue", f.queue, "job", f.job, "attempt", f.attempt, "reason", f.reason, "error", f.text, "state", f.state)
}
