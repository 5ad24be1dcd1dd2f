package bench

import (
	"context"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

const (
	// answerers answer at the same time, each waiting for every acknowledgement.
	answerers = 64
	// answerWithin is how long a job would wait.
	answerWithin = time.Hour
)

func responds(ctx context.Context, b *Bench) error {
	err := b.measure(ctx, Result{Scenario: "respond", Producers: usual, Worker: workerName(false)}, func(ctx context.Context, s *Sojourn, r *Result) (Measured, error) {
		return answeredLife(ctx, s, b.load(usual, 1), promptly, r)
	})
	if err != nil {
		return err
	}
	if err := alone(ctx, b); err != nil {
		return err
	}
	return awaits(ctx, b)
}

// answeredLife measures whole lives of jobs that await an answer. What it measures as
// acknowledgement is that of the answer, and as start that of the handler which gets it.
func answeredLife(ctx context.Context, s *Sojourn, load Load, at timing, r *Result) (Measured, error) {
	a := &answering{Sojourn: s, at: at, resumed: newWatch(load.WarmUp, load.Jobs), waiting: make(chan int, load.WarmUp+load.Jobs)}
	m, err := Life(ctx, a, load)
	m.Ack = Merge(a.acks...)
	r.starts(a.resumed.sample())
	return m, err
}

// answering is a System whose jobs await an answer.
type answering struct {
	*Sojourn
	at      timing
	resumed *watch
	numbers sync.Map // id of a job → its number
	waiting chan int // numbers of jobs whose answer is to be sent
	acks    []Sample // one of each answerer
}

// Enqueue implements System.
func (a *answering) Enqueue(ctx context.Context, first, n int) error {
	jobs := make([]*sojourn.Job, n)
	for i := range jobs {
		jobs[i] = a.job(first + i)
		jobs[i].Key = a.key(first + i)
	}
	_, err := a.Client.EnqueueAll(ctx, jobs...)
	return err
}

// Work implements System.
func (a *answering) Work(ctx context.Context, done func(int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	store := counting{driver.Of(a.Client), func(outcomes []sojourn.Outcome, answers []driver.Finished) {
		done(final(answers))
		for i, o := range outcomes {
			if answers[i].State != sojourn.Awaiting {
				continue
			}
			if number, ok := a.numbers.LoadAndDelete(o.Lease.ID); ok { // once, if a report is repeated
				a.asked(number.(int))
			}
		}
	}}
	a.acks = make([]Sample, answerers)
	errs := make([]error, answerers+1)
	var all sync.WaitGroup
	for i := range answerers {
		all.Go(func() {
			if errs[i] = a.answer(ctx, &a.acks[i]); errs[i] != nil {
				cancel()
			}
		})
	}
	errs[answerers] = a.worker(ctx, store, func(_ context.Context, j *sojourn.Job, args []byte) error {
		if j.Response != nil {
			a.resumed.stop(Number(args))
			return nil
		}
		if a.at == atOnce {
			a.waiting <- Number(args)
		} else {
			a.numbers.Store(j.ID, Number(args))
		}
		return sojourn.Await(answerWithin)
	})
	cancel()
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// asked has the answer to a job that awaits it sent, in its time.
func (a *answering) asked(number int) {
	if a.at == later {
		time.AfterFunc(laterBy, func() { a.waiting <- number })
		return
	}
	a.waiting <- number
}

// answer sends answers until ctx ends.
func (a *answering) answer(ctx context.Context, acks *Sample) error {
	for {
		select {
		case number := <-a.waiting:
			a.resumed.begin(number, 1)
			called := time.Now()
			_, err := a.Client.Respond(context.WithoutCancel(ctx), &sojourn.Response{Kind: Kind, Key: a.key(number), Body: Args(number)})
			if err != nil {
				return err
			}
			if a.resumed.counts(number) {
				acks.Add(time.Since(called))
			}
		case <-ctx.Done():
			return nil
		}
	}
}
