package server

import (
	"time"

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/workflow"
)

// The store checks the grants: a token sees and changes only workflows whose members are all within
// them. Package workflows has the other operations.

type listWorkflowsIn struct {
	Names  []string         `query:"name" doc:"only these, all in one page, each with the numbers of its members by state"`
	Prefix string           `query:"prefix" doc:"only names that begin with it"`
	States []workflow.State `query:"state" doc:"open, running, completed, failed or cancelled"`
	After  string           `query:"after" doc:"the last name of the page before"`
	Limit  int              `query:"limit" doc:"1 to 1,000; default 100"`
	Wait   time.Duration    `query:"wait" doc:"with one name: wait up to this long until the workflow is final; at most 60s"`
}

func listWorkflows(c *call, in *listWorkflowsIn) (wire.WorkflowsAnswer, error) {
	q := workflow.Query{Names: in.Names, Prefix: in.Prefix, States: in.States, After: in.After, Limit: in.Limit, Wait: in.Wait}
	ctx, end, err := c.waiting(q.Wait, func(h *holder) error { return h.has(access.VerbRead) })
	if err != nil {
		return wire.WorkflowsAnswer{}, err
	}
	defer end()
	found, err := workflow.StoreOf(c.store).Workflows(ctx, q)
	if q.Wait > tokensFresh && (err == nil || c.cut()) { // the grants may have changed meanwhile
		if err = c.renew(); err == nil {
			q.Wait = 0
			found, err = workflow.StoreOf(c.store).Workflows(c.ctx, q)
		}
	}
	return wire.WorkflowsAnswer{Workflows: wire.WorkflowsOf(found)}, err
}
