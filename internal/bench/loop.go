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

// Limit makes the Run of a raw limit, whose life and enqueues measure rounds of batch jobs each on
// a database of their own. A load without jobs is left out.
func Limit(single, bulk Load, life, enqueues func(ctx context.Context, load Load, batch int) (Measured, error)) func(context.Context) (Figures, error) {
	return func(ctx context.Context) (f Figures, err error) {
		on := func(measure func(context.Context, Load, int) (Measured, error), load Load, batch int) (m Measured) {
			if err == nil {
				m, err = measure(ctx, load, batch)
			}
			if m.Cut {
				f.Cut++
			}
			return m
		}
		if single.Jobs > 0 {
			f.LifePerS, f.EnqueuePerS = on(life, single, RawBatch).PerSecond(), on(enqueues, single, RawBatch).PerSecond()
			f.BareLifePerS = f.LifePerS
			// What a producer of many waits for at most: a round with one job of each of them.
			round, alone := on(life, single, single.Producers), on(enqueues, single, single.Producers)
			f.EnqueueP50MS, f.EnqueueP99MS = Milliseconds(round.Ack.Quantile(0.5)), Milliseconds(round.Ack.Quantile(0.99))
			f.AloneP99MS = Milliseconds(alone.Ack.Quantile(0.99))
		}
		if bulk.Jobs > 0 {
			f.BulkLifePerS, f.BulkPerS = on(life, bulk, RawBatch).PerSecond(), on(enqueues, bulk, RawBatch).PerSecond()
		}
		return f, err
	}
}

// Loop measures calls of steps with batch jobs each until all jobs of the load are done. Each step
// has its own goroutine, which calls it sequentially.
func Loop(ctx context.Context, load Load, batch int, steps ...func(n int) error) (Measured, error) {
	settle()
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
