package jobrow

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// ordinary has the values that a stored policy omits: most jobs have it, so most jobs store none
// (docs/internals/engine.md#row-width). It does not refer to the defaults of package sojourn,
// because stored policies must keep their meaning when a default changes. A stored policy is a
// resolved one, in which none of these is 0.
var ordinary = sojourn.Policy{MaxAttempts: 5, MaxCrashes: 3, Timeout: 24 * time.Hour, DecideWithin: 5 * time.Minute,
	Backoff: sojourn.Backoff{First: 5 * time.Second, Factor: 4, Limit: time.Hour, Jitter: 1},
	OnLost:  sojourn.Retry, OnPanic: sojourn.Retry}

// StoredPolicy returns the text of a resolved policy: JSON without the values that most policies
// have (see docs/internals/engine.md#row-width), "" if nothing is left.
func StoredPolicy(p sojourn.Policy) (string, error) {
	leaveOut(&p.MaxAttempts, ordinary.MaxAttempts)
	leaveOut(&p.MaxCrashes, ordinary.MaxCrashes)
	leaveOut(&p.Timeout, ordinary.Timeout)
	leaveOut(&p.DecideWithin, ordinary.DecideWithin)
	leaveOut(&p.Backoff.First, ordinary.Backoff.First)
	leaveOut(&p.Backoff.Factor, ordinary.Backoff.Factor)
	leaveOut(&p.Backoff.Limit, ordinary.Backoff.Limit)
	leaveOut(&p.Backoff.Jitter, ordinary.Backoff.Jitter)
	leaveOut(&p.OnLost, ordinary.OnLost)
	leaveOut(&p.OnPanic, ordinary.OnPanic)
	text, err := JSONText(p)
	if text == "{}" {
		text = ""
	}
	return text, err
}

// leaveOut sets a field that has its usual value to 0, which JSON omits.
func leaveOut[T comparable](v *T, usual T) {
	if *v == usual {
		var zero T
		*v = zero
	}
}

// readPolicy returns the policy of a text made by StoredPolicy.
func readPolicy(text string) (p sojourn.Policy, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &p)
	}
	p.MaxAttempts = cmp.Or(p.MaxAttempts, ordinary.MaxAttempts)
	p.MaxCrashes = cmp.Or(p.MaxCrashes, ordinary.MaxCrashes)
	p.Timeout = cmp.Or(p.Timeout, ordinary.Timeout)
	p.DecideWithin = cmp.Or(p.DecideWithin, ordinary.DecideWithin)
	p.Backoff.First = cmp.Or(p.Backoff.First, ordinary.Backoff.First)
	p.Backoff.Factor = cmp.Or(p.Backoff.Factor, ordinary.Backoff.Factor)
	p.Backoff.Limit = cmp.Or(p.Backoff.Limit, ordinary.Backoff.Limit)
	p.Backoff.Jitter = cmp.Or(p.Backoff.Jitter, ordinary.Backoff.Jitter)
	p.OnLost = cmp.Or(p.OnLost, ordinary.OnLost)
	p.OnPanic = cmp.Or(p.OnPanic, ordinary.OnPanic)
	return p, err
}

// PolicyText makes the texts of policies one after the other, and caches the last one: jobs that
// are stored together mostly share it. Not safe for concurrent use.
type PolicyText struct {
	last *sojourn.Policy
	text string
}

// Of returns StoredPolicy of p, which must not change as long as t is in use.
func (t *PolicyText) Of(p *sojourn.Policy) (string, error) {
	if t.last != nil && samePolicy(t.last, p) {
		return t.text, nil
	}
	var err error
	t.last = p
	t.text, err = StoredPolicy(*p)
	return t.text, err
}

// samePolicy is false also for equal policies with windows, which it does not compare.
func samePolicy(a, b *sojourn.Policy) bool {
	return a.MaxAttempts == b.MaxAttempts && a.MaxCrashes == b.MaxCrashes && a.RunTimeout == b.RunTimeout && a.Timeout == b.Timeout &&
		a.Deadline == b.Deadline && a.DecideWithin == b.DecideWithin && a.KeepKey == b.KeepKey && a.Backoff == b.Backoff && a.OnLost == b.OnLost &&
		a.OnPanic == b.OnPanic && a.InboxLate() == b.InboxLate() && a.Strict() == b.Strict() && a.Windows == nil && b.Windows == nil &&
		a.Stops() == b.Stops()
}
