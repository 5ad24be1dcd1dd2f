package operate

import (
	"sync"

	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// Operator changes what is stored on behalf of people and of time: settings, edits, retention, and
// the sweep of overdue jobs.
type Operator struct {
	Core     *txn.Core
	Gates    *gate.Gates
	Hub      *wake.Hub
	Reader   *query.Reader
	rebasing sync.Mutex // held while leases are shifted after a step of the clock
}
