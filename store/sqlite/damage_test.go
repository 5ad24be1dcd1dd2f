package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
)

// killed returns a store of which a process was killed, and a copy of its files.
func killed(t *testing.T) (path, intact string) {
	t.Helper()
	path = fileTest(t)
	d := openTest(t, path)
	for range 50 {
		execute(t, d, "insert into sj_t (name, body) values ('x', zeroblob(20000))")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	p := child(t, path, "write 1000 1")
	p.read(t, "ready")
	p.read(t, "wrote")
	p.kill()
	intact = filepath.Join(t.TempDir(), "jobs.db")
	copyStore(t, path, intact)
	return path, intact
}

// copyStore copies a database that no process uses, with its log.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + end)
		if err == nil {
			err = os.WriteFile(to+end, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func marked(path string) bool {
	_, err := os.Stat(path + damage.MarkEnd)
	return err == nil
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute:", what)
		}
	}
}

// inv:Q4. A damaged file is refused after an unclean stop, with the way to restore it, and again
// when it is opened once more, although that removes the log. A restored file is accepted.
func TestDamaged(t *testing.T) {
	path, intact := killed(t)
	if err := corrupt(path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := openDB(path, options{})
		if err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), "backup") {
			t.Fatal(err)
		}
	}
	copyStore(t, intact, path)
	if err := os.Remove(path + "-shm"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	d, err := openDB(path, options{checkAtOpen: 1}) // the whole is checked, because damage was found before
	if err != nil {
		t.Fatal(err)
	}
	if marked(path) {
		t.Error("the mark is still there after the check")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// inv:Q4. A large file is opened before it is checked. When the check finds damage, the store
// refuses all work, and the file is refused when it is opened again.
func TestDamagedLarge(t *testing.T) {
	path, _ := killed(t)
	if err := corrupt(path); err != nil {
		t.Fatal(err)
	}
	d, err := openDB(path, options{checkAtOpen: 1})
	if err != nil {
		t.Fatal("the file was checked at once:", err)
	}
	eventually(t, "the store refuses all work", func() bool { return d.refusal() != nil })
	err = d.View(context.Background(), func(sqldb.Conn) error { return nil })
	if sojourn.ErrorCode(err) != sojourn.CodeClosed || !strings.Contains(err.Error(), "has found damage") || !strings.Contains(err.Error(), "backup") {
		t.Error(err)
	}
	_ = d.Close()
	if _, err := openDB(path, options{checkAtOpen: 1}); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Error(err)
	}
}

// The mark of an unclean stop is removed by a check that has read everything. A store that is
// closed before leaves it to the next one.
func TestCheckedLater(t *testing.T) {
	path, _ := killed(t)
	d, err := openDB(path, options{checkAtOpen: 1})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mark is removed", func() bool { return !marked(path) })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if unclean, _, err := damage.Due(path, ""); err != nil || unclean {
		t.Error("a check is due after a clean end:", err)
	}
	if err := damage.Mark(path, ""); err != nil {
		t.Fatal(err)
	}
	if unclean, _, err := damage.Due(path, ""); err != nil || !unclean {
		t.Error("an interrupted check is not repeated:", err)
	}
}

// A check that takes longer than its limit ends without a finding, and closing ends it too.
func TestCheckOfATableEnds(t *testing.T) {
	path := fileTest(t)
	execute(t, openTest(t, path), "insert into sj_t (name, body) values ('x', zeroblob(9))")
	c, err := connect(path, sqlite.OpenReadWrite, readerPragmas())
	if err != nil {
		t.Fatal(err)
	}
	defer c.raw.Close()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, check := range []struct {
		ctx   context.Context
		limit time.Duration
		err   error
	}{{context.Background(), -1, nil}, {cancelled, time.Hour, context.Canceled}, {context.Background(), time.Hour, nil}} {
		if found, err := damage.Tables(check.ctx, c.raw, check.limit); found != "" || !errors.Is(err, check.err) {
			t.Errorf("%q %v, want %v", found, err, check.err)
		}
	}
}
