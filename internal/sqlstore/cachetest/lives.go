package cachetest

import (
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Lives stores, claims and finishes jobs by the real clock: first side by side, then one after the
// other. It fails the test if a job starts twice, or with values that are not its own.
func Lives(t *testing.T, s driver.Store) {
	t.Helper()
	const producers, jobsOfEach, alone = 4, 100, 40
	w := &worker{t: t, s: s, began: map[sojourn.ID]bool{}}
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			for range jobsOfEach {
				w.store()
			}
		})
	}
	for len(w.began) < producers*jobsOfEach && !t.Failed() {
		w.work()
	}
	all.Wait()
	for range alone {
		if !t.Failed() {
			w.store()
			w.work()
		}
	}
	w.ended(producers*jobsOfEach + alone)
}

type worker struct {
	t      *testing.T
	s      driver.Store
	number int64 // of the last claim
	began  map[sojourn.ID]bool
}

// store stores one job.
func (w *worker) store() {
	id, err := w.s.IDs(w.t.Context(), 1)
	j := sojourn.NewJob("k", nil)
	if j.ID = id; err == nil {
		_, err = w.s.Enqueue(w.t.Context(), []sojourn.Job{*j}, false)
	}
	if err != nil {
		w.t.Error(err)
	}
}

// work claims a few jobs and completes them.
func (w *worker) work() {
	w.number++
	jobs, err := w.s.Claim(w.t.Context(), driver.ClaimRequest{Worker: "w", Number: w.number, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 5, Capacity: 5, Wait: 10 * time.Second})
	if err != nil || len(jobs) == 0 {
		w.t.Errorf("%d jobs began, then none: %v", len(w.began), err)
		return
	}
	var outcomes []sojourn.Outcome
	for _, c := range jobs {
		if j := c.Job; w.began[j.ID] || j.Priority != sojourn.DefaultPriority || j.Weight != 1 || j.Attempt != 1 || !near(j.CreatedAt) {
			w.t.Errorf("a job began that had begun (%v), or is another than was stored: %+v", w.began[j.ID], j)
		}
		w.began[c.Job.ID] = true
		outcomes = append(outcomes, sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted})
	}
	finished, err := w.s.Finish(w.t.Context(), outcomes)
	if err != nil {
		w.t.Error(err)
	}
	for _, f := range finished {
		if f.Status != driver.FinishApplied {
			w.t.Error(f)
		}
	}
}

// ended checks the stored ends of all jobs.
func (w *worker) ended(want int) {
	jobs, err := w.s.Find(w.t.Context(), sojourn.Filter{Limit: sojourn.MaxFind})
	if err != nil || len(jobs) != want {
		w.t.Errorf("%d jobs are stored, not %d: %v", len(jobs), want, err)
	}
	for i := range jobs {
		if j := &jobs[i]; j.State != sojourn.Completed || j.Priority != sojourn.DefaultPriority || j.Attempt != 1 || !near(j.FinishedAt) {
			w.t.Errorf("an end that was not reported: %+v", j)
		}
	}
}

func near(at time.Time) bool { return time.Since(at).Abs() < time.Minute }
