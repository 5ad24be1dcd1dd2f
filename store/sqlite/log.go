package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
)

// syncers is the number of concurrent fsyncs of the log: one for transactions that start jobs, one
// for those that end them (sqlstore.Config.Enders). On a slow disk each would otherwise wait for
// the fsync of the other before its own.
const syncers = 2

// walLog makes commits durable. With synchronous=FULL SQLite syncs the write-ahead log inside of
// the commit, which blocks all writers meanwhile. Here a commit only writes to the log, and the
// next transaction begins; a call returns after an fsync that covers all its writes and reads. The
// log is valid up to its first gap, so an answer is durable together with all commits that it
// depends on: docs/decisions/035.
//
// That includes commits of other processes: their own fsync may still be under way, or may never
// come because they were killed (docs/decisions/044). So walLog counts the states of the log that
// it finds in the wal-index, of any writer.
type walLog struct {
	life  *lifecycle           // of the DB
	files chan *os.File        // unused descriptors of the log; nil if relaxed or in memory; closed with the DB
	sync  func(*os.File) error // (*os.File).Sync; tests replace it
	index walIndex

	mu     sync.Mutex // guards the fields below
	header walHeader  // of the newest state
	states int64      // how many states of the log were found

	synced atomic.Int64 // the state up to which the log is on the disk
}

var errSync = errors.New("sqlite: the write-ahead log did not reach the disk")

// open opens the log, which exists as soon as a connection has read the database, and syncs it
// and its folder once, because a process may have been killed between writing and its fsync. SQLite
// keeps its locks on other files, so closing this one drops none.
func (l *walLog) open(c *conn) (err error) {
	if l.index, err = openWALIndex(c); err != nil {
		return err
	}
	files := make(chan *os.File, syncers)
	defer func() {
		if err != nil {
			l.files = nil
			close(files)
			for f := range files {
				f.Close()
			}
		}
	}()
	for range syncers {
		f, err := os.OpenFile(l.life.path+"-wal", os.O_RDWR, 0) // for writing, because Windows syncs no other file
		if err != nil {
			return fmt.Errorf("sqlite: open the write-ahead log: %w", err)
		}
		files <- f
	}
	l.files = files
	if err := l.durable(); err != nil {
		return err
	}
	if err := filesys.SyncDir(filepath.Dir(l.life.path)); err != nil {
		return fmt.Errorf("sqlite: sync the folder of the database: %w", err)
	}
	return nil
}

// close closes the log when nothing is written any more, after a last fsync.
func (l *walLog) close() error {
	if l.files == nil {
		return nil
	}
	var err error
	if l.life.broken.Load() == nil {
		err = l.durable()
	}
	for range syncers {
		err = errors.Join(err, (<-l.files).Close())
	}
	close(l.files)
	return err
}

// visible is the number of the newest state that anybody may have seen. The wal-index must be
// mapped: the caller is between lifecycle.begin and calls.Done, or opens or closes the DB.
func (l *walLog) visible() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if header := l.index.read(); header != l.header {
		l.header = header
		l.states++
	}
	return l.states
}

// durable returns when all that is visible now is on the disk.
func (l *walLog) durable() error {
	if l.files == nil {
		return nil
	}
	for visible := l.visible(); l.synced.Load() < visible; {
		if l.life.broken.Load() != nil {
			return l.life.refusal()
		}
		f := <-l.files
		var err error
		if l.life.broken.Load() == nil && l.synced.Load() < visible {
			err = l.syncFile(f)
		}
		l.files <- f
		if err != nil {
			return err
		}
	}
	return nil
}

// syncFile makes the log durable. After a failure it refuses all work before it releases the
// descriptor, because the next fsync may succeed without having written: the kernel reports a lost
// write once to each descriptor.
func (l *walLog) syncFile(f *os.File) error {
	covered := l.visible()
	if err := l.sync(f); err != nil {
		err = fmt.Errorf("%w: %w", errSync, err)
		l.life.fail(err)
		return err
	}
	for was := l.synced.Load(); was < covered && !l.synced.CompareAndSwap(was, covered); {
		was = l.synced.Load()
	}
	return nil
}
