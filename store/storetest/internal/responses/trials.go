// Package responses has the cases about responses: how they find their jobs, early and late ones,
// progress, messages that are repeated, and the inbox.
package responses

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(respondTrials, manyKeysTrials, progressTrials, addressTrials, capabilityTrials,
		messageTrials, raceTrials, inboxTrials)
}
