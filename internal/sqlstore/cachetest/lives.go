package cachetest

import (
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Lives stores, claims and finishes jobs side by side, by the real clock. It fails the test if a
// job starts twice, or with values that are not its own.
func Lives(t *testing.T, s driver.Store) {
	t.Helper()
	const producers, jobsOfEach = 4, 150
	var all sync.WaitGroup
	defer all.Wait()
	for range producers {
		all.Go(func() {
			for range jobsOfEach {
				id, err := s.IDs(t.Context(), 1)
				j := sojourn.NewJob("k", nil)
				if j.ID = id; err == nil {
					_, err = s.Enqueue(t.Context(), []sojourn.Job{*j}, false)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	began := map[sojourn.ID]bool{}
	for number := int64(1); len(began) < producers*jobsOfEach && !t.Failed(); number++ {
		jobs, err := s.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 20, Capacity: 20, Wait: 10 * time.Second})
		if err != nil || len(jobs) == 0 {
			t.Errorf("%d jobs began, then none: %v", len(began), err)
			return
		}
		var outcomes []sojourn.Outcome
		for _, c := range jobs {
			if j := c.Job; began[j.ID] || j.Priority != sojourn.DefaultPriority || j.Weight != 1 || j.Attempt != 1 || !near(j.CreatedAt) {
				t.Errorf("a job began that had begun (%v), or is another than was stored: %+v", began[j.ID], j)
			}
			began[c.Job.ID] = true
			outcomes = append(outcomes, sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted})
		}
		finished, err := s.Finish(t.Context(), outcomes)
		if err != nil {
			t.Error(err)
		}
		for _, f := range finished {
			if f.Status != driver.FinishApplied {
				t.Error(f)
			}
		}
	}
	all.Wait()
	ended(t, s, producers*jobsOfEach)
}

// ended checks the stored ends of all jobs.
func ended(t *testing.T, s driver.Store, want int) {
	t.Helper()
	jobs, err := s.Find(t.Context(), sojourn.Filter{Limit: sojourn.MaxFind})
	if err != nil || len(jobs) != want {
		t.Errorf("%d jobs are stored, not %d: %v", len(jobs), want, err)
	}
	for i := range jobs {
		if j := &jobs[i]; j.State != sojourn.Completed || j.Priority != sojourn.DefaultPriority || j.Attempt != 1 || !near(j.FinishedAt) {
			t.Errorf("an end that was not reported: %+v", j)
		}
	}
}

func near(at time.Time) bool { return time.Since(at).Abs() < time.Minute }
