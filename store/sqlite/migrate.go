package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/migrate"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

// OpenMigrator opens a SQLite file to migrate its tables, in any version; see migrate.Migrator. A
// missing file is made.
func OpenMigrator(path string, list ...Option) (migrate.Migrator, error) {
	o, err := newOptions(list)
	if err != nil {
		return nil, err
	}
	o.migrator = true
	db, err := openDB(path, o)
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
	return migration.New(db, db.prefix, now)
}

// Others implements sqldb.Crowded. Stores of other instances in the file do not read the tables
// that are migrated.
func (d *DB) Others(_ context.Context, level int) (below int, err error) {
	if d.memory() {
		return 0, d.refusal()
	}
	living, err := owner.Living(d.path, d.owner.ID(), d.prefix)
	for _, l := range living {
		if l < level {
			below++
		}
	}
	return below, err
}

// Rehearse implements sqldb.Rehearser: in memory.
func (d *DB) Rehearse(ctx context.Context, fn func(c sqldb.Conn, prefix string) error) error {
	c, err := connect(inMemory, sqlite.OpenReadWrite|sqlite.OpenMemory, memoryPragmas())
	if err != nil {
		return err
	}
	defer c.raw.Close()
	return c.transact(ctx, c.text("begin"), c.text("rollback"), func(c sqldb.Conn) error { return fn(c, d.prefix) })
}
