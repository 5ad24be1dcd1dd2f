package sqlite

import (
	"context"
	"path/filepath"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/diskspace"
)

// defaultPrefix begins the names of the tables; see Prefix.
const defaultPrefix = "sj_"

// apart is the least number of waiting outcomes that get a transaction of their own. It runs while
// the log is synced for claims and enqueues. Fewer outcomes share a transaction with these, which
// saves a sync.
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
		StatisticsDays: o.statistics[0], HistogramDays: o.statistics[1],
		Throttlers: o.throttlers, Rules: o.rules}
	if o.lowSpace > 0 && db.path != ":memory:" {
		cfg.NoRoom = diskspace.New(filepath.Dir(db.path), o.lowSpace).Check
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
