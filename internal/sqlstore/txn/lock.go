package txn

import (
	"fmt"

	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// Statements for Lock. Where transactions run concurrently they lock in one order: first the live
// rows that the whole group names, ascending, then keys. A claim and a sweep skip locked rows, so
// they never wait. Locks out of this order (rows that are found on the way) may end in a deadlock,
// which the database detects and DB.Update repeats.
const (
	QLockLive  = `select l.id from sj_live l where l.id in (ints($1)) order by l.id /*lock l*/`
	QLockFinal = `select f.id from sj_final f where f.id in (ints($1)) order by f.id /*lock f*/`
)

// Alone is the number of rows of a call that shares its transaction with no other, because it takes
// a lock that all such calls wait for, and no row may be locked before that.
const Alone = 1 << 20

// Concurrent reports whether other transactions may write at the same time.
func (t *Tx) Concurrent() bool { return t.Core.DB.Dialect().Concurrent }

// Lock waits for rows that others are changing, and keeps them unchanged until the end of the
// transaction. It does nothing where transactions do not run concurrently.
func (t *Tx) Lock(q string, ids sqldb.Ints) error {
	if len(ids) == 0 || !t.Concurrent() {
		return nil
	}
	return t.Read(q, func(sqldb.Row) error { return nil }, ids)
}

// Raced returns the error after a lost race: DB.Update runs the transaction again. what says which
// row or key another transaction has changed.
func Raced(what string) error {
	return fmt.Errorf("%s: %w", what, sqldb.ErrRaced) // without a code: it is never an answer for one item
}
