package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// EnqueueTx stores up to sojourn.MaxBatch jobs inside of tx, all or none: they exist exactly if tx
// is committed. Keys, queues and run_at work as in Client.Enqueue. The result contains the ids, in
// the order of jobs. They mean nothing before the commit: after a rollback another job may get
// them. The jobs themselves get no id, so that they can be enqueued again.
//
// tx must be of a driver that is built on modernc.org/sqlite (its own "sqlite", for one), on the
// store's own file as its main database, and on a connection that was opened after the store;
// anything else is refused with CodeInvalid before anything is written. Begin it with
// _txlock=immediate: a transaction that has read before it writes is refused (CodeUnavailable,
// Retryable) when others have written since.
//
// From its first write until its end, tx blocks all other writers. A call that writes through the
// client waits for tx: inside of tx such a call waits for itself, until its context ends or 30 s
// are over. Workers find the jobs within 100 ms of the commit, or at once after Client.Wake.
func EnqueueTx(ctx context.Context, c *sojourn.Client, tx *sql.Tx, jobs ...*sojourn.Job) ([]sojourn.Enqueued, error) {
	s, err := txStore(c)
	if err != nil {
		return nil, err
	}
	ctx, done := c.TraceEnqueue(ctx, jobs)
	send := make([]sojourn.Job, len(jobs))
	for i, j := range jobs {
		send[i] = *j
	}
	stored, err := s.EnqueueTx(ctx, tx, send)
	done(err)
	return stored, err
}

// FinishTx completes the job that a handler runs inside of tx, with the result that job.SetResult
// has set, and enqueues the next jobs as sojourn.Then does. The job is completed exactly if tx is
// committed, so the other writes of tx happen
// exactly once. Call it as the last statement before the commit; then the handler returns nil.
//
// ErrLeaseLost: the handler has lost the job, or has completed it before; roll back. After any
// other error roll back too and return it; the job is retried as its policy says. Once FinishTx was
// called, only a commit completes the job: a handler that returns nil after a rollback has failed,
// with sojourn.ReasonRolledBack. Its return value after the commit changes nothing.
//
// About tx see EnqueueTx.
func FinishTx(ctx context.Context, c *sojourn.Client, tx *sql.Tx, job *sojourn.Job, next ...*sojourn.Job) error {
	s, err := txStore(c)
	if err != nil {
		return err
	}
	o, err := driver.CompleteInTx(job, next...)
	if err != nil {
		return err
	}
	return s.FinishTx(ctx, tx, o)
}

func txStore(c *sojourn.Client) (driver.TxStore, error) {
	if s, ok := c.Store().(driver.TxStore); ok {
		return s, nil
	}
	return nil, sojourn.Invalid("client", "its store (%T) cannot work inside of a transaction; use a client of sqlite.Open", driver.Of(c))
}

// Join implements sqldb.Joiner.
func (d *DB) Join(ctx context.Context, in any, _ string) (sqldb.Joined, error) {
	tx, ok := in.(*sql.Tx)
	switch {
	case !ok || tx == nil:
		return nil, sojourn.Invalid("tx", "this store is in SQLite, whose transactions are *sql.Tx, not %T", in)
	case d.memory():
		return nil, sojourn.Invalid("tx", "a store in memory has one connection, its own; open the store in a file")
	}
	if err := d.sameFile(ctx, tx); err != nil {
		return nil, err
	}
	if err := d.takeLock(ctx, tx); err != nil {
		return nil, err
	}
	return sqldb.JoinSQL(ctx, tx, bindSQL, true)
}

// sameFile refuses a transaction of another copy of SQLite, or of another file. It reads no table,
// so it begins no snapshot that could be outdated by the first write.
func (d *DB) sameFile(ctx context.Context, tx *sql.Tx) error {
	var answer string
	err := tx.QueryRowContext(ctx, "select "+mainFunction+"()").Scan(&answer)
	word, path, _ := strings.Cut(answer, " ")
	switch {
	case errors.Is(err, sql.ErrTxDone) || ctx.Err() != nil:
		return fmt.Errorf("the transaction is over: %w", err)
	case err != nil || word != libraryWord:
		return &sojourn.Error{Code: sojourn.CodeInvalid, Field: "tx", Index: -1, Err: err,
			Message: "its driver is not built on modernc.org/sqlite as this store is, or its connection was opened before the store. Two copies of SQLite in one " +
				"process drop each other's file locks, and with them what was acknowledged. Import modernc.org/sqlite, use sql.Open(\"sqlite\", …), and " +
				"open the store first"}
	}
	theirs, err := os.Stat(path)
	if err != nil {
		return sojourn.Invalid("tx", "its main database %q cannot be compared with the store's, %s: %v", path, d.path, err)
	}
	ours, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("sqlite: the store's own file: %w", err)
	}
	if !os.SameFile(theirs, ours) {
		return sojourn.Invalid("tx", "its main database is %s, and the store's file is %s; one transaction is atomic in one file only: keep both in one", path, d.path)
	}
	return nil
}

// takeLock takes the write lock at once, so that later reads stay valid. If the transaction has
// neither read nor written before, it waits for the lock as the store does.
func (d *DB) takeLock(ctx context.Context, tx *sql.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := tx.ExecContext(ctx, "delete from "+d.prefix+"meta where name = ''")
		switch code := codeOf(err); {
		case err == nil:
			return nil
		case code == lib.SQLITE_BUSY_SNAPSHOT:
			return &sojourn.Error{Code: sojourn.CodeUnavailable, Field: "tx", Index: -1, Retryable: true, Err: err,
				Message: "another transaction has changed rows that this one read; roll back and repeat it. To avoid this, set _txlock=immediate in the data source name"}
		case code != lib.SQLITE_BUSY:
			return err
		}
		if late := sleep(ctx, pause); late != nil {
			return fmt.Errorf("another transaction has kept the file's write lock: %w", errors.Join(late, err))
		}
	}
}

// lockPatience bounds the wait of a transaction of the application for the write lock of the file,
// if its context does not end before.
const lockPatience = 30 * time.Second

// codeOf is SQLite's extended code in an error of any driver built on modernc.org/sqlite; 0 for
// others.
func codeOf(err error) int {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return 0
}

// bindSQL turns an argument of a sqldb.Conn into one of the driver.
func bindSQL(a any) (any, error) {
	switch a := a.(type) {
	case int64, string, nil:
		return a, nil
	case int:
		return int64(a), nil
	case bool:
		if a {
			return int64(1), nil
		}
		return int64(0), nil
	case []byte:
		if a == nil {
			return []byte{}, nil
		}
		return a, nil
	case sqldb.Ints:
		return a.JSON(), nil
	case sqldb.Texts:
		return a.JSON(), nil
	}
	return nil, fmt.Errorf("sqlite: type %T", a)
}
