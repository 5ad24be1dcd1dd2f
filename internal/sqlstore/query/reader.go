package query

import (
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// Reader answers questions about what is stored, on snapshots.
type Reader struct {
	Core  *txn.Core
	Gates *gate.Gates
	Hub   *wake.Hub
}
