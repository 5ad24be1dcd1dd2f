// Package follow tells a process of the commits of other processes that use its database.
//
// A write to the write-ahead log is the hint to look: a commit is visible a moment after its pages
// are in the log. How long that moment is depends on when the other process gets its turn, so a
// follower looks again at growing distances. Its own process's commits write to the log as well.
// They are told apart by the connection that writes, which does not count its own.
package follow

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn/store/sqlite/internal/logwatch"
)

// Pauses of a follower. The checks after a write to the log end 200 ms after it. A follower rests
// after each change, so that busy writers have it look 500 times a second at most, and 100 times if
// this process is one of them.
const (
	firstCheck = 100 * time.Microsecond
	lastCheck  = 200 * time.Millisecond
	rest       = 2 * time.Millisecond
	ownRest    = 10 * time.Millisecond
)

// Database is what a follower asks.
type Database interface {
	// Version changes with every commit of any process.
	Version(context.Context) (int64, error)
	// Unseen reports whether another process has committed after the begin of the last transaction
	// of this process. What was committed before, that transaction has found and told of.
	Unseen() (bool, error)
	// Shared reports whether another process has the database open.
	Shared() (bool, error)
}

// follower is used by one goroutine, except for closing.
type follower struct {
	db      Database
	watch   *logwatch.Watch
	heard   func()
	closing chan struct{}
	version int64 // of the database, when it was read last
}

// Start calls heard after commits of other processes, from another goroutine, until stop is called,
// which waits for its end and closes the watch. The log is watched only while another process has
// the database open: to one that is alone, its commits cost nothing.
func Start(watch *logwatch.Watch, db Database, heard func()) (stop func(), err error) {
	f := &follower{db: db, watch: watch, heard: heard, closing: make(chan struct{})}
	// Read before Start returns: a commit after that is a change, however late run begins.
	if f.version, err = db.Version(context.Background()); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run()
	}()
	return func() {
		close(f.closing)
		watch.Close()
		<-done
	}, nil
}

// run looks for commits after each write to the log, until the watch is closed or the database
// fails.
func (f *follower) run() {
	var pause time.Duration // before the next check; 0 = none is due
	// The first look at the owners comes after the watch of their files began, so none is missed.
	for seen, ok := (logwatch.Seen{Owners: true}), true; ok; seen, ok = f.watch.Wait(pause) {
		if seen.Owners && f.lookAtOwners() {
			seen.Log = true
		}
		if seen.Log { // from the start: this write may be another commit
			pause = firstCheck
			f.sleep(pause)
		}
		if pause == 0 {
			continue
		}
		if f.check() != nil {
			return
		}
		if pause *= 2; pause > lastCheck {
			pause = 0
		}
	}
}

// lookAtOwners watches the log if there is another owner. It reports whether there is: the other
// one may have committed before the watch began.
func (f *follower) lookAtOwners() (others bool) {
	shared, err := f.db.Shared()
	others = shared || err != nil
	f.watch.Log(others) // without it, polling is left
	return others
}

// check tells of a commit of another process if there is a new one. No commit that it finds ends
// the series of checks: the write to the log that it looks for may be that of a later one.
func (f *follower) check() error {
	now, err := f.db.Version(context.Background())
	if err != nil || now == f.version {
		return err
	}
	f.version = now
	unseen, err := f.db.Unseen()
	switch {
	case err != nil:
	case unseen:
		f.heard()
		f.sleep(rest)
	default:
		f.sleep(ownRest)
	}
	return err
}

// sleep ends early when the follower is stopped.
func (f *follower) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.closing:
	}
}
