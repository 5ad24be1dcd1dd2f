package postgres

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/postgres/internal/owner"
)

// text completes a statement with the names of the tables.
func (d *DB) text(q string) string { return d.dialect.SQL(d.tables, "", q) }

// addOwner completes a DB that has a pool and a dialect.
func (d *DB) addOwner() {
	exec := func(ctx context.Context, q string, args ...any) (pgconn.CommandTag, error) {
		return d.pool.Exec(ctx, q, args...)
	}
	d.owner = owner.New(exec, d.text)
	d.judge = owner.NewJudge(d.owner, d.text)
}

// OwnerID implements sqldb.Owners. The first call makes the process hold a lock, because only
// leases of workers with this id end by the death of the process.
func (d *DB) OwnerID() string {
	if d.owner.Want() {
		n := d.notifier
		n.mu.Lock()
		defer n.mu.Unlock()
		n.start(true)
	}
	return d.owner.ID()
}

// DeadLeases implements sqldb.Verdicts.
func (d *DB) DeadLeases() string {
	if d.notifier.works.Load() && d.owner.Works() {
		return sqldb.LeasesEndAtOnce
	}
	return sqldb.LeasesEndByTime
}

// OnDeath implements sqldb.Verdicts.
func (d *DB) OnDeath(act func()) { d.judge.OnDeath(act) }

// versionAndDead is Version with a look for dead processes in the same statement.
func (d *DB) versionAndDead(ctx context.Context, c *pgx.Conn) (int64, error) {
	sent := d.judge.Now()
	results, err := c.PgConn().Exec(ctx, `select `+qVersion+`, (`+d.judge.Missing+`)`).ReadAll()
	if err == nil && (len(results) != 1 || len(results[0].Rows) != 1) {
		err = errors.New("no row with the version")
	}
	if err != nil {
		d.judge.Disturb()
		return 0, err
	}
	row := results[0].Rows[0]
	d.judge.Note(string(row[1]), sent)
	return strconv.ParseInt(string(row[0]), 10, 64)
}

// EndDead implements sqldb.Owners.
func (d *DB) EndDead(ctx context.Context, end func(id string) (finished bool, err error)) error {
	if d.judge.Due() {
		sent, answer := d.judge.Now(), ""
		limited, cancel := context.WithTimeout(ctx, readLimit)
		err := d.pool.QueryRow(limited, d.judge.Missing, pgx.QueryExecModeExec).Scan(&answer)
		cancel()
		if err != nil {
			d.judge.Disturb()
			return err
		}
		d.judge.Note(answer, sent)
	}
	return d.judge.End(end, func(q string, args ...any) error {
		_, err := d.pool.Exec(ctx, d.text(q), append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
}

// Confirm implements sqldb.Verdicts.
func (d *DB) Confirm(c sqldb.Conn, id string) (dead bool, err error) {
	return d.judge.Confirm(c, d.text, id)
}
