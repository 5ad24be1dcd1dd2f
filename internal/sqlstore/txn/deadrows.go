package txn

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// deadRows counts the dead tuples of this process in the hot tables, and triggers VACUUM. Searches
// for overdue or first jobs scan all of them: after a minute of 30,000 jobs a second, the interval
// of autovacuum, a search took 4 ms instead of 0.03, and throughput was 5,000 jobs a second
// (docs/internals/engine.md#dead-tuples-and-plans). Safe for concurrent use.
type deadRows struct {
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

// NoteDead counts the dead rows of a committed transaction (Events.Dead), and may start a VACUUM
// in the background.
func (s *Core) NoteDead(dead int) {
	db, ok := s.DB.(sqldb.Vacuumer)
	if !ok || dead == 0 {
		return
	}
	c := &s.dead
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead += dead; c.dead < vacuumRows || c.busy || time.Now().Before(c.from) {
		return
	}
	c.dead, c.busy = 0, true
	go s.vacuum(db)
}

// vacuum runs VACUUM once. It ends with the store; if it fails, autovacuum runs later.
func (s *Core) vacuum(db sqldb.Vacuumer) {
	ctx, cancel := context.WithTimeout(context.Background(), vacuumLimit)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.Done:
			cancel()
		case <-ended:
		}
	}()
	began := time.Now()
	err := db.Vacuum(ctx)
	select {
	case <-s.Done:
	default:
		if err != nil {
			slog.Warn("sojourn: dead rows were not removed; the database's own vacuum comes later", "error", err)
		}
	}
	c := &s.dead
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.from = false, time.Now().Add((vacuumPart-1)*time.Since(began))
}
