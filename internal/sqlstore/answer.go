package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

type claimAnswer struct {
	jobs    []driver.Claimed
	waits   map[sojourn.ID]int32 // Row.Waits of the jobs for which it is not 0
	due     int64                // when the next thing is due; 0 = nothing
	opens   int64                // when a gate opens that holds jobs back; 0 = not known
	drained bool                 // the worker gets no more jobs
	again   bool                 // many jobs were put off: the next transaction goes on
}
