package wire

import (
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/workflow"
)

// NewWorkflow is a workflow to be started.
type NewWorkflow = jsonform.NewWorkflow

// NewMembers are members to be added to a workflow.
type NewMembers struct {
	Members []jsonform.NewMember `json:"members" doc:"at most 1,000; those that are there already with the same content are skipped"`
}

// WorkflowChange says why a workflow is changed.
type WorkflowChange struct {
	Reason string `json:"reason,omitempty" doc:"for the history of the members"`
}

// Workflow is a stored workflow.
type Workflow struct{ workflow.Status }

// WorkflowsAnswer is a page of workflows.
type WorkflowsAnswer struct {
	Workflows []Workflow `json:"workflows"`
}

// WorkflowsOf shows workflows.
func WorkflowsOf(all []workflow.Status) []Workflow {
	out := make([]Workflow, len(all))
	for i, w := range all {
		out[i] = Workflow{w}
	}
	return out
}

// MembersAnswer is a page of members.
type MembersAnswer struct {
	Members []workflow.MemberStatus `json:"members"`
}
