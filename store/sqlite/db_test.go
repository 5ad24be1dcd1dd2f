package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/store/sqlite/internal/filesys"
)

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func fileTest(t *testing.T) string { return filepath.Join(t.TempDir(), "jobs.db") }

// inv:Q1. While one store holds the write lock, the other waits as long as its context allows, and
// reads meanwhile.
func TestBusyWaits(t *testing.T) {
	path := fileTest(t)
	a, b := openTest(t, path), openTest(t, path)
	inside, leave := make(chan bool), make(chan bool)
	holder := make(chan error)
	go func() {
		holder <- a.Update(context.Background(), func(c sqldb.Conn) error {
			_, err := c.Exec("insert into sj_t (id, name) values (1, 'a')")
			close(inside)
			<-leave
			return err
		})
	}()
	<-inside
	ctx, cancel := contextFor(50 * time.Millisecond)
	defer cancel()
	never := func(sqldb.Conn) error { t.Error("two transactions write at once"); return nil }
	err := b.Update(ctx, never)
	if !errors.Is(err, context.DeadlineExceeded) || busy(err) {
		t.Error("busy until ctx ended:", err)
	}
	if n := count(t, b); n != 0 {
		t.Error("a reader sees what is not committed:", n)
	}
	waiter := make(chan error, 1)
	go func() {
		waiter <- b.Update(context.Background(), func(c sqldb.Conn) error {
			_, err := c.Exec("insert into sj_t (id, name) select max(id) + 1, 'b' from sj_t")
			return err
		})
	}()
	select {
	case err := <-waiter:
		t.Error("the second writer did not wait:", err)
		waiter <- nil
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	if err := errors.Join(<-holder, <-waiter); err != nil || count(t, a) != 2 {
		t.Error(err, count(t, a))
	}
}

// inv:Q1. Processes that create one file together and then write to it, one transaction after the
// other, all come through.
func TestBusyProcesses(t *testing.T) {
	path := fileTest(t)
	const n = 150
	var all []*process
	for i := range 3 {
		all = append(all, child(t, path, fmt.Sprintf("write %d %d", (i+1)*1000, n)))
	}
	d := openTest(t, path)
	for i := range n {
		execute(t, d, "insert into sj_t (id, name) values ($1, 'parent')", i)
	}
	for _, p := range all {
		p.end(t)
	}
	if got := count(t, d); got != 4*n {
		t.Errorf("%d rows of %d", got, 4*n)
	}
}

// Readers keep their snapshot and never wait for the writer; there may be more of them than
// connections.
func TestViewBesideUpdate(t *testing.T) {
	d := openTest(t, fileTest(t))
	var wg sync.WaitGroup
	err := d.Update(t.Context(), func(c sqldb.Conn) error {
		_, err := c.Exec("insert into sj_t (id, name) values (1, 'a')")
		for range 3 * readers {
			wg.Go(func() {
				if n := count(t, d); n != 0 {
					t.Error("dirty read of", n)
				}
			})
		}
		wg.Wait()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = d.View(t.Context(), func(c sqldb.Conn) error { // nothing is read before the write
		execute(t, d, "insert into sj_t (id, name) values (2, 'b')")
		return c.Query("select count(*) from sj_t", func(r sqldb.Row) error {
			if r.Int(0) != 1 {
				t.Error("the snapshot moved:", r.Int(0))
			}
			return nil
		})
	})
	if err != nil || count(t, d) != 2 {
		t.Error(err, count(t, d))
	}
}

const endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select %s from n"

func TestContextEndsStatements(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		execute(t, d, "insert into sj_t (id, name) values (1, 'a')")
		for name, do := range map[string]func(context.Context, func(sqldb.Conn) error) error{"view": d.View, "update": d.Update} {
			ctx, cancel := context.WithCancel(t.Context())
			err := do(ctx, func(c sqldb.Conn) error {
				return c.Query(fmt.Sprintf(endless, "i"), func(sqldb.Row) error { cancel(); return nil })
			})
			if err != context.Canceled {
				t.Error(name, "between rows:", err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
			err = do(ctx, func(c sqldb.Conn) error {
				return c.Query(fmt.Sprintf(endless, "count(*)"), func(sqldb.Row) error { return nil })
			})
			cancel()
			if err != context.DeadlineExceeded {
				t.Error(name, "inside of a step:", err)
			}
			if err := do(ctx, func(sqldb.Conn) error { t.Error("ran after ctx's end"); return nil }); err != ctx.Err() {
				t.Error(name, "after ctx's end:", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := d.Update(ctx, func(c sqldb.Conn) error {
			_, err := c.Exec("insert into sj_t (id, name) " + fmt.Sprintf(endless, "i + 1, 'x'"))
			return err
		})
		if err != context.DeadlineExceeded || count(t, d) != 1 {
			t.Error("an interrupted write:", err, count(t, d))
		}
		execute(t, d, "insert into sj_t (id, name) values (2, 'b')")
	})
}

// inv:Q2. A View has a maximum age.
func TestViewLimit(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		d.readLimit = 30 * time.Millisecond
		err := d.View(t.Context(), func(c sqldb.Conn) error {
			return c.Query(fmt.Sprintf(endless, "i"), func(sqldb.Row) error { return nil })
		})
		if sojourn.ErrorCode(err) != sojourn.CodeUnavailable {
			t.Error(err)
		}
	})
}

// inv:Q2. The write-ahead log is cut although there is always a reader.
func TestWALBounded(t *testing.T) {
	d := openTest(t, fileTest(t))
	d.walLimit, d.walNext = 1<<20, 1<<20
	write := func() {
		execute(t, d, "insert into sj_t (name, body) values ('x', zeroblob(100000))")
	}
	var held int64
	err := d.View(t.Context(), func(sqldb.Conn) error { // an old reader keeps the log from being cut
		for range 20 {
			write()
		}
		held = filesys.Size(d.path + "-wal")
		return nil
	})
	if err != nil || held < 2<<20 {
		t.Fatal("the log is to grow while a reader needs it:", held, err)
	}
	stop := make(chan bool)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					count(t, d)
				}
			}
		})
	}
	largest := int64(0)
	for range 100 { // 10 MB
		write()
		largest = max(largest, filesys.Size(d.path+"-wal"))
	}
	close(stop)
	wg.Wait()
	if largest > held+1<<20 || filesys.Size(d.path+"-wal") > 2<<20 {
		t.Errorf("the log reached %d bytes and has %d in the end", largest, filesys.Size(d.path+"-wal"))
	}
}

func TestVersion(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		writers := []*DB{d}
		if !d.memory() {
			writers = append(writers, openTest(t, d.path))
		}
		version := func() int64 {
			v, err := d.Version(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		before := version()
		for _, w := range writers {
			w.Update(t.Context(), func(c sqldb.Conn) error {
				c.Exec("insert into sj_t (id, name) values (1, 'a')")
				return errors.New("rolled back")
			})
			count(t, w)
			if version() != before {
				t.Error("changed without a commit")
			}
			execute(t, w, "insert into sj_t (name) values ('a')")
			if version() == before {
				t.Error("did not change with a commit; own store:", w == d)
			}
			before = version()
		}
	})
}

func TestDescribe(t *testing.T) {
	for want, d := range map[string]*DB{
		"fsync": openTest(t, fileTest(t)), "relaxed": openTest(t, fileTest(t), Relaxed()), "memory": openTest(t, inMemory),
	} {
		got, err := d.Describe(t.Context())
		if err != nil || got.Durability != want || got.Name != "sqlite" || got.Version != sqlite.Version || got.Location != d.path || got.Bytes <= 0 {
			t.Errorf("%s: %+v %v", want, got, err)
		}
		if (got.WALBytes > 0) == d.memory() {
			t.Errorf("%s: a log of %d bytes", want, got.WALBytes)
		}
	}
}

// Close lets transactions end; who waits for one, or comes later, is refused.
func TestClose(t *testing.T) {
	each(t, func(t *testing.T, d *DB) {
		inside, leave := make(chan bool), make(chan bool)
		holder, waiter, closer := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() {
			holder <- d.Update(context.Background(), func(c sqldb.Conn) error {
				close(inside)
				<-leave
				_, err := c.Exec("insert into sj_t (id, name) values (1, 'a')")
				return err
			})
		}()
		<-inside
		go func() { waiter <- d.Update(context.Background(), func(sqldb.Conn) error { return nil }) }()
		go func() { closer <- d.Close() }()
		if err := <-waiter; !errors.Is(err, sojourn.ErrClosed) {
			t.Error("a waiting call:", err)
		}
		select {
		case err := <-closer:
			t.Error("Close did not wait:", err)
		default:
		}
		close(leave)
		if err := errors.Join(<-holder, <-closer, d.Close()); err != nil {
			t.Error(err)
		}
		_, err1 := d.Version(t.Context())
		_, err2 := deadOwners(d)
		_, err3 := d.Describe(t.Context())
		for i, err := range []error{err1, err2, err3, d.View(t.Context(), nil), d.Update(t.Context(), nil)} {
			if !errors.Is(err, sojourn.ErrClosed) {
				t.Error(i, err)
			}
		}
		if d.memory() {
			return
		}
		if files, _ := filepath.Glob(d.path + "?*"); len(files) > 0 {
			t.Error("left behind:", files)
		}
		if n := count(t, openTest(t, d.path)); n != 1 {
			t.Error("rows after opening again:", n)
		}
	})
}

// inv:A6. After an error of the disk or file everything is refused, even if the caller swallowed
// the error.
func TestBrokenRefuses(t *testing.T) {
	d := openTest(t, fileTest(t))
	for range 50 {
		execute(t, d, "insert into sj_t (name, body) values ('x', zeroblob(20000))")
	}
	c := <-d.writer
	if blocked, err := ask(c.raw, "pragma wal_checkpoint(truncate)"); err != nil || blocked != "0" {
		t.Fatal(blocked, err)
	}
	d.writer <- c
	// by another process: this one would lose its locks with the end of a second access to the file
	child(t, d.path, "corrupt").end(t)
	var first error
	err := d.View(t.Context(), func(c sqldb.Conn) error {
		first = c.Query("select sum(length(hex(body))), count(name) from sj_t", func(sqldb.Row) error { return nil })
		return nil
	})
	if !d.Dialect().Broken(first) {
		t.Fatal("the damage was not seen:", first, err)
	}
	for name, err := range map[string]error{
		"update": d.Update(t.Context(), func(sqldb.Conn) error { t.Error("ran"); return nil }),
		"view":   d.View(t.Context(), func(sqldb.Conn) error { t.Error("ran"); return nil }),
	} {
		if !errors.Is(err, sojourn.ErrClosed) || sojourn.ErrorCode(err) != sojourn.CodeClosed || !d.Dialect().Broken(err) {
			t.Error(name, err)
		}
	}
	for code, want := range map[sqlite.ResultCode]bool{
		sqlite.ResultIOErrFsync: true, sqlite.ResultIOErrWrite: true, sqlite.ResultCorrupt: true, sqlite.ResultNotADB: true,
		sqlite.ResultReadOnlyDBMoved: true, sqlite.ResultFull: false, sqlite.ResultBusySnapshot: false, sqlite.ResultIOErrNoMem: false,
		sqlite.ResultConstraintUnique: false, sqlite.ResultInterrupt: false, sqlite.ResultReadOnly: false,
	} {
		if err := fmt.Errorf("wrapped: %w", code.ToError()); d.Dialect().Broken(err) != want {
			t.Error(code, "broken is not", want)
		}
	}
	if broken(nil) || broken(context.Canceled) || busy(nil) || busy(context.Canceled) {
		t.Error("errors of others")
	}
}
