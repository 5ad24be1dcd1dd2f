// Package peers has the systems that more than one comparison measures.
package peers

import (
	"context"
	"os"
	"path/filepath"

	"github.com/sojourn-queue/sojourn/internal/bench"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// What survives a power cut.
const (
	Synced      = "all that is acknowledged (WAL, synced before the answer)" // of our store on SQLite
	EachWrite   = "all that is acknowledged (appendfsync always)"            // of Redis
	EverySecond = "all but the last second (appendfsync everysec)"           // of Redis
)

// AsynqEntries are Asynq with both settings of Redis.
func AsynqEntries(single bench.Load) []bench.Entry {
	return []bench.Entry{
		{Name: "asynq_always", Durability: EachWrite, Run: bench.Measure(asynqOn("always"), nil, single, bench.Load{})},
		{Name: "asynq_everysec", Durability: EverySecond, Run: bench.Measure(asynqOn("everysec"), nil, single, bench.Load{})},
	}
}

// SQLite opens our own store on a file in a folder that Close removes.
func SQLite(bare bool) bench.Open {
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
