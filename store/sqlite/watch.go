package sqlite

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/logwatch"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

var _ sqldb.Signaler = (*DB)(nil)

// Pauses of a watcher after the write-ahead log was written: a commit is visible a moment after its
// pages are in the file. Then it rests, so that a busy writer wakes it 500 times a second at most,
// and 80 times if this process commits too.
const (
	firstCheck  = 100 * time.Microsecond
	lastCheck   = 10 * time.Millisecond
	watcherRest = 2 * time.Millisecond
	busyRest    = 10 * time.Millisecond
)

// Signal implements sqldb.Signaler. The write-ahead log itself is the signal.
func (d *DB) Signal([]string) {}

// Signals implements sqldb.Signaler.
func (d *DB) Signals() string {
	switch {
	case d.memory():
		return ""
	case logwatch.Works:
		return "inotify"
	default:
		return "poll"
	}
}

// Watch implements sqldb.Signaler. While the database has another owner, it watches the write-ahead
// log with inotify, and reads the version of the database after each write to it. A commit of this
// process is no signal; while one is under way, its transaction itself finds the commits of others.
// An owner that is alone watches only whether another one comes, which costs its commits nothing.
func (d *DB) Watch(heard func(topics []string)) (stop func()) {
	if d.memory() {
		return func() {}
	}
	w, err := logwatch.New(d.path+"-wal", d.path+owner.Mark)
	if err != nil {
		return func() {} // polling is left
	}
	f := &follower{DB: d, watch: w, closing: make(chan struct{}), heard: heard}
	// Read before Watch returns: a commit after that is a change, however late run begins.
	if f.version, err = d.Version(context.Background()); err != nil {
		w.Close()
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run()
	}()
	return func() {
		close(f.closing)
		w.Close()
		<-done
	}
}

// follower tells of the commits of other owners, for one call of Watch.
type follower struct {
	*DB
	watch   *logwatch.Watch
	closing chan struct{}
	heard   func(topics []string)
	version int64 // of the database, when it was read last
}

// run reads the version after each write to the log, until the watch is closed.
func (f *follower) run() {
	var err error
	before := f.writes.Load()
	// The first look at the owners comes after the watch of their files began, so none is missed.
	for seen, ok := (logwatch.Seen{Owners: true}), true; err == nil && ok; seen, ok = f.watch.Wait() {
		if seen.Owners {
			seen.Log = f.lookAtOwners() || seen.Log
		}
		if !seen.Log {
			continue
		}
		if f.writes.Load() != before { // the write may be its own, and its next transaction finds the others
			f.pause(busyRest)
		}
		before = f.writes.Load()
		err = f.check(before)
		f.pause(watcherRest)
	}
}

// lookAtOwners watches the log if there is another owner. It reports whether there is: the other
// one may have committed before the watch began.
func (f *follower) lookAtOwners() (others bool) {
	levels, err := owner.Living(f.path, f.owner.ID(), f.prefix)
	others = err != nil || len(levels) > 0
	f.watch.Log(others) // without it, polling is left
	return others
}

// check reads the version until it has changed or a commit can no longer be under way, and tells of
// a change. It stops when this process, which had begun and ended writes so many times, writes.
func (f *follower) check(writes int64) error {
	for p := firstCheck; p <= lastCheck && writes%2 == 0; p *= 2 {
		f.pause(p)
		now, err := f.Version(context.Background())
		if err != nil {
			return err
		}
		if now != f.version {
			f.version = now
			if f.writes.Load() == writes {
				f.heard(nil)
			}
			return nil
		}
	}
	return nil
}

func (f *follower) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.closing:
	}
}
