package sqlite

import (
	"fmt"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/fingerprint"
	"github.com/sojourn-queue/sojourn/store/failure"
)

// TestManyFailuresAreFewGroups: failed jobs of 20 causes with ids in their messages are 20 groups,
// with exact counts (spec:R15).
func TestManyFailuresAreFewGroups(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 2000
	}
	client, err := Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, store := t.Context(), driver.Of(client)
	for range n / 1000 {
		jobs := make([]*sojourn.Job, 1000)
		for i := range jobs {
			jobs[i] = sojourn.NewJob("charge", nil, sojourn.MaxAttempts(1))
		}
		if _, err := client.EnqueueAll(ctx, jobs...); err != nil {
			t.Fatal(err)
		}
		claimed, err := store.Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"charge"}, Max: 1000, Capacity: 1000})
		if err != nil || len(claimed) != 1000 {
			t.Fatalf("claimed %d: %v", len(claimed), err)
		}
		outcomes := make([]sojourn.Outcome, len(claimed))
		for i, c := range claimed {
			text := fmt.Sprintf(fingerprint.Causes[i%len(fingerprint.Causes)], c.Job.ID, fmt.Sprintf("%08x-1c2d-4abc-9def-%012x", int64(c.Job.ID)*7919, c.Job.ID))
			outcomes[i] = sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeError, Reason: "gateway", Text: text}
		}
		if _, err := store.Finish(ctx, outcomes); err != nil {
			t.Fatal(err)
		}
	}
	groups := 0
	for g, err := range failure.Of(client).All(ctx, failure.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		groups++
		if want := int64(n / len(fingerprint.Causes)); g.Attempts != want || g.Failed != want || g.Open != want {
			t.Errorf("%s: attempts %d, failed %d, open %d, want %d each", g.Pattern, g.Attempts, g.Failed, g.Open, want)
		}
	}
	if groups != len(fingerprint.Causes) {
		t.Errorf("%d groups of %d causes", groups, len(fingerprint.Causes))
	}
}
