package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/postgres/internal/owner"
)

// split is the number of connections by use, so that readers never wait for writers nor vice versa.
// One more connection polls for changes of other processes. Handlers of jobs use their own
// connections, never these.
type split struct{ writers, readers int }

const (
	fewestConnections = 3
	mostConnections   = 12 // 7 writers and 4 readers; more would not make it faster
)

// splitOf divides a number of connections.
func splitOf(most int) (split, error) {
	if most < fewestConnections {
		return split{}, sojourn.Invalid("url", "pool_max_conns is %d; the store needs %d connections or more", most, fewestConnections)
	}
	n := min(most, mostConnections) - 1
	s := split{writers: max(1, n*7/11)}
	s.readers = n - s.writers
	return s, nil
}

func (s split) total() int { return s.writers + s.readers + 1 }

// enders is the number of concurrent transactions for ends of steps and for claims from queues with
// gates.
func (s split) enders() int { return s.writers / 3 }

// runners is the number of concurrent transactions for everything else. One more connection leases
// ids, and rechecks responses that came at the same moment as their job began to wait.
func (s split) runners() int { return max(1, s.writers-s.enders()-1) }

const (
	readLimit  = 5 * time.Second        // of a View: an old snapshot keeps dead rows from being removed
	maxRaces   = 20                     // tries of a transaction that loses races, see busy
	firstPause = 2 * time.Millisecond   // before the second try; each pause is twice the one before, up to lastPause
	lastPause  = 100 * time.Millisecond // so that one that others always overtake gets its turn
)

// DB is one PostgreSQL database. It implements sqldb.DB.
type DB struct {
	pool     *pgxpool.Pool
	dialect  sqldb.Dialect
	location string
	tables   string // prefix of their names, with the schema
	prefix   string // the same without
	same     *sameness
	server   settings
	closed   atomic.Bool
	updates  atomic.Int64  // that have committed
	writing  chan struct{} // has room for each write under way
	reading  chan struct{}
	closing  chan struct{} // closed by Close
	barrier  barrier
	limits   limits
	notifier *notifier
	owner    *owner.Owner
	judge    *owner.Judge

	readLimit time.Duration // of a View; tests make it shorter
}

var _ interface {
	sqldb.DB
	sqldb.Rehearser
	sqldb.Verdicts
} = (*DB)(nil)

// Dialect implements sqldb.DB.
func (d *DB) Dialect() sqldb.Dialect { return d.dialect }

// Update implements sqldb.DB. The isolation is READ COMMITTED: each statement sees all rows
// committed before it, and rows are locked before any decision is based on them.
func (d *DB) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := d.write(ctx, fn)
		if err == nil {
			d.updates.Add(1)
		}
		if err == nil || !busy(err) || ctx.Err() != nil {
			return err
		}
		if c := code(err); c != deadlock && c != serialization && try >= maxRaces {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
		pause = min(2*pause, lastPause)
	}
}

// View implements sqldb.DB. All statements see one snapshot.
func (d *DB) View(ctx context.Context, fn func(sqldb.Conn) error) error {
	behind, err := d.view(ctx, fn)
	if err == nil && behind {
		err = d.barrier.wait(ctx, d)
	}
	return err
}

func (d *DB) view(ctx context.Context, fn func(sqldb.Conn) error) (behind bool, err error) {
	if err := enter(ctx, d.reading); err != nil {
		return false, err
	}
	defer func() { <-d.reading }()
	limited, cancel := context.WithTimeout(ctx, d.readLimit)
	defer cancel()
	behind, err = d.read(limited, fn)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return false, &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Err: err,
			Message: fmt.Sprintf("the read took longer than %v; request fewer rows at a time", d.readLimit)}
	}
	return behind, err
}

// enter waits for a free slot.
func enter(ctx context.Context, room chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write runs fn in a transaction that begins with fn's first message and ends, unless fn has
// committed, with a commit.
func (d *DB) write(ctx context.Context, fn func(sqldb.Conn) error) error {
	if err := enter(ctx, d.writing); err != nil {
		return err
	}
	c, err := d.acquire(ctx)
	if err != nil {
		<-d.writing
		return err
	}
	w := &writer{conn: conn{ctx: ctx, raw: c.Conn(), same: d.same, link: linkOf(c.Conn())}}
	if err = fn(w); err == nil && !w.over {
		err = w.Commit(nil)
	}
	if err != nil {
		d.rollBack(ctx, c.Conn())
	}
	c.Release()
	if w.late {
		go func() {
			w.link.wait()
			<-d.writing
		}()
		return err
	}
	<-d.writing
	return err
}

// beginRead is one message of several statements: the clock costs no round trip of its own.
const beginRead = `begin isolation level repeatable read read only; select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint),
	` + standbyExpected

// read runs fn over one snapshot. behind reports that the standby may not have the rows that fn has
// read yet, and that the caller must wait for it.
func (d *DB) read(ctx context.Context, fn func(sqldb.Conn) error) (behind bool, err error) {
	c, err := d.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer c.Release()
	found, err := ask(ctx, c.Conn(), beginRead)
	if err != nil {
		c.Conn().Close(ctx) // in any state
		return false, err
	}
	r := &reader{conn: conn{ctx: ctx, raw: c.Conn(), now: found[0], begun: true}}
	err = fn(r)
	d.rollBack(ctx, c.Conn()) // there is nothing to commit
	return r.durably && found[1] != 0, err
}

func (d *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := d.pool.Acquire(ctx)
	if err != nil && d.closed.Load() {
		return nil, &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the store is closed", Err: sojourn.ErrClosed}
	}
	return c, err
}

// rollBack ends a transaction that failed. If that fails, it closes the connection, which ends the
// transaction as well.
func (d *DB) rollBack(ctx context.Context, raw *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	if raw.IsClosed() {
		return
	}
	if _, err := raw.PgConn().Exec(ctx, "rollback").ReadAll(); err != nil {
		raw.Close(ctx)
	}
}

// ask sends several statements in one message and returns the numbers in the one row of the last
// one.
func ask(ctx context.Context, raw *pgx.Conn, q string) ([]int64, error) {
	results, err := raw.PgConn().Exec(ctx, q).ReadAll()
	if err != nil {
		return nil, err
	}
	last := results[len(results)-1]
	if last.Err != nil || len(last.Rows) != 1 {
		return nil, errors.Join(last.Err, fmt.Errorf("%d rows instead of one", len(last.Rows)))
	}
	numbers := make([]int64, len(last.Rows[0]))
	for i, text := range last.Rows[0] {
		if numbers[i], err = strconv.ParseInt(string(text), 10, 64); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// Version implements sqldb.DB. A snapshot names the transactions that have written and are not
// over, so it changes with every commit of the server, of other databases too. That costs a blocked
// Claim one look without a result for each poll at most, and needs neither a session nor a row that
// every transaction would have to write.
func (d *DB) Version(ctx context.Context) (version int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	c, err := d.acquire(ctx)
	if err != nil {
		d.judge.Disturb()
		return 0, err
	}
	defer c.Release()
	if d.judge.Due() {
		return d.versionAndDead(ctx, c.Conn())
	}
	found, err := ask(ctx, c.Conn(), `select `+qVersion)
	if err != nil {
		return 0, err
	}
	return found[0], nil
}

const qVersion = `hashtextextended(cast(pg_current_snapshot() as text), 0)`

// Describe implements sqldb.DB.
func (d *DB) Describe(ctx context.Context) (sqldb.Description, error) {
	out := sqldb.Description{Name: "postgres", Version: d.server.version, Location: d.location, Durability: d.server.durability(),
		Commits: d.updates.Load()}
	d.notifier.tryOut(ctx)
	err := d.View(ctx, func(c sqldb.Conn) error {
		return c.Query(d.dialect.SQL(d.tables, "", qBytes), func(r sqldb.Row) error { out.Bytes = r.Int(0); return nil })
	})
	return out, err
}

const qBytes = `select pg_total_relation_size('sj_meta') + pg_total_relation_size('sj_block') + pg_total_relation_size('sj_queue')
	+ pg_total_relation_size('sj_job') + pg_total_relation_size('sj_live') + pg_total_relation_size('sj_key') + pg_total_relation_size('sj_key_past')
	+ pg_total_relation_size('sj_edge') + pg_total_relation_size('sj_child') + pg_total_relation_size('sj_data') + pg_total_relation_size('sj_final') + pg_total_relation_size('sj_history') + pg_total_relation_size('sj_checkpoint') + pg_total_relation_size('sj_log')
	+ pg_total_relation_size('sj_response') + pg_total_relation_size('sj_message') + pg_total_relation_size('sj_worker')
	+ pg_total_relation_size('sj_schedule') + pg_total_relation_size('sj_tick') + pg_total_relation_size('sj_access') + pg_total_relation_size('sj_audit')`

// Vacuum implements sqldb.Vacuumer. It uses the connection of a reader, and skips a table that
// another session vacuums or locks. If this role does not own the tables, the server only issues a
// warning.
func (d *DB) Vacuum(ctx context.Context) error {
	if err := enter(ctx, d.reading); err != nil {
		return err
	}
	defer func() { <-d.reading }()
	c, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	_, err = c.Conn().PgConn().Exec(ctx, d.dialect.SQL(d.tables, "", vacuum)).ReadAll()
	return err
}

// vacuum removes the entries of indexes however few pages they are on, which the server would put
// off.
const vacuum = `vacuum (skip_locked, index_cleanup on, truncate off, parallel 0) sj_live, sj_landed, sj_count_change, sj_stat_change`

// Close implements sqldb.DB.
func (d *DB) Close() error {
	if d.closed.CompareAndSwap(false, true) {
		close(d.closing)
		d.judge.Close()
		d.owner.Release()
	}
	d.notifier.close()
	d.pool.Close() // waits for connections in use
	return nil
}
