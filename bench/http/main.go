// Command http measures Sojourn's server, in a process of its own, beside the store inside of the
// program, beside the same server without a store, and beside other job servers: see
// docs/benchmarks.md.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

const (
	synced = "all that is acknowledged (WAL, synced before the answer)"
	none   = "nothing: it checks the token and the jobs, and stores none"
	always = "all that is acknowledged (appendfsync always)"
	second = "all but the last second (appendfsync everysec)"
)

func main() {
	if kind := os.Getenv(childEnv); kind != "" {
		if err := child(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	bench.Main(func(_ context.Context, single, bulk bench.Load) ([]bench.Entry, func(), error) {
		return []bench.Entry{
			{Name: "ours", Durability: synced, Run: bench.Measure(served(childServes, false), served(childServes, true), single, bulk)},
			{Name: "ours_each", Durability: synced, Run: enqueueOnly(requests(childServes), single, bench.Load{})},
			{Name: "empty_each", Durability: none, Run: enqueueOnly(requests(childEmpty), single, bench.Load{})},
			{Name: "empty", Durability: none, Run: enqueueOnly(served(childEmpty, false), single, bulk)},
			{Name: "embedded", Durability: synced, Run: bench.Measure(embedded(false), embedded(true), single, bulk)},
			{Name: "faktory_always", Durability: always, Run: bench.Measure(openFaktory("always"), nil, single, bulk)},
			{Name: "faktory_everysec", Durability: second, Run: bench.Measure(openFaktory("everysec"), nil, single, bulk)},
			{Name: "asynq_always", Durability: always, Run: bench.Measure(openAsynq("always"), nil, single, bench.Load{})},
			{Name: "asynq_everysec", Durability: second, Run: bench.Measure(openAsynq("everysec"), nil, single, bench.Load{})},
		}, func() {}, nil
	})
}

// enqueueOnly measures what a system without a store can do.
func enqueueOnly(open bench.Open, single, bulk bench.Load) func(context.Context) (bench.Figures, error) {
	return func(ctx context.Context) (f bench.Figures, err error) {
		sys, err := open(ctx)
		if err != nil {
			return f, err
		}
		defer sys.Close()
		if single.Jobs > 0 {
			one, err := bench.Enqueues(ctx, sys, single)
			if err != nil {
				return f, err
			}
			f.EnqueuePerS, f.AloneP99MS = one.PerSecond(), bench.Milliseconds(one.Ack.Quantile(0.99))
		}
		if bulk.Jobs > 0 {
			many, err := bench.Enqueues(ctx, sys, bulk)
			if err != nil {
				return f, err
			}
			f.BulkPerS = many.PerSecond()
		}
		return f, nil
	}
}

// embedded is the store in this very process.
func embedded(bare bool) bench.Open {
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
