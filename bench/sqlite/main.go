// Command sqlite measures Sojourn on SQLite beside other job queues and beside the raw limit of its own tables: see docs/benchmarks.md.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

const (
	synced = "every operation is on the disk when it is acknowledged (WAL, synchronous=FULL)"
	three  = "three transactions of 500 jobs, each on the disk (WAL, synchronous=FULL)"
)

func main() {
	bench.Main(func(_ context.Context, load bench.Load, bulk int) ([]bench.Entry, func(), error) {
		return []bench.Entry{
			{Name: "ours", Durability: synced, Run: bench.Measure(ours(false), ours(true), load, bulk)},
			{Name: "raw", Durability: three, Run: rawRun(load)},
		}, func() {}, nil
	})
}

// ours is this module's own store in a file that goes with it.
func ours(bare bool) bench.Open {
	return func(context.Context) (bench.System, error) {
		folder, err := os.MkdirTemp("", "sojourn-bench-")
		if err != nil {
			return nil, err
		}
		c, err := sqlite.Open(filepath.Join(folder, "jobs.db"))
		if err != nil {
			os.RemoveAll(folder)
			return nil, err
		}
		return &bench.Sojourn{Client: c, Bare: bare, After: func() error { return os.RemoveAll(folder) }}, nil
	}
}
