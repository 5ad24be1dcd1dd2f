// Package http measures Sojourn's server, in a process of its own, beside the store inside of the
// program, beside the same server without a store, and beside other job servers.
package http

import (
	"context"

	"github.com/sojourn-queue/sojourn/bench/peers"
	"github.com/sojourn-queue/sojourn/internal/bench"
)

const none = "nothing: it checks the token and the jobs, and stores none"

// Setup makes the systems of the comparison.
func Setup(_ context.Context, single, bulk bench.Load) ([]bench.Entry, func(), error) {
	return append([]bench.Entry{
		{Name: "ours", Durability: peers.Synced, Run: bench.Measure(served(childServes, false), served(childServes, true), single, bulk)},
		{Name: "ours_each", Durability: peers.Synced, Run: enqueueOnly(requests(childServes), single, bench.Load{})},
		{Name: "empty_each", Durability: none, Run: enqueueOnly(requests(childEmpty), single, bench.Load{})},
		{Name: "empty", Durability: none, Run: enqueueOnly(served(childEmpty, false), single, bulk)},
		{Name: "embedded", Durability: peers.Synced, Run: bench.Measure(peers.SQLite(false), peers.SQLite(true), single, bulk)},
		{Name: "faktory_always", Durability: peers.EachWrite, Run: bench.Measure(openFaktory("always"), nil, single, bulk)},
		{Name: "faktory_everysec", Durability: peers.EverySecond, Run: bench.Measure(openFaktory("everysec"), nil, single, bulk)},
	}, peers.AsynqEntries(single)...), func() {}, nil
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
