package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/workflow"
)

// inv:E5 spec:D11: four stores on one file end the members of a workflow at the same time, some of
// which fail and are redriven. Stores are closed without notice and opened again, so that what they
// would have added up is left to others. The whole ends once in each generation.
func TestWorkflowOfManyStores(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	path := filepath.Join(t.TempDir(), "jobs.db")
	open := func() *sojourn.Client {
		c, err := Open(path)
		if err != nil {
			t.Error(err)
		}
		return c
	}
	first := open()
	defer first.Close()
	const members = 400
	w := workflow.New("w").OnEnd(sojourn.NewJob("end", nil)).OnFirstFailure(sojourn.NewJob("failure", nil))
	for i := range members {
		w.Add(fmt.Sprint("m", i), sojourn.NewJob("work", nil, sojourn.MaxAttempts(1)))
	}
	if _, err := workflow.Of(first).Start(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	var ended atomic.Int64
	var all sync.WaitGroup
	for node := range 4 {
		dice := rand.New(rand.NewPCG(seed, uint64(node)))
		all.Go(func() {
			c := open()
			defer func() { c.Close() }()
			for empty := 0; empty < 3; {
				n, err := workSome(t.Context(), c, fmt.Sprint("w", node), dice)
				if err != nil {
					t.Error(err)
					return
				}
				if ended.Add(int64(n)); n == 0 {
					empty++
				}
				if dice.IntN(5) == 0 {
					c.Close()
					c = open()
				}
			}
		})
	}
	all.Wait()
	status, err := workflow.Of(first).Get(t.Context(), "w")
	if err != nil || status.Live() != 0 {
		t.Fatal(status, status.Counts, err)
	}
	if _, err := driver.Of(first).Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if status, err = workflow.Of(first).Get(t.Context(), "w"); err != nil || !status.State.Final() {
		t.Fatal(status, err)
	}
	callbacks := map[string]int32{}
	for j, err := range first.Jobs().All(t.Context(), sojourn.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		callbacks[j.Kind]++
	}
	if callbacks["end"] != status.Generation || callbacks["failure"] < 1 || callbacks["failure"] > status.Generation {
		t.Errorf("callbacks %v in %d generations after %d ends", callbacks, status.Generation, ended.Load())
	}
	if found, err := first.Store().(driver.Checker).Check(t.Context()); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}

// workSome claims some jobs and ends them; a few fail, and most of these are redriven.
func workSome(ctx context.Context, c *sojourn.Client, worker string, dice *rand.Rand) (int, error) {
	jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: worker, Queues: []string{"default"}, Kinds: []string{"work"}, Max: 1 + dice.IntN(20), Capacity: 100, Lease: time.Hour})
	if err != nil {
		return 0, err
	}
	var failed []sojourn.ID
	for _, j := range jobs {
		o := sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted}
		if dice.IntN(10) == 0 {
			o.Type = sojourn.OutcomeAbort
			if dice.IntN(4) > 0 {
				failed = append(failed, j.Job.ID)
			}
		}
		if _, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{o}); err != nil {
			return 0, err
		}
	}
	if len(failed) > 0 {
		_, err = c.Store().Edit(ctx, sojourn.Filter{IDs: failed}, sojourn.Edit{Action: sojourn.EditRedrive})
	}
	return len(jobs), err
}

// BenchmarkWorkflow measures a member of a workflow from the start to the end of the whole, claimed
// and finished 100 at a time.
func BenchmarkWorkflow(b *testing.B) {
	for _, members := range []int{100, 100_000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			c, err := Open(filepath.Join(b.TempDir(), "jobs.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			rounds := 0
			for b.Loop() {
				for range max(1, 10_000/members) {
					rounds++
					runWorkflow(b, c, fmt.Sprint("w", rounds), members)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*members), "ns/member")
		})
	}
}

func runWorkflow(b *testing.B, c *sojourn.Client, name string, members int) {
	w := workflow.New(name).OnEnd(sojourn.NewJob("end", nil))
	for i := range members {
		w.Add(fmt.Sprint("m", i), sojourn.NewJob("work", nil))
	}
	if _, err := workflow.Of(c).StartAll(b.Context(), w); err != nil {
		b.Fatal(err)
	}
	for {
		jobs, err := driver.Of(c).Claim(b.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"work"}, Max: 100, Capacity: 100, Lease: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		if len(jobs) == 0 {
			break
		}
		outcomes := make([]sojourn.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted}
		}
		if _, err := driver.Of(c).Finish(b.Context(), outcomes); err != nil {
			b.Fatal(err)
		}
	}
	if s, err := workflow.Of(c).Wait(b.Context(), name); err != nil || s.State != workflow.Completed {
		b.Fatal(s, err)
	}
}
