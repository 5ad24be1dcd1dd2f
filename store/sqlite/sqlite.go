package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// prefix of every table. One file holds one instance.
const prefix = "sj_"

// Open opens the queue in a SQLite file, or ":memory:" for a private one that lives as long as the client. A missing file is made
// (mode 0600, its folder must exist), and an older schema is migrated, unless NoMigrate. Several processes on one file are normal.
//
// What is acknowledged is durable: write-ahead log with synchronous=FULL, set and read back. The error names what to do where the file is
// not ours, damaged, on a network file system, or newer than this program.
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
	cfg := sqlstore.Config{Prefix: prefix, Now: time.Now, MaxBytes: o.maxBytes, InboxTTL: o.inboxTTL, Declared: o.declared,
		Throttlers: o.throttlers, Rules: o.rules}
	if o.clock != nil {
		cfg.Now, cfg.Driven = o.clock, true
	}
	if o.noMigrate {
		found, newest, err := sqlstore.Schema(ctx, db, prefix)
		if err == nil && found != newest {
			err = &sojourn.Error{Code: sojourn.CodeInvalid, Index: -1,
				Message: fmt.Sprintf("%s has schema version %d and this program needs %d: run sojourn migrate up", db.path, found, newest)}
		}
		if err != nil {
			return nil, err
		}
	} else if _, err := sqlstore.MigrateUp(ctx, db, prefix, cfg.Now().UnixMicro()); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, cfg)
}
