package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/checktest"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gatedtest"
)

// TestDoctorFindsEachPlantedViolation breaks one invariant at a time in a healthy file (spec:A18).
func TestDoctorFindsEachPlantedViolation(t *testing.T) {
	healthy := filepath.Join(t.TempDir(), "healthy.db")
	c, err := Open(healthy)
	if err != nil {
		t.Fatal(err)
	}
	checktest.Run(t, c, "x''", func(t *testing.T, plant string) driver.Checker {
		file := filepath.Join(t.TempDir(), "sick.db")
		b, err := os.ReadFile(healthy)
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return planted(t, file, plant)
	})
}

var constraintText = regexp.MustCompile(`constraint (\w+) check (.*)`)

// TestEachConstraintRefuses: spec:S12.
func TestEachConstraintRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDB(path, options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list := func(t *testing.T) (all []checktest.Constraint) {
		query(t, d, "select name, sql from sqlite_schema where type = 'table' and name like 'sj\\_%' escape '\\'", func(r sqldb.Row) {
			table, text := r.Text(0), r.Text(1)
			if named := len(constraintText.FindAllString(text, -1)); named != strings.Count(text, "check (") {
				t.Errorf("%s has a check constraint without a name", table)
			}
			for _, found := range constraintText.FindAllStringSubmatch(strings.ReplaceAll(text, "\n\t\t", " "), -1) {
				one := checktest.Constraint{Table: table, Name: found[1]}
				query(t, d, "select name from pragma_table_xinfo('"+table+"')", func(r sqldb.Row) {
					if regexp.MustCompile(`\b` + r.Text(0) + `\b`).MatchString(found[2]) {
						one.Columns = append(one.Columns, r.Text(0))
					}
				})
				all = append(all, one)
			}
		})
		return all
	}
	checktest.Constraints(t, c, func(n string) string { return "zeroblob(" + n + ")" }, list, func(t *testing.T, q string) (rows int64, err error) {
		undo := errors.New("undo")
		failed := d.Update(t.Context(), func(c sqldb.Conn) error {
			if rows, err = c.Exec(q); err != nil {
				return err
			}
			return undo
		})
		if err == nil && failed != undo {
			t.Fatal(failed)
		}
		return rows, err
	})
}

func query(t *testing.T, d *DB, q string, each func(r sqldb.Row)) {
	t.Helper()
	if err := d.View(t.Context(), func(c sqldb.Conn) error {
		return c.Query(q, func(r sqldb.Row) error { each(r); return nil })
	}); err != nil {
		t.Fatal(err)
	}
}

// TestRepairOfTheLedger: while jobs start and end, a repair corrects wrong counts of the weight in
// flight, and counts no concurrent change twice. inv:T2
func TestRepairOfTheLedger(t *testing.T) {
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(filepath.Join(t.TempDir(), "sick.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := migration.Up(context.Background(), db, defaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	s, err := newStore(db, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gatedtest.Mislay(t, sojourn.NewClient(s), func(sql string) {
		if err := db.Update(context.Background(), func(c sqldb.Conn) error { _, err := c.Exec(sql); return err }); err != nil {
			t.Error(err)
		}
	})
}

// TestCountsAreMadeRightAtOpen: a process that maintains the numbers of jobs counts all jobs once
// after one that did not.
func TestCountsAreMadeRightAtOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	for _, without := range []bool{false, true, false} {
		undo := sqlstore.Tune(func(cfg *sqlstore.Config) { cfg.Without.Counts = without })
		c, err := Open(file)
		undo()
		if err != nil {
			t.Fatal(err)
		}
		before, err := c.Queues().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
			t.Fatal(err)
		}
		now, err := c.Queues().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ready := int64(1)
		if len(before) > 0 {
			ready += before[0].Counts[sojourn.Ready]
		}
		if now[0].Counts[sojourn.Ready] != ready {
			t.Errorf("without counts %v: %d ready jobs after %v", without, now[0].Counts[sojourn.Ready], before)
		}
		if found, err := c.Store().(driver.Checker).Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("without counts %v: %v %v", without, found, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// planted opens a file in which a statement is executed behind the store's back.
func planted(t *testing.T, file, plant string) *sqlstore.Store {
	t.Helper()
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openDB(file, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(db, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if plant == "" {
		return s
	}
	err = db.Update(context.Background(), func(c sqldb.Conn) error {
		// The doctor also finds what the schema refuses.
		if _, err := c.Exec("pragma ignore_check_constraints = 1"); err != nil {
			return err
		}
		n, err := c.Exec(plant)
		if err == nil && n == 0 {
			t.Error("the plant changed nothing:", plant)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
