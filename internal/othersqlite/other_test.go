package othersqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3" // "sqlite3": SQLite in C
	_ "modernc.org/sqlite"          // "sqlite": the copy that the store uses

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

var echo = sojourn.Kind[int]{Name: "echo"}

// TestOtherSQLite opens a store, and transactions on its file by three ways. The test must be the
// only one of its process: a connection that is older than the first store of a process is refused
// too.
func TestOtherSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	early := open(t, "sqlite", path)
	if err := early.Ping(); err != nil { // a connection rests in its pool
		t.Fatal(err)
	}
	c, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, k := range []struct {
		name string
		db   *sql.DB
		ok   bool
	}{
		{"a connection older than the store", early, false},
		{"mattn/go-sqlite3", open(t, "sqlite3", path), false},
		{"modernc.org/sqlite", open(t, "sqlite", path), true},
	} {
		tx, err := k.db.Begin()
		if err != nil {
			t.Fatal(k.name, err)
		}
		_, err = sqlite.EnqueueTx(t.Context(), c, tx, echo.New(1))
		refused := sojourn.ErrorCode(err) == sojourn.CodeInvalid && strings.Contains(err.Error(), "modernc.org/sqlite")
		if k.ok && err != nil || !k.ok && !refused {
			t.Errorf("%s: %v", k.name, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(k.name, err)
		}
	}
}

func open(t *testing.T, driver, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
