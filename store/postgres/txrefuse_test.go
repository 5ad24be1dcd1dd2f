package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var echo = sojourn.Kind[int]{Name: "echo"}

// shop opens a store in a schema of its own on the server's clock, and a pool of the application
// whose search_path is path.
func shop(t *testing.T, path func(schema string) string, options ...Option) (*sojourn.Client, *pgxpool.Pool, string) {
	t.Helper()
	schema := newSchema(t)
	c := open(t, append([]Option{Schema(schema), AutoMigrate()}, options...)...)
	t.Cleanup(func() {
		found, err := c.Store().(driver.Checker).Check(context.Background())
		if err := errors.Join(err, c.Close()); err != nil || len(found) > 0 {
			t.Error(found, err)
		}
	})
	execute(t, testURL(t), "create table "+schema+".app (n bigint not null)")
	pool, err := pgxpool.New(t.Context(), with(t, testURL(t), "search_path", path(schema)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return c, pool, schema
}

func itself(schema string) string { return schema }

func mustBegin(t *testing.T, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// TestTransactionElsewhere: a transaction that does not reach the store's own tables is refused and
// stays usable: no tables at all, tables of another instance.
func TestTransactionElsewhere(t *testing.T) {
	mine, _, _ := shop(t, itself)
	_, pool, _ := shop(t, func(string) string { return "pg_catalog" })
	// The store's tables are named with their schema, so only another database lacks them; a client
	// without a Schema looks along the search_path.
	loose, err := Open(with(t, testURL(t), "search_path", schemaOf(t, mine)))
	if err != nil {
		t.Fatal(err)
	}
	defer loose.Close()
	_, others, _ := shop(t, itself)
	for name, p := range map[string]*pgxpool.Pool{"no tables": pool, "tables of another instance": others} {
		tx := mustBegin(t, p, pgx.ReadCommitted)
		_, err := EnqueueTx(t.Context(), loose, tx, echo.New(1))
		if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), "search_path") {
			t.Errorf("%s: %v", name, err)
		}
		var one int
		if err := tx.QueryRow(t.Context(), "select 1").Scan(&one); err != nil {
			t.Errorf("%s: the transaction is spoilt: %v", name, err)
		}
	}
	tx := mustBegin(t, pool, pgx.ReadCommitted)
	if _, err := EnqueueTx(t.Context(), mine, tx, echo.New(1)); err != nil {
		t.Error("with a Schema any search_path will do:", err)
	}
}

func schemaOf(t *testing.T, c *sojourn.Client) string {
	t.Helper()
	s, err := c.Store().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(s.Location, "tables ")
	schema, _, _ := strings.Cut(tables, ".")
	return schema
}

// TestStrictIsolation: under REPEATABLE READ a key that was taken since the snapshot is a Retryable
// error. The repeated transaction then finds the key's job (rules:F4).
func TestStrictIsolation(t *testing.T) {
	c, pool, _ := shop(t, itself)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		key := sojourn.Key(string(level))
		tx := mustBegin(t, pool, level)
		if _, err := tx.Exec(t.Context(), "select count(*) from app"); err != nil { // takes the snapshot
			t.Fatal(err)
		}
		held, err := c.Enqueue(t.Context(), echo.New(1, key))
		if err != nil {
			t.Fatal(err)
		}
		_, err = EnqueueTx(t.Context(), c, tx, echo.New(2, key))
		if e, ok := errors.AsType[*sojourn.Error](err); !ok || !e.Retryable {
			t.Errorf("%s: %v; want an error that is Retryable", level, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		tx = mustBegin(t, pool, level)
		es, err := EnqueueTx(t.Context(), c, tx, echo.New(2, key))
		if err != nil || es[0].ID != held.ID || !es[0].Duplicate {
			t.Errorf("%s, again: %+v, %v; want a duplicate of %d", level, es, err, held.ID)
		}
	}
}

// TestStrictIsolationOfDependents: a job that is completed in a transaction with an older snapshot
// releases also the dependents that were added after the snapshot (rules:G3).
func TestStrictIsolationOfDependents(t *testing.T) {
	c, pool, _ := shop(t, itself)
	s := driver.Of(c)
	for i, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		parent, err := c.Enqueue(t.Context(), echo.New(1, sojourn.Queue("parents")))
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.Enqueue(t.Context(), echo.New(2, sojourn.DependsOn(parent.ID)))
		if err != nil {
			t.Fatal(err)
		}
		cs, err := s.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: int64(i + 1), Queues: []string{"parents"}, Kinds: []string{"echo"}, Max: 1, Capacity: 1, Lease: time.Minute})
		if err != nil || len(cs) != 1 {
			t.Fatal(cs, err)
		}
		tx := mustBegin(t, pool, level)
		if _, err := tx.Exec(t.Context(), "select count(*) from app"); err != nil { // takes the snapshot
			t.Fatal(err)
		}
		second, err := c.Enqueue(t.Context(), echo.New(3, sojourn.DependsOn(parent.ID)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.(driver.TxStore).FinishTx(t.Context(), tx, sojourn.Outcome{Lease: cs[0].Lease, Type: sojourn.OutcomeCompleted}); err != nil {
			t.Fatal(level, err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sweep(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		for _, e := range []sojourn.Enqueued{first, second} {
			if j, err := c.Get(t.Context(), e.ID); err != nil || j.State != sojourn.Ready {
				t.Errorf("%s: the dependent %d is %v, %v", level, e.ID, j.State, err)
			}
		}
	}
}

// TestKeyOfAnOpenTransaction: two transactions that take one key wait for each other; the second
// finds the job of the first, or takes the key if that is rolled back, without an error (rules:F4).
func TestKeyOfAnOpenTransaction(t *testing.T) {
	c, pool, _ := shop(t, itself)
	for _, commit := range []bool{true, false} {
		key := sojourn.Key(map[bool]string{true: "committed", false: "rolled back"}[commit])
		first, second := mustBegin(t, pool, pgx.ReadCommitted), mustBegin(t, pool, pgx.ReadCommitted)
		a, err := EnqueueTx(t.Context(), c, first, echo.New(1, key))
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			es  []sojourn.Enqueued
			err error
		}
		got := make(chan answer, 1)
		go func() {
			es, err := EnqueueTx(t.Context(), c, second, echo.New(2, key))
			got <- answer{es, err}
		}()
		select {
		case b := <-got:
			t.Fatalf("two open transactions have the key: %+v, %v", b.es, b.err)
		case <-time.After(100 * time.Millisecond):
		}
		if commit {
			err = first.Commit(t.Context())
		} else {
			err = first.Rollback(t.Context())
		}
		b := <-got
		if err := errors.Join(err, b.err, second.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		if dup := b.es[0].Duplicate; dup != commit || dup && b.es[0].ID != a[0].ID {
			t.Errorf("first committed: %v; the second answered %+v", commit, b.es[0])
		}
	}
	jobs, err := c.Store().Find(t.Context(), sojourn.Filter{})
	if err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs, %v; want 2", len(jobs), err)
	}
}

// TestIDsSurviveARollback: the id stays with the *Job, so a repeated transaction makes the same
// job, whether or not the first commit succeeded (rules:F1).
func TestIDsSurviveARollback(t *testing.T) {
	c, pool, _ := shop(t, itself)
	j := echo.New(1)
	for i, end := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, // the first commit's answer was lost
	} {
		before := j.ID
		tx := mustBegin(t, pool, pgx.ReadCommitted)
		es, err := EnqueueTx(t.Context(), c, tx, j)
		if err := errors.Join(err, end(tx)); err != nil {
			t.Fatal(err)
		}
		if es[0].ID != j.ID || i > 0 && j.ID != before || es[0].Duplicate != (i == 2) {
			t.Errorf("transaction %d answered %+v for the job %d, which was %d", i, es[0], j.ID, before)
		}
	}
	jobs, err := c.Store().Find(t.Context(), sojourn.Filter{})
	if err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v; want 1", len(jobs), err)
	}
}

// TestOthersGoOnBesideFinishTx: while a transaction has completed a job and is not over, calls
// about other jobs go on.
func TestOthersGoOnBesideFinishTx(t *testing.T) {
	c, pool, _ := shop(t, itself)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.EnqueueAll(ctx, echo.New(1), echo.New(2)); err != nil {
		t.Fatal(err)
	}
	request := driver.ClaimRequest{Worker: "w", Number: 1, Queues: []string{sojourn.DefaultQueue}, Kinds: []string{echo.Name}, Max: 2, Capacity: 2,
		Lease: 30 * time.Second}
	cs, err := driver.Of(c).Claim(ctx, request)
	if err != nil || len(cs) != 2 {
		t.Fatal(cs, err)
	}
	tx := mustBegin(t, pool, pgx.ReadCommitted)
	done := sojourn.Outcome{Lease: cs[0].Lease, Type: sojourn.OutcomeCompleted}
	if err := c.Store().(driver.TxStore).FinishTx(ctx, tx, done); err != nil {
		t.Fatal(err)
	}
	if es, err := driver.Of(c).Extend(ctx, []sojourn.Lease{cs[1].Lease}); err != nil || es[0].Err != nil {
		t.Error(es, err)
	}
	if _, err := driver.Of(c).Sweep(ctx, 100); err != nil {
		t.Error(err)
	}
	other := sojourn.Outcome{Lease: cs[1].Lease, Type: sojourn.OutcomeCompleted}
	if fs, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{other}); err != nil || fs[0].Status != driver.FinishApplied {
		t.Error(fs, err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
	if fs, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{done}); err != nil || fs[0].Status != driver.FinishRepeated {
		t.Error(fs, err)
	}
}
