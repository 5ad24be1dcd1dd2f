package sqldb

// Conn is one connection inside one transaction, which begins with the first call or before. It
// belongs to one goroutine and is valid only inside the function that got it from [DB].Update or
// [DB].View, whose context it uses.
//
// An argument is int64, int, bool (0 or 1), string, []byte (nil is empty bytes, never NULL), nil
// (NULL), [Ints] or [Texts] (unfolded by ints($n) and texts($n)). Any other type is an error. The
// number of arguments must fit the text.
type Conn interface {
	// Exec runs q and returns the number of rows that it inserted, updated or deleted; after any
	// other statement the number means nothing.
	Exec(q string, args ...any) (int64, error)
	// Query runs q and calls each for every row; the Row is valid only during that call. An error
	// of each ends the query and is returned. A nested call may run other texts, never q itself.
	Query(q string, each func(Row) error, args ...any) error
	// Bulk runs q for every row of the columns, which must have equal length, and calls hit (if not
	// nil) with the first column's value of each row that changed something, in any order. Without
	// rows it does nothing.
	//
	// SQLite loops over one prepared statement and reads its change counter, because RETURNING
	// costs a quarter there; PostgreSQL binds whole columns as arrays to one statement that returns
	// the hits. So a text for Bulk uses rows($1 type, …) or Dialect.Over, and /*hit column*/ where
	// hit is not nil.
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

// Committer is an optional ability of a Sender that owns its transaction.
type Committer interface {
	Sender
	// Commit runs statements in order and commits, in one message. It returns ErrRaced if a
	// statement affects another number of rows than wanted. Nothing may follow it.
	Commit(batch []Statement) error
}

// Silencer is an optional ability of a Committer. Without Silent, the Commit of a transaction that
// has written nothing makes its reads durable, because they may show rows that another transaction
// has just committed.
type Silencer interface {
	// Silent declares that no caller is told a result of the transaction's reads.
	Silent()
}

// DurableReader is an optional ability of the Conn of a View. It is for databases that may show
// commits that a power cut or a failover can still undo.
type DurableReader interface {
	// ReadDurably makes View return only when everything that it has read is durable.
	ReadDurably()
}

// DurableJoiner is an optional ability of a Joined.
type DurableJoiner interface {
	// ReadDurably makes the commit of the transaction wait until its reads are durable, although it
	// writes nothing.
	ReadDurably() error
}

// Isolated is an optional ability of a Joined.
type Isolated interface {
	// Isolated reports whether the statements of the transaction read one snapshot, so that they
	// miss what others have committed since.
	Isolated() bool
}

// Clocked is an optional ability of a Conn whose database has its own clock, such as a server that
// several machines use.
type Clocked interface {
	// Clock returns the time of the database's clock at the beginning of the transaction, in
	// microseconds since 1970. It stays the same.
	Clock() (int64, error)
}

// Versioned is an optional ability of a Conn whose transactions have no concurrent writers.
type Versioned interface {
	// Version changes when another connection has committed something since; commits of this
	// connection do not count.
	Version() (int64, error)
	// Ended registers fn, which is called when the transaction has ended, before the next one
	// begins. failed is the cause of a rollback.
	Ended(fn func(failed error))
	// Silent declares that no caller is told a result of the transaction's reads. If it has written
	// nothing either, it need not wait until its reads are durable.
	Silent()
}

// Row reads one result row. Columns count from 0. NULL reads as 0, "" and nil.
type Row interface {
	Int(col int) int64
	Text(col int) string
	Bytes(col int) []byte // a copy: the caller's to keep; empty bytes that are not NULL read as []byte{}
}
