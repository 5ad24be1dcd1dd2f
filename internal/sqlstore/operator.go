package sqlstore

import (
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// operator changes what is stored on behalf of people and of time: settings, edits, retention, and
// the sweep of overdue jobs.
type operator struct {
	core       *core
	hub        *hub
	gates      *gates
	reader     *reader
	setQueueOp *op[setQueueAsk, bool]
	editOp     *op[editAsk, sojourn.Edited]
	rebasing   sync.Mutex // held while leases are shifted after a step of the clock
}

func newOperator(c *core, h *hub, g *gates, r *reader) *operator {
	s := &operator{core: c, hub: h, gates: g, reader: r}
	s.setQueueOp = eachOp("set queue", groupcommit.Finish, s.setQueue)
	s.editOp = eachOp("edit", groupcommit.Finish, s.edit)
	return s
}
