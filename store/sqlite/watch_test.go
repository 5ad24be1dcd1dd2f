package sqlite

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/waketest"
)

// TestOtherProcessWakes: what one store of a file commits wakes the calls that are blocked in
// another one, without a poll.
func TestOtherProcessWakes(t *testing.T) {
	defer sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Poll = time.Hour })()
	path := filepath.Join(t.TempDir(), "jobs.db")
	open := func() *sojourn.Client {
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	if runtime.GOOS != "linux" {
		t.Skip("this system cannot watch files: the store polls")
	}
	waketest.Run(t, open(), open())
}

// TestOtherOwnerComes: commits of a process that opens the file later are heard, and those of the
// process itself are not.
func TestOtherOwnerComes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system cannot watch files: the store polls")
	}
	path := fileTest(t)
	a := openTest(t, path)
	heard := make(chan bool, 1000)
	defer a.Watch(func([]string) { heard <- true })()
	for range 2 {
		b := openTest(t, path)
		execute(t, b, "create table if not exists x (y)")
		drain(heard)
		execute(t, b, "insert into x values (1)")
		hear(t, heard)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnseen: a commit of another process is new to a process until its next transaction, which has
// found it. Its own commits are never new, and what a transaction has found that fails stays new.
func TestUnseen(t *testing.T) {
	path := fileTest(t)
	a, b := openTest(t, path), openTest(t, path)
	update := func(failure error) {
		t.Helper()
		err := a.Update(t.Context(), func(c sqldb.Conn) error {
			if _, err := c.(sqldb.Versioned).Version(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Exec("insert into x values (1)"); err != nil {
				t.Fatal(err)
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Fatal(err)
		}
	}
	check := func(name string, want bool) {
		t.Helper()
		if got, err := a.Unseen(); err != nil || got != want {
			t.Errorf("%s: unseen is %v (%v)", name, got, err)
		}
	}
	execute(t, a, "create table x (y)")
	update(nil)
	check("its own commit", false)
	execute(t, b, "insert into x values (2)")
	check("a commit of another process", true)
	check("asked twice", true)
	update(errors.New("a failure"))
	check("after a transaction that failed", true)
	update(nil)
	check("after a transaction that found it", false)
	update(nil)
	execute(t, b, "insert into x values (3)")
	check("a commit of another process right after its own", true)
}

func drain(c chan bool) {
	for len(c) > 0 {
		<-c
	}
}

func hear(t *testing.T, heard chan bool) {
	t.Helper()
	select {
	case <-heard:
	case <-time.After(time.Minute):
		t.Fatal("the commit of another process was not heard")
	}
}
