package sqlite

import (
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestRaceDependencies: inv:G1, inv:G2, inv:G4. Four stores with one file.
func TestRaceDependencies(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	storetest.RaceDependencies(t, func(t *testing.T, o storetest.Options) (nodes []driver.Store) {
		path := fileTest(t)
		for range 4 {
			s := conforming(t, path, o, Relaxed())
			t.Cleanup(func() { s.Close() })
			nodes = append(nodes, s)
		}
		return nodes
	}, nil, rounds)
}

// TestScaleDependencies measures the cost of members. SOJOURN_DEPS=100000 runs it.
func TestScaleDependencies(t *testing.T) {
	storetest.ScaleDependencies(t, func(t *testing.T) driver.Store {
		c, err := Open(fileTest(t))
		if err != nil {
			t.Fatal(err)
		}
		return driver.Of(c)
	})
}
