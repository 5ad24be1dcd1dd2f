// Package outcomes has the cases about the ends of steps: outcomes and errors, waits, clocks,
// windows, and the history that is left.
package outcomes

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(finishTrials, detailTrials, stageTrials, errorTrials, awaitTrials, erroredTrials, sweepTrials, clockTrials,
		historyTrials, lifeTrials, windowTrials)
}
