package worker

import (
	"context"
	"time"
)

const sweepLimit = 500 // items of each type in one call

// sweepLoop sweeps the store, at the start and then every SweepEvery. If nothing is overdue, the
// store writes nothing.
func (r *run) sweepLoop() {
	if r.w.o.SweepEvery < 0 {
		return
	}
	for {
		next := r.w.spread(r.w.o.SweepEvery)
		call, cancel := context.WithTimeout(r.calls, r.w.o.Lease)
		sent := time.Now()
		swept, err := r.w.store.Sweep(call, sweepLimit)
		cancel()
		switch {
		case r.calls.Err() != nil:
			return
		case err != nil:
			r.failed("sweep", err)
		case swept.Total() >= sweepLimit:
			next = 0 // there may be more
		case swept.NextTick > 0:
			next = min(next, swept.NextTick) // a schedule is due then
		}
		if n := swept.Total(); n > 0 {
			r.observe(Event{Type: EventSwept, Count: n, Took: time.Since(sent)})
		}
		sleep(r.calls, next, r.declared)
		if r.calls.Err() != nil {
			return
		}
	}
}
