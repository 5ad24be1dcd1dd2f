package sqlite

import (
	"context"
	"os"
	"path/filepath"
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
	if err := migration.Up(context.Background(), db, prefix, 1); err != nil {
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
