package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/worker"
)

// Of the jobs that are measured.
const (
	Queue     = "bench" // their queue
	Kind      = "bench" // their kind
	ArgsBytes = 100     // what each carries
)

// Of the workers.
const (
	Concurrency = 500 // handlers of a worker that run at a time, unless a Sojourn says otherwise; it claims up to as many jobs in one call
	Claimers    = 8   // loops of bare claims and finishes
	PerClaim    = 100 // what each of them claims at most
)

// Sojourn is the System of this module, over any of its stores.
type Sojourn struct {
	Client      *sojourn.Client
	Queue       string           // "" = the constant of that name
	Groups      int              // the jobs belong to so many groups in turn; 0 = to Group
	Group       string           // "" = none
	Keyed       bool             // each job has a key
	Bytes       int              // args of each job; 0 = ArgsBytes
	Concurrency int              // of each worker; 0 = the constant of that name
	Workers     int              // 0 = 1
	Bare        bool             // Work is loops of Store.Claim and Store.Finish, without package worker
	Start       func(number int) // called when the job with that number starts; may be nil
	After       func() error     // is called by Close in the end, to remove the store; nil = nothing
}

// Args are the args of the job with a number.
func Args(number int) []byte {
	b := make([]byte, ArgsBytes)
	binary.BigEndian.PutUint64(b, uint64(number))
	return b
}

// Number reads it back.
func Number(args []byte) int { return int(binary.BigEndian.Uint64(args)) }

// Enqueue implements System.
func (s *Sojourn) Enqueue(ctx context.Context, first, n int) error {
	if n == 1 {
		_, err := s.Client.Enqueue(ctx, s.job(first))
		return err
	}
	jobs := make([]*sojourn.Job, n)
	for i := range jobs {
		jobs[i] = s.job(first + i)
	}
	_, err := s.Client.EnqueueAll(ctx, jobs...)
	return err
}

var kind = sojourn.Kind[[]byte]{Name: Kind, Codec: sojourn.Bytes}

func (s *Sojourn) job(number int) *sojourn.Job {
	group := s.Group
	if s.Groups > 0 {
		group = groupName(number % s.Groups)
	}
	args := Args(number)
	if s.Bytes > len(args) {
		args = append(args, make([]byte, s.Bytes-len(args))...)
	}
	options := []sojourn.Option{sojourn.Queue(s.queue()), sojourn.Group(group)}
	if s.Keyed {
		options = append(options, sojourn.Key(s.key(number)))
	}
	return kind.New(args, options...)
}

func (s *Sojourn) queue() string { return cmp.Or(s.Queue, Queue) }

// Work implements System.
func (s *Sojourn) Work(ctx context.Context, done func(int)) error {
	store := counting{driver.Of(s.Client), func(_ []sojourn.Outcome, answers []driver.Finished) { done(final(answers)) }}
	if s.Bare {
		return s.claimers(ctx, store)
	}
	return together(ctx, max(s.Workers, 1), func(ctx context.Context, _ int) error {
		return s.worker(ctx, store, func(_ context.Context, j *sojourn.Job, _ []byte) error {
			s.started(j)
			return nil
		})
	})
}

func (s *Sojourn) worker(ctx context.Context, store driver.Store, handler func(context.Context, *sojourn.Job, []byte) error) error {
	w := worker.New(sojourn.NewClient(store), worker.Options{Concurrency: cmp.Or(s.Concurrency, Concurrency), Queues: []string{s.queue()},
		Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(w, kind, handler)
	return w.Run(ctx)
}

func (s *Sojourn) started(j *sojourn.Job) {
	if s.Start != nil {
		s.Start(Number(j.Args))
	}
}

// claimers run loops of Claim and Finish: a worker without handlers, timeouts and extensions.
func (s *Sojourn) claimers(ctx context.Context, store driver.Store) error {
	return together(ctx, Claimers, func(ctx context.Context, i int) error { return s.claimer(ctx, store, fmt.Sprint("bench-", i)) })
}

// together runs n loops until ctx ends or one of them fails.
func together(ctx context.Context, n int, loop func(ctx context.Context, i int) error) error {
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := loop(working, i); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(working)
}

func (s *Sojourn) claimer(ctx context.Context, store driver.Store, name string) error {
	r := driver.ClaimRequest{Worker: name, Queues: []string{s.queue()}, Kinds: []string{Kind}, Max: PerClaim, Capacity: PerClaim, Wait: time.Second}
	for ctx.Err() == nil {
		r.Number++
		jobs, err := store.Claim(ctx, r)
		if err != nil {
			return err
		}
		outcomes := make([]sojourn.Outcome, len(jobs))
		for i := range jobs {
			s.started(&jobs[i].Job)
			outcomes[i] = sojourn.Outcome{Lease: jobs[i].Lease, Type: sojourn.OutcomeCompleted}
		}
		if _, err := store.Finish(context.WithoutCancel(ctx), outcomes); err != nil {
			return err
		}
	}
	return nil
}

// Close implements System.
func (s *Sojourn) Close() error {
	err := s.Client.Close()
	if s.After != nil {
		err = errors.Join(err, s.After())
	}
	return err
}

// counting is a store that passes finished outcomes to told.
type counting struct {
	driver.Store
	told func([]sojourn.Outcome, []driver.Finished)
}

// Finish implements driver.Claimer.
func (c counting) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	answers, err := c.Store.Finish(ctx, outcomes)
	if err == nil {
		c.told(outcomes, answers)
	}
	return answers, err
}

// final counts the jobs that have ended.
func final(answers []driver.Finished) (n int) {
	for _, a := range answers {
		if a.Status == driver.FinishApplied && a.State.Final() {
			n++
		}
	}
	return n
}
