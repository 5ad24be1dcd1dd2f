package claims

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(claimTrials, repeatTrials, orderTrials, leaseTrials, saveTrials, fenceTrials, handTrials,
		blockedTrials, pollTrials)
}
