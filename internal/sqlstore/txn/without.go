package txn

import (
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Spoils reports whether a cached value is made wrong on purpose, see Config.Spoils.
func (s *Core) Spoils(what string) bool { return s.Cfg.Spoils != nil && s.Cfg.Spoils(what) }

// SpoilQueue may make a copy of a cached queue stale.
func (s *Core) SpoilQueue(q *QueueRow) {
	if s.Spoils("queue settings") {
		priority := int32(99)
		q.SettingsText, q.Defaults.Priority = q.SettingsText+" ", &priority
	}
	if s.Spoils("queue layout") {
		q.Layout++
	}
}

// Predict is Clock.Predict.
func (s *Core) Predict() (clock.Reading, bool) {
	r, ok := s.Clock.Predict()
	if ok && !s.Cfg.Driven && s.Spoils("clock") {
		r.Now += time.Hour.Microseconds()
	}
	return r, ok
}

// stale returns a copy of a cached row as another transaction may have left it.
func stale(l *jobrow.Row) *jobrow.Row {
	old := *l
	old.Attempt, old.Priority = old.Attempt+1, old.Priority+1
	return &old
}

// spoil makes the cached rows and ids stale, as if another connection had committed since, or
// throws the rows away.
func (k *localRows) spoil(s *Core) {
	if len(k.rows) > 0 && s.Spoils("lost local rows") {
		clear(k.rows)
	}
	if (len(k.rows) > 0 || len(k.free) > 0) && s.Spoils("stale local rows") {
		k.version--
		for id, l := range k.rows {
			k.rows[id] = stale(l)
		}
		for _, b := range k.free {
			clear(b.taken)
		}
	}
}
