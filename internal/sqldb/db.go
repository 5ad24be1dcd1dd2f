package sqldb

import (
	"context"
	"errors"
)

// ErrRaced is the error of a step whose reads were outdated when it wrote, because another
// transaction was faster. This is no failure: a DB with Concurrent in its dialect runs the function
// again. Test with errors.Is.
var ErrRaced = errors.New("another transaction was faster")

// DB opens transactions. All methods are safe for concurrent use; a function given to Update or
// View must not call its DB.
type DB interface {
	// Update runs fn in one write transaction, which is durable when Update returns nil. An error
	// of fn rolls it back and is returned. fn may be called again when the database asks for a
	// retry, so it begins by resetting its results. A busy database is no error: Update waits until
	// ctx ends. ctx ends statements of fn, but never a commit under way, so an error of ctx means
	// that nothing was written.
	Update(ctx context.Context, fn func(Conn) error) error
	// View runs fn over a read-only snapshot, which fn must leave soon: after 5 s it is ended with
	// an error that is a context.DeadlineExceeded. On SQLite a deadline of ctx takes the place of
	// the 5 s. A snapshot that is held keeps the write-ahead log from being reused and dead rows
	// from being removed.
	View(ctx context.Context, fn func(Conn) error) error
	// Version changes when any process has committed something: a hint to read again, cheap enough
	// to poll.
	Version(ctx context.Context) (int64, error)
	// Dialect returns the database's SQL dialect. It does not change.
	Dialect() Dialect
	// Describe describes the open database.
	Describe(ctx context.Context) (Description, error)
	// Close waits for transactions under way and releases everything. A second Close does nothing.
	Close() error
}

// Description describes an open database.
type Description struct {
	Name       string // such as "sqlite"
	Version    string // of the database
	Location   string // a path or an address, without secrets
	Durability string // "fsync": acknowledged is durable; "relaxed": by explicit option only; "memory"
	Bytes      int64  // on disk, without the write-ahead log
	WALBytes   int64  // of the write-ahead log; 0 if the store cannot see it
	Commits    int64  // calls of Update that have committed
}

// Owners is an optional ability of a DB that knows which processes live: a process holds a lock
// while it lives, and the lock of a dead one is free. All methods are safe for concurrent use.
type Owners interface {
	// OwnerID names this open store: [a-z0-9]{16}, random; "" if no other process can open the
	// database.
	OwnerID() string
	// EndDead calls end for each owner whose process has died, and forgets the owner if end returns
	// true. No process can become that owner before end has returned, unless the DB has Verdicts.
	// Two processes may call EndDead concurrently.
	EndDead(ctx context.Context, end func(owner string) (finished bool, err error)) error
}

// When the leases of a dead process end; see Verdicts.
const (
	LeasesEndAtOnce = "at_once"
	LeasesEndByTime = "by_time"
)

// Verdicts is an optional ability of Owners whose lock may be lost while the process lives. All
// methods are safe for concurrent use.
type Verdicts interface {
	Owners
	// Confirm reports whether an owner that EndDead has found is still dead. It does not come back
	// before the transaction of c ends.
	Confirm(c Conn, owner string) (dead bool, err error)
	// DeadLeases is when the leases of this process would end if it died: LeasesEndAtOnce or
	// LeasesEndByTime. After Describe it is known.
	DeadLeases() string
	// OnDeath sets a function that is called when a process may have died, so that EndDead need not
	// wait for the next sweep. It is called from any goroutine, once at a time.
	OnDeath(act func())
}

// Durable is an optional ability of a DB in which a commit becomes visible before it is on the
// disk. Update and View wait for the disk themselves; this is for transactions of the application.
// Safe for concurrent use.
type Durable interface {
	// Durable returns when everything that is committed now is on the disk.
	Durable() error
}

// Joiner is an optional ability of a DB: it works inside of transactions that the application has
// begun. Safe for concurrent use.
type Joiner interface {
	// Join begins a savepoint in tx and checks that tx uses the store's own database: secret is the
	// value that it must find in sj_meta. It refuses, with an *Error, a tx of another type, of
	// another database, or of a driver that cannot share the database safely.
	Join(ctx context.Context, tx any, secret string) (Joined, error)
}

// Joined is a Conn inside of a savepoint of the application's transaction.
type Joined interface {
	Conn
	// Undo rolls back everything since Join, even if its context has ended. The savepoint stays.
	Undo() error
	// Keep releases the savepoint: its writes become part of the transaction.
	Keep() error
}

// Rehearser is the ability of a DB to try migrations without leaving anything behind.
type Rehearser interface {
	// Rehearse runs fn with a prefix under which it can make tables. They vanish after it.
	Rehearse(ctx context.Context, fn func(c Conn, prefix string) error) error
}

// Crowded is an optional ability of a DB that knows the other processes that have it open. Safe for
// concurrent use.
type Crowded interface {
	// Others counts the other open stores on this database whose programs know only schema versions
	// below level.
	Others(ctx context.Context, level int) (int, error)
}

// Located is an optional ability of a DB that is a file. Safe for concurrent use.
type Located interface {
	// Elsewhere lists the ids of processes that have opened another file under the path of this
	// database: it was removed or replaced meanwhile.
	Elsewhere(ctx context.Context) (processes []string, err error)
}

// Vacuumer is an optional ability of a DB in which dead tuples slow down reads until a vacuum
// removes them.
type Vacuumer interface {
	// Vacuum removes the dead tuples of the hot tables. It blocks no readers or writers.
	Vacuum(ctx context.Context) error
}

// Signaler is an optional ability of a DB whose processes tell each other of their commits, so that
// a blocked call need not wait for the next poll. Signals are hints: any of them may be lost, and
// polling Version alone is correct. Safe for concurrent use.
type Signaler interface {
	// Watch calls heard when another process has committed, until stop is called. topics says what
	// for, in the words of that process; nil if it is not known.
	Watch(heard func(topics []string)) (stop func())
	// Signal tells other processes that watch. It does not block; signals that follow each other
	// quickly are joined.
	Signal(topics []string)
	// Signals is the way in use: "notify", "inotify", or "poll" if signals do not work now. After
	// Describe it is known, also if nothing was signalled yet.
	Signals() string
}
