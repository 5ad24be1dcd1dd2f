// Package flow has the cases about flow control: limits, groups, rates, throttlers, pauses, the
// settings of queues, and the reasons why a job waits.
package flow

import (
	"slices"

	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(queueTrials, pauseTrials, flowTrials, walkTrials, groupTrials, flowLifeTrials, paceTrials,
		throttleTrials, whyTrials, forgetTrials)
}
