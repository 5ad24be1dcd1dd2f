// Package pgtest gives tests a PostgreSQL server: the one that SOJOURN_TEST_POSTGRES names, or a throwaway cluster that it starts from the
// installed binaries. A test binary that uses it calls [Stop] at the end of its TestMain.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The server of the tests: SOJOURN_TEST_POSTGRES, the URL of a database in which they may make schemas, or a throwaway cluster that they start
// from the installed binaries.
var server struct {
	once sync.Once
	url  string
	err  error
	stop func()
}

var errNoBinaries = errors.New("no PostgreSQL: initdb is neither on the PATH nor in /usr/lib/postgresql/*/bin; install postgresql, " +
	"or name a database in SOJOURN_TEST_POSTGRES")

// URL gives the server's address. Without a server the test is skipped, and fails in CI.
func URL(t testing.TB) string {
	t.Helper()
	server.once.Do(func() {
		if server.url = os.Getenv("SOJOURN_TEST_POSTGRES"); server.url == "" {
			server.url, server.stop, server.err = startCluster()
		}
	})
	if errors.Is(server.err, errNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(server.err)
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
	return server.url
}

// Stop ends the throwaway cluster, if one was started.
func Stop() {
	if server.stop != nil {
		server.stop()
	}
}

var schemas atomic.Int64

// NewSchema names a schema of the test's own, which is dropped after it.
func NewSchema(t testing.TB) string {
	t.Helper()
	address := URL(t)
	name := fmt.Sprintf("sojourn_test_%d_%d", os.Getpid(), schemas.Add(1))
	t.Cleanup(func() { SQL(t, address, "drop schema if exists "+name+" cascade") })
	return name
}

// SQL runs statements beside the store.
func SQL(t testing.TB, address, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// binaries finds the folder with initdb.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errNoBinaries
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// startCluster makes a database cluster in a temporary folder and starts it, reachable by a Unix socket only, with the default settings, which
// are the durable ones. initdb refuses root, so root becomes nobody.
func startCluster() (address string, stop func(), err error) {
	bin, err := binaries()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "sojourn-pg-")
	if err != nil {
		return "", nil, err
	}
	clean := func() { os.RemoveAll(dir) }
	as, chown := Unprivileged()
	if err := chown(dir); err != nil {
		clean()
		return "", nil, err
	}
	data := filepath.Join(dir, "data")
	run := func(name string, args ...string) error {
		c := exec.Command(filepath.Join(bin, name), args...)
		c.SysProcAttr, c.Dir, c.Env = as, dir, []string{"PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + dir}
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return nil
	}
	if err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions"); err != nil {
		clean()
		return "", nil, err
	}
	stop = func() {
		if err := run("pg_ctl", "stop", "-D", data, "-m", "immediate", "-s"); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		clean()
	}
	flags := "-c listen_addresses= -c unix_socket_directories=" + dir + " -c max_connections=200 -c log_min_messages=fatal"
	if err := run("pg_ctl", "start", "-D", data, "-w", "-s", "-t", "60", "-l", filepath.Join(dir, "log"), "-o", flags); err != nil {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		clean()
		return "", nil, fmt.Errorf("%w\n%s", err, text)
	}
	return "postgres:///postgres?" + url.Values{"host": {dir}, "user": {"postgres"}}.Encode(), stop, nil
}

// With adds a parameter to an address.
func With(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		t.Fatalf("SOJOURN_TEST_POSTGRES must be a URL, and is %q: %v", address, err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
