// Package operate makes the changes that people and programs ask for outside of a job's life: edits
// of jobs and of the inbox, settings and holds of queues, draining workers, access tokens and the
// audit log. A refusal comes before the first write where possible, and is then an answer: the
// other calls of the group need no second run. What the store does by itself over time is in
// package upkeep.
package operate

import (
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/upkeep"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// Operator makes changes on request. Safe for concurrent use.
type Operator struct {
	core    *txn.Core
	gates   *gate.Gates
	hub     *wake.Hub
	upkeep  *upkeep.Maintainer // reindexes the jobs of a queue whose settings have changed
	members *member.Counter    // counts redriven members of workflows
}

// New makes an Operator; g and h are those of the store's claims.
func New(c *txn.Core, g *gate.Gates, h *wake.Hub, m *upkeep.Maintainer, members *member.Counter) *Operator {
	return &Operator{core: c, gates: g, hub: h, upkeep: m, members: members}
}
