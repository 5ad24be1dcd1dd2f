package wire

import (
	"time"

	"github.com/sojourn-queue/sojourn/store/failure"
)

// Failure is a failure group.
type Failure struct{ failure.Group }

// FailuresAnswer is a page of failure groups.
type FailuresAnswer struct {
	Failures []Failure `json:"failures"`
	Next     string    `json:"next,omitempty" doc:"after of the next page; absent if this is the last one"`
}

// FailuresOf shows failure groups.
func FailuresOf(all []failure.Group) []Failure {
	out := make([]Failure, len(all))
	for i, g := range all {
		out[i] = Failure{g}
	}
	return out
}

// FailureMute changes the mute of a failure group.
type FailureMute struct {
	Off    bool          `json:"off,omitempty" doc:"end the mute"`
	For    time.Duration `json:"for,omitempty" doc:"how long; without it until off"`
	By     string        `json:"by,omitempty" doc:"the operator"`
	Reason string        `json:"reason,omitempty"`
}
