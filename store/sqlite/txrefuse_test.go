package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// stranger is a driver with another copy of SQLite: it lacks the function, or has a function of
// that name that returns another word.
type stranger struct{ answer string }

func (s stranger) Open(string) (sqldriver.Conn, error)             { return s, nil }
func (s stranger) Prepare(q string) (sqldriver.Stmt, error)        { return strange{s, q}, nil }
func (s stranger) Begin() (sqldriver.Tx, error)                    { return s, nil }
func (s stranger) Close() error                                    { return nil }
func (s stranger) Commit() error                                   { return nil }
func (s stranger) Rollback() error                                 { return nil }
func (s stranger) Columns() []string                               { return []string{"answer"} }
func (s stranger) Connect(context.Context) (sqldriver.Conn, error) { return s, nil }
func (s stranger) Driver() sqldriver.Driver                        { return s }

type strange struct {
	stranger
	q string
}

func (s strange) NumInput() int { return -1 }
func (s strange) Exec([]sqldriver.Value) (sqldriver.Result, error) {
	return nil, errors.New("written: " + s.q)
}
func (s strange) Query(args []sqldriver.Value) (sqldriver.Rows, error) {
	if s.answer == "" {
		return nil, errors.New("no such function: " + mainFunction)
	}
	return &oneRow{s.answer, false}, nil
}

type oneRow struct {
	answer string
	read   bool
}

func (r *oneRow) Columns() []string { return []string{"answer"} }
func (r *oneRow) Close() error      { return nil }
func (r *oneRow) Next(into []sqldriver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, into[0] = true, r.answer
	return nil
}

func openIn(t *testing.T, path string) *sojourn.Client {
	t.Helper()
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

var echo = sojourn.Kind[int]{Name: "echo"}

// TestRefusedTransactions: only a connection of the same copy of SQLite, with the store's file as
// its main database, is accepted.
func TestRefusedTransactions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "jobs.db")
	c := openIn(t, path)
	own := application(t, path, "")
	twin := filepath.Join(dir, "twin.db") // a copy: the same instance and secret
	if _, err := own.Exec("vacuum into ?", twin); err != nil {
		t.Fatal(err)
	}
	attached := application(t, filepath.Join(dir, "other.db"), "")
	attached.SetMaxOpenConns(1)
	if _, err := attached.Exec("attach ? as jobs", path); err != nil {
		t.Fatal(err)
	}
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for name, k := range map[string]struct {
		db   *sql.DB
		says string
	}{
		"another driver":              {sql.OpenDB(stranger{}), "modernc.org/sqlite"},
		"another word":                {sql.OpenDB(stranger{"WORD " + path}), "modernc.org/sqlite"},
		"a copy of the file":          {application(t, twin, ""), "twin.db"},
		"the file attached to others": {attached, "other.db"},
		"a database in memory":        {memory, "cannot be compared"},
	} {
		tx, err := k.db.Begin()
		if err != nil {
			t.Fatal(name, err)
		}
		_, err = EnqueueTx(t.Context(), c, tx, echo.New(1))
		if sojourn.ErrorCode(err) != sojourn.CodeInvalid || !strings.Contains(err.Error(), k.says) {
			t.Errorf("%s: %v; want a refusal that names %s", name, err, k.says)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(name, err)
		}
	}
	jobs, err := c.Store().Find(t.Context(), sojourn.Filter{})
	if err != nil || len(jobs) > 0 {
		t.Errorf("jobs %v, %v", jobs, err)
	}
	linked := filepath.Join(dir, "link.db") // another name of the same file is the same file to SQLite, which follows it
	if err := os.Symlink(path, linked); err == nil {
		x, err := begin(application(t, linked, ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := EnqueueTx(t.Context(), c, x.Handle.(*sql.Tx), echo.New(1)); err != nil {
			t.Error("through a symbolic link:", err)
		}
		if err := x.Commit(); err != nil {
			t.Error(err)
		}
	}
}

// TestMemoryTakesNoTransaction: no other connection can reach a store in memory.
func TestMemoryTakesNoTransaction(t *testing.T) {
	c := openIn(t, ":memory:")
	x, err := begin(application(t, filepath.Join(t.TempDir(), "own.db"), ""))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Rollback()
	if _, err := EnqueueTx(t.Context(), c, x.Handle.(*sql.Tx), echo.New(1)); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Error(err)
	}
	plain := sojourn.NewClient(struct{ driver.Store }{driver.Of(c)})
	if _, err := EnqueueTx(t.Context(), plain, x.Handle.(*sql.Tx), echo.New(1)); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Error("a store of another sort:", err)
	}
}

// TestDeferredTransaction: a transaction that begins without the lock takes it with EnqueueTx, and
// waits for it as the store does, even on a connection without a busy timeout. If its reads are
// outdated by then, it is told to begin again.
func TestDeferredTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c := openIn(t, path)
	application(t, path, "_txlock=immediate") // makes the table
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	first, err := begin(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Insert(1); err != nil { // holds the lock
		t.Fatal(err)
	}
	second, err := begin(db)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := EnqueueTx(t.Context(), c, second.Handle.(*sql.Tx), echo.New(2))
		waiting <- errors.Join(err, second.Commit())
	}()
	select {
	case err := <-waiting:
		t.Fatal("two transactions have written at the same time:", err)
	case <-time.After(50 * time.Millisecond):
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	third, err := begin(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := EnqueueTx(short, c, third.Handle.(*sql.Tx), echo.New(3)); sojourn.ErrorCode(err) != sojourn.CodeUnavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Error("beside a writer:", err)
	}
	if err := errors.Join(third.Rollback(), first.Commit(), <-waiting); err != nil {
		t.Fatal(err)
	}

	stale, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := stale.QueryRow("select count(*) from app").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if _, err := c.Enqueue(t.Context(), echo.New(4)); err != nil {
		t.Fatal(err)
	}
	_, err = EnqueueTx(t.Context(), c, stale, echo.New(5))
	if e, ok := errors.AsType[*sojourn.Error](err); !ok || !e.Retryable || !strings.Contains(e.Message, "_txlock=immediate") {
		t.Error("an outdated snapshot:", err)
	}
	if err := stale.Rollback(); err != nil {
		t.Error(err)
	}
	jobs, err := c.Store().Find(t.Context(), sojourn.Filter{})
	if err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs, %v; want the second and the fourth", len(jobs), err)
	}
}

// TestCallInsideATransaction: a call through the client waits for the transaction around it. The
// end of its context ends the waiting. Its write happens once the transaction is over, so the
// outcome is unknown, and a repetition with the same job is a duplicate of it.
func TestCallInsideATransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c := openIn(t, path)
	if _, err := c.Reserve(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	x, err := begin(application(t, path, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	j := echo.New(1)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Enqueue(short, j); sojourn.ErrorCode(err) != sojourn.CodeUnknown {
		t.Error("inside of a transaction:", err)
	}
	if err := x.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), j); err != nil {
		t.Error(err)
	}
	jobs, err := c.Store().Find(t.Context(), sojourn.Filter{})
	if err != nil || len(jobs) != 1 || jobs[0].ID != j.ID {
		t.Errorf("jobs %v, %v; want one", jobs, err)
	}
}

// TestNoIDsFromTheWriter: an EnqueueTx in a transaction that holds the write lock needs no id from
// a block, of which a new client has none (rules:F3).
func TestNoIDsFromTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	c := openIn(t, path)
	x, err := begin(application(t, path, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	jobs := make([]*sojourn.Job, sojourn.MaxBatch)
	for i := range jobs {
		jobs[i] = echo.New(i)
	}
	for range 2 {
		if _, err := EnqueueTx(short, c, x.Handle.(*sql.Tx), jobs...); err != nil {
			t.Fatal(err)
		}
	}
	if jobs[0].ID != 0 {
		t.Errorf("the job has the id %d, which a rollback would take back", jobs[0].ID)
	}
	if err := x.Commit(); err != nil {
		t.Fatal(err)
	}
	j := echo.New(7)
	if _, err := c.Enqueue(t.Context(), j); err != nil || j.ID != 2*sojourn.MaxBatch+1 {
		t.Errorf("the next job has the id %d, %v", j.ID, err)
	}
}
