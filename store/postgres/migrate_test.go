package postgres

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/migration/migrationtest"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/migrate"
)

// moreSteps are the real migrations and two of the test.
func moreSteps() []sqldb.Migration {
	d, err := newDialect(options{prefix: "sj_"})
	if err != nil {
		panic(err)
	}
	return migrationtest.Steps(d.Migrations[len(d.Migrations)-1], "select i, 'row ' || i from generate_series(1, 50000) i")
}

// migrations is a schema with these steps.
func migrations(address, schema string) migrationtest.Database {
	return migrationtest.Database{
		Open: func(between func(sqldb.DB) sqldb.DB) (migrate.Migrator, error) {
			o, err := newOptions([]Option{Schema(schema), func(o *options) { o.more = moreSteps() }})
			if err != nil {
				return nil, err
			}
			db, err := openDB(context.Background(), address, o)
			if err != nil || between == nil {
				return o.tend(db), err
			}
			return migration.New(between(db), o.tables(), time.Now, "create schema if not exists "+schema), nil
		},
		Start: func(command string) func() (string, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "SOJOURN_TEST_MIGRATE="+command, "SOJOURN_TEST_SCHEMA="+schema, "SOJOURN_TEST_POSTGRES="+address)
			return migrationtest.Command(cmd)
		},
	}
}

func TestMigrationsKilled(t *testing.T) {
	t.Parallel()
	migrationtest.Kill(t, migrations(testURL(t), newSchema(t)))
}

func TestMigrationsTogether(t *testing.T) {
	address, schema := testURL(t), newSchema(t)
	migrationtest.Together(t, migrations(address, schema), 3)
	execute(t, address, "drop schema "+schema+" restrict") // fails if the ways down have left anything
}

// vanishing is a database whose tables are dropped concurrently, right after the check that they
// exist.
type vanishing struct {
	sqldb.DB
	drop func()
}

func (v vanishing) View(ctx context.Context, fn func(sqldb.Conn) error) error {
	return v.DB.View(ctx, func(c sqldb.Conn) error { return fn(vanishingConn{c, v}) })
}

type vanishingConn struct {
	sqldb.Conn
	of vanishing
}

func (c vanishingConn) Query(q string, each func(sqldb.Row) error, args ...any) error {
	err := c.Conn.Query(q, each, args...)
	if q == c.of.Dialect().FindTable {
		c.of.drop()
	}
	return err
}

// TestMigrationsVanish: a look at the version while another process takes the last step down finds
// no tables, and no error.
func TestMigrationsVanish(t *testing.T) {
	address, schema := testURL(t), newSchema(t)
	all := migrations(address, schema)
	drop := func() {
		m, err := all.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.Migrate(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	m, err := all.Open(func(db sqldb.DB) sqldb.DB { return vanishing{db, sync.OnceFunc(drop)} })
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	open(t, Schema(schema), AutoMigrate()).Close()
	if s, err := m.Schema(t.Context()); err != nil || s.Found != 0 || s.Needs != 0 || s.Newest == 0 {
		t.Errorf("%+v %v", s, err)
	}
}

func TestMigrationHistory(t *testing.T) {
	address, schema := testURL(t), newSchema(t)
	migrationtest.History(t, migrations(address, schema), func(q string) { execute(t, address, "set search_path = "+schema+"; "+q) })
	execute(t, address, "drop schema "+schema+" restrict")
}

// TestTwoInstances: instances in one schema, each with a prefix of its own, do not see each other's
// jobs and ids (spec:A2, spec:A6).
func TestTwoInstances(t *testing.T) {
	_, schema := testURL(t), newSchema(t)
	one := open(t, Schema(schema), AutoMigrate(), Prefix("sj_"))
	two := open(t, Schema(schema), AutoMigrate(), Prefix("sj_two_"))
	for _, c := range []*sojourn.Client{one, two} {
		if e, err := c.Enqueue(t.Context(), sojourn.NewJob("k", []byte("1"), sojourn.Key("same"))); err != nil || e.Duplicate {
			t.Errorf("%+v, %v", e, err)
		}
		if jobs, err := c.Store().Find(t.Context(), sojourn.Filter{}); err != nil || len(jobs) != 1 {
			t.Errorf("%d jobs, %v; want the one of this instance", len(jobs), err)
		}
	}
}

// TestInstancesAreNoDrift: no instance is held against another one in the schema, whichever prefix
// begins like the other.
func TestInstancesAreNoDrift(t *testing.T) {
	address, schema := testURL(t), newSchema(t)
	prefixes := []string{"sj_", "sj_two_", "sj_t", "sj_l", "sj_key_", "sj_response_", "sj_landed_"}
	for _, prefix := range prefixes {
		open(t, Schema(schema), AutoMigrate(), Prefix(prefix)).Close()
	}
	for _, prefix := range prefixes {
		m, err := OpenMigrator(address, Schema(schema), Prefix(prefix))
		if err != nil {
			t.Fatal(err)
		}
		if drift, err := m.Drift(context.Background()); err != nil || len(drift) > 0 {
			t.Errorf("%s: %v %v", prefix, drift, err)
		}
		m.Close()
	}
}

// TestCodeLevels: a program works with newer tables if they say that it may, and refuses them if
// not (design: rolling deploys).
func TestCodeLevels(t *testing.T) {
	address, schema := testURL(t), newSchema(t)
	ctx := context.Background()
	old := open(t, Schema(schema), AutoMigrate())
	m, err := migrations(address, schema).Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.Schema(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(ctx, s.Found+1); err != nil { // while the old program works
		t.Fatal(err)
	}
	if _, err := old.Enqueue(ctx, sojourn.NewJob("mail", nil)); err != nil {
		t.Error("an old program on tables that allow it:", err)
	}
	open(t, Schema(schema)).Close()
	if _, err := m.Migrate(ctx, s.Newest); err != nil {
		t.Fatal(err)
	}
	refused(t, address, sojourn.CodeSchema, "use a newer program", Schema(schema))
	refused(t, address, sojourn.CodeSchema, "use a newer program", Schema(schema), AutoMigrate())
}
