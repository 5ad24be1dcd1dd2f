// Package workflow enqueues named groups of jobs together, counts their ends, and enqueues callback
// jobs when the first of them fails and when all have ended.
//
// A [Workflow] has members: jobs with names, which may wait for each other. [Workflows.Start]
// stores all of them in one transaction, or none. Workflows with more than MaxBatch members stay
// open while further calls of [Workflows.Append] add members; [Workflows.StartAll] does that.
// Job.Workflow and Job.Member name the workflow of a job and its place in it.
package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Limits of workflows.
const (
	DefaultKeep     = 7 * 24 * time.Hour // of Workflow.Keep
	MinKeep         = sojourn.IDLife     // of Workflow.Keep
	MaxMembers      = 1_000_000          // of one workflow
	MaxOpenPerToken = 1000               // workflows that one access token may have open
	// MetaReserve is how many bytes of its meta a callback job leaves to the store.
	MetaReserve = 1024
)

// Workflow is a named group of jobs to be enqueued together. [New] makes one, and its methods add
// to it. Its mistakes are reported by Validate, which Start calls before anything is sent. Not safe
// for concurrent use.
type Workflow struct {
	Name    string // unique in the store; 1-128 bytes of A-Za-z0-9_.:/-
	Members []Member
	// EndJob is enqueued when all members are final, once each time that the whole ends.
	// FailureJob is enqueued when the first member fails or is cancelled, once a generation. Both
	// have no id, no dependencies and neither run_at nor delay.
	EndJob, FailureJob *sojourn.Job
	Open               bool // it takes further members until Close
	// Keep is how long the workflow, and with it its name, is kept after its end; 0 = DefaultKeep.
	// From MinKeep to sojourn.MaxHorizon.
	Keep time.Duration
}

// Member is a job of a workflow.
type Member struct {
	Name string       // unique in the workflow; 1-128 bytes of A-Za-z0-9_.:/-
	Job  *sojourn.Job // without an id; a key that another job has refuses the whole call
	// After names the members that must have completed before it starts, at most
	// sojourn.MaxDepends.
	After []string
	// OnFailure says for single names in After what becomes of this member when that one fails or
	// is cancelled; default sojourn.WaitOnFailure.
	OnFailure map[string]sojourn.OnFailure
}

// Edge is a dependency on other members; see [After].
type Edge struct {
	names     []string
	onFailure sojourn.OnFailure
}

// After makes a member wait until these members have completed. They may be added later.
func After(names ...string) Edge { return Edge{names: names} }

// OnFailure sets what becomes of the member when one of these fails or is cancelled; default
// sojourn.WaitOnFailure. With sojourn.IgnoreFailure, their end is enough.
func (e Edge) OnFailure(a sojourn.OnFailure) Edge {
	e.onFailure = a
	return e
}

// New makes a workflow without members.
func New(name string) *Workflow { return &Workflow{Name: name} }

// Add adds a member, and returns w.
func (w *Workflow) Add(name string, job *sojourn.Job, after ...Edge) *Workflow {
	m := Member{Name: name, Job: job}
	for _, e := range after {
		for _, n := range e.names {
			m.After = append(m.After, n)
			if e.onFailure != "" {
				if m.OnFailure == nil {
					m.OnFailure = map[string]sojourn.OnFailure{}
				}
				m.OnFailure[n] = e.onFailure
			}
		}
	}
	w.Members = append(w.Members, m)
	return w
}

// OnEnd sets the job that is enqueued when all members are final, and returns w. Its meta gets
// workflow, workflow_state, workflow_generation, and the counts workflow_total,
// workflow_completed, workflow_failed and workflow_cancelled.
func (w *Workflow) OnEnd(job *sojourn.Job) *Workflow {
	w.EndJob = job
	return w
}

// OnFirstFailure sets the job that is enqueued when the first member fails or is cancelled, and
// returns w. Its meta gets what OnEnd's gets.
func (w *Workflow) OnFirstFailure(job *sojourn.Job) *Workflow {
	w.FailureJob = job
	return w
}

// StayOpen makes the workflow take further members until Close, and returns w.
func (w *Workflow) StayOpen() *Workflow {
	w.Open = true
	return w
}

// Validate checks everything that can be checked without the store's data: names, jobs, unknown
// names, and cycles. maxBytes bounds the args of each job. An error has CodeInvalid, CodeTooLarge
// or, for a cycle, CodeConflict.
func (w *Workflow) Validate(maxBytes int) error {
	if err := sojourn.ValidName("name", w.Name); err != nil {
		return err
	}
	switch {
	case w.Keep != 0 && (w.Keep < MinKeep || w.Keep > sojourn.MaxHorizon):
		return sojourn.Invalid("keep", "%v is out of range: %v to 10 years, 0 for %v", w.Keep, MinKeep, DefaultKeep)
	case len(w.Members) == 0 && !w.Open:
		return sojourn.Invalid("members", "are missing; add some, or let the workflow stay open")
	}
	for field, j := range map[string]*sojourn.Job{"on_end": w.EndJob, "on_first_failure": w.FailureJob} {
		if j == nil {
			continue
		}
		if err := validCallback(field, j, maxBytes); err != nil {
			return err
		}
	}
	return ValidMembers(w.Members, true, maxBytes)
}

func validCallback(field string, j *sojourn.Job, maxBytes int) error {
	size := MetaReserve
	for k, v := range j.Meta {
		size += len(k) + len(v)
	}
	switch {
	case j.ID != 0:
		return sojourn.Invalid(field+".id", "is set; the store draws the ids of callbacks")
	case len(j.Depends) > 0:
		return sojourn.Invalid(field+".depends_on", "a callback waits for the workflow and for nothing else")
	case !j.RunAt.IsZero() || j.Delay != 0:
		return sojourn.Invalid(field+".run_at", "a callback is enqueued when the workflow says so; leave run_at and delay out")
	case size > sojourn.MaxMeta:
		return sojourn.TooLarge(field+".meta", size-MetaReserve, sojourn.MaxMeta-MetaReserve)
	}
	return j.Validate(maxBytes)
}

// ValidMembers checks the members of one call. In whole workflows each name in After is among them;
// else it may be a member that is stored already.
func ValidMembers(ms []Member, whole bool, maxBytes int) error {
	if len(ms) > sojourn.MaxBatch {
		return sojourn.Invalid("members", "%d members exceed the limit of %d a call; use StartAll, or Append further ones to an open workflow", len(ms), sojourn.MaxBatch)
	}
	at := make(map[string]int, len(ms))
	for i := range ms {
		if err := ms[i].valid(maxBytes); err != nil {
			return sojourn.AtIndex(i, err)
		}
		if _, twice := at[ms[i].Name]; twice {
			return sojourn.AtIndex(i, sojourn.Invalid("name", "the workflow has two members with the name %s", ms[i].Name))
		}
		at[ms[i].Name] = i
	}
	for i, m := range ms {
		for _, n := range m.After {
			if _, known := at[n]; !known && whole {
				return sojourn.AtIndex(i, sojourn.Invalid("after", "member %s waits for %.64q, and there is no member with this name", m.Name, n))
			}
		}
	}
	_, err := order(ms, at)
	return err
}

func (m *Member) valid(maxBytes int) error {
	if err := sojourn.ValidName("name", m.Name); err != nil {
		return err
	}
	switch {
	case m.Job == nil:
		return sojourn.Invalid("job", "member %s has none", m.Name)
	case m.Job.ID != 0:
		return sojourn.Invalid("job.id", "member %s has an id; the store draws the ids of members", m.Name)
	case m.Job.OnConflict == sojourn.Replace:
		return sojourn.Invalid("job.on_conflict", "member %s cannot replace another job", m.Name)
	case len(m.After) > sojourn.MaxDepends:
		return sojourn.Invalid("after", "member %s waits for %d others, at most %d", m.Name, len(m.After), sojourn.MaxDepends)
	}
	for n, a := range m.OnFailure {
		if !slices.Contains(m.After, n) {
			return sojourn.Invalid("on_failure", "names %.64q, which member %s does not wait for", n, m.Name)
		}
		if !slices.Contains([]sojourn.OnFailure{"", sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure}, a) {
			return sojourn.Invalid("on_failure", "%.64q is none of wait, cancel, fail and ignore", string(a))
		}
	}
	return m.Job.Validate(maxBytes)
}

// order sorts members so that each comes after those that it waits for. An error names a cycle. at
// has the indices by name. It uses no recursion, because a chain may have any length.
func order(ms []Member, at map[string]int) (sorted []int, err error) {
	const onPath, done = 1, 2
	state := make([]uint8, len(ms))
	type step struct{ member, next int }
	for first := range ms {
		path := []step{{first, 0}}
		for len(path) > 0 {
			s := &path[len(path)-1]
			m := &ms[s.member]
			if s.next == 0 && state[s.member] == done {
				path = path[:len(path)-1]
				continue
			}
			state[s.member] = onPath
			if s.next == len(m.After) {
				state[s.member], sorted, path = done, append(sorted, s.member), path[:len(path)-1]
				continue
			}
			k, known := at[m.After[s.next]]
			s.next++
			switch {
			case known && state[k] == onPath:
				names := []string{ms[k].Name}
				for i := len(path) - 1; path[i].member != k; i-- {
					names = append(names, ms[path[i].member].Name)
				}
				names = append(names, ms[k].Name)
				slices.Reverse(names[1 : len(names)-1])
				return nil, &sojourn.Error{Code: sojourn.CodeCycle, Field: "members", Index: -1, Err: sojourn.ErrConflict,
					Message: "the members wait for each other in a cycle, and none of them could ever start: " + strings.Join(names, " → ")}
			case known && state[k] != done:
				path = append(path, step{k, 0})
			}
		}
	}
	return sorted, nil
}

// inOrder returns the members so that each comes after those that it waits for.
func (w *Workflow) inOrder() ([]Member, error) {
	at := make(map[string]int, len(w.Members))
	for i, m := range w.Members {
		if _, twice := at[m.Name]; twice {
			return nil, sojourn.Invalid("name", "the workflow has two members with the name %.64q", m.Name)
		}
		at[m.Name] = i
	}
	for _, m := range w.Members {
		for _, n := range m.After {
			if _, known := at[n]; !known {
				return nil, sojourn.Invalid("after", "member %.64q waits for %.64q, and there is no member with this name", m.Name, n)
			}
		}
	}
	sorted, err := order(w.Members, at)
	if err != nil {
		return nil, err
	}
	out := make([]Member, len(sorted))
	for i, k := range sorted {
		out[i] = w.Members[k]
	}
	return out, nil
}

// State is the state of a whole workflow.
type State string

// The states of a workflow. The last three are final until a member is redriven.
const (
	Open      State = "open"      // takes further members
	Running   State = "running"   // has all members, and not all of them are final
	Completed State = "completed" // all members are completed
	Failed    State = "failed"    // all are final, and at least one has failed
	Cancelled State = "cancelled" // all are final, none has failed, and at least one is cancelled
)

// Final reports whether s is completed, failed or cancelled.
func (s State) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// ParseState reads the name of a state.
func ParseState(name string) (State, error) {
	if s := State(name); s == Open || s == Running || s.Final() {
		return s, nil
	}
	return "", sojourn.Invalid("state", "%.64q is none of open, running, completed, failed and cancelled", name)
}

// Status is a stored workflow.
type Status struct {
	Name       string `json:"name"`
	State      State  `json:"state"`
	Generation int32  `json:"generation"` // 1, and one more each time that a redrive reopens it
	Total      int64  `json:"total"`      // members
	// Counts has the members by state. In lists it has the final states only.
	Counts map[sojourn.State]int64 `json:"counts"`
	// EndJob and FailureJob are the callback jobs that were enqueued last; 0 = none.
	EndJob     sojourn.ID    `json:"end_job,omitempty"`
	FailureJob sojourn.ID    `json:"failure_job,omitempty"`
	Doing      Action        `json:"doing,omitempty"`     // cancel or redrive, while it goes on
	Problem    string        `json:"problem,omitempty"`   // why a callback was not enqueued, or a member not redriven
	Owner      string        `json:"owner,omitempty"`     // access token that has started it, with whose grants callbacks run; empty without one
	Keep       time.Duration `json:"keep"`                // after its end
	Duplicate  bool          `json:"duplicate,omitempty"` // of Start and Append: all was stored before
	CreatedAt  time.Time     `json:"created_at,omitzero"`
	UpdatedAt  time.Time     `json:"updated_at,omitzero"`
	EndedAt    time.Time     `json:"ended_at,omitzero"`
}

// Live is the number of members that are not final.
func (s Status) Live() int64 {
	return s.Total - s.Counts[sojourn.Completed] - s.Counts[sojourn.Failed] - s.Counts[sojourn.Cancelled]
}

// String is a short text for people: "order-42 is running: 2 of 3 members are final".
func (s Status) String() string {
	return fmt.Sprintf("%s is %s: %d of %d members are final", s.Name, s.State, s.Total-s.Live(), s.Total)
}

// MemberStatus is a stored member.
type MemberStatus struct {
	Name   string        `json:"name"`
	Job    sojourn.ID    `json:"job"`
	State  sojourn.State `json:"state"`
	Kind   string        `json:"kind,omitempty"` // empty if retention has deleted the job
	Queue  string        `json:"queue,omitempty"`
	Reason string        `json:"reason,omitempty"` // of a final one
}
