package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/migrate"
)

// OpenMigrator connects to a database to migrate the tables of a store, in any version; see
// migrate.Migrator.
func OpenMigrator(address string, list ...Option) (migrate.Migrator, error) {
	o, err := newOptions(list)
	if err == nil {
		o, err = o.from(address)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	db, err := openDB(ctx, address, o)
	if err != nil {
		return nil, err
	}
	return o.tend(db), nil
}

func (o options) tend(db *DB) *migration.Migrator {
	now := time.Now
	if o.clock != nil {
		now = o.clock
	}
	var before []string
	if o.schema != "" {
		before = append(before, "create schema if not exists "+o.schema)
	}
	return migration.New(db, o.tables(), now, before...)
}

// rehearsal makes temporary tables, which cannot be unlogged.
type rehearsal struct{ sqldb.Conn }

// Exec implements sqldb.Conn.
func (r rehearsal) Exec(q string, args ...any) (int64, error) {
	return r.Conn.Exec(strings.Replace(q, "create unlogged table", "create table", 1), args...)
}

var errRehearsed = errors.New("rehearsed")

// Rehearse implements sqldb.Rehearser: with temporary tables, in a transaction that is rolled back.
// The role needs the right to make them, which everybody has by default.
func (d *DB) Rehearse(ctx context.Context, fn func(c sqldb.Conn, prefix string) error) error {
	err := d.Update(ctx, func(c sqldb.Conn) error {
		if err := fn(rehearsal{c}, "pg_temp."+d.prefix); err != nil {
			return err
		}
		return errRehearsed
	})
	if errors.Is(err, errRehearsed) {
		return nil
	}
	return err
}
