package postgres

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// pooler starts PgBouncer in transaction mode with two connections to the server, and returns the
// address of the same database behind it.
func pooler(t *testing.T) string {
	t.Helper()
	binary := proctest.LookPath(t, "pgbouncer", "/usr/sbin/pgbouncer")
	cfg, _, err := parse(testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.ConnConfig
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	password := ""
	if c.Password != "" {
		password = " password=" + c.Password
	}
	ini := fmt.Sprintf("[databases]\n%[3]s = host=%[1]s port=%[2]d dbname=%[3]s user=%[4]s%[5]s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%[6]d\nauth_type=any\n"+
		"pool_mode=transaction\nunix_socket_dir=\ndefault_pool_size=2\nlogfile=%[7]s\n", c.Host, c.Port, c.Database, c.User, password, port, filepath.Join(dir, "log"))
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, file)
	var said strings.Builder
	cmd.Stderr = &said
	if as, chown := pgtest.Unprivileged(); as != nil { // it refuses root as well
		cmd.SysProcAttr = as
		for folder := dir; folder != filepath.Dir(os.TempDir()) && folder != os.TempDir(); folder = filepath.Dir(folder) {
			if err := chown(folder); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := proctest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	host := fmt.Sprintf("127.0.0.1:%d", port)
	for range 200 {
		if c, err := net.Dial("tcp", host); err == nil {
			c.Close()
			return (&url.URL{Scheme: "postgres", User: url.User(cfg.ConnConfig.User), Host: host, Path: cfg.ConnConfig.Database, RawQuery: "sslmode=disable"}).String()
		}
		time.Sleep(25 * time.Millisecond)
	}
	cmd.Process.Kill()
	cmd.Wait()
	text, _ := os.ReadFile(filepath.Join(dir, "log"))
	t.Fatalf("pgbouncer does not answer: %s%s", &said, text)
	return ""
}

// TestPooler runs jobs behind a pooler that gives every transaction another session: no call may
// depend on its session.
func TestPooler(t *testing.T) {
	address, schema := pooler(t), newSchema(t)
	address = with(t, address, "default_query_exec_mode", "cache_describe")
	c, err := Open(address, Schema(schema), AutoMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	var group sync.WaitGroup
	for w := range 6 {
		group.Go(func() {
			for i := range 20 {
				kind := fmt.Sprint("k", w)
				if _, err := c.Enqueue(ctx, sojourn.NewJob(kind, []byte(`"\u00ff"`), sojourn.Key(fmt.Sprint(i)))); err != nil {
					t.Error(err)
					return
				}
				jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: kind, Number: int64(i + 1), Queues: []string{"default"}, Kinds: []string{kind},
					Max: 10, Capacity: 10, Wait: 10 * time.Second})
				if err != nil || len(jobs) != 1 {
					t.Error(len(jobs), err)
					return
				}
				done, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: jobs[0].Lease, Type: sojourn.OutcomeCompleted}})
				if err != nil || done[0].Status != driver.FinishApplied {
					t.Error(done, err)
					return
				}
			}
		})
	}
	group.Wait()
	if found, err := c.Store().(driver.Checker).Check(ctx); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
}
