package crash

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// TestIdle lets a worker wait for jobs that do not come: nothing is committed. SOJOURN_IDLE sets
// for how long, default 2s; the processor time it took is printed.
func TestIdle(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what takes a length of time")
	}
	length, err := time.ParseDuration(os.Getenv("SOJOURN_IDLE"))
	if err != nil {
		length = 2 * time.Second
	}
	file := filepath.Join(t.TempDir(), "idle.db")
	c, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := worker.New(c, worker.Options{})
	done := make(chan struct{})
	worker.Handle(w, plain, func(context.Context, *sojourn.Job, int) error { close(done); return nil })
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- w.Run(ctx) }()
	if _, err := c.Enqueue(ctx, plain.New(1)); err != nil {
		t.Fatal(err)
	}
	<-done // the worker is up
	id := sojourn.ID(1)
	if _, err := c.Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	before, cpu := changes(t, file), processorTime()
	time.Sleep(length) // nothing to wait for: the point is that nothing happens
	after, spent := changes(t, file), processorTime()-cpu
	if before != after {
		t.Errorf("the write-ahead log changed in %v of idleness: %s, then %s", length, before, after)
	}
	t.Logf("idle for %v: 0 commits, %v of processor time (%.2f %%)", length, spent, 100*float64(spent)/float64(length))
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// changes is what any commit changes: size and time of the write-ahead log and of the database.
func changes(t *testing.T, file string) (s string) {
	t.Helper()
	for _, f := range []string{file, file + "-wal"} {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		s += info.ModTime().Format(time.RFC3339Nano) + " "
	}
	return s
}
