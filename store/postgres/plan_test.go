package postgres

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gatedtest"
)

// TestNoStatementScansATable runs the operations of workers, producers, responders and operators.
// Sequential scans cost so much that the planner takes one only where no index fits. By the
// server's counts, no table that grows with the jobs may be read from end to end.
func TestNoStatementScansATable(t *testing.T) {
	neverScans(t, func(c *sojourn.Client) {
		for range 3 {
			busyDay(t, c)
		}
	})
}

// TestGatesAskByIndex is the same for the queries of gates.
func TestGatesAskByIndex(t *testing.T) {
	neverScans(t, func(c *sojourn.Client) { gatedtest.Day(t, c) }, Throttle(gatedtest.Queue, gatedtest.Throttler))
}

// neverScans runs work on a store of its own and checks the server's counts.
func neverScans(t *testing.T, work func(c *sojourn.Client), options ...Option) {
	t.Helper()
	schema := newSchema(t)
	open(t, Schema(schema), AutoMigrate()).Close()
	until(t, "the making of the indexes is counted", func() bool { return scans(t, schema)["sj_worker"] == 2 })
	address := testURL(t)
	for name, value := range map[string]string{"enable_seqscan": "off", "plan_cache_mode": "force_generic_plan", "application_name": schema} {
		address = with(t, address, name, value)
	}
	c, err := Open(address, append(options, Schema(schema))...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := scans(t, schema)
	work(c)
	if err := c.Close(); err != nil { // a session reports its counts when it ends
		t.Fatal(err)
	}
	until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
	if scans(t, schema)["index scans"] == before["index scans"] {
		t.Error("the server has counted nothing")
	}
	for table, n := range scans(t, schema) {
		if n > before[table] && table != "index scans" {
			t.Errorf("%d sequential scans of %s", n-before[table], table)
		}
	}
}

// TestCrowdOfGroups: a claim reads a handful of entries of indexes, and no table, where there are
// 2,000 groups and as many jobs of a full group before them. The server knows nothing of how many
// jobs there are, as in a store that has just been filled.
func TestCrowdOfGroups(t *testing.T) {
	const groups, claims = 2000, 20
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	for _, table := range []string{"sj_live", "sj_job"} {
		pgtest.SQL(t, testURL(t), "alter table "+schema+"."+table+" set (autovacuum_enabled = false)")
	}
	gatedtest.Crowd(t, c, groups)
	c.Close()
	address := with(t, testURL(t), "application_name", schema)
	c, err := Open(address, Schema(schema))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	entries := func() (n int) {
		until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
		one(t, `select coalesce(sum(idx_tup_read), 0) + (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = $1 and relname in ('sj_live', 'sj_job'))
			from pg_stat_user_indexes where schemaname = $1 and relname in ('sj_live', 'sj_job')`, schema, &n)
		return n
	}
	var n int
	one(t, `select count(*) from pg_stat_activity where application_name = $1`, schema, &n)
	if n == 0 {
		t.Fatal("the sessions have another name")
	}
	c.Close()
	before := entries()
	if c, err = Open(address, Schema(schema)); err != nil {
		t.Fatal(err)
	}
	for range claims {
		if g := gatedtest.ClaimOne(t, c); g == "giant" {
			t.Error("the giant is at its limit")
		}
	}
	c.Close()
	if read := (entries() - before) / claims; read > 50 {
		t.Errorf("a claim reads %d entries", read)
	} else {
		t.Logf("a claim reads %d entries", read)
	}
}

// TestPollsAskByIndex: a claim finds due poll steps by reading a handful of index entries, even if
// many jobs await without one.
func TestPollsAskByIndex(t *testing.T) {
	const claims = 10
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	request := gatedtest.Polls(t, c, 400)
	c.Close()
	address := with(t, testURL(t), "application_name", schema)
	ask := func() (entries int) {
		c, err := Open(address, Schema(schema))
		if err != nil {
			t.Fatal(err)
		}
		for range claims {
			request.Number++
			if jobs, err := driver.Of(c).Claim(t.Context(), request); err != nil || len(jobs) > 0 {
				t.Fatal(jobs, err)
			}
		}
		c.Close()
		until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
		one(t, `select (select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes where schemaname = $1 and relname = 'sj_live')
			+ (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = $1 and relname = 'sj_live')`, schema, &entries)
		return entries
	}
	before := ask() // skips the dead index entries of earlier claims
	read := (ask() - before) / claims
	t.Logf("a claim reads %d entries", read)
	if read < 1 || read > 20 {
		t.Errorf("a claim reads %d entries", read)
	}
}

// TestLivesKeepTheirPlans: a statement keeps the plan that it got while the tables were empty, when
// all rows were none. Each life reads its own rows all the same once there are many, one by one and
// in transactions of many that have their kind in common.
func TestLivesKeepTheirPlans(t *testing.T) {
	const lives = 150
	for _, together := range []int{1, 30} {
		t.Run(strconv.Itoa(together), func(t *testing.T) {
			c, schema := openNamed(t)
			for from := 0; from < lives; from += together {
				liveTogether(t, c, from, from+together)
			}
			c.Close()
			until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
			for tables, limit := range map[string]int{"sj_response": 20, "%": 100} {
				var entries int
				one(t, `select (select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes where schemaname = $1 and relname like '`+tables+`')
					+ (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = $1 and relname like '`+tables+`')`, schema, &entries)
				t.Logf("%d entries of %s for each life", entries/lives, tables)
				if entries < lives || entries > limit*lives {
					t.Errorf("%d entries of %s read for each life", entries/lives, tables)
				}
			}
		})
	}
}

// liveTogether takes jobs with keys through their lives, with an answer each, all of them in each
// call.
func liveTogether(t *testing.T, c *sojourn.Client, from, to int) {
	t.Helper()
	jobs, answers := make([]*sojourn.Job, 0, to-from), make([]sojourn.Response, 0, to-from)
	for i := from; i < to; i++ {
		key := strconv.Itoa(i)
		jobs = append(jobs, sojourn.NewJob("k", nil, sojourn.Key(key)))
		answers = append(answers, sojourn.Response{Kind: "k", Key: key, MessageID: key})
	}
	if _, err := c.EnqueueAll(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	request := driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: to - from, Capacity: int64(to - from)}
	for _, end := range []sojourn.OutcomeType{sojourn.OutcomeAwait, sojourn.OutcomeCompleted} {
		claimed, err := driver.Of(c).Claim(t.Context(), request)
		if err != nil || len(claimed) != len(jobs) {
			t.Fatal(len(claimed), err)
		}
		outcomes := make([]sojourn.Outcome, len(claimed))
		for i := range claimed {
			outcomes[i] = sojourn.Outcome{Lease: claimed[i].Lease, Type: end}
		}
		if _, err := driver.Of(c).Finish(t.Context(), outcomes); err != nil {
			t.Fatal(err)
		}
		if end != sojourn.OutcomeAwait {
			continue
		}
		done, err := c.Store().Respond(t.Context(), answers)
		if err != nil || done[len(done)-1].Outcome != sojourn.Applied {
			t.Fatal(done, err)
		}
	}
}

func one(t *testing.T, q, arg string, into any) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, q, arg).Scan(into); err != nil {
		t.Fatal(err)
	}
}

// until polls for something that must happen.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not seen:", what)
		}
	}
}

func sessions(t *testing.T, application string) (n int) {
	t.Helper()
	one(t, "select count(*) from pg_stat_activity where application_name = $1", application, &n)
	return n
}

// scans are the sequential scans so far of the tables that grow, and all index scans.
func scans(t *testing.T, schema string) map[string]int64 {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	rows, err := c.Query(ctx, `select relname, seq_scan, coalesce(idx_scan, 0) from pg_stat_user_tables where schemaname = $1`, schema)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	var table string
	var sequential, index int64
	if _, err := pgx.ForEachRow(rows, []any{&table, &sequential, &index}, func() error {
		found["index scans"] += index
		switch table {
		case "sj_job", "sj_live", "sj_final", "sj_key", "sj_key_past", "sj_data", "sj_history", "sj_log", "sj_response", "sj_message", "sj_worker":
			found[table] = sequential
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// busyDay runs each frequent operation once.
func busyDay(t *testing.T, c *sojourn.Client) {
	t.Helper()
	ctx, s := context.Background(), driver.Of(c)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key(fmt.Sprint(i)))))
	}
	must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key("0"), sojourn.OnKeyConflict(sojourn.Replace))))
	must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Delay(time.Millisecond))))
	r := driver.ClaimRequest{Worker: fmt.Sprint("w", time.Now().UnixNano()), Number: 1, Queues: []string{"default"}, Kinds: []string{"k"}, Decidable: []string{"k"},
		Max: 8, Capacity: 8}
	jobs, err := s.Claim(ctx, r)
	if err != nil || len(jobs) != 8 {
		t.Fatal(len(jobs), err)
	}
	must(s.Claim(ctx, r)) // repeated
	text := "x"
	must(s.Save(ctx, []driver.Saved{{Lease: jobs[0].Lease, Checkpoint: []byte("1"), Progress: &text, Log: []sojourn.LogLine{{Text: "x"}}}}))
	must(s.Extend(ctx, []sojourn.Lease{jobs[0].Lease, {ID: 1, Epoch: 999, Worker: "x"}}))
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: jobs[1].Job.Key}))
	for range 2 {
		must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "nobody", MessageID: "m"}))
	}
	outcomes := make([]sojourn.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = sojourn.Outcome{Lease: j.Lease, Type: sojourn.OutcomeCompleted}
	}
	outcomes[1].Type = sojourn.OutcomeAwait
	outcomes[2].Type, outcomes[2].Reason = sojourn.OutcomeError, "r"
	outcomes[3].Type, outcomes[3].Wait.Keys = sojourn.OutcomeAwait, []string{jobs[3].Job.Key, "other " + r.Worker}
	for range 2 {
		must(s.Finish(ctx, outcomes))
	}
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "other " + r.Worker}))
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: jobs[0].Job.Key})) // late
	must(s.Sweep(ctx, 100))
	ids := []sojourn.ID{jobs[1].Job.ID, jobs[2].Job.ID, jobs[3].Job.ID}
	must(c.Jobs().EditAll(ctx, sojourn.Filter{IDs: ids}, sojourn.Edit{Action: sojourn.EditCancel}))
	must(c.Jobs().EditAll(ctx, sojourn.Filter{IDs: ids}, sojourn.Edit{Action: sojourn.EditRedrive}))
	must(c.Jobs().EditAll(ctx, sojourn.Filter{IDs: ids}, sojourn.Edit{Action: sojourn.EditCancel}))
	must(c.GetByKey(ctx, jobs[0].Job.Key, "k"))
	must(c.GetByKey(ctx, jobs[0].Job.Key))
	must(c.Jobs().History(ctx, jobs[0].Job.ID))
	must(c.Jobs().Log(ctx, jobs[0].Job.ID))
	must(s.Inbox(ctx, sojourn.InboxFilter{Job: jobs[1].Job.ID, Limit: 1}))
	lookAfterInbox(t, c)
	must(s.Find(ctx, sojourn.Filter{Limit: 10, Full: true}))
	for _, state := range []sojourn.State{sojourn.Ready, sojourn.Scheduled} { // so that the next day finds its own jobs
		must(c.Jobs().EditAll(ctx, sojourn.Filter{States: []sojourn.State{state}}, sojourn.Edit{Action: sojourn.EditCancel}))
	}
}

// lookAfterInbox runs the operators' edits of the inbox.
func lookAfterInbox(t *testing.T, c *sojourn.Client) {
	t.Helper()
	ctx := context.Background()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wrong, err := c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "nobody at all"})
	must(wrong, err)
	must(c.Inbox().Match(ctx, wrong.Seq, sojourn.Response{Kind: "k", Key: "a"}))
	must(c.Inbox().Retry(ctx, wrong.Seq))
	must(c.Inbox().Discard(ctx, wrong.Seq))
	must(c.Inbox().Counts(ctx))
	must(c.Inbox().NearMisses(ctx, "k", "A"))
	must(c.Store().Inbox(ctx, sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Unmatched, sojourn.Late}, After: "1099511627776"}))
	must(c.Store().Inbox(ctx, sojourn.InboxFilter{Kind: "k", Key: "a"}))
}
