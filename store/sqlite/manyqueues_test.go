package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// TestNewQueuesAskByIndex: a batch of jobs for new queues runs the same statements and reads as
// many rows in a store with many queues as in one with few, and none of its statements reads the
// table of queues from end to end.
func TestNewQueuesAskByIndex(t *testing.T) {
	const batch = 200
	type cost struct{ statements, rows, runs int }
	var costs []cost
	r, s, _ := openRecording(t)
	caller := &access.Caller{Token: "t", Grants: []access.Grant{{Verbs: []access.Verb{access.VerbAdmin}}}, MaxQueues: 100_000}
	ctx := access.WithCaller(t.Context(), caller)
	c := sojourn.NewClient(s)
	if _, err := c.Reserve(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		if round == 2 {
			fill(t, r.DB, 10_000)
		}
		r.seen, r.rows, r.runs = map[string]int{}, 0, 0
		jobs := make([]*sojourn.Job, batch)
		for i := range jobs {
			jobs[i] = sojourn.NewJob("k", nil, sojourn.Queue(fmt.Sprintf("q-%d-%d", round, i)))
		}
		if _, err := c.EnqueueAll(ctx, jobs...); err != nil {
			t.Fatal(err)
		}
		costs = append(costs, cost{len(r.seen), r.rows, r.runs})
		for q, n := range r.seen {
			for _, step := range plan(t, r.DB, q, n) {
				// SQLite also reports SEARCH for a maximum for which it reads the whole table.
				whole := strings.HasPrefix(step, "SCAN sj_queue") || strings.Contains(q, "max(seq)") && strings.HasPrefix(step, "SEARCH sj_queue") &&
					!strings.Contains(step, "INDEX ix_sj_queue_seq")
				if whole {
					t.Errorf("round %d: %s\n\tin: %s", round, step, q)
				}
			}
		}
	}
	if costs[1] != costs[2] {
		t.Errorf("with %d queues a batch costs %+v, with 10,000 more %+v", 2*batch, costs[1], costs[2])
	}
	t.Logf("%+v", costs)
}

// fill makes queues past the store.
func fill(t *testing.T, db *DB, n int) {
	t.Helper()
	err := db.Update(t.Context(), func(c sqldb.Conn) error {
		_, err := c.Exec(`insert into sj_queue (name, seq) with recursive n (i) as (select 1 union all select i + 1 from n where i < ?1)
			select 'filled-' || i, 1000000 + i from n`, n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
