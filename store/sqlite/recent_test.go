package sqlite

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/without"
)

// A store caches the rows that it has leased. It must still see the changes that another process
// makes to them, before the end of the step and after it.
func TestAnotherProcessChangesALeasedJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	var stores [2]*sojourn.Client
	for i := range stores {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		stores[i] = c
	}
	mine, theirs := stores[0], stores[1]
	claim := func(key string) sojourn.Lease {
		t.Helper()
		if _, err := mine.Enqueue(t.Context(), sojourn.NewJob("k", []byte(strconv.Quote(key)), sojourn.Key(key))); err != nil {
			t.Fatal(err)
		}
		jobs, err := driver.Of(mine).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		return jobs[0].Lease
	}
	finish := func(l sojourn.Lease, o sojourn.OutcomeType) driver.Finished {
		t.Helper()
		done, err := driver.Of(mine).Finish(t.Context(), []sojourn.Outcome{{Lease: l, Type: o}})
		if err != nil {
			t.Fatal(err)
		}
		return done[0]
	}
	// Their response is kept by the running job, so the step that ends in a wait finds it at once.
	l := claim("answered")
	if _, err := theirs.Respond(t.Context(), &sojourn.Response{Kind: "k", Key: "answered", Body: []byte(`"yes"`)}); err != nil {
		t.Fatal(err)
	}
	if f := finish(l, sojourn.OutcomeAwait); f.State != sojourn.Ready {
		t.Errorf("the response was overlooked: %+v", f)
	}
	// Their cancel ends the lease.
	l = claim("cancelled")
	if _, err := theirs.Store().Edit(t.Context(), sojourn.Filter{IDs: []sojourn.ID{l.ID}}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil {
		t.Fatal(err)
	}
	if f := finish(l, sojourn.OutcomeCompleted); f.Status != driver.FinishLost {
		t.Errorf("the cancel was overlooked: %+v", f)
	}
	// The same by this process.
	l = claim("cancelled here")
	if _, err := mine.Store().Edit(t.Context(), sojourn.Filter{IDs: []sojourn.ID{l.ID}}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil {
		t.Fatal(err)
	}
	if f := finish(l, sojourn.OutcomeCompleted); f.Status != driver.FinishLost {
		t.Errorf("the cancel here was overlooked: %+v", f)
	}
}

// watchedDB notes the statements of its transactions, on connections that can still tell their
// version.
type watchedDB struct {
	*DB
	updates atomic.Int64
	queries []string
	refuse  func(q string) error // nil = nothing
}

type watchedConn struct {
	*conn
	db *watchedDB
}

func (d *watchedDB) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	d.updates.Add(1)
	return d.DB.Update(ctx, func(c sqldb.Conn) error { return fn(watchedConn{c.(*conn), d}) })
}

func (c watchedConn) Query(q string, each func(sqldb.Row) error, args ...any) error {
	c.db.queries = append(c.db.queries, q)
	if c.db.refuse != nil {
		if err := c.db.refuse(q); err != nil {
			return err
		}
	}
	return c.conn.Query(q, each, args...)
}

func openWatched(t *testing.T) (*watchedDB, *sqlstore.Store) {
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(filepath.Join(t.TempDir(), "jobs.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := migration.Up(context.Background(), db, defaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	watched := &watchedDB{DB: db}
	s, err := sqlstore.New(context.Background(), watched, sqlstore.Config{Prefix: defaultPrefix, Now: time.Now,
		Without: without.Switches{Signals: true}}) // a goroutine that reads signals keeps the time of synctest from going on
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return watched, s
}

// TestEndOfAStepReadsNothing: the rows of jobs that were claimed a moment ago are cached, so the
// end of the step does not read them (docs/internals/engine.md#row-cache).
func TestEndOfAStepReadsNothing(t *testing.T) {
	watched, s := openWatched(t)
	if _, err := sojourn.NewClient(s).Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	watched.queries = nil
	if _, err := s.Finish(t.Context(), []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}}); err != nil {
		t.Fatal(err)
	}
	for _, q := range watched.queries {
		if strings.Contains(q, "from sj_live") {
			t.Errorf("the end of the step has read: %s", q)
		}
	}
}

// Ids that were leased here are not looked for before the first job that has them is stored. A
// second one with such an id is recognized all the same, and so is one that another process has
// stored meanwhile.
func TestLeasedIDsAreNotLookedFor(t *testing.T) {
	watched, s := openWatched(t)
	ids, err := s.IDs(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func(s driver.Store, id sojourn.ID) sojourn.Enqueued {
		t.Helper()
		j := sojourn.NewJob("k", nil)
		j.ID = id
		done, err := s.Enqueue(t.Context(), []sojourn.Job{*j}, false)
		if err != nil {
			t.Fatal(err)
		}
		return done[0]
	}
	looked := func() bool {
		defer func() { watched.queries = nil }()
		return slices.ContainsFunc(watched.queries, func(q string) bool { return strings.Contains(q, "from sj_job") || strings.Contains(q, "from sj_block") })
	}
	if e := enqueue(s, ids+1); e.Duplicate || looked() {
		t.Errorf("the first one: %+v, and it was looked for", e)
	}
	if e := enqueue(s, ids+1); !e.Duplicate || !looked() {
		t.Errorf("the same again: %+v", e)
	}
	if e := enqueue(s, ids); e.Duplicate || looked() {
		t.Errorf("the one before: %+v, and it was looked for", e)
	}
	other, err := Open(watched.path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if e := enqueue(driver.Of(other), ids+2); e.Duplicate {
		t.Errorf("elsewhere: %+v", e)
	}
	if e := enqueue(s, ids+2); !e.Duplicate {
		t.Errorf("stored elsewhere, and then here: %+v", e)
	}
}
