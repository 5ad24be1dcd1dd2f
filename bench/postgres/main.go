// Command postgres measures Sojourn on PostgreSQL beside other job queues and beside the raw limit
// of its own tables: see docs/benchmarks.md. It starts a server of its own from the installed
// binaries.
package main

import (
	"context"
	"errors"

	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/postgres"
)

// We have two workers in one process, which share one store; each claims 1,000 jobs at most. River
// has one with as many as its own benchmark command.
const (
	workers     = 2
	concurrency = 1000
)

const (
	synced = "all that is acknowledged (fsync, synchronous_commit=on)"
	three  = "all that is committed (fsync, synchronous_commit=on)"
)

func main() {
	bench.Main(func(_ context.Context, single, bulk bench.Load) ([]bench.Entry, func(), error) {
		c, err := startCluster()
		if err != nil {
			return nil, nil, err
		}
		return []bench.Entry{
			{Name: "ours", Durability: synced, Run: bench.Measure(c.ours(false), c.ours(true), single, bulk)},
			{Name: "raw", Durability: three, Run: bench.Limit(single, bulk, c.rawRun((*raw).life), c.rawRun((*raw).enqueue))},
			{Name: "raw_start", Durability: three, Run: bench.Limit(single, bulk, c.rawRun((*raw).startedLife), c.rawRun((*raw).enqueue))},
			{Name: "river", Durability: synced, Run: bench.Measure(c.river, nil, single, bulk)},
		}, c.stop, nil
	})
}

// ours is this module's own store in a database that goes with it.
func (c *cluster) ours(bare bool) bench.Open {
	return func(ctx context.Context) (bench.System, error) {
		address, drop, err := c.database(ctx)
		if err != nil {
			return nil, err
		}
		client, err := postgres.Open(address, postgres.AutoMigrate())
		if err != nil {
			return nil, errors.Join(err, drop())
		}
		return &bench.Sojourn{Client: client, Concurrency: concurrency, Workers: workers, Bare: bare, After: drop}, nil
	}
}
