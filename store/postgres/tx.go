package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// EnqueueTx stores up to sojourn.MaxBatch jobs inside of tx, all or none: they exist exactly if tx
// is committed. Keys, queues and run_at work as in Client.Enqueue. The id of each new job is
// written into it: if the commit's outcome is unknown, repeat the transaction with the same jobs,
// and at most one of each exists. After a rollback the ids stay unused.
//
// tx may be of any pool or connection that reaches the store's tables in the same database; give
// the store a Schema if the connection has another search_path. Another database is refused with
// CodeInvalid before anything is written. EnqueueTx is designed for READ COMMITTED: at stricter
// levels a key that another transaction has just taken is an error that is Retryable, as a deadlock
// is at any level. Roll back then and repeat the transaction.
//
// The key of a new job is locked until tx ends, and other transactions that enqueue the same key
// wait for it, so keep tx short. Workers find the jobs within a second of the commit, those of this
// process at once after Client.Wake.
func EnqueueTx(ctx context.Context, c *sojourn.Client, tx pgx.Tx, jobs ...*sojourn.Job) ([]sojourn.Enqueued, error) {
	return enqueueTx(ctx, c, tx, jobs)
}

// EnqueueSQL is EnqueueTx for a transaction of database/sql with the driver of
// github.com/jackc/pgx/v5/stdlib.
func EnqueueSQL(ctx context.Context, c *sojourn.Client, tx *sql.Tx, jobs ...*sojourn.Job) ([]sojourn.Enqueued, error) {
	return enqueueTx(ctx, c, tx, jobs)
}

// FinishTx completes the job that a handler runs inside of tx, with the result that job.SetResult
// has set, and enqueues the next jobs as sojourn.Then does. The job is completed exactly if tx is
// committed, so the other writes of tx happen
// exactly once. Call it as the last statement before the commit; then the handler returns nil.
//
// ErrLeaseLost: the handler has lost the job, or has completed it before; roll back. After any
// other error roll back too and return the error; the job is retried as its policy says. Once
// FinishTx was called, only a commit completes the job: a handler that returns nil after a rollback
// has failed, with sojourn.ReasonRolledBack. The handler's return value after the commit changes
// nothing, so it may return an error when the commit's outcome is unknown.
//
// From FinishTx until tx ends the job's row is locked, and its lease is not extended.
func FinishTx(ctx context.Context, c *sojourn.Client, tx pgx.Tx, job *sojourn.Job, next ...*sojourn.Job) error {
	return finishTx(ctx, c, tx, job, next...)
}

// FinishSQL is FinishTx for a transaction of database/sql with the driver of
// github.com/jackc/pgx/v5/stdlib.
func FinishSQL(ctx context.Context, c *sojourn.Client, tx *sql.Tx, job *sojourn.Job, next ...*sojourn.Job) error {
	return finishTx(ctx, c, tx, job, next...)
}

func enqueueTx(ctx context.Context, c *sojourn.Client, tx any, jobs []*sojourn.Job) ([]sojourn.Enqueued, error) {
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
	for i, e := range stored {
		if !e.Duplicate {
			jobs[i].ID = e.ID
		}
	}
	return stored, err
}

func finishTx(ctx context.Context, c *sojourn.Client, tx any, job *sojourn.Job, next ...*sojourn.Job) error {
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
	return nil, sojourn.Invalid("client", "its store (%T) cannot work inside of a transaction; use a client of postgres.Open", driver.Of(c))
}

// qSecret reads a value that only the store's own database has, its clock, and the isolation of the
// transaction.
const qSecret = `select value, cast(extract(epoch from clock_timestamp()) * 1000000 as bigint),
	case when current_setting('transaction_isolation') like 'read%' then 0 else 1 end from sj_meta where name = 'secret'`

// undefinedTable and undefinedSchema are the server's codes where the tables are not in reach.
const (
	undefinedTable  = "42P01"
	undefinedSchema = "3F000"
	notPermitted    = "42501"
)

// Join implements sqldb.Joiner for pgx.Tx and *sql.Tx.
func (d *DB) Join(ctx context.Context, in any, secret string) (sqldb.Joined, error) {
	var j sqldb.Joined
	var clock *int64
	var isolated *bool
	switch tx := in.(type) {
	case pgx.Tx:
		if _, err := tx.Exec(ctx, savepoint); err != nil { // pgx refuses it if tx is over: its connection may have a new user
			return nil, err
		}
		own := &joined{conn: conn{ctx: ctx, raw: tx.Conn(), begun: true}}
		j, clock, isolated = own, &own.now, &own.isolated
	case *sql.Tx:
		over, err := sqldb.JoinSQL(ctx, tx, bindOne, false)
		if err != nil {
			return nil, err
		}
		own := &joinedSQL{SQLTx: over}
		j, clock, isolated = own, &own.now, &own.isolated
	default:
		return nil, sojourn.Invalid("tx", "this store is in PostgreSQL, whose transactions are pgx.Tx or *sql.Tx, not %T", in)
	}
	found := ""
	err := j.Query(d.dialect.SQL(d.tables, "", qSecret), func(r sqldb.Row) error {
		found, *clock, *isolated = r.Text(0), r.Int(1), r.Int(2) != 0
		return nil
	})
	if err == nil && found == secret {
		return j, nil
	}
	failed := errors.Join(j.Undo(), j.Keep())
	switch c := code(err); {
	case failed == nil && err == nil, c == undefinedTable, c == undefinedSchema, c == notPermitted:
		return nil, &sojourn.Error{Code: sojourn.CodeInvalid, Field: "tx", Index: -1, Err: err,
			Message: "it does not reach the store's tables (" + d.tables + "* at " + d.location + "): begin it in the store's database, as a user who may write " +
				"them; if its search_path is another, open the store with Schema"}
	}
	return nil, errors.Join(err, failed)
}

const savepoint = "savepoint sojourn"

// joined implements sqldb.Joined, sqldb.Clocked and sqldb.Isolated over a pgx.Tx.
type joined struct {
	conn
	isolated bool
}

// Isolated implements sqldb.Isolated.
func (c *joined) Isolated() bool { return c.isolated }

// Undo implements sqldb.Joined.
func (c *joined) Undo() error {
	_, err := c.raw.Exec(context.WithoutCancel(c.ctx), "rollback to "+savepoint)
	return err
}

// Keep implements sqldb.Joined.
func (c *joined) Keep() error {
	_, err := c.raw.Exec(c.ctx, "release "+savepoint)
	return err
}

// joinedSQL implements them over a *sql.Tx.
type joinedSQL struct {
	*sqldb.SQLTx
	now      int64
	isolated bool
}

// Isolated implements sqldb.Isolated.
func (c *joinedSQL) Isolated() bool { return c.isolated }

// Clock implements sqldb.Clocked.
func (c *joinedSQL) Clock() (int64, error) { return c.now, nil }

// bindOne is bind for one argument.
func bindOne(a any) (any, error) {
	values, err := bind([]any{a})
	if err != nil {
		return nil, err
	}
	return values[0], nil
}
