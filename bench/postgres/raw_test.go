package postgres

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/bench/rawtest"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/postgres"
)

func TestRawLeavesTheSameRows(t *testing.T) {
	server, ctx := &cluster{Cluster: pgtest.NewCluster(t)}, t.Context()
	c, mine := open(t, server)
	_, conn := open(t, server)
	_, other := open(t, server)
	const worker = "bench-raw"
	r := &raw{conn: conn, worker: worker, next: new(atomic.Int64)}
	started := &raw{conn: other, worker: worker, next: new(atomic.Int64)}
	var ids []int64
	rawtest.SameRows(t, c, rows(t, mine), rawtest.Raw{
		Worker:  worker,
		Enqueue: func() error { return r.enqueue(ctx, 1) },
		Claim:   func() (err error) { ids, err = r.claim(ctx, 1); return err },
		Finish:  func() error { return r.finish(ctx, ids) },
		Rows:    rows(t, conn),
	}, func() error { _, err := started.start(ctx, 1); return err }, rows(t, other))
}

// open makes a database with our tables, a client, and a connection beside it.
func open(t *testing.T, server *cluster) (*sojourn.Client, *pgx.Conn) {
	t.Helper()
	address, drop, err := server.database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := postgres.Open(address, postgres.AutoMigrate())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close(context.Background())
		c.Close()
		drop()
	})
	return c, conn
}

func rows(t *testing.T, conn *pgx.Conn) rawtest.Rows {
	return func(table string) []map[string]any {
		found, err := conn.Query(t.Context(), "select * from "+table)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(found, pgx.RowToMap)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}
