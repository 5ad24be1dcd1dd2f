//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

func replaceFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path+".copy", content, 0o600), os.Rename(path+".copy", path))
}

// filesMoved are ways to take a file away from an open store.
var filesMoved = map[string]func(path string) error{
	"removed":        os.Remove,
	"renamed":        func(path string) error { return os.Rename(path, path+".away") },
	"replaced":       replaceFile,
	"log removed":    func(path string) error { return os.Remove(path + "-wal") },
	"log replaced":   func(path string) error { return replaceFile(path + "-wal") },
	"index removed":  func(path string) error { return os.Remove(path + "-shm") },
	"folder renamed": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".away") },
	"all three removed": func(path string) error {
		return errors.Join(os.Remove(path), os.Remove(path+"-wal"), os.Remove(path+"-shm"))
	},
	"removed and created": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
}

// TestFileTakenAway: inv:A1. When the database, its log or the log's index is removed or replaced
// under an open store, nothing is acknowledged or shown any more: every call is refused with an
// error for that, also a claim that was waiting before.
func TestFileTakenAway(t *testing.T) {
	for name, take := range filesMoved {
		for _, relaxed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "folder", "jobs.db")
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				var list []Option
				if relaxed {
					list = append(list, Relaxed())
				}
				c, err := Open(path, list...)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				takenAway(t, c, path, take)
			})
		}
	}
}

func takenAway(t *testing.T, c *sojourn.Client, path string, take func(path string) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Reserve(ctx, 10); err != nil {
		t.Fatal(err)
	}
	before, err := c.Enqueue(ctx, sojourn.NewJob("k", nil))
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"other"}, Max: 1, Capacity: 1, Wait: 10 * time.Second})
		waiting <- err
	}()
	if err := take(path); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, sojourn.ErrClosed) {
		t.Error("a waiting claim:", err)
	}
	_, enqueued := c.Enqueue(ctx, sojourn.NewJob("k", nil))
	_, got := c.Get(ctx, before.ID)
	_, status := c.Store().Status(ctx)
	_, swept := driver.Of(c).Sweep(ctx, 100)
	for call, err := range map[string]error{"enqueue": enqueued, "get": got, "status": status, "sweep": swept} {
		if !errors.Is(err, sojourn.ErrClosed) || sojourn.ErrorCode(err) != sojourn.CodeClosed ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "removed or replaced") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestDoctorFindsAnotherFile: the check of the store that is at the path now names a process that
// still has the old file open.
func TestDoctorFindsAnotherFile(t *testing.T) {
	path := fileTest(t)
	old := child(t, path, "hold")
	old.read(t, "ready")
	check := func() []driver.Violation {
		t.Helper()
		found, err := openSynced(t, path, nil).Store().(driver.Checker).Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := check(); len(found) > 0 {
		t.Error(found)
	}
	if err := filesMoved["all three removed"](path); err != nil {
		t.Fatal(err)
	}
	found := check()
	if len(found) != 2 { // the process, and the store of the first check
		t.Fatal(found)
	}
	if text := fmt.Sprint(found); !strings.Contains(text, fmt.Sprintf("process %d ", old.Process.Pid)) || !strings.Contains(text, fmt.Sprintf("process %d ", os.Getpid())) {
		t.Error(text)
	}
	old.kill()
	if found := check(); len(found) != 1 {
		t.Error("a dead process:", found)
	}
}
