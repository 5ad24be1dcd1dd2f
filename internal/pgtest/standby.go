//go:build unix

package pgtest

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// NewStandby makes a streaming standby of c that commits on c wait for: synchronous_standby_names
// is '*'.
func (c *Cluster) NewStandby(t testing.TB) *Cluster {
	t.Helper()
	s, err := makeCluster(func(s *Cluster) error {
		s.flags = []string{"-c", "wal_receiver_timeout=0"} // a stalled connection stays stalled
		return s.run("pg_basebackup", "-d", c.URL, "-D", s.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	SQL(t, c.URL, `alter system set synchronous_standby_names = '*'`)
	SQL(t, c.URL, `select pg_reload_conf()`)
	Until(t, "the standby is synchronous", func() bool {
		return Number(t, c.URL, `select count(*) from pg_stat_replication where sync_state = 'sync'`) == 1
	})
	return s
}

// Stall stops the process of c that sends to the standby: from now on nothing that c writes arrives
// there.
func (c *Cluster) Stall(t testing.TB) {
	t.Helper()
	c.sender = int(Number(t, c.URL, `select pid from pg_stat_replication`))
	if err := syscall.Kill(c.sender, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(c.sender, syscall.SIGCONT) })
}

// Resume ends a Stall.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(c.sender, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// FailOver kills c, whose connection to the standby is stalled, for good, and promotes the standby.
func (c *Cluster) FailOver(t testing.TB, standby *Cluster) {
	t.Helper()
	err := c.Kill()
	if err == nil {
		err = syscall.Kill(c.sender, syscall.SIGKILL)
	}
	if err == nil {
		err = standby.run("pg_ctl", "promote", "-D", standby.data(), "-w", "-s", "-t", "60")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Number runs a query that gives one number.
func Number(t testing.TB, address, query string) (n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// Until waits for a condition of the server.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 6000 {
		if holds() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("waited 2 min: %s", what)
}
