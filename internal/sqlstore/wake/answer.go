package wake

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

type ClaimAnswer struct {
	Jobs    []driver.Claimed
	Waits   map[sojourn.ID]int32 // Row.Waits of the jobs for which it is not 0
	Due     int64                // when the next thing is due; 0 = nothing
	Opens   int64                // when a gate opens that holds jobs back; 0 = not known
	Drained bool                 // the worker gets no more jobs
	Again   bool                 // many jobs were put off: the next transaction goes on
}
