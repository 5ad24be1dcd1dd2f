package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/cachetest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestConformanceWithout runs the whole suite without optimisations: no result depends on one.
func TestConformanceWithout(t *testing.T) {
	testURL(t)
	storetest.Parallel(t, func(t *testing.T, o storetest.Options) driver.Store {
		return openTuned(t, func(cfg *sqlstore.Config) { cfg.Without = txn.WithoutAll() }, append(wished(o), Schema(emptySchema(t)))...)
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

// TestPoisonedLives: jobs that are stored, claimed and finished side by side, by the server's clock,
// run once and have their own settings, however wrong the caches are.
func TestPoisonedLives(t *testing.T) {
	const producers, jobsOfEach = 4, 150
	poison := &cachetest.Poison{}
	s := openTuned(t, func(cfg *sqlstore.Config) { cfg.Spoils = poison.Spoils(t.Name()) }, Schema(emptySchema(t)), AutoMigrate())
	t.Cleanup(func() { s.Close() })
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for range jobsOfEach {
				if _, err := s.Enqueue(t.Context(), newOne(t, s), false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	began := map[sojourn.ID]bool{}
	for number := int64(1); len(began) < producers*jobsOfEach && !t.Failed(); number++ {
		jobs, err := s.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 20, Capacity: 20, Wait: 10 * time.Second})
		if err != nil || len(jobs) == 0 {
			t.Fatal(len(began), "jobs began:", err)
		}
		var outcomes []sojourn.Outcome
		for _, j := range jobs {
			late := time.Since(j.Job.CreatedAt).Abs()
			if began[j.Job.ID] || j.Job.Priority != 100 || j.Job.Weight != 1 || j.Job.Attempt != 1 || late > time.Minute {
				t.Errorf("began twice: %v, %v after it was stored: %+v", began[j.Job.ID], late, j.Job)
			}
			began[j.Job.ID] = true
			outcomes = append(outcomes, sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted})
		}
		finished, err := s.Finish(t.Context(), outcomes)
		for _, f := range finished {
			if f.Status != driver.FinishApplied {
				t.Error(f, err)
			}
		}
	}
	all.Wait()
	poison.Expect(t, "clock", "queue settings", "queue layout", "empty queue", "last claim", "row")
}
