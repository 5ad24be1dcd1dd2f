package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// A commit waits for the synchronous standby before it becomes visible. But pg_cancel_backend,
// statement_timeout or pg_terminate_backend can end that wait; then the commit is visible although
// the standby may not have it. An answer based on such rows must not be sent before the standby has
// them, because a failover would undo it. So a transaction that writes nothing, and whose answer
// depends on its reads, writes a message into the WAL: its commit then waits for the standby, which
// receives the WAL in order (docs/decisions/045).
const (
	// standbyExpected is 1 if commits may wait for a standby.
	standbyExpected = `case when current_setting('synchronous_standby_names') = '' then 0 else 1 end`
	// waitForStandby makes the transaction's commit wait for the standby. A transaction id alone
	// would not: the server waits only for transactions that have written WAL. Every role may emit
	// a message.
	waitForStandby = `select case when current_setting('synchronous_standby_names') <> '' then pg_logical_emit_message(true, 'sojourn', '') end`
)

// reader is the conn of a View.
type reader struct {
	conn
	durably bool
}

// ReadDurably implements sqldb.DurableReader.
func (r *reader) ReadDurably() { r.durably = true }

// ReadDurably implements sqldb.DurableReader for the transaction of an application.
func (c *joined) ReadDurably() error {
	_, err := c.Exec(waitForStandby)
	return err
}

// ReadDurably does the same over database/sql.
func (c *joinedSQL) ReadDurably() error {
	_, err := c.Exec(waitForStandby)
	return err
}

// barrier waits until the standby has everything that is visible now. Callers that wait at the same
// time share one commit.
type barrier struct {
	mu   sync.Mutex // guards the fields below
	next *passage   // for new callers: the passage under way may have begun before their reads
	busy bool       // one is under way
}

// passage is one commit that callers wait for.
type passage struct {
	over chan struct{} // closed when err is set
	err  error
}

func (b *barrier) wait(ctx context.Context, d *DB) error {
	b.mu.Lock()
	if b.next == nil {
		b.next = &passage{over: make(chan struct{})}
	}
	p := b.next
	if !b.busy {
		b.busy = true
		go b.run(d)
	}
	b.mu.Unlock()
	select {
	case <-p.over:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *barrier) run(d *DB) {
	for {
		b.mu.Lock()
		p := b.next
		if b.next = nil; p == nil {
			b.busy = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), d.limits.commit)
		err := d.Update(ctx, func(sqldb.Conn) error { return nil })
		cancel()
		if err != nil {
			p.err = &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Err: err,
				Message: "the synchronous standby has not confirmed the data of this read, so a failover could undo it; repeat the call"}
		}
		close(p.over)
	}
}

// unreplicated marks a connection whose commit became visible before the standby had it.
const unreplicated = "sojourn.unreplicated"

// onNotice looks for the warning that comes with such a commit. The text depends on the server's
// language; the name of its source file does not.
func onNotice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.File == "syncrep.c" {
		c.CustomData()[unreplicated] = true
	}
}

// tookUnreplicated reports whether the last commit has become visible before the standby had it.
func tookUnreplicated(c *pgconn.PgConn) bool {
	_, marked := c.CustomData()[unreplicated]
	if marked {
		delete(c.CustomData(), unreplicated)
	}
	return marked
}
