package sqlite

import (
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestSimulation lets stores in memory live random lives with faults (inv:A1, inv:F1, inv:S2,
// inv:U1, inv:T2, inv:L1). make sim runs more seeds.
func TestSimulation(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 20
	}
	storetest.Simulate(t, func(t *testing.T, o storetest.Options) driver.Store { return conforming(t, ":memory:", o) },
		storetest.Simulation{Seeds: seeds, Replay: "make sim FIRST=%d SEEDS=1"})
}
