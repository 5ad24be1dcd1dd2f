package follow

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/store/sqlite/internal/logwatch"
)

// database is a database in which others commit while a follower looks.
type database struct {
	shared bool

	mu      sync.Mutex
	commits map[int]bool // by the number of the look that it comes before: true = another process's
	looks   int          // how often Version was asked since the commits were set
	version int64
	unseen  bool
	heard   int
}

func (d *database) Version(context.Context) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	if others, committed := d.commits[d.looks]; committed {
		d.version++
		d.unseen = others
	}
	return d.version, nil
}

func (d *database) Unseen() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unseen, nil
}

func (d *database) Shared() (bool, error) { return d.shared, nil }

func (d *database) hear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard++
}

// seen reports whether the follower has looked after the last commit and heard of so many.
func (d *database) seen(heard int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.looks > 9 && d.heard >= heard
}

// TestLateCommit: a commit that becomes visible long after its pages were written to the log is
// heard, also when this process has committed in between. Its own commits are not.
func TestLateCommit(t *testing.T) {
	for _, c := range []struct {
		name    string
		commits map[int]bool
		heard   int
	}{
		{"at once", map[int]bool{1: true}, 1},
		{"late", map[int]bool{9: true}, 1},
		{"of this process", map[int]bool{2: false}, 0},
		{"right after one of this process", map[int]bool{1: false, 2: true}, 1},
		{"long after one of this process", map[int]bool{1: false, 9: true}, 1},
		{"right after another one", map[int]bool{1: true, 3: true}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobs.db")
			write(t, path+"-wal")
			w, err := logwatch.New(path+"-wal", path+"-owner-")
			if err != nil {
				t.Fatal(err)
			}
			db := &database{shared: true}
			stop, err := Start(w, db, db.hear)
			if err != nil {
				t.Fatal(err)
			}
			db.mu.Lock()
			db.looks, db.commits = 0, c.commits
			db.mu.Unlock()
			write(t, path+"-wal")
			for end := time.Now().Add(30 * time.Second); !db.seen(c.heard) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			stop()
			if db.heard != c.heard {
				t.Errorf("%d commits were heard, want %d", db.heard, c.heard)
			}
		})
	}
}

// TestAlone: the log is watched only while another process has the database open.
func TestAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	write(t, path+"-wal")
	w, err := logwatch.New(path+"-wal", path+"-owner-")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	db := &database{}
	f := follower{db: db, watch: w}
	for _, shared := range []bool{false, true, false} {
		db.shared = shared
		if f.lookAtOwners() != shared {
			t.Errorf("shared is %v, and another process is taken for the opposite", shared)
		}
		write(t, path+"-wal")
		if seen, _ := w.Wait(time.Millisecond); seen.Log != shared {
			t.Errorf("shared is %v, and a write to the log is seen: %v", shared, seen.Log)
		}
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}
