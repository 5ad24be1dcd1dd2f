package sqlite

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

var _ sqldb.Signaler = (*DB)(nil)

// Pauses of a watcher after the write-ahead log was written: a commit is visible a moment after its
// pages are in the file. Then it rests, so that a busy writer wakes it 500 times a second at most.
const (
	firstCheck  = 100 * time.Microsecond
	lastCheck   = 10 * time.Millisecond
	watcherRest = 2 * time.Millisecond
)

// Signal implements sqldb.Signaler. The write-ahead log itself is the signal.
func (d *DB) Signal([]string) {}

// Watch implements sqldb.Signaler. It watches the write-ahead log with inotify, and reads the
// version of the database after each write to it. A commit of this process is no signal; while one
// is under way, its transaction itself finds the commits of others.
func (d *DB) Watch(heard func(topics []string)) (stop func()) {
	if d.memory() {
		return func() {}
	}
	w, err := watchFile(d.path + "-wal")
	if err != nil {
		return func() {} // polling is left
	}
	closing, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.follow(w, closing, heard)
	}()
	return func() {
		close(closing)
		w.close()
		<-done
	}
}

// follow reads the version after each write to the log, until the watch is closed.
func (d *DB) follow(w *fileWatch, closing <-chan struct{}, heard func(topics []string)) {
	pause := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-closing:
		}
	}
	version, err := d.Version(context.Background())
	for err == nil && w.wait() {
		writes := d.writes.Load()
		for p := firstCheck; p <= lastCheck && writes%2 == 0; p *= 2 {
			pause(p)
			var now int64
			if now, err = d.Version(context.Background()); err != nil || now != version {
				version = now
				if d.writes.Load() == writes {
					heard(nil)
				}
				break
			}
		}
		pause(watcherRest)
	}
}
