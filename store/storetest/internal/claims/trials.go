// Package claims has the cases about claims and leases: who gets which job, what a claim gives,
// heartbeats, fences, saved progress, and poll steps.
package claims

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(claimTrials, repeatTrials, orderTrials, leaseTrials, saveTrials, fenceTrials, handTrials,
		blockedTrials, pollTrials, patternTrials)
}
