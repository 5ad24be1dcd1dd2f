package wire

import (
	"time"

	"github.com/sojourn-queue/sojourn/store/operation"
)

// NewOperation is a stored operation to be started.
type NewOperation struct {
	ID     string  `json:"id,omitempty" doc:"names the operation, so that the request can be repeated; the server draws one if it is absent"`
	Filter Filter  `json:"filter" doc:"which jobs; without states those in which the action is possible, of redrive the failed ones"`
	Edit   Edit    `json:"edit" doc:"the change; with dry_run the jobs are only counted"`
	Limit  int64   `json:"limit,omitempty" doc:"ends the operation after so many changed jobs; default all"`
	Rate   float64 `json:"rate,omitempty" doc:"the maximum of jobs a second; default any"`
	Canary int     `json:"canary,omitempty" doc:"of redrive: so many jobs first, at most 100; the rest follows only if all of them complete"`
}

// NewOperationOf is s for the wire.
func NewOperationOf(s operation.Spec) NewOperation {
	return NewOperation{s.ID, FilterOf(s.Filter), EditOf(s.Edit), s.Limit, s.Rate, s.Canary}
}

// Domain is n for a store. Ages in the text of its filter count from now.
func (n NewOperation) Domain(now time.Time) (operation.Spec, error) {
	f, err := n.Filter.Domain(now)
	return operation.Spec{ID: n.ID, Filter: f, Edit: n.Edit.Domain(), Limit: n.Limit, Rate: n.Rate, Canary: n.Canary}, err
}

// Operation is a stored operation.
type Operation struct{ operation.Status }

// OperationsAnswer is a page of operations.
type OperationsAnswer struct {
	Operations []Operation `json:"operations"`
}

// OperationsOf shows operations.
func OperationsOf(all []operation.Status) []Operation {
	out := make([]Operation, len(all))
	for i, o := range all {
		out[i] = Operation{o}
	}
	return out
}
