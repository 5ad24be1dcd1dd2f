package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/cachetest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/without"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestConformanceWithout runs the whole suite without optimisations: no result depends on one.
func TestConformanceWithout(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	storetest.Run(t, func(t *testing.T, o storetest.Options) driver.Store {
		defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Without = without.All() })()
		return conforming(t, ":memory:", o)
	})
}

// TestConformancePoisoned runs the whole suite with caches that are often wrong: their validator
// refuses what is wrong, and the transaction reads.
func TestConformancePoisoned(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	poison := &cachetest.Poison{}
	storetest.Run(t, func(t *testing.T, o storetest.Options) driver.Store {
		defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Spoils = poison.Spoils(t.Name()) })()
		return conforming(t, filepath.Join(t.TempDir(), "jobs.db"), o)
	})
	poison.Expect(t, "lost local rows", "stale local rows")
}

// TestPoisonedLives runs lives with caches that are often wrong. It is short, so make test runs it.
func TestPoisonedLives(t *testing.T) {
	poison := &cachetest.Poison{}
	defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Spoils = poison.Spoils(t.Name()) })()
	c, err := Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cachetest.Lives(t, driver.Of(c))
	poison.Expect(t, "lost local rows", "stale local rows")
}
