package rules

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
)

// KeptResponse is the part of a response attached to a job that Match reads.
type KeptResponse struct {
	Seq    int64
	Key    string // of the response; empty for one by id or token
	Failed bool
	Reason string
	Error  string

	ByToken bool  // it came by a capability
	Wait    int32 // that names this wait, see Row.Waits
}

// Matched is the result of Match.
type Matched struct {
	Transition Transition // Rule is empty if the job does not change
	Take       []int64    // these become applied and are taken
	UsedUp     []int64    // these become applied and are used up: an error response that ended the attempt
	Late       []int64    // these become late: errors for an attempt that has ended
	Stale      []int64    // these become stale: answers by capabilities of waits that were answered already
}

// Found reports whether there is anything to do.
func (m Matched) Found() bool { return m.Transition.Rule != "" || len(m.Late) > 0 }

// Match applies the kept responses, in their order of arrival, to a job with the key key. It is
// pure. A transaction ends with Match if it stores a response for a live job, or if it leaves a job
// awaiting or waiting for a retry; the store calls Match until it finds nothing more.
func Match(r Row, key string, kept []KeptResponse) Matched {
	waitsForRetry := (r.State == sojourn.Scheduled || r.State == sojourn.Ready && !r.Resumed) && r.Claimed
	if stale := answeredBefore(r, kept); len(stale) > 0 {
		r.Kept -= int32(len(stale))
		return Matched{Transition: Transition{Rule: "M5", To: r}, Stale: stale}
	}
	switch {
	case r.State == sojourn.Awaiting:
		take, failed := satisfied(r.Wait, key, kept)
		if failed != nil {
			t, _ := Decide(r, Event{Type: EventErrorResponse, Reason: failed.Reason, Error: failed.Error})
			t.To.Kept = max(t.To.Kept-1, 0)
			t.KeptLate = t.KeptLate && r.Kept > 1
			return Matched{Transition: t, UsedUp: []int64{failed.Seq}}
		}
		if take != nil {
			t := Transition{Rule: "M1", To: r, Outcome: "responded"}
			t.To.State, t.To.Resumed = sojourn.Ready, true
			return taken(t, take)
		}
	case waitsForRetry:
		var late []int64
		var good []KeptResponse
		for _, k := range kept {
			if k.Failed {
				late = append(late, k.Seq)
			} else {
				good = append(good, k)
			}
		}
		if len(late) > 0 {
			r.Kept -= int32(len(late))
			return Matched{Transition: Transition{Rule: "M4", To: r}, Late: late}
		}
		if r.Policy.InboxLate() || r.InHand > 0 {
			return Matched{}
		}
		if take, _ := satisfied(r.Wait, key, good); take != nil {
			t := Transition{Rule: "M3", To: r, RunAt: RunAtNow, Outcome: "responded"}
			t.To.State = sojourn.Ready
			return taken(t, take)
		}
	}
	return Matched{}
}

// answeredBefore lists the kept responses with a capability of a wait that was answered already.
// Without this check a second click on a link would answer the next wait.
func answeredBefore(r Row, kept []KeptResponse) (stale []int64) {
	for _, k := range kept {
		if k.ByToken && k.Wait < r.Waits {
			stale = append(stale, k.Seq)
		}
	}
	return stale
}

func taken(t Transition, take []int64) Matched {
	t.To.InHand, t.To.Given, t.To.Kept = int32(len(take)), false, t.To.Kept-int32(len(take))
	t.To.Waits++
	return Matched{Transition: t, Take: take}
}

// satisfied returns the responses that end the wait, or the first error response.
func satisfied(w sojourn.Wait, key string, kept []KeptResponse) (take []int64, failed *KeptResponse) {
	keys := []string{key}
	if len(w.Keys) > 0 {
		keys = slices.Compact(slices.Sorted(slices.Values(w.Keys))) // a key that is named twice is one key
	}
	got := map[string]bool{}
	for i, k := range kept {
		under := k.Key
		if under == "" && w.Mode == sojourn.WaitAny {
			under = keys[0]
		}
		if !slices.Contains(keys, under) || got[under] {
			continue
		}
		if k.Failed {
			return nil, &kept[i]
		}
		got[under] = true
		take = append(take, k.Seq)
		if w.Mode == sojourn.WaitAny || len(got) == len(keys) {
			return take, nil
		}
	}
	return nil, nil
}
