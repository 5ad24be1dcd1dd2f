// Package storetest is the conformance suite of driver.Store. Every store passes all of it, so
// that an application sees the same behaviour on every database.
//
// Each case has a law, one sentence with a promise of a store, and names the entries that it
// covers: rows of the specification (spec:), invariants (inv:), rows of the transition table (tr:)
// and rules (rules:). A case drives its own clock and its own store, so cases are deterministic and
// need no waiting; blocked calls run in real goroutines. After each case the suite audits all
// contents of the store, and runs the store's own checks if it is a driver.Checker.
package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/archives"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/asks"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/claims"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/deps"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/events"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/flow"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/jobs"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/outcomes"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/responses"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/schedules"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/search"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/stats"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/tenants"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/triage"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/workflows"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Options are the options with which a store must be opened.
type Options struct {
	Now      func() time.Time // the clock that the store must use for every decision; microseconds are enough
	MaxBytes int              // limit of args, result, response body and checkpoint; 0 = sojourn.DefaultMaxBytes
	InboxTTL time.Duration    // time to live of an early response without a job; 0 = sojourn.DefaultInboxTTL

	// Throttlers throttle the store's queues; a store that does not support them skips their cases.
	Throttlers map[string]throttle.Throttler
	Rules      func(text string) (throttle.Throttler, error)
}

// Run checks a store. open makes a new, empty one each time it is called and fails t if it cannot;
// the suite closes it. If the store has a method Nudge(), the suite calls it after each move of the
// clock, so that blocked calls check again.
//
// The suite calls a store on behalf of tenants with a access.Caller in the context. A store that
// ignores the context, because it sends the call to a server, has a method As(*access.Caller)
// driver.Store, which returns the store with that caller's view.
//
// SOJOURN_SEED, a number, is the seed of the random bytes and orders; failures print it.
// SOJOURN_SHARE=N runs every Nth case, beginning with a random one that the test logs.
func Run(t *testing.T, open func(t *testing.T, o Options) driver.Store) {
	for _, c := range trials(t) {
		t.Run(c.Name, func(t *testing.T) { c.Play(t, opening(open)) })
	}
}

// Parallel is Run for a store whose database takes calls of several stores at once: the cases run
// at the same time, as many as -parallel allows.
func Parallel(t *testing.T, open func(t *testing.T, o Options) driver.Store) {
	for _, c := range trials(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Play(t, opening(open))
		})
	}
}

// allTrials are the cases, subject by subject.
func allTrials() []kit.Trial {
	return slices.Concat(jobs.Trials(), claims.Trials(), outcomes.Trials(), responses.Trials(), flow.Trials(), tenants.Trials(), deps.Trials(), schedules.Trials(), workflows.Trials(), triage.Trials(), stats.Trials(), events.Trials(), archives.Trials(), asks.Trials(), search.Trials())
}

// trials are all cases, or a share of them.
func trials(t *testing.T) (some []kit.Trial) {
	all := allTrials()
	share := max(number(t, "SOJOURN_SHARE", 1), 1)
	if share == 1 {
		return all
	}
	first := rand.IntN(min(share, len(all)))
	for i := first; i < len(all); i += share {
		some = append(some, all[i])
	}
	t.Logf("SOJOURN_SHARE=%d: %d of %d cases, from %q on", share, len(some), len(all), all[first].Name)
	return some
}

// opening adapts a function that opens a store with the public options.
func opening(open func(t *testing.T, o Options) driver.Store) kit.Opener {
	return func(t *testing.T, o kit.Options) driver.Store { return open(t, Options(o)) }
}
