package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/postgres"
)

// TestRawLeavesTheSameRows takes one job through our store and one through the raw statements, in
// two databases, and compares after each step what stands in the tables. If the schema or what the
// store writes changes, the limit that we measure ourselves by must change with it.
func TestRawLeavesTheSameRows(t *testing.T) {
	if _, err := binaries(); err != nil {
		t.Skip(err)
	}
	server, err := startCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.stop) // after those of open
	ctx := t.Context()
	c, mine := open(t, server)
	_, conn := open(t, server)
	const worker = "bench-raw"
	r := &raw{conn: conn, worker: worker, next: new(atomic.Int64)}
	var ids []int64
	var lease sojourn.Lease
	claimed := map[string][]string{} // table -> rows that our store leaves after the claim
	for _, step := range []struct {
		name       string
		ours, bare func() error
	}{
		{"enqueue", func() error { return (&bench.Sojourn{Client: c}).Enqueue(ctx, 1, 1) }, func() error { return r.enqueue(ctx, 1) }},
		{"claim", func() error {
			jobs, err := driver.Of(c).Claim(ctx, driver.ClaimRequest{Worker: worker, Queues: []string{bench.Queue}, Kinds: []string{bench.Kind}, Max: 1, Capacity: 1})
			if err == nil {
				lease = jobs[0].Lease
			}
			return err
		}, func() (err error) { ids, err = r.claim(ctx, 1); return err }},
		{"finish", func() error {
			_, err := driver.Of(c).Finish(ctx, []sojourn.Outcome{{Lease: lease, Type: sojourn.OutcomeCompleted}})
			return err
		}, func() error { return r.finish(ctx, ids) }},
	} {
		if err := step.ours(); err != nil {
			t.Fatal(step.name, err)
		}
		if err := step.bare(); err != nil {
			t.Fatal(step.name, err)
		}
		for _, table := range tables {
			want, got := rows(t, mine, table), rows(t, conn, table)
			if step.name == "claim" {
				claimed[table] = want
			}
			if !slices.Equal(want, got) {
				t.Errorf("after %s, %s holds\n%s\nand raw leaves\n%s", step.name, table, strings.Join(want, "\n"), strings.Join(got, "\n"))
			}
		}
	}
	_, other := open(t, server)
	started := &raw{conn: other, worker: worker, next: new(atomic.Int64)}
	if _, err := started.start(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if got := rows(t, other, table); !slices.Equal(claimed[table], got) {
			t.Errorf("%s holds\n%s\nafter the claim, and raw_start leaves\n%s", table, strings.Join(claimed[table], "\n"), strings.Join(got, "\n"))
		}
	}
}

// tables are those that a job's life writes.
var tables = []string{"sj_job", "sj_live", "sj_final", "sj_history", "sj_key", "sj_data"}

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

// rows reads a table as text. Of times it says only whether they are set, of digests how long they
// are.
func rows(t *testing.T, conn *pgx.Conn, table string) (out []string) {
	t.Helper()
	found, err := conn.Query(t.Context(), "select * from "+table)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			t.Fatal(err)
		}
		var line []string
		for i, column := range found.FieldDescriptions() {
			v := fmt.Sprint(values[i])
			if n, ok := values[i].(int64); ok && (column.Name == "r2" || strings.HasSuffix(column.Name, "_us") && column.Name != "lease_us" && n != 9223372036854775807) {
				v = fmt.Sprint(n != 0)
			}
			if b, ok := values[i].([]byte); ok && column.Name == "digest" {
				v = fmt.Sprint(len(b), " bytes")
			}
			line = append(line, column.Name+"="+v)
		}
		slices.Sort(line)
		out = append(out, strings.Join(line, " "))
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
