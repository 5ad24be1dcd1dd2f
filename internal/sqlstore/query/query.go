// Package query answers questions about stored data: jobs, queues, workers, the inbox, why a job
// waits, and whether the invariants hold. It only reads, on snapshots: an answer is consistent, and
// may be out of date when the caller gets it.
package query

import (
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// Reader answers questions. Safe for concurrent use.
type Reader struct {
	core  *txn.Core
	gates *gate.Gates
	hub   *wake.Hub
}

// New makes a Reader; g and h are those of the store's claims.
func New(c *txn.Core, g *gate.Gates, h *wake.Hub) *Reader {
	return &Reader{core: c, gates: g, hub: h}
}
