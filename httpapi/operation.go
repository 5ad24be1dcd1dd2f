package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/operation"
)

var _ operation.Store = (*Store)(nil)

func operationPath(id, part string) string { return "/v1/operations/" + url.PathEscape(id) + part }

// StartOperation stores an operation.
func (s triageCalls) StartOperation(ctx context.Context, spec operation.Spec) (out operation.Status, err error) {
	if err := spec.Validate(sojourn.MaxMaxBytes); err != nil {
		return out, err
	}
	r := request{method: http.MethodPost, path: "/v1/operations", in: wire.NewOperationOf(spec), out: &out, safety: safe}
	if spec.ID == "" {
		r.safety = unsafe
	}
	err = s.call(ctx, r)
	return out, err
}

// Operations lists operations.
func (s triageCalls) Operations(ctx context.Context, q operation.Query) ([]operation.Status, error) {
	if q.ID != "" {
		o, err := get[operation.Status](ctx, s.transport, operationPath(q.ID, ""))
		if err != nil {
			return nil, err
		}
		return []operation.Status{o}, nil
	}
	v := url.Values{}
	setPage(v, q.After, q.Limit)
	a, err := get[wire.OperationsAnswer](ctx, s.transport, "/v1/operations?"+v.Encode())
	var out []operation.Status
	for _, o := range a.Operations {
		out = append(out, o.Status)
	}
	return out, err
}

// ChangeOperation pauses, resumes or cancels an operation.
func (s triageCalls) ChangeOperation(ctx context.Context, id string, a operation.Action) (out operation.Status, err error) {
	err = s.call(ctx, request{method: http.MethodPost, path: operationPath(id, "/"+url.PathEscape(string(a))), out: &out, safety: safe})
	return out, err
}
