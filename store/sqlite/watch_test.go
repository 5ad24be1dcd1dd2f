package sqlite

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/waketest"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/logwatch"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
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

// TestOtherOwnerComes: a process that waits alone does not watch the log. It begins to when
// another one opens the file, and ends when that one has gone.
func TestOtherOwnerComes(t *testing.T) {
	path := fileTest(t)
	a := openTest(t, path)
	watch, err := logwatch.New(path+"-wal", path+owner.Mark)
	if err != nil {
		t.Skip("this system cannot watch files: the store polls")
	}
	defer watch.Close()
	f := follower{DB: a, watch: watch}
	if f.lookAtOwners() {
		t.Error("a process that is alone watches the log")
	}
	heard := make(chan bool, 1000)
	stop := a.Watch(func([]string) { heard <- true })
	defer stop()
	for range 2 {
		b := openTest(t, path)
		if !f.lookAtOwners() {
			t.Error("with another process the log is not watched")
		}
		for len(heard) > 0 {
			<-heard
		}
		execute(t, b, "create table if not exists x (y)")
		execute(t, b, "insert into x values (1)")
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatal("the commit of a process that came later was not heard")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if f.lookAtOwners() {
			t.Error("the process is alone again and watches the log")
		}
	}
}
