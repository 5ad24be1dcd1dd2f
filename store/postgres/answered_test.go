package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestFinishOfAnsweredSteps: steps that end together after their answers have come cost as many
// messages as one of them.
func TestFinishOfAnsweredSteps(t *testing.T) {
	s, c, _ := openCounted(t)
	number := 0
	cost := func(jobs int) int64 {
		outcomes := answered(t, s, number, jobs)
		number += jobs
		before := c.messages.Load()
		done, err := s.Finish(t.Context(), outcomes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range done {
			if done[i].Status != driver.FinishApplied || done[i].State != sojourn.Ready {
				t.Fatalf("the end of a step that was answered: %+v", done[i])
			}
		}
		return c.messages.Load() - before
	}
	cost(2) // statements are prepared
	one, many := cost(1), cost(20)
	if many > one {
		t.Errorf("%d messages for 20 steps, %d for one", many, one)
	}
}

// answered makes running jobs whose answers have come, and returns outcomes that await them.
func answered(t *testing.T, s driver.Store, first, n int) []sojourn.Outcome {
	t.Helper()
	queue := fmt.Sprint("queue-", first)
	jobs, responses := make([]sojourn.Job, n), make([]sojourn.Response, n)
	for i := range jobs {
		key := fmt.Sprint("order-", first+i)
		jobs[i] = *sojourn.NewJob("pay", []byte(`{}`), sojourn.Key(key), sojourn.Queue(queue))
		responses[i] = sojourn.Response{Kind: "pay", Key: key, MessageID: key}
	}
	id, err := s.IDs(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		jobs[i].ID = id + sojourn.ID(i)
	}
	if _, err := s.Enqueue(t.Context(), jobs, false); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: int64(first + 1), Queues: []string{queue}, Kinds: []string{"pay"},
		Max: n, Capacity: int64(n), Lease: time.Minute})
	if err != nil || len(claimed) != n {
		t.Fatal(len(claimed), err)
	}
	got, err := s.Respond(t.Context(), responses)
	if err != nil || got[0].Outcome != sojourn.Early || got[0].Job == 0 {
		t.Fatal(got, err)
	}
	outcomes := make([]sojourn.Outcome, n)
	for i := range claimed {
		outcomes[i] = sojourn.Outcome{Lease: claimed[i].Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Within: time.Hour}}
	}
	return outcomes
}
