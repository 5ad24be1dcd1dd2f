package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// Jobs never fail here for having been interrupted often: a job that is not completed in the end is
// stuck.
var patient = sojourn.Policy{MaxAttempts: sojourn.Unlimited, MaxCrashes: sojourn.Unlimited, Timeout: time.Hour,
	Backoff: sojourn.Backoff{First: 100 * time.Millisecond, Limit: time.Second}}

// The kinds of the jobs, named after the actions of their handlers.
var (
	plain  = sojourn.Kind[int]{Name: "plain", Policy: patient}
	asks   = sojourn.Kind[int]{Name: "asks", Policy: patient}   // awaits the answer to the key it was enqueued with
	late   = sojourn.Kind[int]{Name: "late", Policy: patient}   // sets its key, awaits
	direct = sojourn.Kind[int]{Name: "direct", Policy: patient} // is answered by its id
)

// node is one process: a worker of eight that answers its own questions, until it is killed or its
// input ends.
func node(address, schema string) error {
	c, err := Open(address, Schema(schema))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		os.Stdin.Read(make([]byte, 1)) // until the parent closes it
		cancel()
	})
	w := worker.New(c, worker.Options{Concurrency: 8, Lease: 2 * time.Second, Grace: time.Second, SweepEvery: 500 * time.Millisecond})
	run := func(job *sojourn.Job, fn func() error) error {
		fmt.Printf("run %d %d %d\n", job.ID, job.Epoch, time.Now().UnixMicro())
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond) // the work
		defer func() { fmt.Printf("end %d %d %d\n", job.ID, job.Epoch, time.Now().UnixMicro()) }()
		return fn()
	}
	ask := func(job *sojourn.Job, r sojourn.Response) error {
		if job.Response != nil {
			return nil
		}
		r.MessageID = fmt.Sprintf("%s-%d", job.IdempotencyKey(), job.Epoch)
		group.Go(func() { answer(ctx, c, &r) })
		return sojourn.Await(3 * time.Second) // a response lost with its process is requested again
	}
	worker.Handle(w, plain, func(_ context.Context, job *sojourn.Job, _ int) error { return run(job, func() error { return nil }) })
	worker.Handle(w, asks, func(_ context.Context, job *sojourn.Job, _ int) error {
		return run(job, func() error { return ask(job, sojourn.Response{Kind: asks.Name, Key: job.Key}) })
	})
	worker.Handle(w, direct, func(_ context.Context, job *sojourn.Job, _ int) error {
		return run(job, func() error { return ask(job, sojourn.Response{Job: job.ID}) })
	})
	worker.Handle(w, late, func(ctx context.Context, job *sojourn.Job, _ int) error {
		return run(job, func() error {
			key := "late " + job.IdempotencyKey()
			r := sojourn.Response{Kind: late.Name, Key: key}
			if job.Key == "" {
				r.MessageID = "first " + key
				group.Go(func() { c.Respond(context.Background(), &r) }) // races with the key itself
				if err := job.SetKey(ctx, key); err != nil {
					return err
				}
			}
			return ask(job, sojourn.Response{Kind: late.Name, Key: key})
		})
	})
	err = w.Run(ctx)
	group.Wait()
	return err
}

// answer sends a response before or after the job awaits it, and reports the acknowledgement.
func answer(ctx context.Context, c *sojourn.Client, r *sojourn.Response) {
	select {
	case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond):
	case <-ctx.Done():
		return
	}
	if _, err := c.Respond(ctx, r); err == nil {
		fmt.Printf("answered %s\n", r.MessageID)
	}
}
