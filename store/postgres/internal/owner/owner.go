// Package owner tells the processes that use a database which of the others have died
// (docs/decisions/063).
//
// A process with workers is an [Owner]. It holds an advisory lock in the session of its wake-up
// connection, and records the key of that lock in sj_owner. The server releases the lock when the
// connection ends. Each session locks a new key, so a lock that is gone never comes back, and a
// recorded key without a lock means one of two things: the process has died, or it has lost the
// connection. A process that has lost it deletes its record at once, over another connection, or
// records the key of its next session. A [Judge] therefore takes an owner for dead if the lock of
// the same key is missing twice, ConfirmAfter apart, and the record is still there in the
// transaction that acts on the death.
package owner

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Exec runs a statement on any connection of a pool.
type Exec func(ctx context.Context, q string, args ...any) (pgconn.CommandTag, error)

// started is when the server was started, in microseconds.
const started = `cast(extract(epoch from pg_postmaster_start_time()) * 1000000 as bigint)`

const (
	qLock = `select pg_advisory_lock($1)`
	// qRecord records nothing if this connection can take the lock, although another one should
	// hold it: then the connections do not keep their sessions, or reach different servers. The
	// keys of a process rise, so a delayed statement does not replace a newer record.
	qRecord = `insert into sj_owner (id, lock_key, server_us) select $1, $2, ` + started + ` where not pg_try_advisory_xact_lock_shared($2)
		on conflict (id) do update set lock_key = excluded.lock_key, server_us = excluded.server_us where sj_owner.lock_key < excluded.lock_key`
	// qTidy deletes records from before a restart of the server, which count for nothing. It waits
	// for nobody.
	qTidy  = `delete from sj_owner where id in (select id from sj_owner where server_us <> ` + started + ` for update skip locked)`
	qErase = `delete from sj_owner where id = $1 and lock_key <= $2`
)

const (
	holdLimit  = 2 * time.Second        // of the lock and its record
	eraseLimit = time.Second            // of one try to delete a record
	retryAfter = time.Second            // pause before the next try to record a lock
	eraseEvery = 100 * time.Millisecond // pause between tries to delete the record of a lost lock
)

// Owner is the owner of one open store. Safe for concurrent use.
type Owner struct {
	exec   Exec
	id     string
	record string
	erase  string
	tidy   string

	mu       sync.Mutex // guards the fields below
	wanted   bool       // the store has workers
	key      int64      // the last one that was locked and perhaps recorded
	recorded int64      // the last one that is known to be recorded
	held     bool       // a session holds the lock of recorded
	used     bool       // a key may be recorded
	refused  bool       // this session cannot hold a lock
	retryAt  time.Time  // not before then is a lock recorded again
	closed   bool
	erasing  sync.WaitGroup
}

// New makes an owner with a random id. text completes a statement with the names of the tables.
func New(exec Exec, text func(string) string) *Owner {
	var random [8]byte
	rand.Read(random[:])
	return &Owner{exec: exec, id: strings.ToLower(rand.Text()[:idLength]), record: text(qRecord), erase: text(qErase), tidy: text(qTidy),
		key: int64(binary.LittleEndian.Uint64(random[:]) >> 2)}
}

const idLength = 16 // a-z2-7: 80 bits

// ID names the owner in the leases of its store.
func (o *Owner) ID() string { return o.id }

// Want reports that the store has workers, so that the next session is to hold the lock. first is
// true for the first call.
func (o *Owner) Want() (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = !o.wanted
	o.wanted = true
	return first
}

// Recorded is the key of the last record, for tests.
func (o *Owner) Recorded() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.recorded
}

// Missing reports whether the session of c should call Hold.
func (o *Owner) Missing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wanted && !o.held && !o.refused && !o.closed && !time.Now().Before(o.retryAt)
}

// Works reports whether the death of this process would be noticed.
func (o *Owner) Works() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held || !o.wanted && !o.refused
}

// Hold locks a new key in the session of c, and records it. An error is one of c. If only the
// record fails, the lock is missing again after retryAfter.
func (o *Owner) Hold(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, holdLimit)
	defer cancel()
	o.mu.Lock()
	o.key++
	o.used = true // from now on, because an error may leave the outcome unknown
	key := o.key
	o.mu.Unlock()
	if _, err := c.Exec(ctx, qLock, pgx.QueryExecModeExec, key); err != nil {
		return err
	}
	tag, err := o.exec(ctx, o.record, pgx.QueryExecModeExec, o.id, key)
	if err == nil {
		_, _ = o.exec(ctx, o.tidy, pgx.QueryExecModeExec) // the next session tries again
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.retryAt = time.Now().Add(retryAfter)
	}
	o.held, o.refused = err == nil && tag.RowsAffected() == 1, err == nil && tag.RowsAffected() == 0
	if o.held {
		o.recorded = key
	}
	return nil
}

// Lost reports that the session has ended. Its record is deleted in the background, with as many
// tries as it takes, or replaced by the next session: a judge must not take the missing lock for a
// death.
func (o *Owner) Lost() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held, o.refused = false, false
	if !o.used || o.closed {
		return
	}
	key := o.key
	o.erasing.Go(func() {
		for o.isLast(key) && o.eraseTo(key) != nil {
			time.Sleep(eraseEvery)
		}
	})
}

// isLast reports whether no later key than this one is known to be recorded.
func (o *Owner) isLast(key int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.recorded <= key && !o.closed
}

// eraseTo deletes a record with this key or an earlier one.
func (o *Owner) eraseTo(key int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), eraseLimit)
	defer cancel()
	_, err := o.exec(ctx, o.erase, pgx.QueryExecModeExec, o.id, key)
	return err
}

// Release ends the ownership, before the session ends. Leases of the store's jobs stay until they
// expire.
func (o *Owner) Release() {
	o.mu.Lock()
	o.closed, o.held = true, false
	key, used := o.key, o.used
	o.mu.Unlock()
	o.erasing.Wait()
	if used {
		_ = o.eraseTo(key) // if it fails, the owner counts as dead soon
	}
}
