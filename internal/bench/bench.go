// Package bench measures job queues: the one at hand for "sojourn bench", and others beside it for
// the modules below bench/.
//
// A [System] is a queue with a database of its own. [Enqueues] and [Life] load it with many
// producers, each of which waits for every acknowledgement. [Compare] runs several systems in turn,
// several times, and takes medians. Speed is reported and never asserted: other load on the machine
// may halve every figure.
package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// System is a job queue under measurement. Its methods are safe for concurrent use.
type System interface {
	// Enqueue stores n jobs in one call and returns when they are acknowledged. They have the
	// numbers from first on, which are used once.
	Enqueue(ctx context.Context, first, n int) error
	// Work runs all jobs with a handler that does nothing, until ctx ends, and calls done each time
	// that the ends of n more jobs are stored.
	Work(ctx context.Context, done func(n int)) error
	// Close ends everything that belongs to the system.
	Close() error
}

// Load describes the load of a measurement.
type Load struct {
	Jobs      int           // that are measured; 0 leaves the measurement out of a comparison
	WarmUp    int           // jobs before them that are not
	Producers int           // goroutines that enqueue
	Batch     int           // jobs of one call
	Within    time.Duration // a measurement that takes longer is cut
}

// Measured holds the results of a load.
type Measured struct {
	Jobs int           // enqueued jobs, or, in a whole life cycle, finished jobs
	All  int           // the same, warm-up included
	Took time.Duration // from the first call to the last acknowledgement
	Ack  Sample        // from the call of an enqueue to its acknowledgement
	Cut  bool          // the time limit ended the load before all jobs were done
}

// PerSecond is the rate of jobs.
func (m Measured) PerSecond() float64 {
	if m.Took <= 0 {
		return 0
	}
	return float64(m.Jobs) / m.Took.Seconds()
}

// Enqueues measures enqueues without workers.
func Enqueues(ctx context.Context, sys System, load Load) (Measured, error) {
	ctx, cancel := context.WithTimeout(ctx, load.Within)
	defer cancel()
	if _, err := produce(ctx, sys, load, 0, load.WarmUp); err != nil {
		return Measured{}, err
	}
	m, err := produce(ctx, sys, load, load.WarmUp, load.Jobs)
	m.All = m.Jobs + load.WarmUp
	return m, err
}

// Life measures whole lives of jobs: producers enqueue while workers work, until the end of the
// last job is stored.
func Life(ctx context.Context, sys System, load Load) (m Measured, err error) {
	ctx, cancel := context.WithTimeout(ctx, load.Within)
	defer cancel()
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var t tally
	failed := make(chan error, 1)
	go func() {
		err := sys.Work(working, t.add)
		if working.Err() != nil {
			err = nil
		}
		failed <- err
		cancel()
	}()
	if _, err = produce(ctx, sys, load, 0, load.WarmUp); err == nil {
		t.wait(ctx, load.WarmUp)
		before, began := t.count(), time.Now()
		if m, err = produce(ctx, sys, load, load.WarmUp, load.Jobs); err == nil {
			t.wait(ctx, load.WarmUp+load.Jobs)
			m.Took = time.Since(began)
			m.Jobs, m.All = t.count()-before, t.count()
			m.Cut = m.Jobs < load.Jobs
		}
	}
	stop()
	if failure := <-failed; failure != nil {
		err = failure
	}
	return m, err
}

// produce enqueues jobs, numbered from first, and waits for every acknowledgement. When ctx ends
// it returns the results so far.
func produce(ctx context.Context, sys System, load Load, first, jobs int) (Measured, error) {
	var (
		next    atomic.Int64
		done    atomic.Int64
		failed  atomic.Pointer[error]
		makers  sync.WaitGroup
		samples = make([]Sample, load.Producers)
	)
	began := time.Now()
	for p := range load.Producers {
		makers.Go(func() {
			for ctx.Err() == nil && failed.Load() == nil {
				at := int(next.Add(int64(load.Batch))) - load.Batch
				n := min(load.Batch, jobs-at)
				if n <= 0 {
					return
				}
				called := time.Now()
				if err := sys.Enqueue(ctx, first+at, n); err != nil {
					if ctx.Err() == nil {
						failed.CompareAndSwap(nil, &err)
					}
					return
				}
				samples[p].Add(time.Since(called))
				done.Add(int64(n))
			}
		})
	}
	makers.Wait()
	m := Measured{Jobs: int(done.Load()), Took: time.Since(began), Ack: Merge(samples...)}
	m.Cut = m.Jobs < jobs
	if err := failed.Load(); err != nil {
		return m, *err
	}
	return m, nil
}

// tally counts, and wakes the goroutines that wait for a count.
type tally struct {
	mu      sync.Mutex
	n, want int
	reached chan struct{}
}

func (t *tally) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n += n
	if t.reached != nil && t.n >= t.want {
		close(t.reached)
		t.reached = nil
	}
}

func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// wait returns when the count is want, or ctx ends.
func (t *tally) wait(ctx context.Context, want int) {
	t.mu.Lock()
	reached := make(chan struct{})
	if t.n >= want {
		close(reached)
	} else {
		t.want, t.reached = want, reached
	}
	t.mu.Unlock()
	select {
	case <-reached:
	case <-ctx.Done():
	}
}
