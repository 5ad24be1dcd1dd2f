package storetest

import "slices"

// responsesCases are all cases of the package.
func responsesCases() []trial {
	return slices.Concat(respondTrials, manyKeysTrials, progressTrials, addressTrials, capabilityTrials, messageTrials,
		raceTrials, inboxTrials)
}
