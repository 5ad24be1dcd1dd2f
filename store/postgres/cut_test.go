package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// stalledLimit is for calls beside a cut connection: far more than the 10 s that a cut may cost, so
// that the test holds on a busy machine. TestCutSettings checks the times themselves.
const stalledLimit = 25 * time.Second

// TestCutConnection: a proxy stops forwarding one connection of a store, without closing it, when
// the transaction on it holds the lock of a job and is about to commit. Callers of other processes
// get the lock, and the caller on the cut connection an answer.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	p, name := pgtest.NewProxy(t, testURL(t)), newSchema(t)
	cut, err := Open(with(t, p.URL, "application_name", name), Schema(name), AutoMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	other := open(t, Schema(name))
	defer other.Close()
	var jobs [2]sojourn.ID
	for i := range jobs {
		j := sojourn.NewJob("k", []byte("1"))
		if _, err := cut.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		jobs[i] = j.ID
	}
	cancel := func(c *sojourn.Client, id sojourn.ID) error {
		ctx, cancel := context.WithTimeout(t.Context(), stalledLimit)
		defer cancel()
		return c.As("test").Cancel(ctx, id, "")
	}
	if err := cancel(cut, jobs[0]); err != nil { // the statements are prepared
		t.Fatal(err)
	}
	p.HangAt(preparedName("commit"))
	answer := make(chan error, 1)
	go func() { answer <- cancel(cut, jobs[1]) }()
	pgtest.Until(t, "the transaction on the cut connection is idle", func() bool {
		return pgtest.Number(t, testURL(t), `select count(*) from pg_stat_activity where state = 'idle in transaction' and application_name = '`+name+`'`) == 1
	})
	if _, err := cut.Enqueue(t.Context(), sojourn.NewJob("k", []byte("1"))); err != nil {
		t.Errorf("a call beside the cut connection: %v", err)
	}
	if err := cancel(other, jobs[1]); err != nil {
		t.Errorf("a call that needs the lock of the cut connection: %v", err)
	}
	if err := <-answer; err == nil || sojourn.ErrorCode(err) != sojourn.CodeUnknown || !strings.Contains(err.Error(), errCut.Error()) {
		t.Errorf("the call on the cut connection: %v", err)
	}
	if err := cancel(cut, jobs[1]); err != nil {
		t.Errorf("the repeated call: %v", err)
	}
}

// preparedName returns the driver's name of a prepared statement.
func preparedName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "stmtcache_" + hex.EncodeToString(sum[:24])
}

// TestLongStatement: a statement that takes long, or waits for a lock, is no cut connection.
func TestLongStatement(t *testing.T) {
	t.Parallel()
	quick := func(o *options) {
		o.limits = limits{answer: 50 * time.Millisecond, check: time.Minute, grace: time.Millisecond, commit: time.Minute}
	}
	o, err := newOptions([]Option{quick})
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDB(t.Context(), testURL(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	slow := func(c sqldb.Conn) error { _, err := c.Exec(`select pg_sleep(1)`); return err }
	if err := d.Update(t.Context(), slow); err != nil {
		t.Error(err)
	}
}

// TestCutSettings: the settings that bound the cost of a cut connection are set on each connection,
// and in each transaction that writes.
func TestCutSettings(t *testing.T) {
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDB(t.Context(), testURL(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := map[string]string{"idle_in_transaction_session_timeout": "5s", "client_connection_check_interval": "2s"}
	if !strings.HasPrefix(d.pool.Config().ConnConfig.Host, "/") { // a Unix socket has none of them
		want["tcp_keepalives_idle"], want["tcp_keepalives_interval"], want["tcp_keepalives_count"], want["tcp_user_timeout"] = "3", "1", "3", "6s"
	}
	err = d.Update(t.Context(), func(c sqldb.Conn) error {
		for name, value := range want {
			err := c.Query(`select current_setting($1, true)`, func(r sqldb.Row) error {
				if got := r.Text(0); got != value && (got != "" || d.server.number >= 140_000) {
					t.Errorf("%s is %q, not %q", name, got, value)
				}
				return nil
			}, name)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if cost := max(idleInTransaction, peerSilence, defaultLimits.answer+defaultLimits.check+defaultLimits.grace); cost > 10*time.Second {
		t.Errorf("a cut costs up to %v", cost)
	}
}

// TestCancelAfterCommit: after a commit, or one that failed, a connection sends cancel requests
// again. A reader may use it next.
func TestCancelAfterCommit(t *testing.T) {
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDB(t.Context(), testURL(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var used *link
	for name, text := range map[string]string{"committed": "select 1", "refused": "select 1 / 0"} {
		_ = d.Update(t.Context(), func(c sqldb.Conn) error {
			w := c.(*writer)
			used = w.link
			return w.Commit([]sqldb.Statement{{Text: text}})
		})
		if used.commits() {
			t.Errorf("%s: the connection still refuses cancel requests", name)
		}
	}
}
