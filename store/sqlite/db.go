package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/owner"
)

const (
	readers   = 4               // connections for View
	readLimit = 5 * time.Second // of a View: an old snapshot keeps the write-ahead log from being reused
	walLimit  = 64 << 20        // bytes of the write-ahead log above which it is cut
)

// DB is one SQLite database: a connection that writes, and beside it some that read, so that
// readers never wait for the writer. It implements sqldb.DB and sqldb.Owners.
type DB struct {
	lifecycle
	prefix  string // of the tables
	dialect sqldb.Dialect
	relaxed bool
	owner   *owner.Owner // nil in memory
	level   int          // the newest version of the schema that this program can work with

	// The connections are in channels: a receiver owns the connection, and waiting for it ends with
	// the caller's context.
	writer chan *conn
	reader chan *conn // the writer's channel in memory, where there is one connection
	probe  chan *conn // for Version

	commits atomic.Int64 // in memory, that changed something
	updates atomic.Int64 // that have committed
	seen    int64        // the version that the last transaction found; belongs to the writer, which changes none
	log     walLog
	places  []place // the files that are open; none in memory

	checking    sync.WaitGroup // the check after an unclean stop
	checkAtOpen int64          // bytes up to which a file is checked when it is opened

	created func() // see options

	// Tests make these smaller.
	readLimit time.Duration
	walLimit  int64
	walNext   int64 // size at which the log is cut next; belongs to the writer
}

var _ interface {
	sqldb.DB
	sqldb.Owners
	sqldb.Crowded
	sqldb.Durable
	sqldb.Located
	sqldb.Rehearser
} = (*DB)(nil)

// Dialect implements sqldb.DB.
func (d *DB) Dialect() sqldb.Dialect { return d.dialect }

// location names the file, and the tables if they are not the usual ones.
func (d *DB) location() string {
	if d.prefix == defaultPrefix {
		return d.path
	}
	return d.path + ", tables " + d.prefix + "*"
}

func (d *DB) memory() bool { return d.owner == nil }

// take waits for a connection.
func (d *DB) take(ctx context.Context, from chan *conn) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.refusal(); err != nil {
		return nil, err
	}
	select {
	case c := <-from:
		if err := d.refusal(); err != nil {
			from <- c
			return nil, err
		}
		return c, nil
	case <-d.closed:
		return nil, d.refusal()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// give returns a connection. An I/O error or corruption that it has seen breaks the whole DB.
func (d *DB) give(c *conn, to chan *conn) {
	if c.broken != nil {
		d.fail(c.broken)
	}
	to <- c
}

// Update implements sqldb.DB. It returns when everything that it has written or read is durable,
// whichever process has written it.
func (d *DB) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.calls.Done()
	silent, err := d.update(ctx, fn)
	if err == nil && !silent {
		err = d.log.durable()
	}
	if err != nil {
		return err
	}
	return d.inPlace()
}

// update commits, and does not wait for the disk.
func (d *DB) update(ctx context.Context, fn func(sqldb.Conn) error) (silent bool, err error) {
	c, err := d.take(ctx, d.writer)
	if err != nil {
		return false, err
	}
	defer func() {
		if c.after != nil {
			c.after(err)
		}
		if err == nil && c.version != 0 {
			d.seen = c.version
		}
		silent = c.silent
		c.after, c.silent, c.version = nil, false, 0
		d.give(c, d.writer)
	}()
	if d.memory() {
		return false, d.updateMemory(ctx, c, fn)
	}
	if err := c.transact(ctx, c.text("begin immediate"), c.text("commit"), fn); err != nil {
		return false, err
	}
	d.updates.Add(1)
	d.boundWAL(c)
	return false, nil
}

// updateMemory counts the commits that changed something, as data_version does for files.
func (d *DB) updateMemory(ctx context.Context, c *conn, fn func(sqldb.Conn) error) error {
	before, err := ask(c.raw, "select total_changes()")
	if err != nil {
		return err
	}
	if err := c.transact(ctx, c.text("begin immediate"), c.text("commit"), fn); err != nil {
		return err
	}
	d.updates.Add(1)
	after, err := ask(c.raw, "select total_changes()")
	if after != before {
		d.commits.Add(1)
	}
	return err
}

// View implements sqldb.DB. It returns when everything that fn has read is durable.
func (d *DB) View(ctx context.Context, fn func(sqldb.Conn) error) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.calls.Done()
	if err := d.view(ctx, fn); err != nil {
		return err
	}
	if err := d.log.durable(); err != nil {
		return err
	}
	return d.inPlace()
}

func (d *DB) view(ctx context.Context, fn func(sqldb.Conn) error) error {
	c, err := d.take(ctx, d.reader)
	if err != nil {
		return err
	}
	defer func() { d.give(c, d.reader) }()
	end := c.text("commit")
	if d.memory() { // The one connection may write. The pragma query_only would cost it all its prepared statements, twice.
		end = c.text("rollback")
		c.reading = true
		defer func() { c.reading = false }()
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if _, own := ctx.Deadline(); !own {
		limited, cancel = context.WithTimeout(ctx, d.readLimit)
	}
	defer cancel()
	begin := func() error {
		if err := run(c.raw, "begin"); err != nil {
			return err
		}
		// The first read fixes the snapshot, and is the one that may find the database busy.
		err := run(c.raw, "select 1 from sqlite_schema limit 1")
		if err != nil {
			return errors.Join(err, run(c.raw, "rollback"))
		}
		return nil
	}
	err = c.transact(limited, begin, end, fn)
	if err != nil && ctx.Err() == nil && limited.Err() != nil && errors.Is(err, limited.Err()) {
		return &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Retryable: true, Err: err,
			Message: fmt.Sprintf("the read took longer than %v; request fewer rows at a time", d.readLimit)}
	}
	return err
}

// Version implements sqldb.DB.
func (d *DB) Version(ctx context.Context) (version int64, err error) {
	if d.memory() { // there are no other writers
		return d.commits.Load(), d.refusal()
	}
	if err := d.begin(); err != nil {
		return 0, err
	}
	defer d.calls.Done()
	if err := d.inPlace(); err != nil { // so that calls that wait learn of it
		return 0, err
	}
	c, err := d.take(ctx, d.probe)
	if err != nil {
		return 0, err
	}
	defer func() { d.give(c, d.probe) }()
	return c.dataVersion(ctx) // as this connection sees it: our own writer counts too
}

// Durable implements sqldb.Durable.
func (d *DB) Durable() error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.calls.Done()
	if err := d.log.durable(); err != nil {
		return err
	}
	return d.inPlace()
}

// boundWAL truncates the write-ahead log when it is too large. SQLite's own checkpoint after a
// commit copies it back but never waits for a reader, so under steady reading the file would only
// grow. It runs between transactions, by the holder of the writer's connection.
func (d *DB) boundWAL(c *conn) {
	size := filesys.Size(d.path + "-wal")
	if size < d.walLimit {
		d.walNext = d.walLimit
		return
	}
	if size < d.walNext {
		return
	}
	// A short wait first, because writers wait meanwhile. A log that grew all the same is worth
	// waiting for the oldest reader.
	patience := 100 * time.Millisecond
	if size > 4*d.walLimit {
		patience = d.readLimit + time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.patiently(ctx, func() error {
		blocked, err := ask(c.raw, "pragma wal_checkpoint(truncate)")
		if err == nil && blocked == "1" {
			err = sqlite.ResultBusy.ToError()
		}
		return err
	}) // an I/O error is noted; the commit before it stands
	d.walNext = filesys.Size(d.path+"-wal") + d.walLimit/8
}

// Describe implements sqldb.DB.
func (d *DB) Describe(ctx context.Context) (sqldb.Description, error) {
	out := sqldb.Description{Name: "sqlite", Version: sqlite.Version, Location: d.location(), Durability: "fsync", Commits: d.updates.Load()}
	switch {
	case d.memory():
		out.Durability = "memory"
		err := d.View(ctx, func(c sqldb.Conn) error {
			return c.Query("select page_count * page_size from pragma_page_count, pragma_page_size", func(r sqldb.Row) error {
				out.Bytes = r.Int(0)
				return nil
			})
		})
		return out, err
	case d.relaxed:
		out.Durability = "relaxed"
	}
	out.Bytes, out.WALBytes = filesys.Size(d.path), filesys.Size(d.path+"-wal")
	return out, d.refusal()
}

// Close implements sqldb.DB.
func (d *DB) Close() (err error) {
	d.closing.Do(func() {
		d.end()
		d.checking.Wait()
		var errs []error
		if !d.memory() {
			for range readers {
				errs = append(errs, (<-d.reader).raw.Close())
			}
			errs = append(errs, (<-d.probe).raw.Close())
		}
		writer := <-d.writer
		errs = append(errs, d.log.close())
		// The writer last: the last connection of all processes writes the log back and removes it.
		errs = append(errs, writer.raw.Close())
		if !d.memory() {
			errs = append(errs, d.owner.Release())
		}
		err = errors.Join(errs...)
	})
	return err
}

// OwnerID implements sqldb.Owners.
func (d *DB) OwnerID() string {
	if d.memory() {
		return ""
	}
	return d.owner.ID()
}

// EndDead implements sqldb.Owners. Owners of other instances in the file are left to the stores of
// those, which end their leases.
func (d *DB) EndDead(ctx context.Context, end func(id string) (finished bool, err error)) error {
	if err := errors.Join(ctx.Err(), d.refusal()); err != nil || d.memory() {
		return err
	}
	return owner.EndDead(d.path, d.owner.ID(), d.prefix, end)
}
