package bench

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Of the cases of "shape".
const (
	largeArgs = 1024                  // bytes
	pickUps   = 200                   // jobs of a case of idle pick-up, at most
	pickUpGap = 20 * time.Millisecond // between them, so that the worker is idle
)

// shape is a case of "shape".
type shape struct {
	name  string
	apart bool // the worker is in another process
	few   bool // pickUps jobs, one after the other
	run   func(ctx context.Context, sys System, s *Sojourn, load Load, r *Result) (Measured, error)
}

// shapeCases are ways in which programs use a queue. The others are compared with the first one.
var shapeCases = []shape{
	{"one process", false, false, lifeShape},
	{"separate processes", true, false, lifeShape},
	{"keys and 1 KB args", false, false, func(ctx context.Context, sys System, s *Sojourn, load Load, r *Result) (Measured, error) {
		s.Keyed, s.Bytes = true, largeArgs
		return lifeShape(ctx, sys, s, load, r)
	}},
	{"one producer", false, false, func(ctx context.Context, sys System, s *Sojourn, load Load, r *Result) (Measured, error) {
		load.Producers, r.Producers = 1, 1
		return lifeShape(ctx, sys, s, load, r)
	}},
	{"backlog, then work", false, false, backlogShape},
	{"bulk backlog, then work", false, false, func(ctx context.Context, sys System, s *Sojourn, load Load, r *Result) (Measured, error) {
		load.Batch = sojourn.MaxBatch
		return backlogShape(ctx, sys, s, load, r)
	}},
	{"idle pick-up, one process", false, true, pickUp},
	{"idle pick-up, separate processes", true, true, pickUp},
}

// shapes measures these cases. Those with a worker in another process are left out where Bench can
// start none.
func shapes(ctx context.Context, b *Bench) error {
	var chosen []shape
	var cases []Result
	for _, c := range shapeCases {
		if !c.apart || b.Elsewhere != nil {
			chosen = append(chosen, c)
			cases = append(cases, Result{Scenario: "shape", Producers: usual, Worker: workerName(false), Queue: c.name})
		}
	}
	return b.inTurn(ctx, cases, func(ctx context.Context, i int, s *Sojourn, r *Result) (Measured, error) {
		load := b.load(usual, 1)
		if chosen[i].few {
			load.WarmUp, load.Jobs, load.Producers, r.Producers = min(load.WarmUp, pickUps/10), min(load.Jobs, pickUps), 1, 1
		}
		w := newWatch(load.WarmUp, load.Jobs)
		s.Start = func(number int) { w.stop(number) }
		var sys System = s
		if chosen[i].apart {
			sys = apart{s, b.Elsewhere}
		}
		m, err := chosen[i].run(ctx, watched{sys, w}, s, load, r)
		r.starts(w.sample())
		return m, err
	})
}

func lifeShape(ctx context.Context, sys System, _ *Sojourn, load Load, _ *Result) (Measured, error) {
	return Life(ctx, sys, load)
}

// backlogShape enqueues all jobs while nobody works, and then works them off.
func backlogShape(ctx context.Context, sys System, _ *Sojourn, load Load, _ *Result) (Measured, error) {
	began := time.Now()
	load.Jobs, load.WarmUp = load.Jobs+load.WarmUp, 0
	m, err := Enqueues(ctx, sys, load)
	if err != nil || m.Cut {
		return m, err
	}
	worked, err := work(ctx, sys, load.Jobs, load.Within)
	worked.Took, worked.Ack = time.Since(began), m.Ack
	return worked, err
}

// work has so many jobs worked off.
func work(ctx context.Context, sys System, jobs int, within time.Duration) (m Measured, err error) {
	limited, cancel := context.WithTimeout(ctx, within)
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
	t.wait(limited, jobs)
	m.Jobs, m.All, m.Cut = t.count(), t.count(), t.count() < jobs
	stop()
	return m, <-failed
}

// pickUp enqueues single jobs while the worker is idle. What counts is the time until the start of
// their handlers.
func pickUp(ctx context.Context, sys System, _ *Sojourn, load Load, _ *Result) (Measured, error) {
	return Life(ctx, paused{sys}, load)
}

// paused is a System whose producers pause before each enqueue.
type paused struct{ System }

// Enqueue implements System.
func (p paused) Enqueue(ctx context.Context, first, n int) error {
	timer := time.NewTimer(pickUpGap)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.System.Enqueue(ctx, first, n)
}
