package postgres

import (
	"embed"
	"errors"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// newDialect is how PostgreSQL differs.
func newDialect(prefix string) (sqlstore.Dialect, error) {
	folder, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return sqlstore.Dialect{}, err
	}
	migrations, err := sqlstore.LoadMigrations(folder)
	for i := range migrations {
		// An index stands in the schema of its table, and its name must not say which, so sj_ cannot stand in it.
		migrations[i].Up = strings.ReplaceAll(migrations[i].Up, "create index ix_", "create index ix_"+prefix)
	}
	return sqlstore.Dialect{
		Name:  "postgres",
		Lock:  "for update skip locked",
		Wait:  "for update of %s",
		Hit:   "returning %s",
		Ints:  "select unnest(%s::bigint[])",
		Texts: "select unnest(%s::text[])",
		Rows: func(params []string) string {
			for i, p := range params {
				params[i] = strings.Replace(p, " ", "::", 1) + "[]"
			}
			return "select * from unnest(" + strings.Join(params, ", ") + ")"
		},
		Arrays: true,
		Busy:   busy,
		Over: map[string]string{
			// A counter's row stays locked until the commit: it would put the responses of all nodes into one line, and it is taken after the rows of
			// jobs, which ends in deadlocks.
			sqlstore.TextNextResponse: `select nextval('sj_response_seq')`,
			// The shared text looks at 1,000 candidates and takes a few. Locked, all of them would be hidden from the other nodes; so this one looks
			// past heavy jobs without a bound.
			sqlstore.TextPick: `select id, r1, r2, weight from sj_live where queue = $1 and kind = $2 and state = 3 and $3::bigint > 0 and weight <= $4
				order by r1, r2, id limit $5 /*lock*/`,
		},
		Migrations: migrations,
		Concurrent: true,
		FindTable:  "select case when to_regclass($1) is null then 0 else 1 end",
		Migrating:  "lock table sj_migration in exclusive mode",
	}, err
}

// The codes of the server after which the same transaction may succeed.
const (
	serialization = "40001"
	deadlock      = "40P01"
	// A row that another transaction has inserted after this one had looked. Seen again, it is not inserted.
	unique = "23505"
	// Two processes make the first table at once.
	duplicateTable  = "42P07"
	duplicateObject = "42710"
)

// busy tells errors after which the whole transaction is worth another try.
func busy(err error) bool {
	if errors.Is(err, sqlstore.ErrRaced) {
		return true
	}
	switch code(err) {
	case serialization, deadlock, unique, duplicateTable, duplicateObject:
		return true
	}
	return false
}

// code is the server's code of an error; "" for others.
func code(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}
