package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// after breaks Decide: it lets f change the transitions of the rules named.
func after(rules string, f func(from Row, t *Transition)) func(laws) laws {
	named := func(rule string) bool { return strings.Contains(" "+rules+" ", " "+rule+" ") }
	return func(l laws) laws {
		decide, match := l.decide, l.match
		l.decide = func(r Row, e Event) (Transition, error) {
			t, err := decide(r, e)
			if err == nil && named(t.Rule) {
				f(r, &t)
			}
			return t, err
		}
		l.match = func(r Row, key string, kept []KeptResponse) Matched {
			m := match(r, key, kept)
			if named(m.Transition.Rule) {
				f(r, &m.Transition)
			}
			return m
		}
		return l
	}
}

// without takes events out of the rules.
func without(events ...EventType) func(laws) laws {
	return func(l laws) laws {
		decide := l.decide
		l.decide = func(r Row, e Event) (Transition, error) {
			for _, x := range events {
				if e.Type == x {
					return impossible(r, e)
				}
			}
			return decide(r, e)
		}
		return l
	}
}

// matching replaces what Match sees, or makes it blind.
func matching(f func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched) func(laws) laws {
	return func(l laws) laws {
		match := l.match
		l.match = func(r Row, key string, kept []KeptResponse) Matched { return f(match, r, key, kept) }
		return l
	}
}

// mutants are other readings of the rules, most of them seen in the field. The walk must find each.
var mutants = []struct {
	name   string
	breaks string // a part of the law that the walk must name
	wrong  func(laws) laws
}{
	{"an error leaves the weight held", "holds the weight", after("F2", func(r Row, t *Transition) { t.To.Held = r.Held })},
	{"a final row leaves the weight held", "holds the weight", after("F1 F3", func(r Row, t *Transition) { t.To.Held = r.Held })},
	{"a timeout leaves the weight held", "holds the weight", after("W4", func(r Row, t *Transition) { t.To.Held = r.Held })},
	{"await gives the weight back", "holds the weight", after("F5", func(_ Row, t *Transition) { t.To.Held = 0 })},
	{"a late response makes a retry resumed (rules:B3)", "in flight without an open attempt",
		after("M3", func(r Row, t *Transition) { t.To.Resumed, t.To.Held = true, r.Weight })},
	{"to decide holds weight (rules:D1)", "holds the weight", after("C4", func(r Row, t *Transition) { t.To.Held = r.Weight })},
	{"released, but still resumed without weight (rules:D2)", "holds the weight", after("F10", func(_ Row, t *Transition) { t.To.Held = 0 })},
	{"resumed too long gives no weight back (rules:C2)", "no worker is left", without(EventResumeOverdue)},
	{"errored waits for a worker for ever (rules:C1)", "no worker is left", without(EventDecideOverdue)},
	{"a wait without an end (rules:C4)", "no way to a final state", without(EventTimedOut)},
	{"a poll without an answer gives the weight back", "holds the weight", after("P1", func(_ Row, t *Transition) { t.To.Held = 0 })},
	{"the answer of a poll is not in hand", "resumes without its answer", after("P2", func(_ Row, t *Transition) { t.To.InHand = 0 })},
	{"a lost poll counts nowhere", "counts nowhere", after("W3", func(r Row, t *Transition) { t.To.Crashes = r.Crashes })},
	{"a lost poll ends the attempt", "in flight without an open attempt", after("W3", func(_ Row, t *Transition) { t.To.AttemptOpen = false })},
	{"a lost lease keeps its purpose", "a purpose without running", after("W1", func(r Row, t *Transition) { t.To.Purpose = r.Purpose })},
	{"an ended attempt drops its response (rules:B2)", "nobody disposed of it",
		after("W1 W5", func(_ Row, t *Transition) { t.To.InHand, t.To.Given = 0, false })},
	{"an ordinary error drops the response (rules:B2)", "nobody disposed of it",
		after("F2", func(_ Row, t *Transition) { t.To.InHand, t.To.Given = 0, false })},
	{"snooze drops the response (rules:B2)", "nobody disposed of it", after("F7", func(_ Row, t *Transition) { t.To.InHand, t.To.Given = 0, false })},
	{"hold drops the response (rules:B2)", "nobody disposed of it", after("F14", func(_ Row, t *Transition) { t.To.InHand, t.To.Given = 0, false })},
	{"hold keeps the weight", "holds the weight", after("F14", func(r Row, t *Transition) { t.To.Held = r.Held })},
	{"await keeps the response in hand", "awaits with a response in hand", after("F5", func(r Row, t *Transition) { t.To.InHand = r.InHand })},
	{"kept responses are not matched at the end of an attempt (rules:B1)", "a new request is due",
		matching(func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched {
			if r.State != sojourn.Awaiting {
				return Matched{}
			}
			return match(r, key, kept)
		})},
	{"only a job that has awaited takes a late response (rules:B4)", "a new request is due",
		matching(func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched {
			if r.State != sojourn.Awaiting && r.Wait.Within == 0 {
				return Matched{}
			}
			return match(r, key, kept)
		})},
	{"Await does not look at what was kept", "lost wake-up",
		matching(func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched {
			if r.State == sojourn.Awaiting {
				return Matched{}
			}
			return match(r, key, kept)
		})},
	{"one response of All is enough (rules:B10)", "a part of",
		matching(func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched {
			mode := r.Wait.Mode
			r.Wait.Mode = sojourn.WaitAny
			m := match(r, key, kept)
			m.Transition.To.Wait.Mode = mode
			return m
		})},
	{"a second response replaces the first (rules:B2)", "responses in hand",
		matching(func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched {
			if r.State != sojourn.Awaiting {
				r.InHand = 0
			}
			return match(r, key, kept)
		})},
	{"final leaves what was kept (rules:B5)", "counts 0 kept responses, has 1", after("F1", func(_ Row, t *Transition) { t.KeptLate = false })},
	{"final forgets an answer that nobody has seen (rules:B5)", "no handler was given it", after("O1", func(_ Row, t *Transition) { t.HandLate = false })},
	{"the deadline is an ordinary error (rules:C3)", "a deadline that does not fail",
		after("W6", func(_ Row, t *Transition) { t.To.State, t.RunAt = sojourn.Scheduled, RunAtDelay })},
	{"a crash while deciding is not counted (rules:C1)", "counts nowhere", after("W2", func(r Row, t *Transition) { t.To.Crashes = r.Crashes })},
	{"a lost lease uses up an attempt (rules:E2)", "two went up", after("W1", func(_ Row, t *Transition) { t.To.Failures++ })},
	{"one failure too many", "budget used up", after("F3", func(r Row, t *Transition) {
		t.To = r
		t.To.State, t.To.Purpose, t.To.Held, t.To.AttemptOpen, t.To.Failures = sojourn.Scheduled, sojourn.NoPurpose, 0, false, r.Failures+1
		t.RunAt, t.Delay, t.KeptLate, t.HandLate = RunAtDelay, time.Second, false, false
	})},
	{"resuming opens an attempt (rules:E1)", "a counter above its bound", after("C3", func(_ Row, t *Transition) { t.To.Attempt++ })},
	{"await closes the attempt (rules:E1)", "in flight", after("F5", func(_ Row, t *Transition) { t.To.AttemptOpen = false })},
	{"a resumed handler is started without its answer", "resumes without its answer", after("C3", func(_ Row, t *Transition) { t.To.Given = false })},
	{"a response in hand is not given to a fresh start", "not given to it", after("C1 C2", func(_ Row, t *Transition) { t.To.Given = false })},
	{"errored without a retry handler", "errored without", after("W4", func(_ Row, t *Transition) {
		if t.To.State == sojourn.Scheduled {
			t.To.State, t.RunAt = sojourn.Errored, KeepRunAt
		}
	})},
	{"redrive keeps the counters", "not from nothing", after("O3", func(r Row, t *Transition) { t.To.Attempt = r.Attempt })},
	{"advance keeps the attempt count (spec:R12)", "not to the beginning of the next stage", after("F16", func(r Row, t *Transition) { t.To.Attempt = r.Attempt })},
	{"advance keeps the failures (spec:R12)", "not to the beginning of the next stage", after("F16", func(r Row, t *Transition) { t.To.Failures = r.Failures })},
	{"advance holds the weight (tr:F16)", "holds the weight", after("F16", func(r Row, t *Transition) { t.To.Held = r.Held })},
	{"advance leaves capabilities valid (rules:B7)", "an earlier stage", after("F16", func(r Row, t *Transition) { t.To.Waits = r.Waits })},
	{"advance to where it is", "not to the beginning of the next stage", after("F16", func(r Row, t *Transition) { t.To.Stage = r.Stage })},
	{"a new stage takes the answer to the one before (tr:M3)", "before its first attempt",
		matching(func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched {
			attempt := r.Attempt
			r.Attempt = max(attempt, 1)
			m := match(r, key, kept)
			m.Transition.To.Attempt = attempt
			return m
		})},
	{"a retry without a delay", "without a new run_at", after("F2", func(_ Row, t *Transition) { t.RunAt = KeepRunAt })},
	{"an ended lease leaves no entry (rules:A2)", "without an entry", after("F7", func(_ Row, t *Transition) { t.Outcome = "" })},
	{"M4 forgets to count down", "counts 1 kept", after("M4", func(r Row, t *Transition) { t.To.Kept = r.Kept })},
	{"an answer does not count its wait (rules:B7)", "one capability", after("M1 M3", func(r Row, t *Transition) { t.To.Waits = r.Waits })},
	{"an error response does not count its wait (rules:B7)", "one capability", after("M2", func(r Row, t *Transition) { t.To.Waits = r.Waits })},
	{"what is kept by a capability outlives its wait (rules:B7)", "is kept",
		matching(func(match func(Row, string, []KeptResponse) Matched, r Row, key string, kept []KeptResponse) Matched {
			if m := match(r, key, kept); m.Transition.Rule != "M5" {
				return m
			}
			return Matched{}
		})},
	{"M5 forgets to count down", "kept responses, has", after("M5", func(r Row, t *Transition) { t.To.Kept = r.Kept })},
	{"the job's weight is lost on the way", "weight, id or policy changed", after("F11", func(_ Row, t *Transition) { t.To.Weight = 5 })},
}

// The walk can fail: it finds every mutant, and says which law it breaks.
func TestWalkFindsBrokenLaws(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			for _, sc := range walkScenes(m.wrong(ours())) {
				if _, found := sc.walk(); found != nil {
					if !strings.Contains(found.law, m.breaks) {
						t.Errorf("found %v; want a breach of: %s", found, m.breaks)
					}
					t.Log(found)
					return
				}
			}
			t.Error("the walk has not noticed")
		})
	}
}
