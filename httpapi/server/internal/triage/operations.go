package triage

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/operation"
)

// StartOperationIn is the request of StartOperation.
type StartOperationIn struct{ Body wire.NewOperation }

// Detail is what the audit log has of the request: not the new values.
func (in *StartOperationIn) Detail() any {
	n := in.Body
	n.Edit.Change = wire.Change{}
	return n
}

// StartOperation stores an operation.
func StartOperation(ctx context.Context, s sojourn.Store, in *StartOperationIn) (wire.Operation, error) {
	spec, err := in.Body.Domain(time.Now())
	if err != nil {
		return wire.Operation{}, err
	}
	spec.Edit.By = by(ctx, spec.Edit.By)
	if spec.ID == "" {
		spec.ID = operation.NewID()
	}
	out, err := operation.StoreOf(s).StartOperation(ctx, spec)
	return wire.Operation{Status: out}, err
}

// ListOperationsIn is the request of ListOperations.
type ListOperationsIn struct {
	After string `query:"after" doc:"the id of the last operation of the page before"`
	Limit int    `query:"limit" doc:"1 to 1,000; default 100"`
}

// ListOperations lists operations.
func ListOperations(ctx context.Context, s sojourn.Store, in *ListOperationsIn) (wire.OperationsAnswer, error) {
	found, err := operation.StoreOf(s).Operations(ctx, operation.Query{After: in.After, Limit: in.Limit})
	return wire.OperationsAnswer{Operations: wire.OperationsOf(found)}, err
}

// OperationIn names one operation.
type OperationIn struct {
	Operation string `path:"operation"`
}

// GetOperation shows one operation.
func GetOperation(ctx context.Context, s sojourn.Store, in *OperationIn) (wire.Operation, error) {
	found, err := operation.StoreOf(s).Operations(ctx, operation.Query{ID: in.Operation})
	if err != nil {
		return wire.Operation{}, err
	}
	return wire.Operation{Status: found[0]}, nil
}

// ChangeOperation pauses, resumes or cancels an operation.
func ChangeOperation(a operation.Action) func(context.Context, sojourn.Store, *OperationIn) (wire.Operation, error) {
	return func(ctx context.Context, s sojourn.Store, in *OperationIn) (wire.Operation, error) {
		out, err := operation.StoreOf(s).ChangeOperation(ctx, in.Operation, a)
		return wire.Operation{Status: out}, err
	}
}
