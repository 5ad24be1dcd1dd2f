package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest"
)

// TestTransactions runs the suite of transactions of the application, on pgx.
func TestTransactions(t *testing.T) {
	storetest.RunTx(t, func(t *testing.T, o storetest.Options) storetest.Application {
		s, table, pool := beside(t, o)
		return storetest.Application{Store: s,
			Begin: func() (storetest.Tx, error) { return begin(pool, table) },
			Rows:  func(t *testing.T) []int64 { return rows(t, pool, table) }}
	})
}

// TestTransactionsSQL runs it on database/sql with pgx's driver.
func TestTransactionsSQL(t *testing.T) {
	db, err := sql.Open("pgx", testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.RunTx(t, func(t *testing.T, o storetest.Options) storetest.Application {
		s, table, pool := beside(t, o)
		return storetest.Application{Store: s,
			Begin: func() (storetest.Tx, error) { return beginSQL(db, table) },
			Rows:  func(t *testing.T) []int64 { return rows(t, pool, table) }}
	})
}

// beside opens a store, and a program's own pool and table in the same schema.
func beside(t *testing.T, o storetest.Options) (s driver.Store, table string, pool *pgxpool.Pool) {
	t.Helper()
	schema := newSchema(t)
	c, err := Open(testURL(t), Clock(o.Now), Schema(schema), AutoMigrate())
	if err != nil {
		t.Fatal(err)
	}
	table = schema + ".app"
	return driver.Of(c), table, application(t, table)
}

func application(t testing.TB, table string) *pgxpool.Pool {
	t.Helper()
	execute(t, testURL(t), "create table if not exists "+table+" (n bigint not null)")
	pool, err := pgxpool.New(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func begin(pool *pgxpool.Pool, table string) (storetest.Tx, error) {
	ctx := context.Background()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return storetest.Tx{}, err
	}
	return storetest.Tx{Handle: tx,
		Commit: func() error { return tx.Commit(ctx) }, Rollback: func() error { return tx.Rollback(ctx) },
		Insert: func(n int64) error { _, err := tx.Exec(ctx, "insert into "+table+" (n) values ($1)", n); return err }}, nil
}

func beginSQL(db *sql.DB, table string) (storetest.Tx, error) {
	tx, err := db.Begin()
	if err != nil {
		return storetest.Tx{}, err
	}
	return storetest.Tx{Handle: tx, Commit: tx.Commit, Rollback: tx.Rollback,
		Insert: func(n int64) error { _, err := tx.Exec("insert into "+table+" (n) values ($1)", n); return err }}, nil
}

func rows(t testing.TB, pool *pgxpool.Pool, table string) []int64 {
	t.Helper()
	found, err := pool.Query(t.Context(), "select n from "+table+" order by n")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := pgx.CollectRows(found, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(fmt.Errorf("read %s: %w", table, err))
	}
	return ns
}
