package retry

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// steady is a policy without jitter: 10 s, 20 s, 40 s, at most 1 min.
var steady = sojourn.Policy{MaxAttempts: 3, Backoff: sojourn.Backoff{First: 10 * time.Second, Factor: 2, Limit: time.Minute, Jitter: -1}}

// failed is a job that failed by these outcomes, one after the other, a minute apart.
func failed(p sojourn.Policy, outcomes ...string) (*sojourn.Job, []sojourn.HistoryEntry) {
	j := &sojourn.Job{ID: 7, State: sojourn.Failed, Weight: 1, CreatedAt: began, Policy: p}
	j.Policy = j.Policy.Changed(&sojourn.Policy{})
	var history []sojourn.HistoryEntry
	for i, o := range outcomes {
		h := sojourn.HistoryEntry{Seq: int32(i + 1), Attempt: int32(i + 1), Purpose: sojourn.PurposeStart, Outcome: o, Reason: "gateway", State: sojourn.Scheduled,
			EndedAt: began.Add(time.Duration(i+1) * time.Minute)}
		switch o {
		case "panic":
			h.Outcome, h.Reason = string(sojourn.OutcomeError), sojourn.ReasonPanic
			j.Failures++
		case "lost":
			h.Reason = sojourn.ReasonLeaseLost
			j.Crashes++
		case "error", "timed_out", "responded":
			j.Failures++
		}
		history = append(history, h)
	}
	history[len(history)-1].State = sojourn.Failed
	return j, history
}

// TestReplay has what a policy does with a failed job. spec:R18
func TestReplay(t *testing.T) {
	with := func(p sojourn.Policy) sojourn.Policy { p.Backoff = steady.Backoff; return p }
	for _, c := range []struct {
		name     string
		own      sojourn.Policy
		outcomes []string
		proposed sojourn.Policy
		want     string // result, extra, saved, delays
	}{
		{"the same policy", steady, []string{"error", "error", "error"}, steady, "same 0 0 []"},
		{"two attempts more", steady, []string{"error", "timed_out", "responded"}, sojourn.Policy{MaxAttempts: 5}, "retried 2 0 [40s 1m0s]"},
		{"no limit", steady, []string{"error", "error", "error"}, sojourn.Policy{MaxAttempts: -1}, "retried -1 0 [40s 1m0s 1m0s 1m0s 1m0s 1m0s 1m0s 1m0s 1m0s 1m0s]"},
		{"another backoff alone", steady, []string{"error", "error", "error"}, sojourn.Policy{Backoff: sojourn.Backoff{First: time.Hour}}, "same 0 0 []"},
		{"another backoff", steady, []string{"error", "error", "error"}, sojourn.Policy{MaxAttempts: 4, Backoff: sojourn.Backoff{First: -1}}, "retried 1 0 [0s]"},
		{"no retry at all", steady, []string{"error", "error", "error"}, sojourn.Policy{MaxAttempts: 1}, "earlier 0 2 []"},
		{"the others do not count", steady, []string{"error", "snooze", "released", "error", "error"}, sojourn.Policy{MaxAttempts: 2}, "earlier 0 1 []"},
		{"edited after its end", steady, []string{"error", "error", "error", "edited"}, sojourn.Policy{MaxAttempts: 4}, "retried 1 0 [40s]"},
		{"lost leases", with(sojourn.Policy{MaxCrashes: 2}), []string{"lost", "error", "lost"}, sojourn.Policy{MaxCrashes: 4}, "retried 2 0 [10s 20s]"},
		{"lost leases never retried", with(sojourn.Policy{MaxCrashes: 2}), []string{"lost", "lost"}, sojourn.Policy{OnLost: sojourn.Fail}, "earlier 0 1 []"},
		{"a lost lease retried", with(sojourn.Policy{OnLost: sojourn.Fail}), []string{"lost"}, sojourn.Policy{OnLost: sojourn.Retry}, "retried 2 0 [0s 10s]"},
		{"a panic retried", with(sojourn.Policy{OnPanic: sojourn.Fail}), []string{"panic"}, sojourn.Policy{OnPanic: sojourn.Retry, MaxAttempts: 2}, "retried 1 0 [10s]"},
		{"a panic never retried", steady, []string{"panic", "error", "error"}, sojourn.Policy{OnPanic: sojourn.Fail}, "earlier 0 2 []"},
		{"the deadline", with(sojourn.Policy{MaxAttempts: 2, Deadline: 125 * time.Second}), []string{"error", "error"}, sojourn.Policy{MaxAttempts: 9}, "same 0 0 []"},
		{"before the deadline", with(sojourn.Policy{MaxAttempts: 2, Deadline: 150 * time.Second}), []string{"error", "error"}, sojourn.Policy{MaxAttempts: 3}, "retried 1 0 [20s]"},
		{"an abort", steady, []string{"error", "abort"}, sojourn.Policy{MaxAttempts: 9}, "other 0 0 []"},
		{"the deadline itself", steady, []string{"error", "deadline"}, sojourn.Policy{MaxAttempts: 9}, "other 0 0 []"},
		{"an operator", steady, []string{"failed"}, sojourn.Policy{MaxAttempts: 9}, "other 0 0 []"},
		{"a retry policy in code", steady, []string{"error"}, sojourn.Policy{MaxAttempts: 9}, "other 0 0 []"},
	} {
		j, history := failed(c.own, c.outcomes...)
		before := slices.Clone(history)
		got := Replay(j, history, c.proposed)
		if text := fmt.Sprintf("%s %d %d %v", got.Result, got.Extra, got.Saved, got.Delays); text != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, text, got.Why, c.want)
		}
		if got.Result == Other && got.Why == "" {
			t.Errorf("%s: nothing says why", c.name)
		}
		if !slices.EqualFunc(before, history, func(a, b sojourn.HistoryEntry) bool { return a.Seq == b.Seq && a.EndedAt.Equal(b.EndedAt) }) {
			t.Errorf("%s: the history has changed", c.name)
		}
	}
}

// TestReplayOfTheGeneration: earlier generations and stages do not count, and a redrive restarts
// the deadline.
func TestReplayOfTheGeneration(t *testing.T) {
	j, history := failed(steady, "error", "error", "error", "redriven", "error", "error", "error")
	j.Generation, j.Failures, j.Policy.Deadline = 1, 3, 3*time.Minute+30*time.Second
	for i := range history[4:] {
		history[4+i].Generation = 1
	}
	if got := Replay(j, history, sojourn.Policy{MaxAttempts: 4}); got.Result != Same || got.Why == "" { // 40 s after 3 min
		t.Errorf("after its deadline: %+v", got)
	}
	j.Policy.Deadline = 5 * time.Minute
	if got := Replay(j, history, sojourn.Policy{MaxAttempts: 4}); got.Result != Retried || got.Extra != 1 || got.Delays[0] != 40*time.Second {
		t.Errorf("before its deadline: %+v", got)
	}
	j.Stage = 1
	if got := Replay(j, history, sojourn.Policy{MaxAttempts: 4}); got.Result != Other {
		t.Errorf("of another stage: %+v", got)
	}
}

// TestReplayOfDroppedEntries: the counters of the job make up for entries that the history has
// dropped.
func TestReplayOfDroppedEntries(t *testing.T) {
	j, history := failed(sojourn.Policy{MaxAttempts: 500, Backoff: steady.Backoff}, "error", "error", "error")
	j.Failures, history[1].Dropped = 500, 497
	if got := Replay(j, history, sojourn.Policy{MaxAttempts: 501}); got.Result != Retried || got.Extra != 1 {
		t.Errorf("one more: %+v", got)
	}
	if got := Replay(j, history, sojourn.Policy{MaxAttempts: 499}); got.Result != Earlier || got.Saved != 1 {
		t.Errorf("one less: %+v", got)
	}
	j.Failures, j.Policy.MaxAttempts = math.MaxInt32, math.MaxInt32
	if got := Replay(j, history, sojourn.Policy{MaxAttempts: -1}); got.Result != Retried || got.Extra != -1 || len(got.Delays) != 1 {
		t.Errorf("the greatest number: %+v", got)
	}
}

// TestQuery checks which queries are refused.
func TestQuery(t *testing.T) {
	for name, q := range map[string]Query{
		"nothing to try":   {},
		"another field":    {Policy: sojourn.Policy{MaxAttempts: 2, Deadline: time.Hour}},
		"a priority":       {Policy: sojourn.Policy{MaxAttempts: 2, Priority: new(int32(3))}},
		"a wrong number":   {Policy: sojourn.Policy{MaxAttempts: -2}},
		"a wrong backoff":  {Policy: sojourn.Policy{Backoff: sojourn.Backoff{Factor: 0.5}}},
		"too many groups":  {Policy: steady, Groups: MaxGroups + 1},
		"too many jobs":    {Policy: steady, Jobs: MaxJobs + 1},
		"a negative count": {Policy: steady, Jobs: -1},
	} {
		if err := q.Validate(); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Query{Policy: steady}).Validate(); err != nil {
		t.Error(err)
	}
}
