package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
)

// TestClaimsOfOneTransactionLookForThemselves: what is read with the beginning of a transaction is for its first claim; another one that may take heavier jobs
// finds what the first one could not take.
func TestClaimsOfOneTransactionLookForThemselves(t *testing.T) {
	ctx := t.Context()
	schema := newSchema(t)
	c, err := Open(with(t, testURL(t), "application_name", schema), Schema(schema), AutoMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Weight(5))); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := EnqueueTx(ctx, c, tx, sojourn.NewJob("k", nil, sojourn.Key("taken"), sojourn.Delay(time.Hour))); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key("taken"), sojourn.Delay(time.Hour))) })
	until(t, "an enqueue that waits for the key, and both claims behind it", func() bool {
		var waiting int
		one(t, "select count(*) from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'", schema, &waiting)
		return waiting > 0
	})
	var found [2][]sojourn.Claimed
	for i, capacity := range []int64{1, 10} {
		all.Go(func() {
			var err error
			found[i], err = c.Store().Claim(ctx, sojourn.ClaimRequest{Worker: []string{"a", "b"}[i], Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: capacity})
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Millisecond) // so that they stand in line; if they do not, the test is only weaker
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if len(found[0]) != 0 || len(found[1]) != 1 {
		t.Errorf("the claim for a weight of 1 has %d jobs, the one for 10 has %d", len(found[0]), len(found[1]))
	}
}
