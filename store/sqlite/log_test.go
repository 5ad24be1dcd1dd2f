package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

func insertOne(c sqldb.Conn) error {
	_, err := c.Exec("insert into sj_t (name) values ('a')")
	return err
}

// TestNothingIsToldBeforeTheDiskHasIt: while the log is being synced, the next transaction runs,
// and neither the writers nor the readers of the unsynced rows get an answer. A sync covers the
// writes before its start. A silent transaction need not wait.
func TestNothingIsToldBeforeTheDiskHasIt(t *testing.T) {
	d := openTest(t, fileTest(t))
	syncing := make(chan chan bool) // syncs that have begun; each ends when its channel is closed
	d.log.sync = func(f *os.File) error {
		release := make(chan bool)
		syncing <- release
		<-release
		return f.Sync()
	}
	told := make(chan string, 3)
	var all sync.WaitGroup
	call := func(name string, do func() error) {
		all.Go(func() {
			if err := do(); err != nil {
				t.Error(name, err)
			}
			told <- name
		})
	}
	call("first", func() error { return d.Update(context.Background(), insertOne) })
	held := map[chan bool]bool{}
	end := func(sync chan bool) { close(sync); delete(held, sync) }
	early := func(name string) {
		for sync := range held {
			end(sync)
		}
		d.log.sync = (*os.File).Sync
		t.Fatalf("%s was told before the disk had it", name)
	}
	begun := func() (sync chan bool) {
		select {
		case sync = <-syncing:
			held[sync] = true
		case name := <-told:
			early(name)
		}
		return sync
	}
	first := begun()
	wrote, read := make(chan bool), make(chan int64)
	call("second", func() error {
		return d.Update(context.Background(), func(c sqldb.Conn) error { defer close(wrote); return insertOne(c) })
	})
	<-wrote // beside the sync of the first
	second := begun()
	call("reader", func() error {
		return d.View(context.Background(), func(c sqldb.Conn) error {
			return c.Query("select count(*) from sj_t", func(r sqldb.Row) error { read <- r.Int(0); return nil })
		})
	})
	if n := <-read; n != 2 {
		t.Errorf("%d rows are visible", n)
	}
	err := d.Update(context.Background(), func(c sqldb.Conn) error { c.(sqldb.Versioned).Silent(); return nil })
	if err != nil {
		t.Error("who tells nobody:", err)
	}
	if len(told) > 0 {
		early(<-told)
	}
	end(first)
	if name := <-told; name != "first" {
		early(name)
	}
	end(begun()) // for the reader
	end(second)
	all.Wait()
	d.log.sync = func(*os.File) error { t.Error("an idle log was synced"); return nil }
	if err := d.Update(context.Background(), func(c sqldb.Conn) error {
		return c.Query("select count(*) from sj_t", func(sqldb.Row) error { return nil })
	}); err != nil {
		t.Error("a transaction that only reads:", err)
	}
	if err := d.View(context.Background(), func(sqldb.Conn) error { return nil }); err != nil {
		t.Error("an idle log:", err)
	}
	d.log.sync = (*os.File).Sync
}

// TestFailedSync: inv:A6. After a sync has failed nothing is accepted or answered any more,
// although the next sync would succeed.
func TestFailedSync(t *testing.T) {
	d := openTest(t, fileTest(t))
	before := d.log.synced.Load()
	d.log.sync = func(*os.File) error {
		d.log.sync = (*os.File).Sync
		return syscall.EIO
	}
	if err := d.Update(t.Context(), insertOne); !errors.Is(err, syscall.EIO) || !d.Dialect().Broken(err) {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"update": d.Update(t.Context(), func(sqldb.Conn) error { t.Error("ran"); return nil }),
		"view":   d.View(t.Context(), func(sqldb.Conn) error { t.Error("ran"); return nil }),
		"waits":  d.log.durable(),
	} {
		if !errors.Is(err, sojourn.ErrClosed) || !d.Dialect().Broken(err) {
			t.Error(name, err)
		}
	}
	if d.log.synced.Load() != before {
		t.Error("what failed counts as synced")
	}
}

// onDisk contains the minimum that survives a power cut: the bytes that a sync has covered.
type onDisk struct {
	file, log []byte
	acked     []sojourn.ID // while it was the newest
}

// TestPowerCut: inv:A1. All acknowledged writes are in the bytes that were synced before, and a
// store of these bytes opens.
func TestPowerCut(t *testing.T) {
	path := fileTest(t)
	o, err := newOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDB(path, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(d, o)
	if err != nil {
		t.Fatal(err)
	}
	c := sojourn.NewClient(s)
	defer c.Close()
	var mu sync.Mutex // guards cuts
	cuts := []*onDisk{{}}
	d.log.sync = func(f *os.File) error {
		var cut onDisk
		var err1, err2 error
		cut.file, err1 = os.ReadFile(path)
		cut.log, err2 = os.ReadFile(path + "-wal")
		err := errors.Join(err1, err2, f.Sync())
		mu.Lock()
		defer mu.Unlock()
		if len(cut.log) > len(cuts[len(cuts)-1].log) {
			cuts = append(cuts, &cut)
		}
		return err
	}
	var producers sync.WaitGroup
	for p := range 8 {
		producers.Go(func() {
			for i := range 25 {
				e, err := c.Enqueue(context.Background(), sojourn.NewJob("k", nil, sojourn.Key(fmt.Sprint(p, "-", i))))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				newest := cuts[len(cuts)-1]
				newest.acked = append(newest.acked, e.ID)
				mu.Unlock()
			}
		})
	}
	producers.Wait()
	for i, cut := range cuts {
		if len(cut.acked) > 0 && (i%4 == 0 || i > len(cuts)-4) {
			checkCut(t, cut)
		}
	}
	t.Logf("%d syncs", len(cuts)-1)
}

func checkCut(t *testing.T, cut *onDisk) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cut.db")
	if err := errors.Join(os.WriteFile(path, cut.file, 0o600), os.WriteFile(path+"-wal", cut.log, 0o600)); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, id := range cut.acked {
		if _, err := c.Get(context.Background(), id); err != nil {
			t.Errorf("job %d was acknowledged: %v", id, err)
		}
	}
}

// TestStatesOfTheLog: a store syncs the log once for each answer that depends on a new commit of
// any process, and never otherwise; also after another process has checkpointed and restarted the
// log.
func TestStatesOfTheLog(t *testing.T) {
	path := fileTest(t)
	a, b := openTest(t, path), openTest(t, path)
	syncs := 0
	b.log.sync = func(f *os.File) error { syncs++; return f.Sync() }
	reads := func() { count(t, b) }
	looks := func() {
		if err := b.Update(t.Context(), func(c sqldb.Conn) error {
			return c.Query("select count(*) from sj_t", func(sqldb.Row) error { return nil })
		}); err != nil {
			t.Error(err)
		}
	}
	insert := func(d *DB) func() { return func() { execute(t, d, "insert into sj_t (name) values ('a')") } }
	restart := func() {
		c := <-a.writer
		defer func() { a.writer <- c }()
		if blocked, err := ask(c.raw, "pragma wal_checkpoint(truncate)"); err != nil || blocked != "0" {
			t.Error(blocked, err)
		}
	}
	reads()
	for i, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"nothing new", reads, 0}, {"the other one commits", insert(a), 0}, {"a read rests on it", reads, 1}, {"once", reads, 0},
		{"it commits again", insert(a), 0}, {"so does a transaction without writes", looks, 1}, {"once", looks, 0},
		{"its own commit", insert(b), 1}, {"is durable", reads, 0},
		{"the log begins again", restart, 0}, {"and has as many frames as before", insert(a), 0}, {"a read rests on them", reads, 1},
		{"the log begins again", restart, 0}, {"its own commit", insert(b), 1}, {"is durable", looks, 0},
	} {
		syncs = 0
		if step.do(); syncs != step.want {
			t.Errorf("%d: %s: %d syncs, want %d", i, step.name, syncs, step.want)
		}
	}
}
