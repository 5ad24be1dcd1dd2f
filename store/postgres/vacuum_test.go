package postgres

import (
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// batch claims jobs and ends them.
func batch(t *testing.T, s driver.Store, number int64, most int) int {
	t.Helper()
	jobs, err := s.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"}, Max: most,
		Capacity: int64(most), Share: map[string]int{"default": most}}) // with shares a claim reads its jobs
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make([]sojourn.Outcome, len(jobs))
	for i := range jobs {
		outcomes[i] = sojourn.Outcome{Lease: jobs[i].Lease, Type: sojourn.OutcomeCompleted}
	}
	if _, err := s.Finish(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	return len(jobs)
}

func backlog(t *testing.T, c *sojourn.Client, n int) {
	t.Helper()
	for n > 0 {
		jobs := make([]*sojourn.Job, min(n, sojourn.MaxBatch))
		for i := range jobs {
			jobs[i] = sojourn.NewJob("k", nil)
		}
		if _, err := c.EnqueueAll(t.Context(), jobs...); err != nil {
			t.Fatal(err)
		}
		n -= len(jobs)
	}
}

// TestDeadRowsAreRemoved: a store that has left many dead rows behind does not wait for the
// server's own vacuum, which comes once a minute.
func TestDeadRowsAreRemoved(t *testing.T) {
	const jobs = 12_000 // each leaves two
	c, schema := openNamed(t)
	pgtest.SQL(t, testURL(t), "alter table "+schema+".sj_live set (autovacuum_enabled = false)")
	backlog(t, c, jobs)
	for done, number := 0, int64(1); done < jobs; number++ {
		done += batch(t, driver.Of(c), number, sojourn.MaxBatch)
	}
	until(t, "a vacuum", func() bool {
		var n int
		one(t, "select vacuum_count from pg_stat_user_tables where schemaname = $1 and relname = 'sj_live'", schema, &n)
		return n > 0
	})
	if found, err := c.Store().(driver.Checker).Check(t.Context()); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}

// TestPlansOfAnEmptyTable: a plan made while the statistics showed an empty table of live jobs, as
// after each quiet hour, still finds its rows by their ids when the table has filled.
func TestPlansOfAnEmptyTable(t *testing.T) {
	const jobs, claims, most = 5000, 5, 100
	c, schema := openNamed(t)
	pgtest.SQL(t, testURL(t), "alter table "+schema+".sj_live set (autovacuum_enabled = false)")
	backlog(t, c, most)
	if n := batch(t, driver.Of(c), 1, most); n != most {
		t.Fatal(n, "jobs")
	}
	pgtest.SQL(t, testURL(t), "vacuum (truncate off) "+schema+".sj_live") // pages, and no rows on them
	c.Close()
	c, err := Open(with(t, testURL(t), "application_name", schema), Schema(schema))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for number := range int64(3) { // plans, on each connection in use
		backlog(t, c, 2)
		batch(t, driver.Of(c), 2+number, most)
	}
	pgtest.SQL(t, testURL(t), "select pg_stat_reset_single_table_counters(indexrelid) from pg_stat_user_indexes where schemaname = '"+schema+"'")
	backlog(t, c, jobs)
	for number := range int64(claims) {
		if n := batch(t, driver.Of(c), 10+number, most); n != most {
			t.Fatal(n, "jobs")
		}
	}
	c.Close()
	until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
	var read int
	one(t, "select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = $1 and relname = 'sj_live'", schema, &read)
	if read < claims*most || read > 10*claims*most {
		t.Errorf("%d entries of indexes read for %d jobs in front of %d", read, claims*most, jobs)
	}
}
