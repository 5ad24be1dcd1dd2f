package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// steady is the number of concurrent responses while the latency from a response to its handler is
// measured: few, so that no queueing time is measured.
const steady = 4

// awaits measures answers to some of many jobs that await one: few at a time, and as many as the
// store takes.
func awaits(ctx context.Context, b *Bench) error {
	for _, n := range b.Awaiting {
		for _, at := range []int{steady, answerers} {
			r := Result{Scenario: "respond", Producers: at, Awaiting: n, Worker: workerName(false)}
			err := b.measure(ctx, r, func(ctx context.Context, s *Sojourn, r *Result) (Measured, error) {
				a := &awaiting{Sojourn: s, jobs: n, at: min(at, n), load: b.load(at, 1), numbers: make(map[sojourn.ID]int, n)}
				return a.measure(ctx, r)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// awaiting is a store full of jobs that await an answer, and await the next one after each.
type awaiting struct {
	*Sojourn
	jobs, at int
	load     Load

	numbers map[sojourn.ID]int // written before the worker starts
	parked  atomic.Int64       // jobs that await their first answer
	answers []answerer
}

// answerer answers jobs of its own, one after the other.
type answerer struct {
	started, again chan struct{} // the handler has the answer; the job awaits the next one
	acks, starts   Sample
	done           int
	err            error
}

func (a *awaiting) measure(ctx context.Context, r *Result) (m Measured, err error) {
	if err := a.enqueueKeyed(ctx, a.jobs, func(id sojourn.ID, number int) { a.numbers[id] = number }); err != nil {
		return m, err
	}
	a.answers = make([]answerer, a.at)
	for i := range a.answers {
		a.answers[i].started, a.answers[i].again = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- a.work(ctx) }()
	for began := time.Now(); a.parked.Load() < int64(a.jobs); {
		select {
		case err := <-stopped:
			return m, fmt.Errorf("the worker has ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Since(began) > fillLimit {
			return m, fmt.Errorf("%d of %d jobs await after %v", a.parked.Load(), a.jobs, fillLimit)
		}
	}
	r.settle(ctx, a.Client)
	m = a.answer(ctx)
	cancel()
	err = <-stopped
	var starts Sample
	for i := range a.answers {
		m.Ack, starts = Merge(m.Ack, a.answers[i].acks), Merge(starts, a.answers[i].starts)
		if a.answers[i].err != nil {
			err = a.answers[i].err
		}
	}
	r.starts(starts)
	return m, err
}

// work is the worker whose handler takes each answer and awaits the next one.
func (a *awaiting) work(ctx context.Context) error {
	answered := make([]atomic.Bool, a.jobs)
	store := counting{driver.Of(a.Client), func(outcomes []sojourn.Outcome, finished []driver.Finished) {
		for i, o := range outcomes {
			if finished[i].State != sojourn.Awaiting {
				continue
			}
			if number := a.numbers[o.Lease.ID]; answered[number].Load() {
				a.answers[number%a.at].again <- struct{}{}
			} else {
				a.parked.Add(1)
			}
		}
	}}
	return a.worker(ctx, store, func(_ context.Context, j *sojourn.Job, args []byte) error {
		if j.Response != nil {
			number := Number(args)
			answered[number].Store(true)
			a.answers[number%a.at].started <- struct{}{}
		}
		return sojourn.Await(answerWithin)
	})
}

// answer sends answers until enough are measured.
func (a *awaiting) answer(ctx context.Context) (m Measured) {
	var all sync.WaitGroup
	warm := (a.load.WarmUp + a.at - 1) / a.at
	each := warm + (a.load.Jobs+a.at-1)/a.at
	began := time.Now()
	for w := range a.answers {
		all.Go(func() {
			me := &a.answers[w]
			for i := 0; i < each && time.Since(began) < a.load.Within; i++ {
				// Each answer is for another job, and neighbours in time are no neighbours by id.
				number := w + a.at*(i*7919%max(a.jobs/a.at, 1))
				called := time.Now()
				_, err := a.Client.Respond(ctx, &sojourn.Response{Kind: Kind, Key: a.key(number), Body: Args(number)})
				acked := time.Since(called)
				if err != nil {
					me.err = err
					return
				}
				<-me.started
				started := time.Since(called)
				<-me.again
				me.done++
				if i >= warm {
					me.acks.Add(acked)
					me.starts.Add(started)
				}
			}
		})
	}
	all.Wait()
	m.Took = time.Since(began)
	for i := range a.answers {
		m.Jobs += a.answers[i].done
	}
	m.All, m.Cut = m.Jobs, m.Jobs < each*a.at
	return m
}
