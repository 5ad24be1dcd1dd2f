package retry

import (
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
)

// Result is what a policy would have done with a failed job.
type Result string

// The results.
const (
	Retried Result = "retried" // it would have been retried after its last failure
	Same    Result = "same"    // it would have failed at the same attempt
	Earlier Result = "earlier" // it would have failed at an earlier attempt
	Other   Result = "other"   // what ended it asks no policy: see Trial.Why
)

// MaxDelays bounds Trial.Delays.
const MaxDelays = 10

// Trial is the result of a policy for one failed job.
type Trial struct {
	Job      sojourn.ID `json:"job"`
	Result   Result     `json:"result"`
	Failures int32      `json:"failures"` // errors and timeouts that have counted
	Crashes  int32      `json:"crashes"`  // lost leases that have counted
	// Extra is the number of further attempts that the policy would have allowed, if each of them
	// fails as the last one did; -1 is no limit. A later deadline may end them earlier.
	Extra int64 `json:"extra,omitempty"`
	// Delays are the waits before the further attempts, at most MaxDelays.
	Delays []time.Duration `json:"delays,omitempty"`
	// Saved is the number of failures that would not have happened.
	Saved int64  `json:"saved,omitempty"`
	Why   string `json:"why,omitempty"` // of Other, and of Same because of the deadline
}

// Replay returns what the policy of a failed job, changed by proposed, would have done with the
// failures in the job's history: those of its present generation and stage. It asks the same rules
// as the store does. It is pure. A delay or an end that a retry policy in code has chosen is not
// repeated: the delays are those of the stored backoff, and an end by it stays an end.
func Replay(j *sojourn.Job, history []sojourn.HistoryEntry, proposed sojourn.Policy) Trial {
	r := replay{job: j, policy: j.Policy.Changed(&proposed), from: j.CreatedAt}
	r.read(history)
	t := Trial{Job: j.ID, Result: Other, Failures: j.Failures, Crashes: j.Crashes}
	for i, a := range r.attempts {
		last := i == len(r.attempts)-1
		next, err := rules.Decide(r.row(a, r.policy), event(a, r.policy))
		switch {
		case err != nil:
			t.Why = "its history is not that of a failed job"
			return t
		case next.To.State == sojourn.Failed && !last:
			t.Result = Earlier
			t.Saved = saved(j, a)
			return t
		case !last:
			continue
		case r.byCode(a):
			t.Why = "its retry policy in code has ended it"
			return t
		case next.To.State == sojourn.Failed:
			t.Result, t.Saved = Same, saved(j, a)
			return t
		case r.late(a, next.Delay):
			t.Result, t.Why = Same, "its deadline comes before the retry"
			return t
		}
		t.Result = Retried
		t.Extra, t.Delays = r.further(a, next)
		return t
	}
	t.Why = other(j, history)
	return t
}

// edited is the outcome of an entry that is no end, such as a change of the job's tags.
const edited = "edited"

// attempt is an entry of the history that counts against a budget, with the counters before it.
type attempt struct {
	sojourn.HistoryEntry
	failures, crashes int32
}

// replay is the state of Replay.
type replay struct {
	job      *sojourn.Job
	policy   sojourn.Policy
	from     time.Time // from when the deadline counts
	attempts []attempt
}

// read finds the attempts. They are none if the last entry did not count: then no policy was asked.
// Counters are those of the job minus those of later entries, where entries have been dropped.
func (r *replay) read(history []sojourn.HistoryEntry) {
	var failures, crashes int32
	gap := 0
	ends := false
	for _, h := range history {
		if h.Outcome == "redriven" {
			r.from = h.EndedAt
		}
		if h.Generation != r.job.Generation || h.Stage != r.job.Stage || h.Outcome == edited {
			continue
		}
		if h.Dropped > 0 {
			gap = len(r.attempts)
		}
		counts, lost := kindOf(h)
		if ends = counts; !counts {
			continue
		}
		r.attempts = append(r.attempts, attempt{h, failures, crashes})
		if lost {
			crashes++
		} else {
			failures++
		}
	}
	if !ends {
		r.attempts = nil
		return
	}
	f, c := r.job.Failures-failures, r.job.Crashes-crashes // of dropped entries
	for i := gap; i < len(r.attempts); i++ {
		a := &r.attempts[i]
		a.failures, a.crashes = a.failures+max(f, 0), a.crashes+max(c, 0)
	}
}

// kindOf reports whether an entry counts against a budget, and whether that is the budget of lost
// leases.
func kindOf(h sojourn.HistoryEntry) (counts, lost bool) {
	switch h.Outcome {
	case string(sojourn.OutcomeError), "timed_out", "responded":
		return true, false
	case string(sojourn.OutcomeAwait):
		return h.Reason == sojourn.ReasonKeyConflict, false
	case "lost":
		return true, true
	}
	return false, false
}

// row is the job before the end of an attempt.
func (r *replay) row(a attempt, p sojourn.Policy) rules.Row {
	row := rules.Row{ID: r.job.ID, State: sojourn.Running, Purpose: a.Purpose, Claimed: true, AttemptOpen: true, Attempt: a.Attempt,
		Failures: a.failures, Crashes: a.crashes, Weight: r.job.Weight, Stage: a.Stage, Policy: p}
	if _, lost := kindOf(a.HistoryEntry); !lost || row.Purpose == sojourn.NoPurpose {
		row.Purpose = sojourn.PurposeStart
	}
	return row
}

// event is the event of an attempt. A panic asks the policy in the worker.
func event(a attempt, p sojourn.Policy) rules.Event {
	switch a.Outcome {
	case "lost":
		return rules.Event{Type: rules.EventLeaseEnded}
	case "timed_out", "responded":
		return rules.Event{Type: rules.EventTimedOut, Reason: a.Reason, Error: a.Error}
	}
	o := sojourn.Outcome{Type: sojourn.OutcomeError, Reason: a.Reason, Text: a.Error}
	o.Verdict.Final = a.Reason == sojourn.ReasonPanic && p.OnPanic == sojourn.Fail || a.Reason == sojourn.ReasonDeadline
	return rules.Event{Type: rules.EventFinished, Outcome: &o}
}

// byCode reports whether the last attempt has ended the job although its own policy allowed a
// retry.
func (r *replay) byCode(a attempt) bool {
	next, err := rules.Decide(r.row(a, r.job.Policy), event(a, r.job.Policy))
	return err == nil && next.To.State != sojourn.Failed
}

// late reports whether a retry after the last attempt would start after the job's deadline.
func (r *replay) late(a attempt, delay time.Duration) bool {
	d := r.policy.Deadline
	return d > 0 && !a.EndedAt.Add(delay).Before(r.from.Add(d))
}

// further returns the number of attempts after the last one, and their delays.
func (r *replay) further(a attempt, next rules.Transition) (extra int64, delays []time.Duration) {
	_, lost := kindOf(a.HistoryEntry)
	budget, used := r.policy.MaxAttempts, next.To.Failures
	if lost {
		budget, used = r.policy.MaxCrashes, next.To.Crashes
	}
	if extra = int64(budget) - int64(used); budget < 0 {
		extra = sojourn.Unlimited
	}
	for next.To.State != sojourn.Failed && len(delays) < MaxDelays {
		delays = append(delays, next.Delay)
		a.failures, a.crashes = next.To.Failures, next.To.Crashes
		if a.failures == math.MaxInt32 || a.crashes == math.MaxInt32 {
			break
		}
		var err error
		if next, err = rules.Decide(r.row(a, r.policy), event(a, r.policy)); err != nil {
			break
		}
	}
	return extra, delays
}

// saved is the number of failures of a job after an attempt.
func saved(j *sojourn.Job, a attempt) int64 {
	return max(int64(j.Failures)+int64(j.Crashes)-int64(a.failures)-int64(a.crashes)-1, 0)
}

// other returns the reason of Other: what ended the job without asking a policy.
func other(j *sojourn.Job, history []sojourn.HistoryEntry) string {
	history = slices.DeleteFunc(slices.Clone(history), func(h sojourn.HistoryEntry) bool { return h.Outcome == edited })
	if len(history) == 0 {
		return "its history is gone"
	}
	switch h := history[len(history)-1]; h.Outcome {
	case string(sojourn.OutcomeAbort):
		return "its handler has aborted it"
	case string(sojourn.OutcomeUndecodable):
		return "its args cannot be decoded"
	case string(sojourn.OutcomeDecided):
		return "its retry policy in code has ended it"
	case "deadline":
		return "its deadline has ended it"
	case "failed":
		return "an operator or a dependency has failed it"
	}
	return "its last change is no failure (reason " + j.Reason + ")"
}
