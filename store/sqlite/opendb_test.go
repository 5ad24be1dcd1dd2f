package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// inv:A1, inv:A2. The settings that make a commit durable are set and read back.
func TestPragmas(t *testing.T) {
	check := func(c *conn, want map[string]string) {
		t.Helper()
		for name, value := range want {
			if got, err := ask(c.raw, "pragma "+name); err != nil || got != value {
				t.Errorf("%s is %q, not %q (%v)", name, got, value, err)
			}
		}
	}
	d := openTest(t, fileTest(t))
	writer, reader := <-d.writer, <-d.reader
	check(writer, map[string]string{"journal_mode": "wal", "synchronous": "1", "temp_store": "2", "cache_size": "-65536", "auto_vacuum": "2",
		"wal_autocheckpoint": "4000", "journal_size_limit": "67108864", "fullfsync": "1", "application_id": fmt.Sprint(applicationID)})
	check(reader, map[string]string{"journal_mode": "wal", "query_only": "1", "temp_store": "2"})
	if err := writer.set([]pragma{{"synchronous", "nonsense", "2"}}); err == nil || !strings.Contains(err.Error(), "not accepted") {
		t.Error("a setting that SQLite did not take:", err)
	}
	d.writer <- writer
	d.reader <- reader
	relaxed := openTest(t, fileTest(t), Relaxed())
	writer = <-relaxed.writer
	check(writer, map[string]string{"synchronous": "1", "journal_mode": "wal"})
	relaxed.writer <- writer
}

func TestSupported(t *testing.T) {
	if err := supported(3_051_002); err == nil || !strings.Contains(err.Error(), "3.51.2") {
		t.Error(err)
	}
	if err := supported(lib.SQLITE_VERSION_NUMBER); err != nil {
		t.Error(err)
	}
}

func TestPathRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	raw, err := sqlite.OpenConn(foreign, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err == nil {
		err = run(raw, "create table users (id integer primary key)")
	}
	if err != nil {
		t.Fatal(err)
	}
	raw.Close()
	cases := map[string]string{
		"":                                 "names no file",
		"a\x00b":                           "names no file",
		dir:                                "no regular file",
		filepath.Join(dir, "missing", "a"): "create it first",
		write("text.db", "not a database, but long enough"+strings.Repeat(".", 200)): "no SQLite database",
		foreign: "another program",
	}
	if link := filepath.Join(dir, "dangling"); os.Symlink(filepath.Join(dir, "nowhere"), link) == nil {
		cases[link] = "leads nowhere"
	}
	for path, about := range cases {
		before, _ := os.ReadFile(path)
		_, err := openDB(path, options{})
		if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), about) {
			t.Errorf("%q: %v, want %q", path, err, about)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%q was changed", path)
		}
	}
	_, err = locate(filepath.Join(dir, "a"), func(string) string { return "nfs" })
	if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), "network file system (nfs)") {
		t.Error("network file system:", err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*"+owner.Mark+"*")); len(files) > 0 {
		t.Error("left behind:", files)
	}
}

func TestPathAccepted(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real", "a.db")
	if err := os.Mkdir(filepath.Dir(real), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(real, nil, 0o600); err != nil { // an empty file is a new database
		t.Fatal(err)
	}
	paths := map[string]string{real: real}
	if runtime.GOOS != "windows" {
		odd := filepath.Join(dir, "50% off?mode=ro#[x] *.db")
		paths[odd] = odd
		if link := filepath.Join(dir, "link.db"); os.Symlink(real, link) == nil {
			paths[link] = real
		}
	}
	for path, want := range paths {
		want, err := filepath.EvalSymlinks(filepath.Dir(want))
		if err != nil {
			t.Fatal(err)
		}
		d := openTest(t, path)
		execute(t, d, "insert into sj_t (name) values ('a')")
		if filepath.Dir(d.path) != want {
			t.Errorf("%s is opened as %s", path, d.path)
		}
		for _, file := range []string{d.path, d.path + "-wal", d.path + "-shm", d.path + owner.Mark + d.OwnerID()} {
			info, err := os.Stat(file)
			if err != nil {
				t.Error(err)
			} else if runtime.GOOS != "windows" && path != real && info.Mode().Perm() != 0o600 {
				t.Error(file, info.Mode())
			}
		}
	}
}

func TestOpenTogether(t *testing.T) {
	path := fileTest(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			d, err := openDB(path, options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// inv:A1, inv:Q4, spec:L8. After kill -9 everything acknowledged is there, the stop is noticed, and
// the owner is known to be dead.
func TestKilled(t *testing.T) {
	path := fileTest(t)
	p := child(t, path, "write 1 100000")
	owner := p.read(t, "ready")
	acknowledged := int64(0)
	for range 40 {
		acknowledged, _ = strconv.ParseInt(p.read(t, "wrote"), 10, 64)
	}
	p.kill()
	path, err := locate(path, filesys.Network)
	if err != nil {
		t.Fatal(err)
	}
	if unclean, _, err := damage.Due(path, ""); err != nil || !unclean {
		t.Fatal("the stop was not noticed:", err)
	}
	d := openTest(t, path)
	if n := count(t, d); acknowledged != 40 || n < acknowledged {
		t.Error(acknowledged, "rows were acknowledged,", n, "are there")
	}
	if unclean, _, err := damage.Due(path, ""); err != nil || unclean {
		t.Error("a log that a living store uses is no sign of an unclean stop:", err)
	}
	if dead, err := deadOwners(d); err != nil || len(dead) != 1 || dead[0] != owner {
		t.Errorf("dead: %q %v, want %q", dead, err, owner)
	}
	if err := forgetDead(d); err != nil {
		t.Error(err)
	}
	if dead, err := deadOwners(d); err != nil || len(dead) != 0 {
		t.Errorf("dead: %q %v", dead, err)
	}
}

func TestOptions(t *testing.T) {
	o, err := newOptions([]Option{MaxBytes(1), InboxTTL(time.Second), NoMigrate(), AllowNetworkFS(), Relaxed()})
	if err != nil || o.maxBytes != 1 || o.inboxTTL != time.Second || !o.noMigrate || !o.allowNetworkFS || !o.relaxed {
		t.Error(o, err)
	}
	for _, bad := range []Option{MaxBytes(0), MaxBytes(sojourn.MaxMaxBytes + 1), InboxTTL(-1), InboxTTL(time.Millisecond)} {
		if _, err := newOptions([]Option{bad}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Error(err)
		}
	}
}

// The embedded migrations run in SQLite as they are, up and, where there is a way, down.
func TestMigrations(t *testing.T) {
	d := openTest(t, inMemory)
	execute(t, d, "drop table sj_t")
	run := func(text string) {
		for _, statement := range sqlStatements(text) {
			execute(t, d, d.Dialect().SQL("app_", "", statement))
		}
	}
	for _, m := range d.Dialect().Migrations {
		run(m.Up)
	}
	for _, m := range slices.Backward(d.Dialect().Migrations) {
		run(m.Down)
	}
	if len(d.Dialect().Migrations) == 0 {
		t.Error("no migrations")
	}
}

// inv:Q1. Processes that meet while the file is being made are patient with each other too: this is
// the only time when the database is not in WAL mode and readers can be in a writer's way.
func TestCreateTogether(t *testing.T) {
	for range 10 {
		path := fileTest(t)
		var all []*process
		for range 4 {
			all = append(all, child(t, path, "hold"))
		}
		for _, p := range all {
			p.read(t, "ready")
		}
		for _, p := range all {
			p.end(t)
		}
	}
}

// TestHardLink: a file with two names is refused under both with its own error; nothing is lost.
func TestHardLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
		t.Fatal(err)
	}
	other := path + "2"
	if err := os.Link(path, other); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{other, path} {
		d, err := Open(name)
		if err == nil {
			_ = d.Close()
		}
		if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), "hard links") || strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if c, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if jobs, err := c.Store().Find(t.Context(), sojourn.Filter{}); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}
