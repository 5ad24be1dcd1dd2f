// Package tenants has the cases about tenants and their access tokens, about workers, and about
// callers at the same time.
package tenants

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(concurrentTrials, accessTrials, tenantTrials, workerTrials, forgetTrials, configTrials, composeTrials)
}
