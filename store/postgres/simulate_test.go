package postgres

import (
	"testing"

	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestSimulation is that of store/sqlite on PostgreSQL. SOJOURN_SIM_SEEDS sets how many seeds, 20
// by default.
func TestSimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a second for each seed")
	}
	testURL(t)
	storetest.Simulate(t, conforming, storetest.Simulation{Seeds: 20, Tries: 30})
}
