package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestTransactions runs the suite of transactions of the application, on modernc's driver of
// database/sql.
func TestTransactions(t *testing.T) {
	storetest.RunTx(t, func(t *testing.T, o storetest.Options) storetest.Application {
		path := filepath.Join(t.TempDir(), "jobs.db")
		s := conforming(t, path, o)
		db := application(t, path, "_txlock=immediate")
		return storetest.Application{Store: s, Begin: func() (storetest.Tx, error) { return begin(db) },
			Rows: func(t *testing.T) []int64 { return rows(t, db) }}
	})
}

// application is a program's own pool of connections to the store's file, and its table.
func application(t testing.TB, path, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&"+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.Exec("create table if not exists app (n integer not null)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func begin(db *sql.DB) (storetest.Tx, error) {
	tx, err := db.Begin()
	if err != nil {
		return storetest.Tx{}, err
	}
	return storetest.Tx{Handle: tx, Commit: tx.Commit, Rollback: tx.Rollback,
		Insert: func(n int64) error { _, err := tx.Exec("insert into app (n) values (?)", n); return err }}, nil
}

func rows(t testing.TB, db *sql.DB) (found []int64) {
	t.Helper()
	r, err := db.Query("select n from app order by n")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for r.Next() {
		var n int64
		if err := r.Scan(&n); err != nil {
			t.Fatal(err)
		}
		found = append(found, n)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}
