// Package workers serves the removal of workers. The store checks the grants.
package workers

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/workers"
)

// ForgetIn is the request of Forget.
type ForgetIn struct {
	Worker string `path:"worker"`
	Force  bool   `query:"force" doc:"also a worker that lives; it is told so with its next extend"`
}

// Forget removes a worker and ends its leases.
func Forget(ctx context.Context, s sojourn.Store, in *ForgetIn) (workers.Removed, error) {
	return workers.StoreOf(s).ForgetWorker(ctx, in.Worker, workers.Forget{Force: in.Force})
}
