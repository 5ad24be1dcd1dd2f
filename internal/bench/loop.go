package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// RawBatch is the number of jobs of a transaction where the raw limit of a database is measured.
const RawBatch = 500

// Loop measures calls of steps with batch jobs each until all jobs of the load are done. Each step is called by a goroutine of its own, one
// call after the other.
func Loop(ctx context.Context, load Load, batch int, steps ...func(n int) error) (Measured, error) {
	if _, err := loop(ctx, load, load.WarmUp, batch, steps); err != nil {
		return Measured{}, err
	}
	return loop(ctx, load, load.Jobs, batch, steps)
}

func loop(ctx context.Context, load Load, jobs, batch int, steps []func(int) error) (Measured, error) {
	ctx, cancel := context.WithTimeout(ctx, load.Within)
	defer cancel()
	var all sync.WaitGroup
	var given, done atomic.Int64
	samples, errs := make([]Sample, len(steps)), make([]error, len(steps))
	began := time.Now()
	for i, step := range steps {
		all.Go(func() {
			for errs[i] == nil && ctx.Err() == nil && given.Add(int64(batch))-int64(batch) < int64(jobs) {
				called := time.Now()
				errs[i] = step(batch)
				samples[i].Add(time.Since(called))
				done.Add(int64(batch))
			}
		})
	}
	all.Wait()
	m := Measured{Jobs: int(done.Load()), Took: time.Since(began), Ack: Merge(samples...)}
	m.Cut = m.Jobs < jobs
	return m, errors.Join(errs...)
}
