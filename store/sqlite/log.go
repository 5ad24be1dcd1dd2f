package sqlite

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// syncers is how many may sync the log at a time: one for those who start jobs, one for those who end them (sqlstore.Config.Enders). On a disk that takes
// long, each would otherwise wait for the other's sync before its own.
const syncers = 2

// walLog is the write-ahead log on its way to the disk. With synchronous=FULL SQLite syncs it inside of the commit, while nobody else can write and nobody can
// read what is written. Here a commit only writes, the next transaction begins, and whoever has written or read the commit is not answered before a
// sync has covered it. The log is valid up to its first gap, and a sync covers all that was written before it, so nothing that is acknowledged stands behind
// something that is lost: docs/decisions/035.
type walLog struct {
	files   chan *os.File        // descriptors of the log at rest; nil if nobody waits for the disk (relaxed, or in memory); closed with the DB
	sync    func(*os.File) error // (*os.File).Sync; tests stand between
	commits sync.Mutex           // held while a commit becomes visible and is counted
	written atomic.Int64         // commits that may have changed something
	synced  atomic.Int64         // of them, those that are on the disk
}

var errSync = errors.New("sqlite: the write-ahead log did not reach the disk")

// openLog opens the log, which is there as soon as a connection has looked into the database. SQLite keeps its locks on other files, so closing this one frees none.
func (d *DB) openLog() error {
	files := make(chan *os.File, syncers)
	for range syncers {
		f, err := os.OpenFile(d.path+"-wal", os.O_RDWR, 0) // to write, because Windows syncs no other
		if err != nil {
			close(files)
			for f := range files {
				f.Close()
			}
			return fmt.Errorf("sqlite: open the write-ahead log: %w", err)
		}
		files <- f
	}
	d.log.files, d.log.sync = files, (*os.File).Sync
	return nil
}

// closeLog closes the log when nothing is written any more, after a last sync for those who wait for one.
func (d *DB) closeLog() error {
	if d.log.files == nil {
		return nil
	}
	var err error
	if d.broken.Load() == nil {
		err = d.durable()
	}
	for range syncers {
		err = errors.Join(err, (<-d.log.files).Close())
	}
	close(d.log.files)
	return err
}

// commit runs the commit of a transaction. One that has only read is not waited for, so that an idle store syncs nothing.
func (l *walLog) commit(wrote bool, do func() error) error {
	if !wrote {
		return do()
	}
	l.commits.Lock()
	defer l.commits.Unlock()
	err := do()
	if err == nil {
		l.written.Add(1)
	}
	return err
}

// visible is how many commits somebody may have seen.
func (l *walLog) visible() int64 {
	l.commits.Lock()
	defer l.commits.Unlock()
	return l.written.Load()
}

// durable returns when all that is visible now is on the disk.
func (d *DB) durable() error {
	if d.log.files == nil {
		return nil
	}
	for visible := d.log.visible(); d.log.synced.Load() < visible; {
		if d.broken.Load() != nil {
			return d.refusal()
		}
		f, open := <-d.log.files
		if !open {
			continue // what was visible is on the disk, or it is broken
		}
		var err error
		if d.broken.Load() == nil && d.log.synced.Load() < visible {
			err = d.syncLog(f)
		}
		d.log.files <- f
		if err != nil {
			return err
		}
	}
	return nil
}

// syncLog refuses all work after a failure before it lets go of the descriptor, on which the next sync may succeed without having written: the kernel tells
// each descriptor once.
func (d *DB) syncLog(f *os.File) error {
	covered := d.log.written.Load()
	if err := d.log.sync(f); err != nil {
		err = fmt.Errorf("%w: %w", errSync, err)
		d.broken.CompareAndSwap(nil, &err)
		return err
	}
	for was := d.log.synced.Load(); was < covered && !d.log.synced.CompareAndSwap(was, covered); {
		was = d.log.synced.Load()
	}
	return nil
}
