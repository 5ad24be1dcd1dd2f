// Package without has the switches of the engine's optimisations. It knows no database.
package without

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// Switches switch optimisations off, each by itself, for tests and measurements. Every call has
// the same result in every combination. The zero value has them all on. One that the database does
// not use has no switch there.
type Switches struct {
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

func (w *Switches) switches() []*bool {
	return []*bool{&w.QueueCache, &w.RowCache, &w.LocalRows, &w.BulkStart, &w.Prefetch, &w.ClaimInEnqueue, &w.BatchingDelay, &w.FinishLane, &w.Signals, &w.Counts}
}

// All has every optimisation switched off.
func All() (w Switches) {
	for _, off := range w.switches() {
		*off = true
	}
	return w
}

// Parse reads names of optimisations, separated by commas: "all", or for example
// "row-cache,prefetch".
func Parse(text string) (w Switches, err error) {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(switchNames, name)
		switch {
		case i >= 0:
			*w.switches()[i] = true
		case name == "statistics":
			w.Statistics = true
		case name == "all":
			w = All()
		case name != "":
			return w, sojourn.Invalid("without", "%.64q is not an optimisation; there are %s, statistics and all", name, strings.Join(switchNames, ", "))
		}
	}
	return w, nil
}
