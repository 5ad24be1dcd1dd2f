package storetest

import "slices"

// jobsCases are all cases of the package.
func jobsCases() []trial {
	return slices.Concat(enqueueTrials, keyTrials, idTrials, changeTrials, bulkTrials, findTrials, cancelTrials,
		redriveTrials, retentionTrials, nextTrials, peekTrials, bytesTrials, limitTrials, jsonTrials,
		policyTrials)
}
