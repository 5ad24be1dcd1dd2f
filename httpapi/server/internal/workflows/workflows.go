// Package workflows serves workflows. The store checks the grants: a token sees and changes only
// workflows whose members are all within them.
package workflows

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/workflow"
)

// StartIn is the request of Start.
type StartIn struct {
	Workflow string `path:"workflow"`
	Body     wire.NewWorkflow
}

// Start stores a workflow with its members.
func Start(ctx context.Context, s sojourn.Store, in *StartIn) (wire.Workflow, error) {
	out, err := workflow.StoreOf(s).StartWorkflow(ctx, in.Body.Workflow(in.Workflow))
	return wire.Workflow{Status: out}, err
}

// AppendIn is the request of Append.
type AppendIn struct {
	Workflow string `path:"workflow"`
	Body     wire.NewMembers
}

// Append adds members to an open workflow.
func Append(ctx context.Context, s sojourn.Store, in *AppendIn) (wire.Workflow, error) {
	out, err := workflow.StoreOf(s).AppendWorkflow(ctx, in.Workflow, jsonform.MembersOf(in.Body.Members))
	return wire.Workflow{Status: out}, err
}

// ChangeIn is the request of Change.
type ChangeIn struct {
	Workflow string `path:"workflow"`
	Body     wire.WorkflowChange
}

// Detail is what the audit log has of the request.
func (in *ChangeIn) Detail() any { return in.Body }

// Change closes, cancels or redrives a workflow.
func Change(a workflow.Action) func(context.Context, sojourn.Store, *ChangeIn) (wire.Workflow, error) {
	return func(ctx context.Context, s sojourn.Store, in *ChangeIn) (wire.Workflow, error) {
		out, err := workflow.StoreOf(s).ChangeWorkflow(ctx, in.Workflow, a, in.Body.Reason)
		return wire.Workflow{Status: out}, err
	}
}

// ListMembersIn is the request of ListMembers.
type ListMembersIn struct {
	Workflow string          `path:"workflow"`
	States   []sojourn.State `query:"state"`
	After    string          `query:"after" doc:"the last name of the page before"`
	Limit    int             `query:"limit" doc:"1 to 1,000; default 100"`
}

// ListMembers lists the members of a workflow.
func ListMembers(ctx context.Context, s sojourn.Store, in *ListMembersIn) (wire.MembersAnswer, error) {
	found, err := workflow.StoreOf(s).WorkflowMembers(ctx, in.Workflow, workflow.MemberQuery{States: in.States, After: in.After, Limit: in.Limit})
	return wire.MembersAnswer{Members: append([]workflow.MemberStatus{}, found...)}, err
}
