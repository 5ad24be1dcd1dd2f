package sqlite

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

type claimed struct {
	jobs []driver.Claimed
	err  error
}

// blockedClaim begins a claim that finds nothing, and returns when it is asleep. Call it inside of
// a bubble.
func blockedClaim(ctx context.Context, s *sqlstore.Store, worker string, limit int) <-chan claimed {
	out := make(chan claimed, 1)
	go func() {
		jobs, err := s.Claim(ctx, driver.ClaimRequest{Worker: worker, Number: 1, Queues: []string{"default"}, Kinds: []string{"k"}, Max: limit,
			Capacity: 100, Wait: time.Minute})
		out <- claimed{jobs, err}
	}()
	synctest.Wait()
	return out
}

func batchOf(n int) []*sojourn.Job {
	jobs := make([]*sojourn.Job, n)
	for i := range jobs {
		jobs[i] = sojourn.NewJob("k", strconv.AppendInt(nil, int64(i+1), 10), sojourn.Priority(int32(n-1-i)), sojourn.Tags("t"))
	}
	return jobs
}

// TestHandOver: jobs for which claims wait are started in the transaction that stores them, in the
// order of the claims and up to the maximum of each. The claims return the jobs as they are stored
// (docs/internals/engine.md#claim-in-the-enqueuing-transaction).
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, s := openWatched(t)
		c := sojourn.NewClient(s)
		if _, err := c.Reserve(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		first, second := blockedClaim(t.Context(), s, "first", 2), blockedClaim(t.Context(), s, "second", 2)
		watched.updates.Store(0)
		if _, err := c.EnqueueAll(t.Context(), batchOf(5)...); err != nil {
			t.Fatal(err)
		}
		if watched.updates.Load() != 1 {
			t.Errorf("%d transactions to store and to start, want 1", watched.updates.Load())
		}
		for i, ch := range []<-chan claimed{first, second} {
			got := <-ch
			if got.err != nil || len(got.jobs) != 2 {
				t.Fatal(got)
			}
			for k, j := range got.jobs {
				if want := byte('1' + 4 - 2*i - k); j.Job.Args[0] != want { // the most urgent first
					t.Errorf("worker %d, job %d: %d, want %d", i, k, j.Job.Args[0], want)
				}
				stored, err := c.Get(t.Context(), j.Job.ID)
				if err != nil || stored.State != sojourn.Running || stored.Worker != j.Lease.Worker || stored.Epoch != j.Lease.Epoch ||
					stored.Attempt != 1 || len(j.Job.Tags) != 1 || !j.Job.CreatedAt.Equal(stored.CreatedAt) || j.Job.Policy.Timeout != stored.Policy.Timeout {
					t.Errorf("%+v\nis stored as %+v %v", j.Job, stored, err)
				}
				done, err := s.Finish(t.Context(), []sojourn.Outcome{{Lease: j.Lease, Type: sojourn.OutcomeCompleted}})
				if err != nil || done[0].Status != driver.FinishApplied {
					t.Error(done, err)
				}
			}
		}
		third := <-blockedClaim(t.Context(), s, "third", 2)
		if len(third.jobs) != 1 || third.jobs[0].Job.Args[0] != '1' {
			t.Errorf("the job that nobody had asked for: %+v", third)
		}
	})
}

// TestHandOverOfAnAnswer: a job whose response arrives is resumed in the transaction of Respond.
func TestHandOverOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, s := openWatched(t)
		c := sojourn.NewClient(s)
		got := blockedClaim(t.Context(), s, "w", 1)
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Key("key"))); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Finish(t.Context(), []sojourn.Outcome{{Lease: (<-got).jobs[0].Lease, Type: sojourn.OutcomeAwait}}); err != nil {
			t.Fatal(err)
		}
		got = blockedClaim(t.Context(), s, "v", 1)
		watched.updates.Store(0)
		if _, err := c.Respond(t.Context(), &sojourn.Response{Kind: "k", Key: "key", Body: []byte(`"yes"`)}); err != nil {
			t.Fatal(err)
		}
		resumed := <-got
		if resumed.err != nil || len(resumed.jobs) != 1 || resumed.jobs[0].Purpose != sojourn.PurposeResume || watched.updates.Load() != 1 {
			t.Errorf("%+v after %d transactions, want 1", resumed, watched.updates.Load())
		}
	})
}

// TestNoHandOverThroughGates: jobs of a queue with a limit are claimed in a transaction of their
// own, and no job is overlooked.
func TestNoHandOverThroughGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, s := openWatched(t)
		c := sojourn.NewClient(s)
		if err := sojourn.NewClient(s).Queues().Set(t.Context(), "default", sojourn.QueueSettings{Limit: 1}); err != nil {
			t.Fatal(err)
		}
		first, second := blockedClaim(t.Context(), s, "first", 2), blockedClaim(t.Context(), s, "second", 2)
		watched.updates.Store(0)
		if _, err := c.EnqueueAll(t.Context(), batchOf(2)...); err != nil {
			t.Fatal(err)
		}
		var got claimed
		select {
		case got = <-first:
		case got = <-second:
		}
		if got.err != nil || len(got.jobs) != 1 || watched.updates.Load() < 2 {
			t.Errorf("%+v after %d transactions, want one job after 2 or more", got, watched.updates.Load())
		}
	})
}

// TestHandOverThatFails: an error of the claim is not returned to the producer, and the claim goes
// on waiting.
func TestHandOverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, s := openWatched(t)
		c := sojourn.NewClient(s)
		got := blockedClaim(t.Context(), s, "w", 1)
		watched.refuse = func(q string) error {
			if strings.Contains(q, "from sj_worker") {
				watched.refuse = nil
				return errors.New("planted")
			}
			return nil
		}
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil || watched.refuse != nil {
			t.Fatal("the enqueue failed with the claim:", err)
		}
		if g := <-got; g.err != nil || len(g.jobs) != 1 {
			t.Errorf("the claim does not wait any more: %+v", g)
		}
	})
}

// TestHandOverToNobody: rules:A3. The caller of the claim is gone when the transaction ends: the
// lease is given back, and costs no crash.
func TestHandOverToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, s := openWatched(t)
		c := sojourn.NewClient(s)
		ctx, cancel := context.WithCancel(t.Context())
		got := blockedClaim(ctx, s, "w", 1)
		watched.refuse = func(q string) error {
			if strings.Contains(q, "from sj_worker") {
				cancel()
			}
			return nil
		}
		e, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil))
		if err != nil {
			t.Fatal(err)
		}
		if g := <-got; !errors.Is(g.err, context.Canceled) {
			t.Errorf("%+v", g)
		}
		j, err := c.Get(t.Context(), e.ID)
		if err != nil || j.State != sojourn.Ready || j.Crashes != 0 {
			t.Errorf("%+v %v", j, err)
		}
	})
}
