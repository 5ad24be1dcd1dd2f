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
