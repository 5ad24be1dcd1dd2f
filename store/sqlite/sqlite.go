package sqlite

import (
	"context"
	"path/filepath"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
)

// defaultPrefix begins the names of the tables; see Prefix.
const defaultPrefix = "sj_"

// apart is from how many ends of steps on they have a transaction of their own, which runs while
// the log is synced for jobs that start. With fewer, all that comes from few callers meets in one,
// which is a sync less.
const apart = 32

// Open opens the queue in a SQLite file, or ":memory:" for a private one that lives as long as the
// client. A missing file is made (mode 0600, its folder must exist), and an older schema is
// migrated, unless NoMigrate. Several processes on one file are normal.
//
// Acknowledged writes are durable: the write-ahead log is synced before a call returns, except with
// Relaxed. If the file is of another program, damaged, on a network file system, or too new for
// this program (CodeSchema), the error says how to proceed.
func Open(path string, list ...Option) (*sojourn.Client, error) {
	o, err := newOptions(list)
	if err != nil {
		return nil, err
	}
	db, err := openDB(path, o)
	if err != nil {
		return nil, err
	}
	s, err := newStore(db, o)
	if err != nil {
		db.Close()
		return nil, err
	}
	return sojourn.NewClient(s), nil
}

func newStore(db *DB, o options) (*sqlstore.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	cfg := sqlstore.Config{Prefix: db.prefix, Now: time.Now, MaxBytes: o.maxBytes, InboxTTL: o.inboxTTL, Declared: o.declared,
		Throttlers: o.throttlers, Rules: o.rules}
	if o.lowSpace > 0 && db.path != ":memory:" {
		cfg.NoRoom = (&space{dir: filepath.Dir(db.path), least: o.lowSpace, free: filesys.Free}).check
	}
	if db.log.files != nil {
		cfg.Enders, cfg.Apart = 1, apart
	}
	if o.clock != nil {
		cfg.Now, cfg.Driven = o.clock, true
	}
	m := o.tend(db)
	if !o.noMigrate {
		if err := m.Raise(ctx); err != nil {
			return nil, err
		}
	}
	s, err := m.Schema(ctx)
	if err == nil {
		err = migration.Fits(s, db.location())
	}
	if err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, cfg)
}
