package migration

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/migrate"
)

const (
	qMigrations = `create table if not exists sj_migration (version bigint not null primary key, name text not null, needs bigint not null, at_us bigint not null)`
	qVersion    = `select coalesce(max(version), 0) from sj_migration`
	qNeeds      = `select coalesce(max(needs), 0) from sj_migration`
)

// Migrator implements migrate.Migrator over a DB.
type Migrator struct {
	db     sqldb.DB
	prefix string
	now    func() time.Time
	before []string // run before the first step of all, to make room for the tables
}

var _ migrate.Migrator = (*Migrator)(nil)

// New makes a Migrator for the tables of a prefix. before are statements that prepare the database,
// such as making a schema; they may run again.
func New(db sqldb.DB, prefix string, now func() time.Time, before ...string) *Migrator {
	return &Migrator{db: db, prefix: prefix, now: now, before: before}
}

// Close closes the database; see migrate.Migrator.
func (m *Migrator) Close() error { return m.db.Close() }

// Schema reads the version; see migrate.Migrator.
func (m *Migrator) Schema(ctx context.Context) (migrate.Schema, error) {
	s := migrate.Schema{Newest: m.db.Dialect().Newest()}
	found := s
	there, err := m.ifThere(ctx, m.sql("sj_migration"), func(c sqldb.Conn) error { return m.ReadSchema(c, &found) })
	if there {
		s = found
	}
	return s, err
}

// ifThere runs look if a table of this name exists. On PostgreSQL a snapshot does not keep a table
// that another process drops just then: it counts as missing.
func (m *Migrator) ifThere(ctx context.Context, table string, look func(sqldb.Conn) error) (there bool, err error) {
	find := func(c sqldb.Conn) error {
		return c.Query(m.db.Dialect().FindTable, func(r sqldb.Row) error { there = r.Int(0) > 0; return nil }, table)
	}
	err = m.db.View(ctx, func(c sqldb.Conn) error {
		if err := find(c); err != nil || !there {
			return err
		}
		return look(c)
	})
	if err != nil && there && m.db.View(ctx, find) == nil && !there {
		err = nil
	}
	return there, err
}

// ReadSchema fills in the versions stored in the database. The table of migrations must exist.
func (m *Migrator) ReadSchema(c sqldb.Conn, s *migrate.Schema) error {
	s.Newest = m.db.Dialect().Newest()
	err := c.Query(m.sql(qVersion), func(r sqldb.Row) error { s.Found = int(r.Int(0)); return nil })
	if err == nil {
		err = c.Query(m.sql(qNeeds), func(r sqldb.Row) error { s.Needs = int(r.Int(0)); return nil })
	}
	return err
}

func (m *Migrator) sql(text string) string { return m.db.Dialect().SQL(m.prefix, "", text) }

// Fits checks whether a program may work with the schema version found; where names the store. The
// error has CodeSchema.
func Fits(s migrate.Schema, where string) error {
	refuse := func(format string, a ...any) error {
		return &sojourn.Error{Code: sojourn.CodeSchema, Field: "store", Index: -1, Message: where + " " + fmt.Sprintf(format, a...)}
	}
	switch {
	case s.Found == 0:
		return refuse("has no tables of a store yet: run sojourn migrate up")
	case s.Found < s.Newest:
		return refuse("has schema version %d and this program needs %d: run sojourn migrate up", s.Found, s.Newest)
	case s.Needs > s.Newest:
		return refuse("has schema version %d, which needs a program that knows version %d; this one knows %d: use a newer program", s.Found, s.Needs, s.Newest)
	}
	return nil
}

// Raise migrates older or missing tables to the newest version, as a store does that migrates when
// it opens. It does not change newer ones.
func (m *Migrator) Raise(ctx context.Context) error {
	s, err := m.Schema(ctx)
	if err == nil && s.Found < s.Newest {
		_, err = m.Migrate(ctx, s.Newest)
	}
	return err
}

// Up does the same at a given time, for tests of single databases.
func Up(ctx context.Context, db sqldb.DB, prefix string, nowUs int64) error {
	return New(db, prefix, func() time.Time { return time.UnixMicro(nowUs) }).Raise(ctx)
}

// Plan lists the steps; see migrate.Migrator.
func (m *Migrator) Plan(ctx context.Context, to int) ([]migrate.Migration, error) {
	s, err := m.Schema(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := m.route(s, to)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		if steps[i].Down {
			if err := m.losses(ctx, &steps[i]); err != nil {
				return nil, err
			}
		}
	}
	return steps, nil
}

// route lists the steps from the version found, without their losses.
func (m *Migrator) route(s migrate.Schema, to int) ([]migrate.Migration, error) {
	switch {
	case to < 0 || to > s.Newest:
		return nil, sojourn.Invalid("to", "%d is no version that this program knows; allowed are 0 to %d", to, s.Newest)
	case s.Found > s.Newest:
		return nil, &sojourn.Error{Code: sojourn.CodeSchema, Field: "store", Index: -1,
			Message: fmt.Sprintf("the schema has version %d and this program knows %d: use a newer program to migrate it", s.Found, s.Newest)}
	}
	var steps []migrate.Migration
	all := m.db.Dialect().Migrations
	for _, step := range all[min(s.Found, to):to] {
		steps = append(steps, m.up(step))
	}
	for v := s.Found; v > to; v-- {
		if all[v-1].Down == "" {
			return nil, sojourn.Invalid("to", "%d cannot be reached: there is no way down from version %d", to, v)
		}
		needs := 0
		if v > 1 {
			needs = all[v-2].Needs
		}
		steps = append(steps, m.down(all[v-1], needs))
	}
	return steps, nil
}

// up writes a step up down to its last statement.
func (m *Migrator) up(s sqldb.Migration) migrate.Migration {
	out := migrate.Migration{Version: s.Version, Name: s.Name, Needs: s.Needs}
	if s.Version == 1 {
		out.SQL = append(append(out.SQL, m.before...), m.sql(qMigrations))
	}
	out.SQL = append(out.SQL, m.lock()...)
	for _, statement := range sqldb.Statements(s.Up) {
		out.SQL = append(out.SQL, m.sql(statement))
	}
	out.SQL = append(out.SQL, m.sql(fmt.Sprintf("insert into sj_migration (version, name, needs, at_us) values (%d, '%s', %d, %d)",
		s.Version, s.Name, s.Needs, m.now().UnixMicro())))
	return out
}

// down prepares a step down. The last one removes everything.
func (m *Migrator) down(s sqldb.Migration, needs int) migrate.Migration {
	out := migrate.Migration{Version: s.Version, Name: s.Name, Down: true, Needs: needs, SQL: m.lock()}
	for _, statement := range sqldb.Statements(s.Down) {
		out.SQL = append(out.SQL, m.sql(statement))
	}
	last := fmt.Sprintf("delete from sj_migration where version = %d", s.Version)
	if s.Version == 1 {
		last = "drop table sj_migration"
	}
	out.SQL = append(out.SQL, m.sql(last))
	return out
}

func (m *Migrator) lock() []string {
	if q := m.db.Dialect().Migrating; q != "" {
		return []string{m.sql(q)}
	}
	return nil
}

// losses counts the rows that a step down deletes. Tables that an earlier step down has dropped, or
// that do not exist, lose nothing more.
func (m *Migrator) losses(ctx context.Context, step *migrate.Migration) error {
	for _, q := range step.SQL {
		table, column := taken(q)
		if table == "" || table == m.sql("sj_migration") {
			continue
		}
		loss := migrate.Loss{Table: table, Column: column}
		there, err := m.ifThere(ctx, table, func(c sqldb.Conn) error {
			return c.Query("select count(*) from "+table, func(r sqldb.Row) error { loss.Rows = r.Int(0); return nil })
		})
		if err != nil {
			return err
		}
		if there {
			step.Loses = append(step.Loses, loss)
		}
	}
	return nil
}

var dropped = regexp.MustCompile(`(?is)^\s*(?:--.*\n\s*)*(?:drop\s+table\s+(?:if\s+exists\s+)?([\w.]+)|alter\s+table\s+([\w.]+)\s+drop\s+column\s+(?:if\s+exists\s+)?(\w+))`)

// taken names the table, or the column of a table, that a statement drops; "" if it drops none.
func taken(statement string) (table, column string) {
	if f := dropped.FindStringSubmatch(statement); f != nil {
		return f[1] + f[2], f[3]
	}
	return "", ""
}

// maxDetours bounds how often Migrate starts over because other processes migrate as well.
const maxDetours = 100

// errOvertaken: another process has taken this step, or one the other way.
var errOvertaken = errors.New("another process migrates as well")

// Migrate runs the steps; see migrate.Migrator. After a lost race it reads the version again.
func (m *Migrator) Migrate(ctx context.Context, to int) (done []migrate.Migration, err error) {
	for range maxDetours {
		s, err := m.Schema(ctx)
		if err != nil {
			return done, err
		}
		steps, err := m.route(s, to)
		if err != nil || len(steps) == 0 {
			return done, err
		}
		if err = m.take(ctx, s, steps[0]); err == nil {
			done = append(done, steps[0])
			continue
		}
		if now, look := m.Schema(ctx); look != nil || now.Found == s.Found && !errors.Is(err, errOvertaken) {
			return done, fmt.Errorf("migration %04d_%s: %w", steps[0].Version, steps[0].Name, err)
		}
	}
	return done, sojourn.Conflict("other processes migrate this store to another version; stop them, and begin anew")
}

// take runs one step in one transaction. The statements before the step's first one make the table
// of versions and lock out other processes; alone then repeats the checks on which the decision for
// this step was based.
func (m *Migrator) take(ctx context.Context, s migrate.Schema, step migrate.Migration) error {
	first := len(m.lock())
	if !step.Down && step.Version == 1 {
		first += len(m.before) + 1
	}
	return m.db.Update(ctx, func(c sqldb.Conn) error {
		for i, q := range step.SQL {
			if i == first {
				if err := m.alone(ctx, c, s, step); err != nil {
					return err
				}
			}
			if _, err := c.Exec(q); err != nil {
				return fmt.Errorf("statement %d of %d: %w", i+1, len(step.SQL), err)
			}
		}
		return nil
	})
}

// alone refuses a step that another process has taken, and, where that can be known, one after
// which other processes that have the store open could not work.
func (m *Migrator) alone(ctx context.Context, c sqldb.Conn, s migrate.Schema, step migrate.Migration) error {
	var now migrate.Schema
	if err := m.ReadSchema(c, &now); err != nil {
		return err
	}
	if now.Found != s.Found {
		return errOvertaken
	}
	db, ok := m.db.(sqldb.Crowded)
	if !ok || s.Found == 0 {
		return nil
	}
	level := step.Needs
	if step.Down { // programs of every version need the objects that a step down drops
		level = s.Newest + 1
	}
	n, err := db.Others(ctx, level)
	if err == nil && n > 0 {
		err = sojourn.Conflict("%d other open stores could not go on working after it; stop their processes first", n)
	}
	return err
}
