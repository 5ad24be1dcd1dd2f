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
			var c *Cluster
			if c, server.err = startCluster(); server.err == nil {
				server.url, server.stop = c.URL, c.Stop
			}
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
