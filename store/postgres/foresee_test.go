package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// together runs calls so that they share one transaction: an enqueue before them waits for a key
// that a transaction of the application holds, until they are queued behind it. They begin in
// order; if one is late, the test is only weaker.
func together(t *testing.T, c *sojourn.Client, application string, calls ...func()) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held := func() *sojourn.Job { return sojourn.NewJob("k", nil, sojourn.Key("held"), sojourn.Delay(time.Hour)) }
	if _, err := EnqueueTx(ctx, c, tx, held()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { c.Enqueue(ctx, held()) })
	until(t, "an enqueue that waits for the key", func() bool {
		var waiting int
		one(t, "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'", application, &waiting)
		return waiting > 0
	})
	for _, call := range calls {
		all.Go(call)
		time.Sleep(10 * time.Millisecond)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// openNamed opens a client whose sessions have the name of its schema.
func openNamed(t *testing.T, options ...Option) (*sojourn.Client, string) {
	t.Helper()
	schema := newSchema(t)
	c, err := Open(with(t, testURL(t), "application_name", schema), append(options, Schema(schema), AutoMigrate())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, schema
}

// TestClaimsOfOneTransactionLookForThemselves: the prefetch at the beginning of a transaction is
// for its first claim. A second claim with more capacity finds a job that was too heavy for the
// first one.
func TestClaimsOfOneTransactionLookForThemselves(t *testing.T) {
	c, schema := openNamed(t)
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Weight(5))); err != nil {
		t.Fatal(err)
	}
	var found [2][]driver.Claimed
	claim := func(i int, capacity int64) func() {
		return func() { found[i] = claimAll(t, c, []string{"a", "b"}[i], capacity) }
	}
	together(t, c, schema, claim(0, 1), claim(1, 10))
	if len(found[0]) != 0 || len(found[1]) != 1 {
		t.Errorf("the claim for a weight of 1 has %d jobs, the one for 10 has %d", len(found[0]), len(found[1]))
	}
}

// TestClaimSeesWhatItsTransactionHasChanged: a claim reads prefetched rows again if an earlier step
// of its transaction has changed them.
func TestClaimSeesWhatItsTransactionHasChanged(t *testing.T) {
	c, schema := openNamed(t)
	job := sojourn.NewJob("k", []byte(`"old"`))
	if _, err := c.Enqueue(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	var found []driver.Claimed
	changed := []byte(`"new"`)
	// The claim first: an edit that waits alone is worth a transaction of its own.
	together(t, c, schema, func() { found = claimAll(t, c, "w", 10) }, func() {
		edited, err := c.Jobs().EditAll(t.Context(), sojourn.Filter{IDs: []sojourn.ID{job.ID}}, sojourn.Edit{Action: sojourn.EditChange, Args: &changed})
		if err != nil || len(edited.Items) != 1 || !edited.Items[0].Changed {
			t.Error(edited, err)
		}
	})
	if len(found) != 1 || string(found[0].Job.Args) != `"new"` {
		t.Errorf("claimed %+v", found)
	}
}

func claimAll(t *testing.T, c *sojourn.Client, worker string, capacity int64) []driver.Claimed {
	t.Helper()
	jobs, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: worker, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: capacity})
	if err != nil {
		t.Error(err)
	}
	return jobs
}
