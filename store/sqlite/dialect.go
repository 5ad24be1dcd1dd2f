package sqlite

import (
	"embed"
	"errors"
	"io/fs"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/damage"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// newDialect returns the SQL dialect of SQLite.
func newDialect(o options) (sqldb.Dialect, error) {
	folder, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return sqldb.Dialect{}, err
	}
	migrations, err := sqldb.LoadMigrations(folder)
	migrations = append(migrations, o.more...)
	for i := range migrations {
		migrations[i].Up = strings.ReplaceAll(migrations[i].Up, "create index ix_", "create index ix_"+o.tables())
		migrations[i].Down = strings.ReplaceAll(migrations[i].Down, "drop index ix_", "drop index ix_"+o.tables())
	}
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
// are those of unique constraints and primary keys. Check constraints are read from the text of
// their table, after its last column; each ends where the next one begins.
const qShape = `with recursive own as (select * from sqlite_schema where substr(tbl_name, 1, length(?1)) = ?1),
	checks(tbl, item, rest) as (
		select name, '', substr(sql, instr(sql, 'constraint ')) from own where type = 'table' and instr(sql, 'constraint ') > 0
		union all select tbl, substr(rest, 12, coalesce(nullif(instr(substr(rest, 12), 'constraint '), 0), length(rest)) - 1),
			substr(rest, 11 + nullif(instr(substr(rest, 12), 'constraint '), 0)) from checks where rest <> '')
	select 'table ' || t.name, case when t.strict then 'strict' else '' end || case when t.wr then ' without rowid' else '' end, t.name
		from pragma_table_list t where t.schema = 'main' and t.type <> 'view' and substr(t.name, 1, length(?1)) = ?1
	union all select 'column ' || m.name || '.' || c.name, c.type || case when c."notnull" then ' not null' else '' end
			|| coalesce(' default ' || c.dflt_value, '') || case when c.pk > 0 then ' primary key ' || c.pk else '' end, m.name
		from own m join pragma_table_xinfo(m.name) c where m.type = 'table'
	union all select 'constraint ' || tbl || '.' || substr(item, 1, instr(item, ' ') - 1), rtrim(substr(item, instr(item, ' ') + 1), ' ,' || char(9, 10)), tbl
		from checks where item <> ''
	union all select 'index ' || i.name, case when i."unique" then 'unique ' else '' end || coalesce(lower(substr(s.sql, instr(s.sql, '('))),
			(select group_concat(x.name) from pragma_index_info(i.name) x)), m.name
		from own m join pragma_index_list(m.name) i left join sqlite_schema s on s.type = 'index' and s.name = i.name
		where m.type = 'table'
	union all select m.type || ' ' || m.name, m.sql, m.tbl_name from own m where m.type in ('trigger', 'view')`

func busy(err error) bool {
	return err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy
}

// broken reports whether the state of the disk is unknown after an error. A full disk is no such
// error: the transaction is rolled back, and the next one may fit.
func broken(err error) bool {
	// The last one: the file was replaced or deleted under the open store.
	return errors.Is(err, errSync) || damage.Is(err) || err != nil && sqlite.ErrCode(err) == sqlite.ResultReadOnlyDBMoved
}
