package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// Compacted is the result of Compact. Sizes are in bytes, with the write-ahead log.
type Compacted struct {
	Path   string `json:"path"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
	Free   int64  `json:"free"` // pages without content that are still in the file, times their size
}

const (
	compactPages = 1000                  // given back in one transaction
	compactPause = 10 * time.Millisecond // between two of them, in which others write
	compactRoom  = 64 << 20              // bytes that the disk must have free: moved pages pass through the log
)

// Compact returns the space of deleted jobs to the file system; by itself SQLite only reuses it for
// new jobs. It works in small transactions beside other processes, and may be interrupted at any
// time without losing its progress. full rewrites the whole file instead, which takes twice its
// size of disk space and is refused with ErrConflict while another process has the store open. A
// file that was not made by Sojourn itself can be compacted only with full.
func Compact(ctx context.Context, path string, full bool) (Compacted, error) {
	path, err := locateExisting(path)
	if err != nil {
		return Compacted{}, err
	}
	db, err := openDB(path, options{migrator: true})
	if err != nil {
		return Compacted{}, err
	}
	defer db.Close()
	c, err := db.take(ctx, db.writer)
	if err != nil {
		return Compacted{}, err
	}
	defer func() { db.give(c, db.writer) }()
	c.interruptBy(ctx)
	defer c.undisturbed()
	out := Compacted{Path: path, Before: filesys.Size(path) + filesys.Size(path+"-wal")}
	w := compacting{db, c}
	if full {
		err = w.rewrite(ctx)
	} else {
		err = w.giveBack(ctx)
	}
	if err != nil {
		return out, because(ctx, err)
	}
	if err := w.cutLog(ctx); err != nil {
		return out, because(ctx, err)
	}
	out.Free, err = number(c, "select freelist_count * page_size from pragma_freelist_count, pragma_page_size")
	out.After = filesys.Size(path) + filesys.Size(path+"-wal")
	return out, err
}

// compacting is a compaction under way, with the connection that writes.
type compacting struct {
	db *DB
	c  *conn
}

// giveBack moves the free pages to the end of the file and cuts them off, some at a time.
func (w compacting) giveBack(ctx context.Context) error {
	if mode, err := ask(w.c.raw, "pragma auto_vacuum"); err != nil || mode != "2" {
		return errors.Join(err, sojourn.Invalid("path", "%s was not made for it (auto_vacuum is %s, not 2); use --full", w.db.path, mode))
	}
	for {
		if free := filesys.Free(filepath.Dir(w.db.path)); free >= 0 && free < compactRoom {
			return w.noRoom(free, compactRoom)
		}
		left, err := number(w.c, "pragma freelist_count")
		if err != nil || left == 0 {
			return err
		}
		if err := w.c.patiently(ctx, func() error { return run(w.c.raw, fmt.Sprintf("pragma incremental_vacuum(%d)", compactPages)) }); err != nil {
			return err
		}
		now, err := number(w.c, "pragma freelist_count")
		if err != nil || now >= left { // others free as fast
			return err
		}
		w.db.boundWAL(w.c)
		if err := sleep(ctx, compactPause); err != nil {
			return err
		}
	}
}

// rewrite is the full way.
func (w compacting) rewrite(ctx context.Context) error {
	if living, err := owner.Living(w.db.path, w.db.owner.ID(), owner.Any); err != nil || len(living) > 0 {
		return errors.Join(err, sojourn.Conflict("%d other open stores use %s; stop their processes first, or compact without --full", len(living), w.db.path))
	}
	content, err := number(w.c, "select (page_count - freelist_count) * page_size from pragma_page_count, pragma_freelist_count, pragma_page_size")
	if err != nil {
		return err
	}
	if free := filesys.Free(filepath.Dir(w.db.path)); free >= 0 && free < 2*content+compactRoom {
		return w.noRoom(free, 2*content+compactRoom)
	}
	if err := run(w.c.raw, "pragma auto_vacuum=incremental"); err != nil { // takes effect with the next statement
		return err
	}
	// The copy goes to the disk, not to memory.
	if err := run(w.c.raw, "pragma temp_store=file"); err != nil {
		return err
	}
	return w.c.patiently(ctx, func() error { return run(w.c.raw, "vacuum") })
}

func (w compacting) noRoom(free, need int64) error {
	return &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "path", Index: -1,
		Message: fmt.Sprintf("the disk of %s has %d bytes free, and %d are needed; make room first", w.db.path, free, need)}
}

// cutLog writes the log back, with which the file becomes shorter. Readers may hold it up.
func (w compacting) cutLog(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readLimit+time.Second)
	defer cancel()
	err := w.c.patiently(limited, func() error {
		blocked, err := ask(w.c.raw, "pragma wal_checkpoint(truncate)")
		if err == nil && blocked == "1" {
			err = sqlite.ResultBusy.ToError()
		}
		return err
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil // the next checkpoint of anybody does it
	}
	return err
}
