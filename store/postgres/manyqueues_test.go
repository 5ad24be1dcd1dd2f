package postgres

import (
	"fmt"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// TestNewQueuesAskByIndex: a batch of jobs for new queues reads as many rows of the table of
// queues, by an index or not, in a store with many queues as in one with few.
func TestNewQueuesAskByIndex(t *testing.T) {
	const batch = 100
	schema := newSchema(t)
	open(t, Schema(schema), AutoMigrate()).Close()
	address := with(t, testURL(t), "application_name", schema)
	round := 0
	read := func() (rows int) {
		c, err := Open(address, Schema(schema))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		caller := &access.Caller{Token: "t", Grants: []access.Grant{{Verbs: []access.Verb{access.VerbAdmin}}}, MaxQueues: 100_000}
		ctx := access.WithCaller(t.Context(), caller)
		round++
		jobs := make([]*sojourn.Job, batch)
		for i := range jobs {
			jobs[i] = sojourn.NewJob("k", nil, sojourn.Queue(fmt.Sprintf("q-%d-%d", round, i)))
		}
		counted := func() (n int) { // a session reports its counts when it ends
			until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
			one(t, `select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where schemaname = $1 and relname = 'sj_queue'`, schema, &n)
			return n
		}
		c.Close()
		before := counted()
		if c, err = Open(address, Schema(schema)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.EnqueueAll(ctx, jobs...); err != nil {
			t.Fatal(err)
		}
		c.Close()
		return counted() - before
	}
	few := read()
	pgtest.SQL(t, testURL(t), `insert into `+schema+`.sj_queue (name, seq) select 'filled-' || i, 1000000 + i from generate_series(1, 20000) as n (i)`)
	many := read()
	t.Logf("%d rows with few queues, %d with many", few, many)
	if many > few+5*batch {
		t.Errorf("a batch reads %d rows of queues where there are few, and %d where there are many", few, many)
	}
}
