package sqlite

import (
	"embed"
	"io/fs"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// newDialect is how SQLite differs.
func newDialect() (sqlstore.Dialect, error) {
	folder, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return sqlstore.Dialect{}, err
	}
	migrations, err := sqlstore.LoadMigrations(folder)
	return sqlstore.Dialect{
		Name: "sqlite",
		// SQLite numbers $1, $2 as it meets them; ?1, ?2 are what the text says.
		Param: "?",
		Ints:  "select value from json_each(%s)",
		Texts: "select value from json_each(%s)",
		Rows: func(params []string) string {
			for i, p := range params {
				params[i], _, _ = strings.Cut(p, " ")
			}
			return "values (" + strings.Join(params, ", ") + ")"
		},
		Busy:       busy,
		Broken:     broken,
		FindTable:  "select count(*) from sqlite_schema where name = $1",
		Migrations: migrations,
	}, err
}

func busy(err error) bool {
	return err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy
}

// broken tells errors after which nobody knows what is on the disk. A full disk is none: the transaction is rolled back, and
// the next one may fit.
func broken(err error) bool {
	if err == nil {
		return false
	}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultIOErr:
		return code != sqlite.ResultIOErrNoMem
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return true
	default:
		return code == sqlite.ResultReadOnlyDBMoved // the file was replaced or deleted under the open store
	}
}
