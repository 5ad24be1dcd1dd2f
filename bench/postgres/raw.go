package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/postgres"
)

// Statements that leave the same rows in our tables as our store does, after the enqueue, after the
// claim and after the finish, whole columns as arrays: the limit set by tables, indexes, driver and
// server without rules, calls and other goroutines. A job that is stored as running, as in
// rawAddStarted, needs one write and one transaction less.
const (
	rawAddJob = `insert into sj_job (id, kind, key, grp, content_type, tags, meta, policy, origin, orig_run_at_us, created_us, digest, args)
		select id, 'bench', '', '', 'application/octet-stream', '', '', '', '', $2, $2, digest, args from unnest($1::bigint[], $3::bytea[], $4::bytea[]) as a (id, args, digest)`
	rawAddLive = `insert into sj_live (id, queue, kind, key, state, r1, r2, priority, weight, run_at_us, wake_at_us, generation, epoch, worker,
		deadline_us, history, has_data, updated_us, born_us)
		select id, 'bench', 'bench', '', 3, 100, $2::bigint, 100, 1, $2::bigint, 9223372036854775807, 1, 0, '', 0, 0, 0, $2::bigint, $2::bigint from unnest($1::bigint[]) as a (id)`
	rawAddStarted = `insert into sj_live (id, queue, kind, key, state, r1, r2, priority, weight, run_at_us, wake_at_us, generation, epoch, worker,
		deadline_us, history, has_data, updated_us, purpose, lease_until_us, lease_us, began_us, attempt, attempt_open, claimed, held, timeout_at_us, born_us)
		select id, 'bench', 'bench', '', 4, 100, $2::bigint, 100, 1, $2::bigint, $4::bigint, 1, 1, $3, 0, 0, 0, $2::bigint, 1, $4::bigint, 30000000, $2::bigint,
		1, 1, 1, 1, $4::bigint, $2::bigint from unnest($1::bigint[]) as a (id)`
	rawClaim = `with picked as (select id from sj_live where queue = 'bench' and kind = 'bench' and state = 3 order by r1, r2, id limit $1
			for update skip locked)
		update sj_live l set state = 4, purpose = 1, epoch = epoch + 1, worker = $2, lease_until_us = $3, lease_us = 30000000, began_us = $4,
			attempt = attempt + 1, attempt_open = 1, claimed = 1, held = weight, timeout_at_us = $3, wake_at_us = $3, updated_us = $4
		from picked join sj_job j on j.id = picked.id where l.id = picked.id
		returning l.id, l.generation, l.epoch, l.attempt, l.priority, j.policy, j.content_type, j.args`
	rawEnd      = `delete from sj_live where id = any($1::bigint[]) and state = 4 and epoch = 1 and worker = $2`
	rawAddFinal = `insert into sj_final (id, queue, kind, key, state, priority, weight, run_at_us, generation, epoch, worker, attempt, failures, crashes,
		history, has_data, finished_us, step_epoch, purpose, began_us, stage, failure, outcome, by_whom, reason, result_type, error, result)
		select id, 'bench', 'bench', '', 7, 100, 1, $2::bigint, 1, 1, $3, 1, 0, 0, 1, 0, $2::bigint, 1, 1, $2::bigint, 0, 0, 'completed', '', '', '', '', ''
		from unnest($1::bigint[]) as a (id)`
)

// rawConnections work side by side: one backend of the server is one process, and it waits for its
// client and for the disk.
const rawConnections = 2

// raw is one connection to a database that our own migration has made.
type raw struct {
	conn   *pgx.Conn
	worker string
	next   *atomic.Int64
}

// batch runs statements in one transaction and one round trip.
func (r *raw) batch(ctx context.Context, fill func(b *pgx.Batch)) ([]int64, error) {
	var b pgx.Batch
	fill(&b)
	answers := r.conn.SendBatch(ctx, &b)
	var changed []int64
	for range b.Len() {
		tag, err := answers.Exec()
		if err != nil {
			return nil, errors.Join(err, answers.Close())
		}
		changed = append(changed, tag.RowsAffected())
	}
	return changed, answers.Close()
}

// jobs draws ids and makes the args of n jobs, with digests of them.
func (r *raw) jobs(n int) (ids []int64, args, digests [][]byte) {
	first := r.next.Add(int64(n)) - int64(n) + 1
	ids, args, digests = make([]int64, n), make([][]byte, n), make([][]byte, n)
	for i := range ids {
		ids[i], args[i] = first+int64(i), bench.Args(int(first)+i)
		digest := sha256.Sum256(args[i])
		digests[i] = digest[:16]
	}
	return ids, args, digests
}

// start stores n jobs as running.
func (r *raw) start(ctx context.Context, n int) ([]int64, error) {
	now := time.Now().UnixMicro()
	ids, args, digests := r.jobs(n)
	_, err := r.batch(ctx, func(b *pgx.Batch) {
		b.Queue(rawAddJob, ids, now, args, digests)
		b.Queue(rawAddStarted, ids, now, r.worker, now+30_000_000)
	})
	return ids, err
}

// startedLife takes n jobs through lives that begin as running, in two transactions.
func (r *raw) startedLife(ctx context.Context, n int) error {
	ids, err := r.start(ctx, n)
	if err != nil {
		return err
	}
	return r.finish(ctx, ids)
}

func (r *raw) enqueue(ctx context.Context, n int) error {
	now := time.Now().UnixMicro()
	ids, args, digests := r.jobs(n)
	_, err := r.batch(ctx, func(b *pgx.Batch) {
		b.Queue(rawAddJob, ids, now, args, digests)
		b.Queue(rawAddLive, ids, now)
	})
	return err
}

func (r *raw) claim(ctx context.Context, n int) (ids []int64, err error) {
	now := time.Now().UnixMicro()
	rows, err := r.conn.Query(ctx, rawClaim, n, r.worker, now+30_000_000, now)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, generation, epoch, attempt, priority int64
		var policy, contentType string
		var args []byte
		if err := rows.Scan(&id, &generation, &epoch, &attempt, &priority, &policy, &contentType, &args); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (r *raw) finish(ctx context.Context, ids []int64) error {
	now := time.Now().UnixMicro()
	changed, err := r.batch(ctx, func(b *pgx.Batch) {
		b.Queue(rawEnd, ids, r.worker)
		b.Queue(rawAddFinal, ids, now, r.worker)
	})
	if err == nil && changed[0] != int64(len(ids)) {
		err = fmt.Errorf("%d of %d rows were running", changed[0], len(ids))
	}
	return err
}

// life takes n jobs through their whole lives, in three transactions. What the other connection has
// locked is left to it.
func (r *raw) life(ctx context.Context, n int) error {
	if err := r.enqueue(ctx, n); err != nil {
		return err
	}
	for n > 0 {
		ids, err := r.claim(ctx, n)
		if err != nil {
			return err
		}
		if err := r.finish(ctx, ids); err != nil {
			return err
		}
		n -= len(ids)
	}
	return nil
}

// rawRun measures one step of raw on a database of its own, as the others have.
func (c *cluster) rawRun(step func(*raw, context.Context, int) error) func(context.Context, bench.Load, int) (bench.Measured, error) {
	return func(ctx context.Context, load bench.Load, batch int) (m bench.Measured, err error) {
		db, drop, err := c.database(ctx)
		if err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, drop()) }()
		client, err := postgres.Open(db, postgres.AutoMigrate())
		if err != nil {
			return m, err
		}
		if err := client.Close(); err != nil {
			return m, err
		}
		var next atomic.Int64
		var steps []func(int) error
		for i := range rawConnections {
			conn, err := pgx.Connect(ctx, db)
			if err != nil {
				return m, err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			r := &raw{conn: conn, worker: fmt.Sprint("bench-raw-", i), next: &next}
			steps = append(steps, func(n int) error { return step(r, ctx, n) })
		}
		return bench.Loop(ctx, load, batch, steps...)
	}
}
