package sqlite

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gatedtest"
	"github.com/sojourn-queue/sojourn/throttle"
)

// recording is a DB that records every statement it runs.
type recording struct {
	*DB
	mu   sync.Mutex
	seen map[string]int // text → number of arguments
	rows int            // that queries have found
	runs int            // of statements
}

type recordingConn struct {
	sqldb.Conn
	r *recording
}

func (r *recording) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	return r.DB.Update(ctx, func(c sqldb.Conn) error { return fn(recordingConn{c, r}) })
}

func (r *recording) View(ctx context.Context, fn func(sqldb.Conn) error) error {
	return r.DB.View(ctx, func(c sqldb.Conn) error { return fn(recordingConn{c, r}) })
}

func (r *recording) note(q string, args int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[q] = args
	r.runs++
}

func (c recordingConn) Exec(q string, args ...any) (int64, error) {
	c.r.note(q, len(args))
	return c.Conn.Exec(q, args...)
}

func (c recordingConn) Query(q string, each func(sqldb.Row) error, args ...any) error {
	c.r.note(q, len(args))
	return c.Conn.Query(q, func(r sqldb.Row) error { c.r.rows++; return each(r) }, args...)
}

func (c recordingConn) Bulk(q string, hit func(int64), first sqldb.Ints, more ...sqldb.Column) error {
	c.r.note(q, 1+len(more))
	return c.Conn.Bulk(q, hit, first, more...)
}

func openRecording(t *testing.T) (r *recording, s *sqlstore.Store, advance func(time.Duration)) {
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(filepath.Join(t.TempDir(), "plan.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := migration.Up(context.Background(), db, defaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	r = &recording{DB: db, seen: map[string]int{}}
	now := time.Now()
	s, err = sqlstore.New(context.Background(), r, sqlstore.Config{Prefix: defaultPrefix, Now: func() time.Time { return now }, Driven: true,
		Throttlers: map[string]throttle.Throttler{gatedtest.Queue: gatedtest.Throttler}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return r, s, func(d time.Duration) { now = now.Add(d) }
}

// TestNoStatementScansATable runs all operations of workers, producers and responders, and checks
// SQLite's plan of each statement: a table that grows with the jobs is never read from end to end,
// so that the cost of a call does not depend on the backlog.
func TestNoStatementScansATable(t *testing.T) {
	r, s, advance := openRecording(t)
	workload(t, s, advance)
	r.checkPlans(t)
}

// TestGatesAskByIndex is the same for the queries of gates. The line of a group is found by its
// index, and no more than a few rows are ever sorted.
func TestGatesAskByIndex(t *testing.T) {
	r, s, _ := openRecording(t)
	gatedtest.Day(t, sojourn.NewClient(s))
	r.checkPlans(t)
	lines := 0
	for q, n := range r.seen {
		steps := strings.Join(plan(t, r.DB, q, n), "\n")
		if strings.Contains(q, "lane <> '-'") {
			lines++
			if strings.Count(q, "lane <> '-'") != strings.Count(steps, "USING INDEX ix_sj_live_lane") {
				t.Errorf("does not use the index of groups: %s\n%s", q, steps)
			}
		}
		if strings.Contains(q, "limit") && strings.Contains(steps, "USE TEMP B-TREE FOR ORDER BY") {
			t.Errorf("sorts before it takes some: %s\n%s", q, steps)
		}
	}
	if lines < 3 {
		t.Errorf("%d statements about groups", lines)
	}
}

// TestPollsAskByIndex: a claim reads due poll steps from their index, in its order, even if many
// jobs await without one.
func TestPollsAskByIndex(t *testing.T) {
	r, s, advance := openRecording(t)
	request := gatedtest.Polls(t, sojourn.NewClient(s), 50)
	for want := range 2 {
		request.Number++
		jobs, err := s.Claim(t.Context(), request)
		if err != nil || len(jobs) != want {
			t.Fatalf("claim %d has found %d poll steps: %v", want+1, len(jobs), err)
		}
		advance(gatedtest.PollAfter)
	}
	r.checkPlans(t)
	asked := 0
	for q, n := range r.seen {
		if !strings.Contains(q, "poll_at_us > ") || !strings.HasPrefix(q, "select") {
			continue
		}
		asked++
		steps := strings.Join(plan(t, r.DB, q, n), "\n")
		if !strings.Contains(steps, "INDEX ix_sj_live_poll (queue=? AND kind=? AND poll_at_us>") || strings.Contains(steps, "TEMP B-TREE") {
			t.Errorf("does not read its index in order: %s\n%s", q, steps)
		}
	}
	if asked != 2 {
		t.Errorf("%d statements about polls, want that for what is due and that for what comes next", asked)
	}
}

// TestCrowdOfGroups: a claim reads as few rows from 10,000 groups, with as many jobs of a full
// group before them, as from ten.
func TestCrowdOfGroups(t *testing.T) {
	read := map[int]int{}
	for _, groups := range []int{10, 10_000} {
		r, s, _ := openRecording(t)
		c := sojourn.NewClient(s)
		gatedtest.Crowd(t, c, groups)
		r.rows = 0
		if g := gatedtest.ClaimOne(t, c); g == "giant" {
			t.Error("the giant is at its limit")
		}
		read[groups] = r.rows
	}
	if read[10_000] > read[10] {
		t.Errorf("rows read: %v", read)
	}
}

// checkPlans checks the plans of all statements seen.
func (r *recording) checkPlans(t *testing.T) {
	t.Helper()
	// Tables whose size does not depend on the number of jobs.
	small := regexp.MustCompile(`^SCAN (sj_meta|sj_queue( USING INDEX ix_sj_queue_seq)?|sj_migration|sj_block|sj_access|sj_schedule|sj_count|sj_count_change|sj_stat_change|sj_follower|sj_archive|sj_index|json_each|[a-z]+|\(subquery-\d+\)|CONSTANT ROW|\d+ CONSTANT ROWS)( VIRTUAL TABLE INDEX .*)?$`)
	// A scan of an index that the statement's limit stops at once.
	bounded := regexp.MustCompile(`^SCAN (sj_event|sj_live USING (COVERING )?INDEX ix_sj_live_wake|sj_response( USING COVERING INDEX ix_sj_response_early)?)$`)
	for q, n := range r.seen {
		for _, step := range plan(t, r.DB, q, n) {
			if !strings.HasPrefix(step, "SCAN ") || small.MatchString(step) && !regexp.MustCompile(`SCAN [lfjrh]$`).MatchString(step) {
				continue
			}
			if bounded.MatchString(step) && strings.Contains(q, "limit") {
				continue
			}
			t.Errorf("%s\n\tin: %s", step, q)
		}
	}
	t.Logf("%d statements", len(r.seen))
}

func plan(t *testing.T, db *DB, q string, args int) (steps []string) {
	t.Helper()
	err := db.View(context.Background(), func(c sqldb.Conn) error {
		return c.Query("explain query plan "+q, func(r sqldb.Row) error {
			steps = append(steps, r.Text(3))
			return nil
		}, make([]any, args)...)
	})
	if err != nil {
		t.Fatal(q, err)
	}
	return steps
}

// workload runs each frequent operation once.
func workload(t *testing.T, s *sqlstore.Store, advance func(time.Duration)) {
	t.Helper()
	ctx := context.Background()
	c := sojourn.NewClient(s)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key(key))))
	}
	must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Key("a"), sojourn.OnKeyConflict(sojourn.Replace))))
	must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.Delay(time.Minute))))
	number := int64(0)
	claim := func() []driver.Claimed {
		number++
		r := driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k"}, Decidable: []string{"k"}, Max: 10, Capacity: 10}
		jobs, err := s.Claim(ctx, r)
		must(nil, err)
		must(s.Claim(ctx, r)) // repeated
		return jobs
	}
	jobs := claim()
	text := "x"
	must(s.Save(ctx, []driver.Saved{{Lease: jobs[0].Lease, Checkpoint: []byte("1"), Progress: &text, Log: []sojourn.LogLine{{Text: "x"}}}}))
	must(s.Extend(ctx, []sojourn.Lease{jobs[0].Lease, {ID: 1, Epoch: 9, Worker: "x"}}))
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "b"}))
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "nobody", MessageID: "m"}))
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "nobody", MessageID: "m"}))
	outcomes := []sojourn.Outcome{{Type: sojourn.OutcomeCompleted}, {Type: sojourn.OutcomeAwait}, {Type: sojourn.OutcomeError, Reason: "r", Text: "t"}, {Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Keys: []string{"c", "e"}}}}
	for i := range outcomes {
		outcomes[i].Lease = jobs[i].Lease
	}
	must(s.Finish(ctx, outcomes))
	must(s.Finish(ctx, outcomes)) // repeated
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "e", Failed: true}))
	must(c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "a"})) // late
	wrong, err := c.Respond(ctx, &sojourn.Response{Kind: "k", Key: "nobody at all"})
	must(wrong, err)
	must(c.Inbox().Match(ctx, wrong.Seq, sojourn.Response{Kind: "k", Key: "a"}))
	must(c.Inbox().Retry(ctx, wrong.Seq))
	must(c.Inbox().Discard(ctx, wrong.Seq))
	must(c.Inbox().Counts(ctx))
	must(c.Inbox().NearMisses(ctx, "k", "A"))
	must(c.Store().Inbox(ctx, sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Unmatched, sojourn.Late}, After: "100"}))
	must(c.Store().Inbox(ctx, sojourn.InboxFilter{Kind: "k", Key: "a"}))
	must(c.Store().Inbox(ctx, sojourn.InboxFilter{Job: 1}))
	for range 3 {
		advance(2 * time.Hour)
		claim()
		must(s.Sweep(ctx, 100))
	}
	must(c.Jobs().EditAll(ctx, sojourn.Filter{IDs: []sojourn.ID{2, 3}}, sojourn.Edit{Action: sojourn.EditCancel}))
	must(c.Jobs().EditAll(ctx, sojourn.Filter{IDs: []sojourn.ID{3}}, sojourn.Edit{Action: sojourn.EditRedrive}))
	must(c.GetByKey(ctx, "a", "k"))
	must(c.GetByKey(ctx, "a"))
	must(c.Jobs().History(ctx, 1))
	must(s.Queues(ctx))
	must(s.Queues(ctx, "default"))
	must(s.ListQueues(ctx, "", 10))
	must(c.Jobs().Log(ctx, 1))
	st, err := s.Status(ctx)
	must(nil, err)
	soon := sojourn.Window{Start: st.Now.Format(time.TimeOnly), End: st.Now.Add(time.Hour).Format(time.TimeOnly)}
	must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.In(soon), sojourn.Priority(0))))
	must(c.Enqueue(ctx, sojourn.NewJob("k", nil, sojourn.WithPolicy(sojourn.Policy{StopAtWindowEnd: new(true)}))))
	advance(2 * time.Hour)
	claim()
	must(nil, sojourn.NewClient(s).Queues().Set(ctx, "default", sojourn.QueueSettings{Windows: sojourn.Windows{soon}}))
	claim()
	advance(60 * 24 * time.Hour)
	must(s.Sweep(ctx, 100))
}

// TestTagsAskByIndex: a page of the jobs of a tag reads the rows of that tag from its cursor on, in
// order. A filter that names jobs looks up the tag of each.
func TestTagsAskByIndex(t *testing.T) {
	r, s, _ := openRecording(t)
	c := sojourn.NewClient(s)
	kind := sojourn.Kind[int]{Name: "x"}
	first, err := c.Enqueue(t.Context(), kind.New(1, sojourn.Tags("a")))
	if err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]sojourn.Filter{
		"SEARCH g USING PRIMARY KEY (tag=? AND job>?)": {Tag: "a", After: "1"},
		"SEARCH g USING PRIMARY KEY (tag=? AND job<?)": {Tag: "a", Queue: "q", Newest: true, After: "1"},
		"SEARCH g USING PRIMARY KEY (tag=?)":           {Tag: "a", States: []sojourn.State{sojourn.Ready, sojourn.Failed}},
		"ix_sj_tag_job (job=? AND tag=?)":              {Tag: "a", IDs: []sojourn.ID{first.ID}},
	} {
		clear(r.seen)
		if _, err := s.Find(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		r.checkPlans(t)
		reads := 0
		for q, n := range r.seen {
			if !strings.Contains(q, "sj_tag") {
				continue
			}
			reads++
			steps := strings.Join(plan(t, r.DB, q, n), "\n")
			if !strings.Contains(steps, want) || strings.Contains(steps, "B-TREE") {
				t.Errorf("%s\nof %s\nis not %s", steps, q, want)
			}
		}
		if reads != 2 {
			t.Errorf("%d statements read tags, want one for live and one for final jobs", reads)
		}
	}
}

// TestFieldsAskByIndex: a page of the jobs with a value reads the rows of that value from its
// cursor on, in order. A filter that names jobs looks up the value of each.
func TestFieldsAskByIndex(t *testing.T) { // spec:O17
	r, s, advance := openRecording(t)
	c := sojourn.NewClient(s)
	if err := c.Queues().Set(t.Context(), "q", sojourn.QueueSettings{Index: []string{"args.c", "args.d", "result.id"}}); err != nil {
		t.Fatal(err)
	}
	first, err := c.Enqueue(t.Context(), sojourn.NewJob("k", []byte(`{"c": 1, "d": 2}`), sojourn.Queue("q")))
	if err != nil {
		t.Fatal(err)
	}
	one := map[string]string{"args.c": "1"}
	for want, f := range map[string]sojourn.Filter{
		"SEARCH d USING PRIMARY KEY (queue=? AND path=? AND value=? AND job>?)": {Fields: one, After: "1"},
		"SEARCH d USING PRIMARY KEY (queue=? AND path=? AND value=? AND job<?)": {Fields: one, Queue: "q", Newest: true, After: "1"},
		"SEARCH d USING PRIMARY KEY (queue=? AND path=? AND value=?)":           {Fields: one, States: []sojourn.State{sojourn.Ready, sojourn.Failed}},
		"SEARCH d1": {Fields: map[string]string{"args.c": "1", "args.d": "2"}},
		"SEARCH d0": {Fields: one, IDs: []sojourn.ID{first.ID}},
	} {
		clear(r.seen)
		if _, err := s.Find(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		r.checkPlans(t)
		reads := 0
		for q, n := range r.seen {
			if !strings.Contains(q, "sj_field") {
				continue
			}
			reads++
			steps := strings.Join(plan(t, r.DB, q, n), "\n")
			if !strings.Contains(steps, want) || strings.Contains(steps, "B-TREE") {
				t.Errorf("%s\nof %s\nis not %s", steps, q, want)
			}
		}
		if reads != 2 {
			t.Errorf("%d statements read values, want one for live and one for final jobs", reads)
		}
	}
	clear(r.seen)
	advance(time.Minute)
	if _, err := s.Find(t.Context(), sojourn.Filter{Fields: map[string]string{"result.id": "x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	r.checkPlans(t)
}

// TestNoIndexCostsNothing: jobs of queues without an index write and read no row of the index.
func TestNoIndexCostsNothing(t *testing.T) { // spec:O17
	r, s, advance := openRecording(t)
	workload(t, s, advance)
	for q := range r.seen {
		if strings.Contains(q, "sj_field") && !strings.HasPrefix(q, "delete from sj_field where job = ?") && !strings.HasPrefix(q, "select count(*) from (select 1 from sj_field") {
			t.Errorf("the work of queues without an index runs %s", q)
		}
	}
}
