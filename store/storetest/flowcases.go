package storetest

import "slices"

// flowCases are all cases of the package.
func flowCases() []trial {
	return slices.Concat(queueTrials, pauseTrials, flowTrials, walkTrials, groupTrials, flowLifeTrials, paceTrials,
		throttleTrials, whyTrials)
}
