// Package upkeep does what a store must do as time passes, without a request from a caller: it ends
// overdue waits and leases, deletes what retention no longer keeps, reindexes jobs after a change
// of settings, shifts leases after a step of the clock, matches responses again that two
// transactions have missed, corrects the in-flight ledger, and advances the ids of a restored copy.
package upkeep

import (
	"context"
	"sync"

	"github.com/sojourn-queue/sojourn/internal/sqlstore/counters"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/schedules"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// Maintainer keeps a store in order. Safe for concurrent use.
type Maintainer struct {
	core      *txn.Core
	hub       *wake.Hub
	reader    *query.Reader // checks a restored copy
	schedules *schedules.Scheduler
	Counts    *counters.Folder
	// Continue goes on with what other processes have left of workflows. It is set before the first
	// sweep.
	Continue func(context.Context) error
	// FoldFailures adds up counts of failures. It is set before the first sweep.
	FoldFailures func(context.Context) error
	// FoldStatistics adds up statistics, and deletes those of old days. It is set before the first
	// sweep.
	FoldStatistics func(context.Context) error
	// SweepEvents deletes events that nobody needs. It is set before the first sweep.
	SweepEvents func(context.Context) error
	// Operate carries out stored operations. It is set before the first sweep.
	Operate  func(context.Context) error
	rebasing sync.Mutex // held while leases are shifted after a step of the clock
}

// New makes a Maintainer. It wakes the claims that wait in h for what it has changed.
func New(c *txn.Core, h *wake.Hub, r *query.Reader, s *schedules.Scheduler) *Maintainer {
	return &Maintainer{core: c, hub: h, reader: r, schedules: s, Counts: counters.NewFolder(c)}
}
