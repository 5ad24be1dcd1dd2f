package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestRaceDependencies: rules:G3, rules:G4, inv:G1, inv:G2, inv:G4. Eight nodes with pools of their
// own. make races runs 20,000 rounds.
func TestRaceDependencies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a tenth of a second for each round")
	}
	pool, err := pgxpool.New(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	storetest.RaceDependencies(t, func(t *testing.T, o storetest.Options) (nodes []driver.Store) {
		schema := newSchema(t)
		for range 8 {
			c := open(t, append(wished(o), Schema(schema))...)
			t.Cleanup(func() { c.Close() })
			nodes = append(nodes, driver.Of(c))
		}
		return nodes
	}, func() (storetest.Tx, error) { return begin(pool, "") }, 150)
}

// TestScaleDependencies measures the cost of members. SOJOURN_DEPS=100000 runs it.
func TestScaleDependencies(t *testing.T) {
	storetest.ScaleDependencies(t, func(t *testing.T) driver.Store { return driver.Of(open(t, Schema(newSchema(t)), AutoMigrate())) })
}
