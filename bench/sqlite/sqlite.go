// Package sqlite measures Sojourn on SQLite beside other job queues and beside the raw limit of its
// own tables.
package sqlite

import (
	"context"
	"errors"
	"os"

	"github.com/riverqueue/river/riverdriver/riversqlite"

	"github.com/sojourn-queue/sojourn/bench/peers"
	"github.com/sojourn-queue/sojourn/internal/bench"
)

const (
	synced    = "all that is acknowledged (WAL, synchronous=FULL)"
	committed = "all that is committed (WAL, synchronous=FULL)"
)

// riverWorkers are fewer than those of River's own benchmark command: SQLite gives them one
// connection.
const riverWorkers = 500

// Setup makes the systems of the comparison.
func Setup(_ context.Context, single, bulk bench.Load) ([]bench.Entry, func(), error) {
	return append([]bench.Entry{
		{Name: "ours", Durability: peers.Synced, Run: bench.Measure(peers.SQLite(false), peers.SQLite(true), single, bulk)},
		{Name: "raw", Durability: committed, Run: bench.Limit(single, bulk, rawRun((*raw).life), rawRun((*raw).enqueue))},
		{Name: "raw_start", Durability: committed, Run: bench.Limit(single, bulk, rawRun((*raw).startedLife), rawRun((*raw).enqueue))},
		{Name: "goqite", Durability: synced, Run: bench.Measure(openGoqite, nil, single, bulk)},
		{Name: "river", Durability: synced, Run: bench.Measure(openRiver, nil, single, bulk)},
	}, peers.AsynqEntries(single)...), func() {}, nil
}

// openRiver opens River with one connection, as its driver advises.
func openRiver(ctx context.Context) (bench.System, error) {
	db, folder, err := openFile()
	if err != nil {
		return nil, err
	}
	return peers.River(ctx, riversqlite.New(db), riverWorkers, func() error { return errors.Join(db.Close(), os.RemoveAll(folder)) })
}
