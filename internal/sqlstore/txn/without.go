package txn

import (
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
)

// Without switches optimisations off, each by itself, for tests and measurements. Every call has
// the same result in every combination. The zero value has them all on. One that the database does
// not use has no switch there.
type Without struct {
	QueueCache     bool // optimistic reads of enqueues and claims
	RowCache       bool // finishes without a read, validated by the delete
	LocalRows      bool // rows and free ids that are valid until another connection commits
	BulkStart      bool
	Prefetch       bool // reads of all batches but the first in the message that begins the transaction
	ClaimInEnqueue bool // pending inserts that a claim of their transaction starts, and blocked claims that it runs
	BatchingDelay  bool
	FinishLane     bool
	Signals        bool // wake-ups by the commits of other processes; polling alone is left
	Counts         bool // maintained counts: reads count the jobs
	// Statistics are no optimisation: without them nothing is counted. So "all" leaves them on.
	Statistics bool
}

// Names of the switches, in the order of switches.
var switchNames = []string{"queue-cache", "row-cache", "local-rows", "bulk-start", "prefetch", "claim-in-enqueue", "batching-delay", "finish-lane", "signals", "counts"}

func (w *Without) switches() []*bool {
	return []*bool{&w.QueueCache, &w.RowCache, &w.LocalRows, &w.BulkStart, &w.Prefetch, &w.ClaimInEnqueue, &w.BatchingDelay, &w.FinishLane, &w.Signals, &w.Counts}
}

// WithoutAll has every optimisation switched off.
func WithoutAll() (w Without) {
	for _, off := range w.switches() {
		*off = true
	}
	return w
}

// ParseWithout reads names of optimisations, separated by commas: "all", or for example
// "row-cache,prefetch".
func ParseWithout(text string) (w Without, err error) {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(switchNames, name)
		switch {
		case i >= 0:
			*w.switches()[i] = true
		case name == "statistics":
			w.Statistics = true
		case name == "all":
			w = WithoutAll()
		case name != "":
			return w, sojourn.Invalid("without", "%.64q is not an optimisation; there are %s, statistics and all", name, strings.Join(switchNames, ", "))
		}
	}
	return w, nil
}

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
