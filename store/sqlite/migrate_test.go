package sqlite

import (
	"context"
	"os"
	"os/exec"
	"strings"
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
	d, err := newDialect(options{})
	if err != nil {
		panic(err)
	}
	return migrationtest.Steps(d.Migrations[len(d.Migrations)-1], `with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
		select i, 'row ' || i from n`)
}

// migrations is a file with these steps.
func migrations(path string) migrationtest.Database {
	return migrationtest.Database{
		Open: func(between func(sqldb.DB) sqldb.DB) (migrate.Migrator, error) {
			o := options{migrator: true, more: moreSteps()}
			db, err := openDB(path, o)
			if err != nil || between == nil {
				return o.tend(db), err
			}
			return migration.New(between(db), defaultPrefix, time.Now), nil
		},
		Start: func(command string) func() (string, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "SOJOURN_TEST_COMMAND="+command, "SOJOURN_TEST_PATH="+path)
			return migrationtest.Command(cmd)
		},
	}
}

func TestMigrationsKilled(t *testing.T) {
	migrationtest.Kill(t, migrations(fileTest(t)))
}

func TestMigrationsTogether(t *testing.T) { migrationtest.Together(t, migrations(fileTest(t)), 3) }

func TestMigrationHistory(t *testing.T) {
	path := fileTest(t)
	migrationtest.History(t, migrations(path), func(q string) {
		db, err := openDB(path, options{more: moreSteps()})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(context.Background(), func(c sqldb.Conn) error { _, err := c.Exec(q); return err }); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCodeLevels: a program works with newer tables if they say that it may, and refuses them if
// not (design: rolling deploys).
func TestCodeLevels(t *testing.T) {
	path := fileTest(t)
	ctx := context.Background()
	old, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrations(path).Open(nil)
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
	if _, err := m.Migrate(ctx, s.Newest); sojourn.ErrorCode(err) != sojourn.CodeConflict || !strings.Contains(err.Error(), "stop their processes") {
		t.Error("a step that an open old program could not work after:", err)
	}
	if _, err := m.Migrate(ctx, 0); sojourn.ErrorCode(err) != sojourn.CodeConflict {
		t.Error("a way down below an open program:", err)
	}
	old.Close()
	if old, err = Open(path); err != nil {
		t.Fatal("an old program that opens newer tables which allow it:", err)
	}
	old.Close()
	if _, err := m.Migrate(ctx, s.Newest); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); sojourn.ErrorCode(err) != sojourn.CodeSchema || !strings.Contains(err.Error(), "use a newer program") {
		t.Error("an old program on tables that are too new:", err)
	}
	if m, err := OpenMigrator(path); err != nil {
		t.Error(err)
	} else {
		if _, err := m.Migrate(ctx, 0); sojourn.ErrorCode(err) != sojourn.CodeSchema {
			t.Error("an old program takes back steps that it does not know:", err)
		}
		m.Close()
	}
}

// TestStatusLooksAtTheSchema: Status reports when the tables become too new for a store while it is
// open. The readiness check of a server relies on that.
func TestStatusLooksAtTheSchema(t *testing.T) {
	path := fileTest(t)
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Store().Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := openDB(path, options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(t.Context(), func(c sqldb.Conn) error {
		_, err := c.Exec(`insert into sj_migration (version, name, needs, at_us) values (999, 'later', 999, 0)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Store().Status(t.Context()); sojourn.ErrorCode(err) != sojourn.CodeSchema {
		t.Errorf("Status answered %v, want %s", err, sojourn.CodeSchema)
	}
}
