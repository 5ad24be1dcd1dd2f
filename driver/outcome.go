package driver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// ValidOutcome checks what can be checked without the job. maxBytes bounds the result.
func ValidOutcome(o *sojourn.Outcome, maxBytes int) error {
	if len(o.Result) > maxBytes {
		return sojourn.TooLarge("result", len(o.Result), maxBytes)
	}
	if err := sojourn.ValidContentType("result_type", o.ResultType); err != nil {
		return err
	}
	if len(o.Verdict.Checkpoint) > maxBytes {
		return sojourn.TooLarge("checkpoint", len(o.Verdict.Checkpoint), maxBytes)
	}
	for _, c := range []struct {
		field string
		v     time.Duration
	}{{"delay", o.Delay}, {"verdict.delay", max(o.Verdict.Delay, 0)}} {
		if c.v < 0 || c.v > sojourn.MaxHorizon {
			return sojourn.Invalid(c.field, "%v is out of range: 0 to 10 years", c.v)
		}
	}
	if o.Queue != "" {
		if err := sojourn.ValidName("queue", o.Queue); err != nil {
			return err
		}
	}
	if err := validWait(o.Wait); err != nil {
		return err
	}
	if o.Type != sojourn.OutcomeAdvance && (!o.RunAt.IsZero() || o.Priority != nil || o.Weight != nil) {
		return sojourn.Invalid("type", "run_at, priority and weight are of the outcome advance, not of %.64q", o.Type)
	}
	if o.Weight != nil && (*o.Weight < 0 || *o.Weight > sojourn.MaxWeight) {
		return sojourn.Invalid("weight", "%d is out of range: 0 to 1,000,000", *o.Weight)
	}
	if len(o.Depends) > 0 && o.Type != sojourn.OutcomeAdvance {
		return sojourn.Invalid("depends_on", "is of the outcome advance, not of %.64q", o.Type)
	}
	if err := sojourn.ValidDepends(o.Depends); err != nil {
		return err
	}
	if err := validNext(o, maxBytes); err != nil {
		return err
	}
	if !slices.Contains(outcomeTypes, o.Type) {
		return sojourn.Invalid("type", "%.64q is no outcome: use %s", o.Type, strings.Trim(fmt.Sprint(outcomeTypes), "[]"))
	}
	return nil
}

// validNext checks the jobs that an outcome stores. Children have names, each one of its own.
func validNext(o *sojourn.Outcome, maxBytes int) error {
	if len(o.Next) > sojourn.MaxBatch {
		return sojourn.Invalid("next", "%d jobs exceed the limit of %d", len(o.Next), sojourn.MaxBatch)
	}
	names := map[string]bool{}
	for i := range o.Next {
		if o.Next[i].ID < 0 {
			return sojourn.Invalid("next", "job %d has the id %d; leave it out, and the store draws one", i, o.Next[i].ID)
		}
		if err := o.Next[i].Validate(maxBytes); err != nil {
			return sojourn.AtIndex(i, err)
		}
	}
	if o.Type == sojourn.OutcomeAwaitJobs {
		for i := range o.Next {
			name := o.Next[i].Name
			if name == "" || names[name] {
				return sojourn.AtIndex(i, sojourn.Invalid("name", "%.64q is empty or the name of another child too; give each child a name of its own", name))
			}
			names[name] = true
		}
		if w := o.Wait; w.Mode != 0 || len(w.Keys) > 0 || w.Beat != 0 || w.Poll != (sojourn.Backoff{}) {
			return sojourn.Invalid("wait", "of the outcome await_jobs has nothing but within")
		}
	}
	return nil
}

var outcomeTypes = []sojourn.OutcomeType{sojourn.OutcomeCompleted, sojourn.OutcomeError, sojourn.OutcomeAwait, sojourn.OutcomeSnooze, sojourn.OutcomeHold, sojourn.OutcomeAbort,
	sojourn.OutcomeCancelled, sojourn.OutcomeUndecodable, sojourn.OutcomeAdvance, sojourn.OutcomeAwaitJobs, sojourn.OutcomeReleased, sojourn.OutcomeDecided, sojourn.OutcomeNoAnswer, sojourn.OutcomeAnswer}

// validWait checks a wait that a worker sends.
func validWait(w sojourn.Wait) error {
	if w.Within < 0 || w.Within > sojourn.MaxHorizon {
		return sojourn.Invalid("within", "%v is out of range: 0 to 10 years", w.Within)
	}
	if w.Beat < 0 || w.Beat > sojourn.MaxHorizon {
		return sojourn.Invalid("wait.beat", "%v is out of range: 0 (none) to 10 years", w.Beat)
	}
	if w.Mode > sojourn.WaitAll {
		return sojourn.Invalid("wait.mode", "%d is not one of WaitAny and WaitAll", w.Mode)
	}
	for _, k := range w.Keys {
		if err := sojourn.ValidKey("wait.keys", k); err != nil {
			return err
		}
	}
	if len(w.Keys) > sojourn.MaxTags {
		return sojourn.Invalid("wait.keys", "%d keys exceed the limit of %d", len(w.Keys), sojourn.MaxTags)
	}
	if w.Poll == (sojourn.Backoff{}) {
		return nil
	}
	if w.Poll.First < sojourn.MinPoll || w.Poll.Limit != 0 && w.Poll.Limit < sojourn.MinPoll {
		return sojourn.Invalid("wait.poll", "%v, and at most %v, is too often: at least every %v", w.Poll.First, w.Poll.Limit, sojourn.MinPoll)
	}
	probe := sojourn.NewJob("probe", nil)
	probe.Policy.Backoff = w.Poll
	return probe.Validate(sojourn.MaxMaxBytes)
}
