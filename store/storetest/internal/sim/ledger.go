package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// ledger records the knowledge of the callers, independent of the model and its rules: promises
// that they can check.
type ledger struct {
	acked    map[sojourn.ID]bool
	steps    map[sojourn.ID]*started
	frozen   map[sojourn.ID]frozen
	owner    map[int64]sojourn.ID // response → the job that was given it
	disposed map[int64]string     // response → how a handler was done with it
}

// started is the step of a job that was claimed last.
type started struct {
	lease  sojourn.Lease
	until  int64 // the end of the lease, as its worker knows it
	limit  int64 // the end of the attempt or the life, with one lease on top
	over   bool
	inHand []int64
}

// frozen is a job that has ended.
type frozen struct {
	generation int32
	text       string
}

func newLedger() ledger {
	return ledger{map[sojourn.ID]bool{}, map[sojourn.ID]*started{}, map[sojourn.ID]frozen{}, map[int64]sojourn.ID{}, map[int64]string{}}
}

// claimed checks a job that a worker was given: no other step of it runs, epochs rise, and no
// answer is given to two jobs, or again after it was disposed of.
func (l *ledger) claimed(c driver.Claimed, now int64) string {
	if s := l.steps[c.Job.ID]; s != nil && s.lease != c.Lease {
		if !s.over && now < min(s.until, s.limit) {
			return fmt.Sprintf("job %d was given to %s while %s has it (inv:F1)", c.Job.ID, c.Lease.Worker, s.lease.Worker)
		}
		if c.Lease.Epoch <= s.lease.Epoch {
			return fmt.Sprintf("the epoch of job %d fell from %d to %d (inv:F1)", c.Job.ID, s.lease.Epoch, c.Lease.Epoch)
		}
	}
	s := &started{lease: c.Lease, until: now + c.LeaseFor.Microseconds(), limit: math.MaxInt64}
	for _, left := range []time.Duration{c.Timeout, c.Deadline} {
		if left > 0 {
			s.limit = min(s.limit, now+(left+c.LeaseFor).Microseconds())
		}
	}
	if a := c.Job.Waiting; a != nil { // a wait ends by its own clocks under a poll step too
		for _, end := range []time.Time{a.Until, a.Beat} {
			if !end.IsZero() {
				s.limit = min(s.limit, end.UnixMicro())
			}
		}
	}
	for _, r := range c.Job.Responses {
		if how, ok := l.disposed[r.Seq]; ok {
			return fmt.Sprintf("job %d was given answer %s again, after a handler was done with it: %s (rules:B2)", c.Job.ID, r.MessageID, how)
		}
		if job, ok := l.owner[r.Seq]; ok && job != c.Job.ID {
			return fmt.Sprintf("answer %s was given to jobs %d and %d (rules:B5)", r.MessageID, job, c.Job.ID)
		}
		l.owner[r.Seq] = c.Job.ID
		s.inHand = append(s.inHand, r.Seq)
	}
	l.steps[c.Job.ID] = s
	return ""
}

func (l *ledger) prolonged(lease sojourn.Lease, until int64) {
	if s := l.steps[lease.ID]; s != nil && s.lease == lease {
		s.until = until
	}
}

// reported notes the end of a handler's step and, if its report was accepted, how the step has
// disposed of its responses.
func (l *ledger) reported(o sojourn.Outcome, accepted bool) {
	s := l.steps[o.Lease.ID]
	if s == nil || s.lease != o.Lease || s.over {
		return
	}
	s.over = true
	switch {
	case !accepted:
	case o.Type == sojourn.OutcomeCompleted, o.Type == sojourn.OutcomeAbort, o.Type == sojourn.OutcomeCancelled,
		o.Type == sojourn.OutcomeError && o.Verdict.Again:
		for _, m := range s.inHand {
			l.disposed[m] = string(o.Type)
		}
	}
}

// over notes that an operator has ended the step of a job.
func (l *ledger) over(id sojourn.ID) {
	if s := l.steps[id]; s != nil {
		s.over = true
	}
}

// seen checks a job that the store shows: a final job does not change.
func (l *ledger) seen(j *sojourn.Job) string {
	was, ok := l.frozen[j.ID]
	if !j.State.Final() {
		if ok && was.generation >= j.Generation {
			return fmt.Sprintf("job %d was final in generation %d and is %s in generation %d (inv:S2)", j.ID, was.generation, j.State, j.Generation)
		}
		return ""
	}
	is := frozen{j.Generation, fmt.Sprintf("%s result %q reason %q error %q at %v, attempt %d failures %d crashes %d epoch %d",
		j.State, j.Result, j.Reason, j.Error, j.FinishedAt, j.Attempt, j.Failures, j.Crashes, j.Epoch)}
	if ok && was.generation == is.generation && was != is {
		return fmt.Sprintf("job %d has changed after its end (inv:S2)\n  before: %s\n  after:  %s", j.ID, was.text, is.text)
	}
	l.frozen[j.ID] = is
	return ""
}
