package wake

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// ClaimAnswer is the result of one claim in a transaction. Times are microseconds. Due and Opens
// say how long an empty claim may sleep.
type ClaimAnswer struct {
	Jobs    []driver.Claimed
	Waits   map[sojourn.ID]int32 // job → how many waits it has had; 0 is left out
	Due     int64                // when the next job is due; 0 = none
	Opens   int64                // when a gate opens that holds jobs back; 0 = not known
	Drained bool                 // an operator drains the worker: it gets no more jobs
	Again   bool                 // it put off so many jobs that another transaction must continue
}
