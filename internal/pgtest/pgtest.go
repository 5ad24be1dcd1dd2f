// Package pgtest gives tests a PostgreSQL server: the one that SOJOURN_TEST_POSTGRES names, or a
// throwaway cluster that it starts from the installed binaries. A test binary that uses it calls
// [Stop] at the end of its TestMain.
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

	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// The server of the tests: SOJOURN_TEST_POSTGRES, the URL of a database in which they may make
// schemas, or a throwaway cluster that they start from the installed binaries.
var server struct {
	once sync.Once
	url  string
	err  error
	stop func()
}

var errNoBinaries = errors.New("no PostgreSQL: initdb is neither on the PATH nor in /usr/lib/postgresql/*/bin; install postgresql, " +
	"or name a database in SOJOURN_TEST_POSTGRES")

// URL returns the server's address. Without a server the test is skipped; in CI it fails. With
// -short it is skipped even if there is a server.
func URL(t testing.TB) string {
	t.Helper()
	proctest.Skip(t, "PostgreSQL")
	server.once.Do(func() {
		if server.url = os.Getenv("SOJOURN_TEST_POSTGRES"); server.url == "" {
			var c *Cluster
			if c, server.err = startCluster(); server.err == nil {
				server.url, server.stop = c.URL, c.Stop
			}
		}
	})
	if errors.Is(server.err, errNoBinaries) {
		proctest.Missing(t, server.err.Error())
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
	return server.url
}

// Stop stops the throwaway cluster, or drops the test schemas kept on a server that keeps running.
func Stop() {
	if server.stop == nil && len(emptied.names) > 0 {
		dropEmptied()
	}
	if server.stop != nil {
		server.stop()
	}
}

func dropEmptied() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	for _, name := range emptied.names {
		_, dropped := emptied.by.Exec(ctx, "drop schema "+name+" cascade")
		err = errors.Join(err, dropped)
	}
	err = errors.Join(err, emptied.by.Close(ctx))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
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

// emptied are schemas whose tests are over, with their tables and without rows. One connection
// empties them all: a new one would have to learn their tables first, which takes 20 ms.
var emptied struct {
	sync.Mutex
	names []string
	by    *pgx.Conn
}

// EmptySchema names a schema that is either new or has been emptied after another test, with the
// tables of today's migrations still in it: to make these takes more time than most tests. Open it
// with AutoMigrate, and leave the tables as they are.
func EmptySchema(t testing.TB) string {
	t.Helper()
	address := URL(t)
	emptied.Lock()
	defer emptied.Unlock()
	name := fmt.Sprintf("sojourn_test_%d_%d", os.Getpid(), schemas.Add(1))
	if n := len(emptied.names); n > 0 {
		name, emptied.names = emptied.names[n-1], emptied.names[:n-1]
	}
	t.Cleanup(func() {
		if t.Failed() { // perhaps in the middle of something
			SQL(t, address, "drop schema if exists "+name+" cascade")
			return
		}
		emptied.Lock()
		defer emptied.Unlock()
		empty(t, address, name)
		emptied.names = append(emptied.names, name)
	})
	return name
}

func empty(t testing.TB, address, schema string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if emptied.by == nil || emptied.by.IsClosed() {
		emptied.by, err = pgx.Connect(ctx, address)
	}
	if err == nil {
		_, err = emptied.by.PgConn().Exec(ctx, fmt.Sprintf(emptySchema, schema)).ReadAll()
	}
	if err != nil {
		t.Fatalf("the schema %s was not emptied: %v", schema, err)
	}
}

// emptySchema deletes, because TRUNCATE makes new files for each table and index.
const emptySchema = `do $$ declare name text; begin
	for name in select format('%%I.%%I', schemaname, tablename) from pg_tables where schemaname = '%[1]s' and tablename not like '%%migration' loop
		execute 'delete from ' || name;
	end loop;
	for name in select format('%%I.%%I', schemaname, sequencename) from pg_sequences where schemaname = '%[1]s' loop
		perform setval(name, 1, false);
	end loop;
end $$`

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
		// A link to it may stand alone in its folder.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
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
