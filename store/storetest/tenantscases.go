package storetest

import "slices"

// tenantsCases are all cases of the package.
func tenantsCases() []trial {
	return slices.Concat(concurrentTrials, accessTrials, tenantTrials, workerTrials)
}
