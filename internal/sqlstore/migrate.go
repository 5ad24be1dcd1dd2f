package sqlstore

import (
	"context"
	"fmt"

	"github.com/sojourn-queue/sojourn"
)

const qMigrations = `create table if not exists sj_migration (version bigint not null primary key, name text not null, at_us bigint not null)`

// Schema returns the version found (0 in a new database) and the newest that this program knows.
func Schema(ctx context.Context, db DB, prefix string) (found, newest int, err error) {
	d := db.Dialect()
	if n := len(d.Migrations); n > 0 {
		newest = d.Migrations[n-1].Version
	}
	err = db.View(ctx, func(c Conn) error {
		found = 0
		there := false
		table := d.SQL(prefix, "", "sj_migration")
		if err := c.Query(d.FindTable, func(r Row) error { there = r.Int(0) > 0; return nil }, table); err != nil || !there {
			return err
		}
		return c.Query(d.SQL(prefix, "", `select coalesce(max(version), 0) from sj_migration`), func(r Row) error {
			found = int(r.Int(0))
			return nil
		})
	})
	if err == nil && found > newest {
		err = &sojourn.Error{Code: sojourn.CodeInvalid, Index: -1,
			Message: fmt.Sprintf("the database has schema version %d and this program knows %d: use a newer program", found, newest)}
	}
	return found, newest, err
}

// MigrateUp brings the schema to the newest version, each step in a transaction of its own, and returns the names of the steps it took.
func MigrateUp(ctx context.Context, db DB, prefix string, nowUs int64) (taken []string, err error) {
	found, newest, err := Schema(ctx, db, prefix)
	if err != nil || found == newest {
		return nil, err
	}
	d := db.Dialect()
	if found == 0 {
		if err := db.Update(ctx, func(c Conn) error { _, err := c.Exec(d.SQL(prefix, "", qMigrations)); return err }); err != nil {
			return nil, err
		}
	}
	for _, m := range d.Migrations {
		if m.Version <= found {
			continue
		}
		done := false
		err := db.Update(ctx, func(c Conn) error {
			done = false
			if d.Migrating != "" {
				if _, err := c.Exec(d.SQL(prefix, "", d.Migrating)); err != nil {
					return err
				}
			}
			applied := false // another process may have been faster
			if err := c.Query(d.SQL(prefix, "", `select version from sj_migration where version = $1`), func(Row) error { applied = true; return nil }, m.Version); err != nil || applied {
				return err
			}
			for _, statement := range Statements(m.Up) {
				if _, err := c.Exec(d.SQL(prefix, "", statement)); err != nil {
					return fmt.Errorf("migration %04d_%s: %w", m.Version, m.Name, err)
				}
			}
			done = true
			_, err := c.Exec(d.SQL(prefix, "", `insert into sj_migration (version, name, at_us) values ($1, $2, $3)`), m.Version, m.Name, nowUs)
			return err
		})
		if err != nil {
			return taken, err
		}
		if done {
			taken = append(taken, fmt.Sprintf("%04d_%s", m.Version, m.Name))
		}
	}
	return taken, nil
}

// Schema returns the version of this store's schema; see sojourn.Migrator.
func (s *Store) Schema(ctx context.Context) (found, newest int, err error) {
	return Schema(ctx, s.db, s.cfg.Prefix)
}

// MigrateUp brings this store's schema to the newest version; see sojourn.Migrator.
func (s *Store) MigrateUp(ctx context.Context) ([]string, error) {
	return MigrateUp(ctx, s.db, s.cfg.Prefix, s.clock.read(0).now)
}

var (
	_ sojourn.Store    = (*Store)(nil)
	_ sojourn.Checker  = (*Store)(nil)
	_ sojourn.Migrator = (*Store)(nil)
	_ sojourn.Owner    = (*Store)(nil)
)
