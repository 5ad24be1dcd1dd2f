package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/statistics"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// SharedStatistics runs stores over one database at the same time: they enqueue, retry, complete
// and fold. Afterwards their statistics have exactly these events.
func SharedStatistics(t *testing.T, stores ...driver.Store) {
	const rounds, each = 40, 5
	life := func(node int) error {
		ctx := context.Background()
		s, kind := stores[node], fmt.Sprint("kind-", node)
		for round := range rounds {
			var jobs []*sojourn.Job
			for range each {
				jobs = append(jobs, sojourn.NewJob("shared", nil), sojourn.NewJob(kind, nil, sojourn.MaxAttempts(1)))
			}
			if _, err := sojourn.NewClient(s).EnqueueAll(ctx, jobs...); err != nil {
				return err
			}
			if err := endAll(ctx, s, fmt.Sprint("w", node), kind, round); err != nil {
				return err
			}
			if _, err := s.Sweep(ctx, 1000); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(stores))
	var runs []func()
	for node := range stores {
		runs = append(runs, func() { errs[node] = life(node) })
	}
	kit.SideBySide(runs...)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	for { // what the others have left
		claimed, err := claimShared(t.Context(), stores[0], "last", "shared")
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) == 0 {
			break
		}
		if err := finishShared(t.Context(), stores[0], claimed); err != nil {
			t.Fatal(err)
		}
	}
	want := ""
	for node := range stores {
		want += fmt.Sprintf("[kind-%d %d 0 %d %d] ", node, rounds*each, rounds*each, rounds*each)
	}
	all := rounds * each * len(stores)
	want += fmt.Sprintf("[shared %d %d 0 0] ", all, all)
	for _, s := range stores {
		rows, err := statistics.Of(sojourn.NewClient(s)).Rows(t.Context(), statistics.Query{Days: 2, By: []statistics.Dimension{statistics.ByKind}, Histogram: true})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range rows {
			got += fmt.Sprintf("[%s %d %d %d %d] ", r.Kind, r.Enqueued, r.Completed, r.Failed, r.Reasons["gateway"])
			n := int64(0)
			for _, b := range r.Run.Histogram {
				n += b.Count
			}
			if r.Wait.Count != r.Enqueued || r.Run.Count != r.Enqueued || r.Total.Count != r.Enqueued || n != r.Enqueued {
				t.Errorf("%s: %d waits, %d runs, %d totals, %d in the histogram", r.Kind, r.Wait.Count, r.Run.Count, r.Total.Count, n)
			}
		}
		if got != want {
			t.Errorf("statistics are %s, want %s", got, want)
		}
	}
}

// endAll ends all jobs that a claim finds: those of kind by an error, all others well.
func endAll(ctx context.Context, s driver.Store, worker, kind string, round int) error {
	for _, k := range []string{kind, "shared"} {
		claimed, err := claimShared(ctx, s, worker+k, k)
		if err == nil {
			err = finishShared(ctx, s, claimed)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func claimShared(ctx context.Context, s driver.Store, worker, kind string) ([]driver.Claimed, error) {
	return s.Claim(ctx, driver.ClaimRequest{Worker: worker, Queues: []string{kit.Queue}, Kinds: []string{kind}, Max: 100, Capacity: 100, Lease: time.Minute})
}

func finishShared(ctx context.Context, s driver.Store, claimed []driver.Claimed) error {
	var outcomes []sojourn.Outcome
	for _, c := range claimed {
		if c.Job.Kind == "shared" {
			outcomes = append(outcomes, kit.Completed(c))
		} else {
			outcomes = append(outcomes, kit.Failure(c))
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	done, err := s.Finish(ctx, outcomes)
	for _, f := range done {
		if f.Status != driver.FinishApplied {
			err = fmt.Errorf("a job was answered %s: %w", f.Status, f.Err)
		}
	}
	return err
}
