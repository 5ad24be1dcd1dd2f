// Package deps has the cases about jobs that depend on other jobs.
package deps

import (
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(lifeTrials, replaceTrials, changeTrials, endTrials, tenantTrials, stageTrials, childTrials, walkTrials)
}

// on is an option for a dependency with an action.
func on(f sojourn.OnFailure, ids ...sojourn.ID) sojourn.Option {
	return sojourn.WithDependency(sojourn.Dependency{Jobs: ids, OnFailure: f})
}

// take claims one job and wants it to be id.
func take(s *kit.Scene, id sojourn.ID) driver.Claimed {
	s.Helper()
	c := s.Claim()
	kit.Same(s, "the claimed job", c.Job.ID, id)
	return c
}

// settle lets the outbox of ended jobs be worked on, and wants a state.
func settle(s *kit.Scene, id sojourn.ID, want sojourn.State) sojourn.Job {
	s.Helper()
	s.Sweep()
	return s.State(id, want)
}

// waits wants a job to be blocked by a number of dependencies.
func waits(s *kit.Scene, id sojourn.ID, n int32) {
	s.Helper()
	kit.Same(s, "open dependencies", s.State(id, sojourn.Blocked).WaitsFor, n)
}
