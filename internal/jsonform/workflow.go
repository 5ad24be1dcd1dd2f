package jsonform

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/workflow"
)

// NewWorkflow is a workflow to be started.
type NewWorkflow struct {
	Members        []NewMember   `json:"members,omitempty" doc:"at most 1,000 in one request; more are appended to an open workflow"`
	OnEnd          *NewJob       `json:"on_end,omitempty" doc:"enqueued when all members are final, without id, run_at and delay"`
	OnFirstFailure *NewJob       `json:"on_first_failure,omitempty" doc:"enqueued when the first member fails or is cancelled"`
	Open           bool          `json:"open,omitempty" doc:"it takes further members until it is closed"`
	Keep           time.Duration `json:"keep,omitempty" doc:"how long the workflow and its name are kept after its end; default 168h"`
}

// NewMember is a member of a workflow.
type NewMember struct {
	Name      string                       `json:"name" doc:"unique in the workflow"`
	Job       NewJob                       `json:"job" doc:"without an id"`
	After     []string                     `json:"after,omitempty" doc:"names of the members that must have completed before"`
	OnFailure map[string]sojourn.OnFailure `json:"on_failure,omitempty" doc:"by names in after: what becomes of this member when that one fails or is cancelled: wait (default), cancel, fail or ignore"`
}

// NewMembersOf are the forms of members.
func NewMembersOf(ms []workflow.Member) []NewMember {
	out := make([]NewMember, len(ms))
	for i, m := range ms {
		out[i] = NewMember{m.Name, NewJobOf(m.Job), m.After, m.OnFailure}
	}
	return out
}

// MembersOf are the members again.
func MembersOf(ms []NewMember) []workflow.Member {
	out := make([]workflow.Member, len(ms))
	for i := range ms {
		j := ms[i].Job.Job()
		out[i] = workflow.Member{Name: ms[i].Name, Job: &j, After: ms[i].After, OnFailure: ms[i].OnFailure}
	}
	return out
}

// NewWorkflowOf is the form of a workflow that Validate has accepted.
func NewWorkflowOf(w *workflow.Workflow) NewWorkflow {
	n := NewWorkflow{Members: NewMembersOf(w.Members), Open: w.Open, Keep: w.Keep}
	if w.EndJob != nil {
		j := NewJobOf(w.EndJob)
		n.OnEnd = &j
	}
	if w.FailureJob != nil {
		j := NewJobOf(w.FailureJob)
		n.OnFirstFailure = &j
	}
	return n
}

// Workflow is the workflow again.
func (n *NewWorkflow) Workflow(name string) workflow.Workflow {
	w := workflow.Workflow{Name: name, Members: MembersOf(n.Members), Open: n.Open, Keep: n.Keep}
	if n.OnEnd != nil {
		j := n.OnEnd.Job()
		w.EndJob = &j
	}
	if n.OnFirstFailure != nil {
		j := n.OnFirstFailure.Job()
		w.FailureJob = &j
	}
	return w
}
