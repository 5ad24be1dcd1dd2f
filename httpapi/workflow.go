package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/workflow"
)

var _ workflow.Store = (*Store)(nil)

func workflowPath(name, part string) string { return "/v1/workflows/" + url.PathEscape(name) + part }

// StartWorkflow stores a workflow.
func (s *Store) StartWorkflow(ctx context.Context, w workflow.Workflow) (out workflow.Status, err error) {
	if err := w.Validate(sojourn.MaxMaxBytes); err != nil {
		return out, err
	}
	err = s.call(ctx, request{method: http.MethodPut, path: workflowPath(w.Name, ""), in: jsonform.NewWorkflowOf(&w), out: &out, safety: safe})
	return out, err
}

// AppendWorkflow adds members to an open workflow.
func (s *Store) AppendWorkflow(ctx context.Context, name string, ms []workflow.Member) (out workflow.Status, err error) {
	if err := sojourn.ValidName("name", name); err != nil {
		return out, err
	}
	if err := workflow.ValidMembers(ms, false, sojourn.MaxMaxBytes); err != nil {
		return out, err
	}
	err = s.call(ctx, request{method: http.MethodPost, path: workflowPath(name, "/members"), in: wire.NewMembers{Members: jsonform.NewMembersOf(ms)}, out: &out, safety: safe})
	return out, err
}

// ChangeWorkflow closes, cancels or redrives a workflow.
func (s *Store) ChangeWorkflow(ctx context.Context, name string, a workflow.Action, reason string) (out workflow.Status, err error) {
	if err := sojourn.ValidName("name", name); err != nil {
		return out, err
	}
	r := request{method: http.MethodPost, path: workflowPath(name, "/"+string(a)), in: wire.WorkflowChange{Reason: reason}, out: &out, safety: safe}
	if a == workflow.ActionRedrive {
		r.safety = unsafe // members may have failed again
	}
	err = s.call(ctx, r)
	return out, err
}

// Workflows lists workflows.
func (s *Store) Workflows(ctx context.Context, q workflow.Query) ([]workflow.Status, error) {
	v := url.Values{"name": q.Names}
	for _, state := range q.States {
		v.Add("state", string(state))
	}
	setPage(v, q.After, q.Limit)
	if q.Prefix != "" {
		v.Set("prefix", q.Prefix)
	}
	if q.Wait != 0 {
		v.Set("wait", jsonform.FormatDuration(q.Wait))
	}
	a, err := get[wire.WorkflowsAnswer](ctx, s.transport, "/v1/workflows?"+v.Encode())
	var out []workflow.Status
	for _, w := range a.Workflows {
		out = append(out, w.Status)
	}
	return out, err
}

// WorkflowMembers lists the members of a workflow.
func (s *Store) WorkflowMembers(ctx context.Context, name string, q workflow.MemberQuery) ([]workflow.MemberStatus, error) {
	if q.States != nil && len(q.States) == 0 {
		return nil, nil
	}
	v := url.Values{}
	for _, state := range q.States {
		v.Add("state", state.String())
	}
	setPage(v, q.After, q.Limit)
	a, err := get[wire.MembersAnswer](ctx, s.transport, workflowPath(name, "/members?"+v.Encode()))
	return a.Members, err
}

// setPage adds the parameters of a page.
func setPage(v url.Values, after string, limit int) {
	if after != "" {
		v.Set("after", after)
	}
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
}
