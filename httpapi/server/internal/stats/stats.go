// Package stats serves statistics. The store checks the grants: a token sees the numbers of queues
// and kinds that it may read.
package stats

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

// ReadIn is the request of Read.
type ReadIn struct {
	Queue     string                 `query:"queue"`
	Kind      string                 `query:"kind"`
	Days      int                    `query:"days" doc:"the last days in UTC, today included; default 1, only today"`
	By        []statistics.Dimension `query:"by" doc:"day, queue or kind; repeat it for several: one row for each combination. Without it one row in total"`
	Histogram bool                   `query:"histogram" doc:"also the buckets of the times"`
}

// Read reads rows of statistics.
func Read(ctx context.Context, s sojourn.Store, in *ReadIn) (wire.StatisticsAnswer, error) {
	found, err := statistics.StoreOf(s).Statistics(ctx, statistics.Query{Queue: in.Queue, Kind: in.Kind, Days: in.Days, By: in.By, Histogram: in.Histogram})
	return wire.StatisticsAnswer{Rows: wire.StatisticsOf(found)}, err
}
