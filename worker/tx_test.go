package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// events collects what a worker reports about jobs.
type events struct {
	mu   sync.Mutex
	seen []worker.Event
}

func (e *events) Observe(event worker.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if event.Type == worker.EventFinished || event.Type == worker.EventLost {
		e.seen = append(e.seen, event)
	}
}

func (e *events) one(t *testing.T) worker.Event {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) != 1 {
		t.Fatalf("the observer has seen %+v, want one event", e.seen)
	}
	return e.seen[0]
}

// shared opens a store and the application's own connections to its file, with a table.
func shared(t *testing.T) (*sojourn.Client, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	c, err := sqlite.Open(path, sqlite.Relaxed())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("create table app (n integer not null)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		found, err := c.Store().(driver.Checker).Check(context.Background())
		if err := errors.Join(err, db.Close(), c.Close()); err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
	})
	return c, db
}

// What a handler does with the transaction in which it has called FinishTx (inv:A8): only a commit
// completes the job.
func TestFinishTx(t *testing.T) {
	errLate := errors.New("too late")
	for name, c := range map[string]struct {
		end     func(tx *sql.Tx) error // the transaction
		returns error
		state   sojourn.State
		reason  string
		rows    int
		lines   int
		err     bool // the observer learns of an error that came too late
	}{
		"commits and returns nil":         {(*sql.Tx).Commit, nil, sojourn.Completed, "", 1, 1, false},
		"commits and returns an error":    {(*sql.Tx).Commit, errLate, sojourn.Completed, "", 1, 1, true},
		"rolls back and returns nil":      {(*sql.Tx).Rollback, nil, sojourn.Failed, sojourn.ReasonRolledBack, 0, 1, false},
		"rolls back and returns an error": {(*sql.Tx).Rollback, sojourn.WithReason("late", errLate), sojourn.Failed, "late", 0, 1, false},
		"rolls back and awaits":           {(*sql.Tx).Rollback, sojourn.Await(time.Hour), sojourn.Awaiting, "", 0, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, db := shared(t)
			var seen events
			w := worker.New(client, worker.Options{Observer: &seen})
			worker.Handle(w, number, func(ctx context.Context, job *sojourn.Job, n int) error {
				job.Log().Info("works")
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				if _, err := tx.Exec("insert into app (n) values (?)", n); err != nil {
					return errors.Join(err, tx.Rollback())
				}
				err = job.SetResult("done")
				if err == nil {
					err = sqlite.FinishTx(ctx, client, tx, job)
				}
				if err != nil {
					return errors.Join(err, tx.Rollback())
				}
				if err := c.end(tx); err != nil {
					return err
				}
				return c.returns
			})
			job := number.New(7, sojourn.MaxAttempts(1))
			enqueue(t, client, job)
			if ok, err := w.RunOnce(t.Context()); !ok || err != nil {
				t.Fatal(ok, err)
			}
			got, err := client.Get(t.Context(), job.ID)
			if err != nil || got.State != c.state || got.Reason != c.reason || (string(got.Result) == `"done"`) != (c.state == sojourn.Completed) {
				t.Errorf("the job is %v, reason %q, result %q, %v", got.State, got.Reason, got.Result, err)
			}
			var rows int
			if err := db.QueryRow("select count(*) from app").Scan(&rows); err != nil || rows != c.rows {
				t.Errorf("%d rows, %v; want %d", rows, err, c.rows)
			}
			if lines, err := client.Jobs().Log(t.Context(), job.ID); err != nil || len(lines) != c.lines {
				t.Errorf("log lines %+v, %v; want %d", lines, err, c.lines)
			}
			if e := seen.one(t); e.Type != worker.EventFinished || e.State != c.state || (e.Err != nil) != c.err ||
				c.state == sojourn.Completed && e.Outcome != sojourn.OutcomeCompleted {
				t.Errorf("the observer has seen %+v", e)
			}
		})
	}
}

// A handler that has lost its job cannot complete it, regardless of its work so far (inv:F2).
func TestFinishTxOfALostLease(t *testing.T) {
	client, db := shared(t)
	w := worker.New(client, worker.Options{})
	var finish error
	worker.Handle(w, number, func(ctx context.Context, job *sojourn.Job, n int) error {
		if err := client.As("operator").Cancel(ctx, job.ID, ""); err != nil {
			return err
		}
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		if _, err := tx.Exec("insert into app (n) values (?)", n); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		finish = sqlite.FinishTx(context.WithoutCancel(ctx), client, tx, job)
		return errors.Join(finish, tx.Rollback())
	})
	job := number.New(7)
	enqueue(t, client, job)
	if _, err := w.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(finish, sojourn.ErrLeaseLost) {
		t.Errorf("FinishTx answered %v, want ErrLeaseLost", finish)
	}
	await(t, client, job.ID, sojourn.Cancelled)
}

// A transaction that fails is tried again, and its effects happen once (inv:A8).
func TestFinishTxRetries(t *testing.T) {
	client, db := shared(t)
	w := worker.New(client, worker.Options{})
	worker.Handle(w, number, func(ctx context.Context, job *sojourn.Job, n int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.Exec("insert into app (n) values (?)", n); err != nil {
			return err
		}
		if err := sqlite.FinishTx(ctx, client, tx, job); err != nil {
			return err
		}
		if job.Attempt < 3 {
			return errors.New("something after FinishTx fails") // and the deferred Rollback takes it back
		}
		if _, err := sqlite.EnqueueTx(ctx, client, tx, number.New(n+1, sojourn.Delay(time.Hour))); err != nil {
			return err
		}
		return tx.Commit()
	})
	stop := start(t, w)
	job := number.New(1, sojourn.RetryBackoff(sojourn.Backoff{First: time.Millisecond}))
	enqueue(t, client, job)
	if got := await(t, client, job.ID, sojourn.Completed); got.Attempt != 3 || got.Failures != 2 {
		t.Errorf("attempt %d, failures %d; want 3 and 2", got.Attempt, got.Failures)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	jobs, err := client.Store().Find(t.Context(), sojourn.Filter{})
	states := []sojourn.State{}
	for _, j := range jobs {
		states = append(states, j.State)
	}
	if err != nil || !slices.Equal(states, []sojourn.State{sojourn.Completed, sojourn.Scheduled}) {
		t.Errorf("the jobs are %v, %v", states, err)
	}
	var rows int
	if err := db.QueryRow("select count(*) from app").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v; want 1", rows, err)
	}
}

// A blocked worker finds what a transaction has enqueued, at the latest when it polls; Wake saves
// it that (rules:F5).
func TestEnqueueTxReachesABlockedWorker(t *testing.T) {
	client, db := shared(t)
	w := worker.New(client, worker.Options{})
	worker.Handle(w, number, func(context.Context, *sojourn.Job, int) error { return nil })
	start(t, w)
	for n := range 4 {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		es, err := sqlite.EnqueueTx(t.Context(), client, tx, number.New(n))
		if err := errors.Join(err, tx.Commit()); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			client.Wake()
		}
		await(t, client, es[0].ID, sojourn.Completed)
	}
}

// Only the Job that a handler was given can be finished.
func TestFinishTxOutsideOfAHandler(t *testing.T) {
	client, db := shared(t)
	job := number.New(1)
	enqueue(t, client, job)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := sqlite.FinishTx(t.Context(), client, tx, job); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("FinishTx of a job that nobody runs answered %v", err)
	}
}
