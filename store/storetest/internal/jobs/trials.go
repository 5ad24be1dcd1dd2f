// Package jobs has the cases about jobs as they are stored: enqueues, ids, keys and bytes, and all
// that finds, changes, redrives and deletes jobs.
package jobs

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(enqueueTrials, keyTrials, idTrials, changeTrials, bulkTrials, findTrials, cancelTrials, releaseTrials,
		redriveTrials, retentionTrials, nextTrials, peekTrials, bytesTrials, limitTrials,
		jsonTrials, policyTrials)
}
