package sqlstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// churn counts what this process leaves behind in the hot tables, and has it removed. Whoever looks
// for what is due or first in line passes over all of it: after a minute of 30,000 lives a second,
// which the database takes for itself to come, a look took 4 ms instead of 0.03, and there were
// 5,000 lives a second (docs/decisions/040). Safe for concurrent use.
type churn struct {
	mu   sync.Mutex // guards the fields below
	dead int        // rows since the last time
	busy bool
	from time.Time // it is not done again before
}

const (
	vacuumRows  = 20_000      // dead rows of this process that are worth it
	vacuumPart  = 20          // it takes at most one in so many parts of the time: a transaction that somebody keeps open makes it long and useless
	vacuumLimit = time.Minute // of one
)

// leave notes that a transaction has left dead rows behind.
func (s *Store) leave(dead int) {
	db, ok := s.db.(sqldb.Vacuumer)
	if !ok || dead == 0 {
		return
	}
	c := &s.churn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead += dead; c.dead < vacuumRows || c.busy || time.Now().Before(c.from) {
		return
	}
	c.dead, c.busy = 0, true
	go s.vacuum(db)
}

// vacuum ends with the store. If it fails, the database's own comes later.
func (s *Store) vacuum(db sqldb.Vacuumer) {
	ctx, cancel := context.WithTimeout(context.Background(), vacuumLimit)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-s.hub.done:
			cancel()
		case <-ended:
		}
	}()
	began := time.Now()
	err := db.Vacuum(ctx)
	select {
	case <-s.hub.done:
	default:
		if err != nil {
			slog.Warn("sojourn: dead rows were not removed; the database's own vacuum comes later", "error", err)
		}
	}
	c := &s.churn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.from = false, time.Now().Add((vacuumPart-1)*time.Since(began))
}
