package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	sqlite3 "zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// Statements that leave the same rows in our tables as our store does, after the enqueue, after the
// claim and after the finish: the limit set by tables, indexes, driver and disk without rules,
// calls and other goroutines. A job that is stored as running, as in rawAddStarted, needs one write
// and one transaction less.
const (
	rawAddJob = `insert into sj_job (id, kind, key, grp, content_type, tags, meta, policy, origin, orig_run_at_us, created_us, digest, args)
		values (?1, 'bench', '', '', 'application/octet-stream', '', '', '', '', ?2, ?2, ?4, ?3)`
	rawAddLive = `insert into sj_live (id, queue, kind, key, state, r1, r2, priority, weight, run_at_us, wake_at_us, generation, epoch, worker,
		deadline_us, history, has_data, updated_us, born_us)
		values (?1, 'bench', 'bench', '', 3, 100, ?2, 100, 1, ?2, 9223372036854775807, 1, 0, '', 0, 0, 0, ?2, ?2)`
	rawAddStarted = `insert into sj_live (id, queue, kind, key, state, r1, r2, priority, weight, run_at_us, wake_at_us, generation, epoch, worker,
		deadline_us, history, has_data, updated_us, purpose, lease_until_us, lease_us, began_us, attempt, attempt_open, claimed, held, timeout_at_us, born_us)
		values (?1, 'bench', 'bench', '', 4, 100, ?2, 100, 1, ?2, ?4, 1, 1, ?3, 0, 0, 0, ?2, 1, ?4, 30000000, ?2, 1, 1, 1, 1, ?4, ?2)`
	rawPick = `select l.id, l.generation, l.epoch, l.attempt, l.priority, j.policy, j.content_type, j.args from sj_live l join sj_job j on j.id = l.id
		where l.queue = 'bench' and l.kind = 'bench' and l.state = 3 order by l.r1, l.r2, l.id limit ?1`
	rawClaim = `update sj_live set state = 4, purpose = 1, epoch = epoch + 1, worker = ?1, lease_until_us = ?2, lease_us = 30000000, began_us = ?3,
		attempt = attempt + 1, attempt_open = 1, claimed = 1, held = weight, timeout_at_us = ?2, wake_at_us = ?2, updated_us = ?3
		where id in (select value from json_each(?4)) and state = 3`
	rawEnd      = `delete from sj_live where id in (select value from json_each(?1)) and state = 4 and epoch = 1 and worker = ?2`
	rawAddFinal = `insert into sj_final (id, queue, kind, key, state, priority, weight, run_at_us, generation, epoch, worker, attempt, failures, crashes,
		history, has_data, finished_us, step_epoch, purpose, began_us, stage, failure, outcome, by_whom, reason, result_type, error, result)
		values (?1, 'bench', 'bench', '', 7, 100, 1, ?2, 1, 1, ?3, 1, 0, 0, 1, 0, ?2, 1, 1, ?2, 0, 0, 'completed', '', '', '', x'', x'')`
)

const rawWorker = "bench-raw"

// rawPragmas are those of the connection that writes in package store/sqlite, whose store syncs the
// log itself.
var rawPragmas = []string{"journal_mode=wal", "synchronous=full", "fullfsync=1", "checkpoint_fullfsync=1", "temp_store=memory", "cache_size=-65536",
	"wal_autocheckpoint=4000", "journal_size_limit=67108864"}

// raw is one connection to a database that our own migration has made.
type raw struct {
	conn   *sqlite3.Conn
	folder string
	next   int64
	rows   int // read by claims
}

func openRaw() (*raw, error) {
	folder, err := os.MkdirTemp("", "sojourn-bench-")
	if err != nil {
		return nil, err
	}
	r := &raw{folder: folder}
	if err := r.open(filepath.Join(folder, "raw.db")); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *raw) open(path string) error {
	c, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	return r.connect(path)
}

// connect opens the file with the settings of our store.
func (r *raw) connect(path string) (err error) {
	if r.conn, err = sqlite3.OpenConn(path, sqlite3.OpenReadWrite); err != nil {
		return err
	}
	for _, p := range rawPragmas {
		if err := r.run("pragma " + p); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the connection and removes the file.
func (r *raw) Close() {
	if r.conn != nil {
		r.conn.Close()
	}
	os.RemoveAll(r.folder)
}

// run runs a statement to its end. The arguments are int64, string or []byte.
func (r *raw) run(q string, args ...any) error {
	st, err := r.conn.Prepare(q)
	if err != nil {
		return err
	}
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			st.BindInt64(i+1, a)
		case string:
			st.BindText(i+1, a)
		case []byte:
			st.BindBytes(i+1, a)
		}
	}
	for {
		more, err := st.Step()
		if err != nil {
			return fmt.Errorf("%w: %s", err, q)
		}
		if !more {
			return st.Reset()
		}
	}
}

func (r *raw) transaction(do func(now int64) error) error {
	if err := r.run("begin immediate"); err != nil {
		return err
	}
	if err := do(time.Now().UnixMicro()); err != nil {
		return err
	}
	return r.run("commit")
}

// addJob stores the immutable part of the next job.
func (r *raw) addJob(now int64) error {
	r.next++
	args := bench.Args(int(r.next))
	digest := sha256.Sum256(args)
	return r.run(rawAddJob, r.next, now, args, digest[:16])
}

func (r *raw) enqueue(n int) error {
	return r.transaction(func(now int64) error {
		for range n {
			if err := r.addJob(now); err != nil {
				return err
			}
			if err := r.run(rawAddLive, r.next, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// start stores n jobs as running.
func (r *raw) start(n int) (ids []int64, err error) {
	err = r.transaction(func(now int64) error {
		for range n {
			if err := r.addJob(now); err != nil {
				return err
			}
			ids = append(ids, r.next)
			if err := r.run(rawAddStarted, r.next, now, rawWorker, now+30_000_000); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// startedLife takes n jobs through lives that begin as running, in two transactions.
func (r *raw) startedLife(n int) error {
	ids, err := r.start(n)
	if err != nil {
		return err
	}
	return r.finish(ids)
}

// claim returns the ids of the claimed jobs.
func (r *raw) claim(n int) (ids []int64, err error) {
	err = r.transaction(func(now int64) error {
		st, err := r.conn.Prepare(rawPick)
		if err != nil {
			return err
		}
		st.BindInt64(1, int64(n))
		for {
			more, err := st.Step()
			if err != nil {
				return err
			}
			if !more {
				break
			}
			ids = append(ids, st.ColumnInt64(0))
			args := make([]byte, st.ColumnLen(7))
			r.rows += st.ColumnBytes(7, args) + len(st.ColumnText(5)) + len(st.ColumnText(6))
		}
		return r.run(rawClaim, rawWorker, now+30_000_000, now, list(ids))
	})
	return ids, err
}

func (r *raw) finish(ids []int64) error {
	return r.transaction(func(now int64) error {
		if err := r.run(rawEnd, list(ids), rawWorker); err != nil {
			return err
		}
		if n := r.conn.Changes(); n != len(ids) {
			return fmt.Errorf("%d of %d rows were running", n, len(ids))
		}
		for _, id := range ids {
			if err := r.run(rawAddFinal, id, now, rawWorker); err != nil {
				return err
			}
		}
		return nil
	})
}

// list is a JSON array.
func list(ids []int64) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(id, 10))
	}
	return b.String() + "]"
}

// life takes n jobs through their whole lives, in three transactions.
func (r *raw) life(n int) error {
	if err := r.enqueue(n); err != nil {
		return err
	}
	ids, err := r.claim(n)
	if err != nil {
		return err
	}
	if len(ids) != n {
		return fmt.Errorf("claimed %d of %d jobs", len(ids), n)
	}
	return r.finish(ids)
}

// rawRun measures one step of raw on a database of its own, as the others have.
func rawRun(step func(*raw, int) error) func(context.Context, bench.Load, int) (bench.Measured, error) {
	return func(ctx context.Context, load bench.Load, batch int) (bench.Measured, error) {
		r, err := openRaw()
		if err != nil {
			return bench.Measured{}, err
		}
		defer r.Close()
		return bench.Loop(ctx, load, batch, func(n int) error { return step(r, n) })
	}
}
