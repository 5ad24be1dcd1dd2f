package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/internal/callcost"
	"github.com/sojourn-queue/sojourn/internal/migration"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore"
)

// meteredDB counts the statements of its transactions. It embeds the real database, so that the
// store finds all of its optional abilities.
type meteredDB struct {
	*DB
	queries, bulks, execs, syncs atomic.Int64
}

type meteredConn struct {
	*conn
	db *meteredDB
}

func (d *meteredDB) Update(ctx context.Context, fn func(sqldb.Conn) error) error {
	return d.DB.Update(ctx, func(c sqldb.Conn) error { return fn(meteredConn{c.(*conn), d}) })
}

func (d *meteredDB) View(ctx context.Context, fn func(sqldb.Conn) error) error {
	return d.DB.View(ctx, func(c sqldb.Conn) error { return fn(meteredConn{c.(*conn), d}) })
}

func (c meteredConn) Query(q string, each func(sqldb.Row) error, args ...any) error {
	c.db.queries.Add(1)
	return c.conn.Query(q, each, args...)
}

func (c meteredConn) Exec(q string, args ...any) (int64, error) {
	c.db.execs.Add(1)
	return c.conn.Exec(q, args...)
}

func (c meteredConn) Bulk(q string, hit func(int64), first sqldb.Ints, more ...sqldb.Column) error {
	c.db.bulks.Add(1)
	return c.conn.Bulk(q, hit, first, more...)
}

// Version is a query too.
func (c meteredConn) Version() (int64, error) {
	c.db.queries.Add(1)
	return c.conn.Version()
}

func (d *meteredDB) total() callcost.Cost {
	return callcost.Cost{Queries: int(d.queries.Load()), Bulks: int(d.bulks.Load()), Execs: int(d.execs.Load()), Syncs: int(d.syncs.Load())}
}

// TestCallCost: no call runs more statements or fsyncs than callcost.Calls allows.
func TestCallCost(t *testing.T) {
	metered := &meteredDB{}
	o, err := newOptions([]Option{func(o *options) {
		o.sync = func(f *os.File) error { metered.syncs.Add(1); return f.Sync() }
	}})
	if err != nil {
		t.Fatal(err)
	}
	if metered.DB, err = openDB(filepath.Join(t.TempDir(), "jobs.db"), o); err != nil {
		t.Fatal(err)
	}
	if err := migration.Up(t.Context(), metered.DB, defaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(t.Context(), metered, sqlstore.Config{Prefix: defaultPrefix, Now: time.Now, Enders: 1, Apart: apart, Poll: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	cost, err := callcost.Measure(t.Context(), s, metered.total)
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range callcost.Breaches(cost, func(c callcost.Call) callcost.Cost { return c.SQLite }) {
		t.Error(breach)
	}
}
