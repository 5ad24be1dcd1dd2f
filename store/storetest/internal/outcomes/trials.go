package outcomes

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(finishTrials, errorTrials, awaitTrials, erroredTrials, sweepTrials, clockTrials, historyTrials,
		lifeTrials, windowTrials)
}
