// Package vacuum removes dead tuples before they slow down the hot tables of PostgreSQL.
package vacuum

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Trigger counts the dead tuples of this process in the hot tables, and triggers VACUUM. Searches
// for overdue or first jobs scan all of them: after a minute of 30,000 jobs a second, the interval
// of autovacuum, a search took 4 ms instead of 0.03, and throughput was 5,000 jobs a second
// (docs/internals/engine.md#dead-tuples-and-plans). Safe for concurrent use.
type Trigger struct {
	mu   sync.Mutex // guards the fields below
	dead int        // rows since the last vacuum
	busy bool       // a vacuum runs
	from time.Time  // when the next one may run
}

// Limits of VACUUM. It takes at most a part of the time, because a transaction that is open for
// long makes it both long and useless.
const (
	vacuumRows  = 20_000      // dead rows of this process that justify one
	vacuumPart  = 20          // it runs for at most a 20th of the time
	vacuumLimit = time.Minute // of one
)

// Note counts the dead rows of a committed transaction, and may start a VACUUM in the background,
// which ends when done is closed.
func (c *Trigger) Note(db sqldb.DB, done <-chan struct{}, dead int) {
	v, ok := db.(sqldb.Vacuumer)
	if !ok || dead == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead += dead; c.dead < vacuumRows || c.busy || time.Now().Before(c.from) {
		return
	}
	c.dead, c.busy = 0, true
	go c.vacuum(v, done)
}

// vacuum runs VACUUM once. If it fails, autovacuum runs later.
func (c *Trigger) vacuum(db sqldb.Vacuumer, done <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), vacuumLimit)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-done:
			cancel()
		case <-ended:
		}
	}()
	began := time.Now()
	err := db.Vacuum(ctx)
	select {
	case <-done:
	default:
		if err != nil {
			slog.Warn("sojourn: dead rows were not removed; the database's own vacuum comes later", "error", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.from = false, time.Now().Add((vacuumPart-1)*time.Since(began))
}
