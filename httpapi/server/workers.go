package server

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/workers"
)

type listWorkersIn struct {
	Workers []string `query:"worker" doc:"only those with these ids, with the jobs that they run"`
	After   string   `query:"after" doc:"the last id of the page before"`
	Limit   int      `query:"limit" doc:"1 to 1,000; default 100"`
}

// listWorkers requires a token without patterns, because workers claim from any queues and kinds.
func listWorkers(c *call, in *listWorkersIn) (wire.WorkersAnswer, error) {
	if err := c.who.may(access.VerbRead, "", ""); err != nil {
		return wire.WorkersAnswer{}, err
	}
	found, err := c.store.Workers(c.ctx, in.After, in.Limit, in.Workers...)
	return wire.WorkersAnswer{Workers: append([]sojourn.WorkerStatus{}, found...)}, err
}

type drainWorkerIn struct {
	Worker string `path:"worker"`
}

func drainWorker(c *call, in *drainWorkerIn) (wire.Empty, error) {
	if err := c.who.may(access.VerbOperate, "", ""); err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, c.store.DrainWorker(c.ctx, in.Worker)
}

// leaveWorker takes a worker of the same token off the list. Its id is that of its claims, which
// begins with the id of the token.
func leaveWorker(c *call, in *drainWorkerIn) (wire.Empty, error) {
	store, ok := c.store.(workers.Leaver)
	if !ok {
		return wire.Empty{}, unsupported()
	}
	return wire.Empty{}, store.LeaveWorker(c.ctx, c.who.worker(in.Worker))
}
