package postgres

import (
	"context"
	"sync"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// kept are databases whose connections outlive their stores, by the prefix of their tables. A new
// connection has to learn the tables and to plan each statement, which takes more time than most
// cases of the suite.
var kept struct {
	sync.Mutex
	free map[string][]*DB
}

// openKept is Open over connections that an earlier store over the same tables has left, if there
// are any.
func openKept(t testing.TB, list ...Option) driver.Store {
	t.Helper()
	return openTuned(t, func(*sqlstore.Config) {}, list...)
}

// openTuned is openKept with a change of the engine's configuration.
func openTuned(t testing.TB, change func(*sqlstore.Config), list ...Option) driver.Store {
	t.Helper()
	o, err := newOptions(list)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	before := takeKept(o.tables())
	if before == nil {
		if before, err = openDB(ctx, testURL(t), o); err == nil {
			err = o.fit(ctx, before)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db := &DB{pool: before.pool, dialect: before.dialect, location: before.location, tables: before.tables, prefix: before.prefix, server: before.server,
		same: before.same, limits: o.limits, writing: make(chan struct{}, o.split.writers), reading: make(chan struct{}, o.split.readers), closing: make(chan struct{}), readLimit: readLimit}
	db.notifier = newNotifier(db)
	db.addOwner()
	cfg := o.config()
	change(&cfg)
	s, err := sqlstore.New(ctx, &keptDB{DB: db}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func takeKept(tables string) *DB {
	kept.Lock()
	defer kept.Unlock()
	free := kept.free[tables]
	if len(free) == 0 {
		return nil
	}
	kept.free[tables] = free[:len(free)-1]
	return free[len(free)-1]
}

func closeKept() {
	for _, free := range kept.free {
		for _, db := range free {
			db.Close()
		}
	}
}

// keptDB is a DB of one store, whose connections the next store uses after it is closed.
type keptDB struct {
	*DB
	calls sync.RWMutex // held for reading by each call, for writing by Close, which waits for them
	over  bool
}

func (d *keptDB) Close() error {
	d.calls.Lock()
	defer d.calls.Unlock()
	if d.over {
		return nil
	}
	d.over = true
	d.judge.Close()
	d.owner.Release()
	d.notifier.close()
	kept.Lock()
	defer kept.Unlock()
	if kept.free == nil {
		kept.free = map[string][]*DB{}
	}
	kept.free[d.tables] = append(kept.free[d.tables], d.DB)
	return nil
}

// while runs a call unless the store is closed: its leftovers must not reach the tables of the next
// store.
func (d *keptDB) while(call func() error) error {
	d.calls.RLock()
	defer d.calls.RUnlock()
	if d.over {
		return &sojourn.Error{Code: sojourn.CodeClosed, Index: -1, Message: "the store is closed", Err: sojourn.ErrClosed}
	}
	return call()
}

func (d *keptDB) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	return d.while(func() error { return d.DB.Update(ctx, fn) })
}

func (d *keptDB) View(ctx context.Context, fn func(sqldb.Conn) error) error {
	return d.while(func() error { return d.DB.View(ctx, fn) })
}

func (d *keptDB) Version(ctx context.Context) (version int64, err error) {
	err = d.while(func() (err error) { version, err = d.DB.Version(ctx); return err })
	return version, err
}
