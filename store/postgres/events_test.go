package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/event"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestSharedEvents: a follower misses no event of eight stores and of transactions that commit
// late.
func TestSharedEvents(t *testing.T) {
	schema := newSchema(t)
	var clients []*sojourn.Client
	var stores []driver.Store
	for range 8 {
		c := open(t, Schema(schema), AutoMigrate())
		t.Cleanup(func() { driver.Of(c).Close() })
		clients, stores = append(clients, c), append(stores, driver.Of(c))
	}
	conn, err := pgx.Connect(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	levels := []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead}
	n := 0
	late := func(t *testing.T) sojourn.ID {
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: levels[n%2]})
		if err != nil {
			t.Error(err)
			return 0
		}
		defer tx.Rollback(t.Context())
		n++
		done, err := EnqueueTx(t.Context(), clients[0], tx, sojourn.NewJob("late", nil))
		if err != nil {
			t.Error(err)
			return 0
		}
		time.Sleep(20 * time.Millisecond) // the transactions of the others commit meanwhile
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		return done[0].ID
	}
	storetest.SharedEvents(t, late, stores...)
}

// TestEventsOfALateTransaction: an event that was committed while an older transaction is open is
// not read before that one has ended. A follower that acknowledged it would not get those of the
// older one.
func TestEventsOfALateTransaction(t *testing.T) {
	c := open(t, Schema(newSchema(t)), AutoMigrate())
	t.Cleanup(func() { driver.Of(c).Close() })
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("first", nil)); err != nil { // the queue exists
		t.Fatal(err)
	}
	events := event.Of(c)
	if _, err := events.Follow(t.Context(), "f", event.Filter{}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	late, err := EnqueueTx(t.Context(), c, tx, sojourn.NewJob("late", nil))
	if err != nil {
		t.Fatal(err)
	}
	early, err := c.Enqueue(t.Context(), sojourn.NewJob("early", nil))
	if err != nil {
		t.Fatal(err)
	}
	page, err := events.Read(t.Context(), event.Read{Follower: "f"})
	if err != nil || len(page.Events) > 0 {
		t.Fatalf("while the older transaction is open, the follower gets %v, %v", page.Events, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []sojourn.ID
	for tries := 0; len(got) < 2 && tries < 2000; tries++ { // another database of the server may delay them
		if page, err = events.Read(t.Context(), event.Read{Follower: "f", Ack: page.Next, Wait: time.Second}); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Events {
			got = append(got, e.Job)
		}
	}
	if want := []sojourn.ID{late[0].ID, early.ID}; !slices.Equal(got, want) {
		t.Errorf("the follower gets the jobs %v, want %v", got, want)
	}
}

func TestNothingWithoutFollower(t *testing.T) {
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	t.Cleanup(func() { driver.Of(c).Close() })
	storetest.NothingWithoutFollower(t, driver.Of(c), func() int64 {
		return pgtest.Number(t, testURL(t), "select count(*) from "+schema+".sj_event")
	})
}

// TestFollowerOfALaterDatabase: the database is replaced by a copy on a server that has not come to
// the follower's position. It gets a gap, and goes on from the present.
func TestFollowerOfALaterDatabase(t *testing.T) {
	schema := newSchema(t)
	c := open(t, Schema(schema), AutoMigrate())
	t.Cleanup(func() { driver.Of(c).Close() })
	events := event.Of(c)
	if _, err := events.Follow(t.Context(), "f", event.Filter{}); err != nil {
		t.Fatal(err)
	}
	enqueue := func(kind string) {
		t.Helper()
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob(kind, nil)); err != nil {
			t.Fatal(err)
		}
	}
	enqueue("before")
	pgtest.SQL(t, testURL(t), "update "+schema+".sj_follower set xid = 1000000000000")
	page, err := events.Read(t.Context(), event.Read{Follower: "f", Wait: sojourn.MaxWait})
	if err != nil || len(page.Events) == 0 || page.Events[0].Type != event.Gap {
		t.Fatal(page, err)
	}
	enqueue("after")
	page, err = events.Read(t.Context(), event.Read{Follower: "f", Ack: page.Next, Wait: sojourn.MaxWait})
	if err != nil || len(page.Events) != 1 || page.Events[0].Kind != "after" {
		t.Fatal(page, err)
	}
}

// TestFollowerWaitsForWriters: a transaction that was open before a follower was made is no event
// for it; one whose snapshot is older fails.
func TestFollowerWaitsForWriters(t *testing.T) {
	c := open(t, Schema(newSchema(t)), AutoMigrate())
	t.Cleanup(func() { driver.Of(c).Close() })
	followWhileOpen(t, c)
}

func followWhileOpen(t *testing.T, c *sojourn.Client) {
	conn, err := pgx.Connect(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	begin := func(level pgx.TxIsoLevel) pgx.Tx {
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx := begin(pgx.ReadCommitted)
	if _, err := EnqueueTx(t.Context(), c, tx, sojourn.NewJob("early", nil)); err != nil {
		t.Fatal(err)
	}
	events := event.Of(c)
	if _, err := events.Follow(t.Context(), "f", event.Filter{}); sojourn.ErrorCode(err) != sojourn.CodeUnavailable {
		t.Fatalf("a follower is made while a transaction without its events is open: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := events.Follow(t.Context(), "f", event.Filter{}); err != nil {
		t.Fatal(err)
	}
	if err := events.Unfollow(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	tx = begin(pgx.RepeatableRead)
	if _, err := tx.Exec(t.Context(), "select count(*) from pg_class"); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	if _, err := events.Follow(t.Context(), "g", event.Filter{}); err != nil {
		t.Fatal(err)
	}
	if _, err := EnqueueTx(t.Context(), c, tx, sojourn.NewJob("old", nil)); err == nil {
		t.Fatal("a transaction with an older snapshot has stored a job without an event")
	}
	_ = tx.Rollback(t.Context())
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("new", nil)); err != nil {
		t.Fatal(err)
	}
	page, err := events.Read(t.Context(), event.Read{Follower: "g", Wait: sojourn.MaxWait})
	if err != nil || len(page.Events) != 1 || page.Events[0].Kind != "new" {
		t.Fatal(page, err)
	}
}
