package sqlite

import (
	"embed"
	"errors"
	"io/fs"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// newDialect returns the SQL dialect of SQLite.
func newDialect() (sqldb.Dialect, error) {
	folder, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return sqldb.Dialect{}, err
	}
	migrations, err := sqldb.LoadMigrations(folder)
	return sqldb.Dialect{
		Name: "sqlite",
		// SQLite numbers $1, $2 by their first use; ?1, ?2 are numbered as written.
		Param: "?",
		Ints:  "select value from json_each(%s)",
		Texts: "select value from json_each(%s)",
		Rows: func(params []string) string {
			for i, p := range params {
				params[i], _, _ = strings.Cut(p, " ")
			}
			return "values (" + strings.Join(params, ", ") + ")"
		},
		// Since 3.47 a plan depends on a limit that is a plain parameter, and SQLite recompiles the
		// statement each time that it is bound.
		Limit:      "limit +%s",
		Busy:       busy,
		Broken:     broken,
		FindTable:  "select count(*) from sqlite_schema where name = $1",
		Shape:      qShape,
		Migrations: migrations,
	}, err
}

// qShape omits objects that SQLite makes by itself, except for the columns of its indexes, which
// are those of unique constraints and primary keys.
const qShape = `select 'table ' || t.name, case when t.strict then 'strict' else '' end || case when t.wr then ' without rowid' else '' end
		from pragma_table_list t where t.schema = 'main' and t.type <> 'view' and t.name not like 'sqlite\_%' escape '\' and ?1 <> ''
	union all select 'column ' || m.name || '.' || c.name, c.type || case when c."notnull" then ' not null' else '' end
			|| coalesce(' default ' || c.dflt_value, '') || case when c.pk > 0 then ' primary key ' || c.pk else '' end
		from sqlite_schema m join pragma_table_xinfo(m.name) c where m.type = 'table' and m.name not like 'sqlite\_%' escape '\'
	union all select 'index ' || i.name, case when i."unique" then 'unique ' else '' end || coalesce(lower(substr(s.sql, instr(s.sql, '('))),
			(select group_concat(x.name) from pragma_index_info(i.name) x))
		from sqlite_schema m join pragma_index_list(m.name) i left join sqlite_schema s on s.type = 'index' and s.name = i.name
		where m.type = 'table' and m.name not like 'sqlite\_%' escape '\'
	union all select m.type || ' ' || m.name, m.sql from sqlite_schema m where m.type in ('trigger', 'view')`

func busy(err error) bool {
	return err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy
}

// broken reports whether the state of the disk is unknown after an error. A full disk is no such
// error: the transaction is rolled back, and the next one may fit.
func broken(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, errSync) {
		return true
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
