// Package tracecontext reads and writes the trace context of the W3C in the metadata of a job
// (https://www.w3.org/TR/trace-context/). It is pure syntax.
package tracecontext

import (
	"maps"
	"regexp"
)

// Names of the trace context in metadata and in HTTP headers.
const (
	Parent = "traceparent"
	State  = "tracestate"
)

// MaxState is the length in bytes that the W3C lets everybody rely on.
const MaxState = 512

var (
	parents = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	states  = regexp.MustCompile(`^[ -~]+$`)
)

// Of returns the trace context in metadata. parent is "" if there is none, or one that is not in
// the form of the W3C; state is "" without a parent, or if it is too long or has other bytes than
// printable ASCII.
func Of(meta map[string]string) (parent, state string) {
	if parent = meta[Parent]; !parents.MatchString(parent) {
		return "", ""
	}
	if state = meta[State]; len(state) > MaxState || !states.MatchString(state) {
		state = ""
	}
	return parent, state
}

// With returns a copy of metadata with another trace context.
func With(meta map[string]string, parent, state string) map[string]string {
	out := make(map[string]string, len(meta)+2)
	maps.Copy(out, meta)
	out[Parent] = parent
	if out[State] = state; state == "" {
		delete(out, State)
	}
	return out
}
