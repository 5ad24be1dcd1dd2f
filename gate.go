package sojourn

import "time"

// The gates, in the order in which a claim asks them. The first one that is closed holds a job
// back.
const (
	GatePause    = "pause"
	GateWindow   = "window"
	GateHold     = "hold"
	GateBreaker  = "breaker"
	GateLimit    = "limit"
	GateGroup    = "group_limit"
	GateShare    = "share"
	GateRate     = "rate"
	GateThrottle = "throttle"
)

// Scope says whom a closed gate holds back, so that a claim need not ask again for each of them.
type Scope uint8

// The scopes, from narrow to wide.
const (
	ScopeJob   Scope = iota // this job
	ScopeGroup              // all jobs of its group that would count
	ScopeKind               // all jobs of its kind
	ScopeQueue              // all jobs of its queue that would count
)

var scopeNames = []string{"job", "group", "kind", "queue"}

// MarshalText gives the scope's name.
func (s Scope) MarshalText() ([]byte, error) { return []byte(scopeNames[s]), nil }

// Gate is the decision of one gate about one job.
type Gate struct {
	Name  string    `json:"gate"` // one of the Gate constants
	Open  bool      `json:"open"`
	Scope Scope     `json:"scope"`          // of a closed gate
	Used  int64     `json:"used,omitempty"` // weight, starts or jobs, of gates that count
	Of    int64     `json:"of,omitempty"`   // how much there is
	Until time.Time `json:"until,omitzero"` // when a closed gate opens, if that is known
	Text  string    `json:"text,omitempty"` // why it is closed, in words
	Fail  string    `json:"fail,omitempty"` // of the throttler: the job fails with this reason
	Later time.Time `json:"later,omitzero"` // the job is scheduled to then
}

// Trouble counts the errors of a queue's throttler, on all nodes.
type Trouble struct {
	Count int64     `json:"count"` // failed answers so far
	Text  string    `json:"text"`  // of the last one
	At    time.Time `json:"at"`
}
