// Command sqlite measures Sojourn on SQLite beside other job queues and beside the raw limit of its
// own tables: see docs/benchmarks.md.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

const (
	own    = "all that is acknowledged (WAL, synced before the answer)"
	synced = "all that is acknowledged (WAL, synchronous=FULL)"
	three  = "all that is committed (WAL, synchronous=FULL)"
	always = "all that is acknowledged (appendfsync always)"
	second = "all but the last second (appendfsync everysec)"
)

func main() {
	bench.Main(func(_ context.Context, single, bulk bench.Load) ([]bench.Entry, func(), error) {
		return []bench.Entry{
			{Name: "ours", Durability: own, Run: bench.Measure(ours(false), ours(true), single, bulk)},
			{Name: "raw", Durability: three, Run: bench.Limit(single, bulk, rawRun((*raw).life), rawRun((*raw).enqueue))},
			{Name: "raw_start", Durability: three, Run: bench.Limit(single, bulk, rawRun((*raw).startedLife), rawRun((*raw).enqueue))},
			{Name: "goqite", Durability: synced, Run: bench.Measure(openGoqite, nil, single, bulk)},
			{Name: "river", Durability: synced, Run: bench.Measure(openRiver, nil, single, bulk)},
			{Name: "asynq_always", Durability: always, Run: bench.Measure(openAsynq("always"), nil, single, bench.Load{})},
			{Name: "asynq_everysec", Durability: second, Run: bench.Measure(openAsynq("everysec"), nil, single, bench.Load{})},
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
