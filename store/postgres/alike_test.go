package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// starts counts the statements that start the jobs that they find, and those that read the rows of
// jobs.
type starts struct {
	counted
	n, reads atomic.Int64
}

func (s *starts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.count(q.SQL)
}

func (s *starts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.count(q.SQL)
	return ctx
}

func (s *starts) count(text string) {
	if strings.HasPrefix(text, "with door as") {
		s.n.Add(1)
	}
	if strings.HasPrefix(text, "select l.id, l.state") {
		s.reads.Add(1)
	}
}

// lineUp is a queue of jobs in a schema of its own, and the store that has claimed the first of
// them.
type lineUp struct {
	t      *testing.T
	schema string
	clock  time.Time
	store  driver.Store
	starts *starts
	line   []sojourn.ID // of the others
}

func newLineUp(t *testing.T) *lineUp {
	l := &lineUp{t: t, schema: newSchema(t), clock: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	l.store, l.starts = l.open(AutoMigrate())
	first, err := l.store.IDs(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []sojourn.Job
	for i := range 7 {
		j := sojourn.NewJob([]string{"k", "l"}[i%2], []byte{byte('0' + i)}, sojourn.Key(fmt.Sprint("key-", i)), sojourn.Group(fmt.Sprint("group-", i%3)), sojourn.Tags("t"),
			sojourn.Meta("i", fmt.Sprint(i)), sojourn.Priority(int32(100-i)))
		if i%2 == 1 {
			j.Policy.Timeout = time.Hour
		}
		j.ID = first + sojourn.ID(i)
		jobs, l.line = append(jobs, *j), append(l.line, j.ID)
	}
	if _, err := l.store.Enqueue(t.Context(), jobs, false); err != nil {
		t.Fatal(err)
	}
	read := l.claim(l.store, 1, 2) // reads them, and caches their common columns
	for _, c := range read {
		finishOne(t, l.store, c)
		l.line = l.line[1:]
	}
	return l
}

// open opens a store that knows nothing yet.
func (l *lineUp) open(options ...Option) (driver.Store, *starts) {
	l.t.Helper()
	options = append(options, Schema(l.schema), Clock(func() time.Time { return l.clock }))
	o, err := newOptions(options)
	if err != nil {
		l.t.Fatal(err)
	}
	db, err := openDB(l.t.Context(), testURL(l.t), o)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := o.fit(l.t.Context(), db); err != nil {
		l.t.Fatal(err)
	}
	counts := &starts{}
	trace(l.t, db, counts)
	s, err := sqlstore.New(l.t.Context(), db, o.config())
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { s.Close() })
	return s, counts
}

// claim is a claim without the values that differ from schema to schema.
func (l *lineUp) claim(s driver.Store, number int64, most int) []driver.Claimed {
	l.t.Helper()
	jobs, err := s.Claim(l.t.Context(), driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{"k", "l"}, Max: most,
		Capacity: 100, Lease: time.Minute})
	if err != nil && sojourn.ErrorCode(err) != sojourn.CodeDrained {
		l.t.Fatal(err)
	}
	for i := range jobs {
		jobs[i].Job.Token, jobs[i].Job.Instance = "", ""
	}
	return jobs
}

// sql changes rows without the store's knowledge. sj_ is replaced by the schema.
func (l *lineUp) sql(text string, args ...any) {
	l.t.Helper()
	pgtest.SQL(l.t, testURL(l.t), fmt.Sprintf(strings.ReplaceAll(text, "sj_", l.schema+".sj_"), args...))
}

func (l *lineUp) rows(table string) (rows []map[string]any) {
	l.t.Helper()
	var text string
	one(l.t, "select coalesce(json_agg(l order by l), '[]')::text from "+l.schema+"."+table+" l where $1 <> ''", "all", &text)
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		l.t.Fatal(err)
	}
	return rows
}

// TestJobsAlike: a bulk start (a claim that starts jobs in the statement that finds them) has the
// same result as a claim that reads the jobs first, after any change to the second of them. This
// includes columns that are added later.
func TestJobsAlike(t *testing.T) {
	for name, change := range changesOfALine(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time goes into tables of their own
			testChangedLine(t, name, change)
		})
	}
}

func testChangedLine(t *testing.T, name string, change func(*lineUp)) {
	a, b := newLineUp(t), newLineUp(t)
	other, counts := b.open()
	before, reads := a.starts.n.Load(), a.starts.reads.Load()
	for _, l := range []*lineUp{a, b} {
		change(l)
	}
	got, want := a.claim(a.store, 2, 4), b.claim(other, 2, 4)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the claim gives %+v\nnot %+v", got, want)
	}
	if started, read := a.starts.n.Load()-before, a.starts.reads.Load()-reads; started != 1 || read > 0 && name == "nothing" || read == 0 && strings.HasSuffix(name, "_of_one") {
		t.Errorf("%d starts, %d reads", started, read)
	}
	if counts.n.Load() > 0 || name == "nothing" && len(got) != 4 {
		t.Errorf("%d jobs, %d starts of a store that knows nothing", len(got), counts.n.Load())
	}
	for i := range got {
		if f, w := finishOne(t, a.store, got[i]), finishOne(t, other, want[i]); f.Status != w.Status || f.State != w.State {
			t.Errorf("the end of a step is %+v, not %+v", f, w)
		}
	}
	for _, table := range []string{"sj_live", "sj_final", "sj_history", "sj_worker"} {
		if rows, want := a.rows(table), b.rows(table); !reflect.DeepEqual(rows, want) {
			t.Errorf("%s has %v\nnot %v", table, rows, want)
		}
	}
}

// changesOfALine are changes to a line of jobs that bypass its store.
func changesOfALine(t *testing.T) map[string]func(*lineUp) {
	changes := map[string]func(*lineUp){
		"nothing": func(*lineUp) {},
		"another policy": func(l *lineUp) {
			l.sql(`update sj_job set policy = replace(policy, '5', '6') where id = %d`, l.line[1])
		},
		"a pause":         func(l *lineUp) { l.sql(`update sj_queue set paused = 1`) },
		"gates":           func(l *lineUp) { l.sql(`update sj_queue set gated = 1`) },
		"a drain":         func(l *lineUp) { l.sql(`update sj_worker set drained = 1`) },
		"a newer claim":   func(l *lineUp) { l.sql(`update sj_worker set claim_no = 3`) },
		"nothing is left": func(l *lineUp) { l.sql(`update sj_live set state = 1, wake_at_us = 9223372036854775806`) },
		"one falls due": func(l *lineUp) {
			l.sql(`update sj_live set state = 1, run_at_us = 1, wake_at_us = 1 where id = %d`, l.line[4])
		},
		"one is locked": func(l *lineUp) {
			_, err := elsewhere(l.t, testURL(l.t)).Exec(l.t.Context(), "select 1 from "+l.schema+".sj_live where id = $1 for update", int64(l.line[1]))
			if err != nil {
				l.t.Fatal(err)
			}
		},
		"one is cancelled": func(l *lineUp) { edit(l, sojourn.Edit{Action: sojourn.EditCancel}) },
		"another priority": func(l *lineUp) {
			edit(l, sojourn.Edit{Action: sojourn.EditChange, Priority: new(int32(500))})
		},
	}
	l := newLineUp(t)
	for column, value := range l.rows("sj_live")[0] {
		switch column {
		case "id", "queue", "kind", "state": // those that are found
		case "r1", "r2", "key", "priority", "run_at_us": // those that differ
		case "updated_us", "wake_at_us": // in the future
			changes[column+"_of_one"] = func(l *lineUp) { l.sql(`update sj_live set %s = 2000000000000000 where id = %d`, column, l.line[1]) }
		case "wait":
			changes[column+"_of_one"] = func(l *lineUp) { l.sql(`update sj_live set wait = '{}' where id = %d`, l.line[1]) }
		case "worker", "lane":
			changes[column+"_of_one"] = func(l *lineUp) { l.sql(`update sj_live set %s = 'x' where id = %d`, column, l.line[1]) }
		default:
			if _, number := value.(float64); !number {
				t.Errorf("column %s is a %T: what may stand there?", column, value)
			}
			changes[column+"_of_one"] = func(l *lineUp) {
				dropConstraints(l.t, l.schema) // they refuse some of these values
				l.sql(`update sj_live set %s = 2 where id = %d`, column, l.line[1])
			}
		}
	}
	return changes
}

// edit is the other way to change a job: that of an operator.
func edit(l *lineUp, e sojourn.Edit) {
	l.t.Helper()
	other, _ := l.open()
	if done, err := other.Edit(l.t.Context(), sojourn.Filter{IDs: l.line[1:2]}, e); err != nil || !done.Items[0].Changed {
		l.t.Fatal(done, err)
	}
}

// TestUnlikeJobsAreRead: while the first jobs of a line differ now and again, claims read them and
// avoid bulk starts. After enough equal jobs they use bulk starts.
func TestUnlikeJobsAreRead(t *testing.T) {
	const turns = 60
	l := newLineUp(t)
	fill := func(weights ...int32) {
		for range turns {
			for _, w := range weights {
				if _, err := l.store.Enqueue(t.Context(), newOne(t, l.store, sojourn.Weight(w)), false); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	number := int64(1)
	claims := func() int64 {
		before := l.starts.n.Load()
		for range turns {
			number++
			for _, c := range l.claim(l.store, number, 2) {
				finishOne(t, l.store, c)
			}
		}
		return l.starts.n.Load() - before
	}
	l.claim(l.store, 0, 9)
	fill(1, 2)
	if n := claims(); n > 2 {
		t.Errorf("%d of %d claims have started jobs that are not alike", n, turns)
	}
	for range 20 { // each counts half of the cost of a failed bulk start
		fill(1, 1)
		if claims() == turns {
			return
		}
	}
	t.Error("jobs that are alike are read for ever")
}

// TestStartedByTheServersClock: a job that is started before it was read has the time of the
// server's clock, also while this process's clock runs ahead.
func TestStartedByTheServersClock(t *testing.T) {
	s, c, off := openCounted(t)
	for range 3 {
		enqueued(t, s)
	}
	claimOne(t, s)
	before := c.messages.Load()
	claimOne(t, s)
	if n := c.messages.Load() - before; n != 2 {
		t.Fatalf("a claim has sent %d messages", n)
	}
	off.Store(int64(time.Hour))
	got := claimOne(t, s)
	if j, err := sojourn.NewClient(s).Get(t.Context(), got.Job.ID); err != nil || time.Until(j.UpdatedAt).Abs() > time.Minute || time.Until(j.WakeAt) > 2*time.Minute {
		t.Errorf("claimed at %v, to be looked at by %v, %v", j.UpdatedAt, j.WakeAt, err)
	}
}
