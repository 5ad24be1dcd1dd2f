package storetest

import "slices"

// claimsCases are all cases of the package.
func claimsCases() []trial {
	return slices.Concat(claimTrials, repeatTrials, orderTrials, leaseTrials, saveTrials, fenceTrials, handTrials,
		blockedTrials, pollTrials)
}
