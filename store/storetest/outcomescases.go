package storetest

import "slices"

// outcomesCases are all cases of the package.
func outcomesCases() []trial {
	return slices.Concat(finishTrials, errorTrials, awaitTrials, erroredTrials, sweepTrials, clockTrials, historyTrials,
		lifeTrials, windowTrials)
}
