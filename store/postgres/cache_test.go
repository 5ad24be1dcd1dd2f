package postgres

import (
	"testing"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/cachetest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/without"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestConformanceWithout runs the whole suite without optimisations: no result depends on one.
func TestConformanceWithout(t *testing.T) {
	testURL(t)
	storetest.Parallel(t, func(t *testing.T, o storetest.Options) driver.Store {
		return openTuned(t, func(cfg *sqlstore.Config) { cfg.Without = without.All() }, append(wished(o), Schema(emptySchema(t)))...)
	})
}

// TestConformancePoisoned runs the whole suite with caches that are often wrong: their validators
// refuse what is wrong, and the transaction is repeated with reads.
func TestConformancePoisoned(t *testing.T) {
	testURL(t)
	poison := &cachetest.Poison{}
	t.Cleanup(func() {
		poison.Expect(t, "queue settings", "queue layout", "row", "shape", "assumed layout")
	})
	storetest.Parallel(t, func(t *testing.T, o storetest.Options) driver.Store {
		return openTuned(t, func(cfg *sqlstore.Config) { cfg.Spoils = poison.Spoils(t.Name()) }, append(wished(o), Schema(emptySchema(t)))...)
	})
}

// TestPoisonedLives runs lives by the server's clock, which the suite does not.
func TestPoisonedLives(t *testing.T) {
	testURL(t)
	poison := &cachetest.Poison{}
	s := openTuned(t, func(cfg *sqlstore.Config) { cfg.Spoils = poison.Spoils(t.Name()) }, Schema(emptySchema(t)), AutoMigrate())
	t.Cleanup(func() { s.Close() })
	cachetest.Lives(t, s)
	poison.Expect(t, "clock", "queue settings", "queue layout", "empty queue", "last claim", "row")
}
