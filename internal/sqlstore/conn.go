package sqlstore

import (
	"context"
	"strconv"
)

// Conn is one connection inside one transaction, which begins at the latest with the first call. It belongs to one goroutine and is valid only
// inside the function that got it from [DB].Update or [DB].View; the context was given there.
//
// An argument is int64, int, bool (0 or 1), string, []byte (nil is empty bytes, never NULL), nil (NULL), [Ints] or [Texts]
// (what ints($n) and texts($n) unfold). Any other type is an error. The number of arguments must fit the text.
type Conn interface {
	// Exec runs q and returns the number of rows that it inserted, updated or deleted; after any other statement the number
	// means nothing.
	Exec(q string, args ...any) (int64, error)
	// Query runs q and calls each for every row; the Row is valid only during that call. An error of each ends the query and
	// is returned. A nested call may run other texts, never q itself.
	Query(q string, each func(Row) error, args ...any) error
	// Bulk runs q for every row of the columns, which must have one length, and calls hit (if not nil) with the first column's
	// value of each row that changed something, in any order. Without rows it does nothing.
	//
	// SQLite loops over one prepared statement and looks at its change counter, because RETURNING costs a quarter there;
	// PostgreSQL binds whole columns as arrays to one statement that returns the hits. So a text for Bulk uses rows($1 type, …)
	// or Dialect.Over, and /*hit column*/ where hit is not nil.
	Bulk(q string, hit func(first int64), first Ints, more ...Column) error
}

// Statement is one of several that are run together.
type Statement struct {
	Text    string
	Args    []any           // of Query and Exec
	Rows    []Column        // of Bulk, instead of Args: the text is run for every row
	Each    func(Row) error // called for every row of the answer; nil if there is none. It runs no statement
	Changed int64           // set by Send: the rows that it inserted, updated, deleted or read
	Wanted  int64           // for Commit: how many rows it must insert, update, delete or read; 0 = any number
}

// Sender is an optional ability of a Conn that reaches its database over a network.
type Sender interface {
	// Send runs statements in order, in one message. An error of one ends all.
	Send(batch []Statement) error
}

// Committer is an optional ability of a Sender whose transaction is its own.
type Committer interface {
	Sender
	// Commit runs statements in order and commits, in one message. The error of a statement whose number of rows is not the wanted one is
	// ErrRaced. Nothing may follow it.
	Commit(batch []Statement) error
}

// Silencer is an optional ability of a Committer. Without Silent, the Commit of a transaction that has written nothing
// makes durable what it has read: it may be what another transaction has committed a moment ago.
type Silencer interface {
	// Silent says that no caller is told anything that the transaction has read.
	Silent()
}

// DurableReader is an optional ability of the Conn of a View, whose database may show commits that a power cut or a
// failover can still undo.
type DurableReader interface {
	// ReadDurably makes View return only when everything that it has read is durable.
	ReadDurably()
}

// DurableJoiner is an optional ability of a Joined.
type DurableJoiner interface {
	// ReadDurably makes the commit of the transaction make durable what it has read, although it writes nothing.
	ReadDurably() error
}

// Clocked is an optional ability of a Conn whose database has a clock of its own, as a server has that several machines use.
type Clocked interface {
	// Clock is what the database's clock showed when the transaction began, in microseconds since 1970. It stays the same.
	Clock() (int64, error)
}

// Versioned is an optional ability of a Conn whose transactions write alone.
type Versioned interface {
	// Version changes when another connection has committed something since; what this one has committed does not count.
	Version() (int64, error)
	// Ended has fn called when the transaction has ended, before the next one begins. failed says why it was rolled back.
	Ended(fn func(failed error))
	// Silent says that nobody is told what the transaction has read. One that has not written anything either need not wait until that is durable.
	Silent()
}

// Durable is an optional ability of a DB in which a commit becomes visible before it is on the disk. Update and View wait for the disk
// themselves; this is for transactions of the application. Safe for concurrent use.
type Durable interface {
	// Durable returns when everything that is committed now is on the disk.
	Durable() error
}

// Row reads one result row. Columns count from 0. NULL reads as 0, "" and nil.
type Row interface {
	Int(col int) int64
	Text(col int) string
	Bytes(col int) []byte // a copy: the caller's to keep; empty bytes that are not NULL read as []byte{}
}

// Column is an argument of Bulk: Ints, Texts, Blobs or Same.
type Column interface {
	// Len is the number of rows.
	Len() int
	// At is the value of row i: int64, string or []byte (never nil).
	At(i int) any
	// Array is the whole column as []int64, []string or [][]byte (without nil entries).
	Array() any
}

// The columns. Ints and Texts are also arguments of Exec and Query.
type (
	// Ints is a column of integers.
	Ints []int64
	// Texts is a column of texts.
	Texts []string
	// Blobs is a column of bytes; nil entries stand for empty bytes.
	Blobs [][]byte
)

// Len is the number of rows.
func (v Ints) Len() int { return len(v) }

// At is the value of row i, an int64.
func (v Ints) At(i int) any { return v[i] }

// Array is the column as []int64, not a copy.
func (v Ints) Array() any { return []int64(v) }

// JSON renders the column as a JSON array of numbers, for databases without arrays.
func (v Ints) JSON() string {
	b := make([]byte, 0, 2+len(v)*12)
	b = append(b, '[')
	for i, n := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}

// Len is the number of rows.
func (v Texts) Len() int { return len(v) }

// At is the value of row i, a string.
func (v Texts) At(i int) any { return v[i] }

// Array is the column as []string, not a copy.
func (v Texts) Array() any { return []string(v) }

// JSON renders the column as a JSON array of strings. Bytes that are no UTF-8 stand as they are (encoding/json would replace
// them), which SQLite reads back unchanged.
func (v Texts) JSON() string {
	const hex = "0123456789abcdef"
	size := 2
	for _, s := range v {
		size += len(s) + 3
	}
	b := make([]byte, 0, size)
	b = append(b, '[')
	for i, s := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		for k := range len(s) {
			switch c := s[k]; {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < 0x20:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				b = append(b, c)
			}
		}
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

// Len is the number of rows.
func (v Blobs) Len() int { return len(v) }

// At is the value of row i, a []byte.
func (v Blobs) At(i int) any {
	if v[i] == nil {
		return []byte{}
	}
	return v[i]
}

// Array is the column as [][]byte; a copy only if an entry is nil.
func (v Blobs) Array() any {
	for i := range v {
		if v[i] == nil {
			w := make([][]byte, len(v))
			for k := range v {
				w[k] = v.At(k).([]byte)
			}
			return w
		}
	}
	return [][]byte(v)
}

// DB opens transactions. All methods are safe for concurrent use; a function given to Update or View must not call its DB.
type DB interface {
	// Update runs fn in one write transaction, which is durable when Update returns nil. An error of fn rolls it back and is
	// returned. fn may be called again when the database asks for a repetition, so it begins by resetting what it collects.
	// A busy database never surfaces: Update waits until ctx ends. ctx ends fn's statements, never a commit under way, so
	// an error of ctx means that nothing was written.
	Update(ctx context.Context, fn func(Conn) error) error
	// View runs fn over a read-only snapshot, which fn must leave soon: after 5 s it is ended with an error that is a
	// context.DeadlineExceeded. On SQLite a deadline of ctx takes the place of the 5 s. A snapshot that is held keeps the write-ahead log from being
	// reused and dead rows from being removed.
	View(ctx context.Context, fn func(Conn) error) error
	// Version changes when any process has committed something: a hint to look again, cheap enough to poll.
	Version(ctx context.Context) (int64, error)
	// Dialect is how this database's SQL differs. It does not change.
	Dialect() Dialect
	// Describe says what is open.
	Describe(ctx context.Context) (Description, error)
	// Close waits for transactions under way and releases everything. A second Close does nothing.
	Close() error
}

// Description says what database is open.
type Description struct {
	Name       string // such as "sqlite"
	Version    string // of the database
	Location   string // a path or an address, without secrets
	Durability string // "fsync": acknowledged is durable; "relaxed": by explicit option only; "memory"
	Bytes      int64  // on disk, without the write-ahead log
	WALBytes   int64  // of the write-ahead log; 0 if the store cannot see it
	Commits    int64  // calls of Update that have committed
}

// Owners is an optional ability of a DB that knows which processes on its machine live: a process holds an operating system lock
// while it lives, and the lock of a dead one is free. All methods are safe for concurrent use.
type Owners interface {
	// OwnerID names this open store: [a-z0-9]{16}, random; "" where nobody else can open the database.
	OwnerID() string
	// EndDead calls end for each owner whose process has died, and forgets the owner if end returns true. Until end has returned, no process can
	// become that owner. Two processes may do so at a time.
	EndDead(ctx context.Context, end func(owner string) (finished bool, err error)) error
}
