package postgres

import (
	"net/url"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/waketest"
)

// TestOtherProcessWakes: what one store commits wakes the calls that are blocked in another one,
// without a poll.
func TestOtherProcessWakes(t *testing.T) {
	defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Poll = time.Hour })()
	schema := newSchema(t)
	open := func() *sojourn.Client {
		c, err := Open(testURL(t), Schema(schema), AutoMigrate())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	waketest.Run(t, open(), open())
}

// TestNoNotificationsAlone: a store sends no notifications while no other process waits. Once one
// begins to wait, commits wake its calls.
func TestNoNotificationsAlone(t *testing.T) {
	defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Poll = time.Hour })()
	schema := newSchema(t)
	db, alone := openListener(t, schema)
	_, other := openListener(t, schema)
	n := db.notifier
	isAlone := func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.alone
	}
	enqueue := func() {
		t.Helper()
		if _, err := alone.Enqueue(t.Context(), sojourn.NewJob("other", nil)); err != nil {
			t.Fatal(err)
		}
	}
	lastStatement := func() (at time.Time) {
		t.Helper()
		err := elsewhere(t, testURL(t)).QueryRow(t.Context(), "select max(query_start) from pg_stat_activity where application_name = $1", schema+" notifications").Scan(&at)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for range 2 {
		for enqueue(); !isAlone() && t.Context().Err() == nil; enqueue() {
		}
		before := lastStatement()
		for range 20 {
			enqueue()
		}
		if after := lastStatement(); after != before {
			t.Errorf("a notification was sent at %v, after %v, although no other process waits", after, before)
		}
		waketest.Run(t, alone, other)
		if isAlone() {
			t.Error("a process that waits was not noticed")
		}
	}
}

// openListener opens a store whose connections have the name of the schema.
func openListener(t *testing.T, schema string) (*DB, *sojourn.Client) {
	t.Helper()
	o, err := newOptions([]Option{Schema(schema), AutoMigrate()})
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(t.Context(), with(t, testURL(t), "application_name", schema), o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(t.Context(), db, o)
	if err != nil {
		db.Close()
		t.Fatal(err)
	}
	c := sojourn.NewClient(s)
	t.Cleanup(func() { c.Close() })
	return db, c
}

// TestWakeupsBehindAPooler: where notifications do not arrive, the store says so and polls.
func TestWakeupsBehindAPooler(t *testing.T) {
	schema := newSchema(t)
	direct, err := Open(testURL(t), Schema(schema), AutoMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	c, err := Open(with(t, pooler(t), "default_query_exec_mode", "cache_describe"), Schema(schema))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waketest.Run(t, direct, c)
	for _, want := range []struct {
		c   *sojourn.Client
		way string
	}{{c, "poll"}, {direct, "notify"}} {
		s, err := want.c.Store().Status(t.Context())
		if err != nil || s.Wakeups != want.way {
			t.Errorf("wake-ups by %q, want %q: %v", s.Wakeups, want.way, err)
		}
	}
}

// TestStatusOfANewStore: a store reports the way of its wake-ups before any call has waited or
// signalled: that of the command line has done neither.
func TestStatusOfANewStore(t *testing.T) {
	schema := newSchema(t)
	for address, want := range map[string]string{testURL(t): "notify", with(t, pooler(t), "default_query_exec_mode", "cache_describe"): "poll"} {
		c, err := Open(address, Schema(schema), AutoMigrate())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got := ""
		for range 20 { // a connection may take longer than a call waits for it
			s, err := c.Store().Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got = s.Wakeups; got == want {
				break
			}
		}
		if got != want {
			t.Errorf("wake-ups by %q, want %q", got, want)
		}
	}
}

// TestNotificationsAfterACut: a process whose connection for notifications has ended opens another.
func TestNotificationsAfterACut(t *testing.T) {
	defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Poll = time.Hour })()
	schema := newSchema(t)
	address, err := url.Parse(testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	q := address.Query()
	q.Set("application_name", schema)
	address.RawQuery = q.Encode()
	open := func() *sojourn.Client {
		c, err := Open(address.String(), Schema(schema), AutoMigrate())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	a, b := open(), open()
	waketest.Run(t, a, b)
	count := func(what string) (n int) {
		t.Helper()
		err := elsewhere(t, testURL(t)).QueryRow(t.Context(), "select count("+what+") from pg_stat_activity where application_name = $1", schema+" notifications").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("*"); n != 2 {
		t.Errorf("%d connections for notifications of two stores", n)
	}
	count("pg_terminate_backend(pid)")
	waketest.Run(t, a, b)
}
