// Command expired shows what becomes of a job whose worker dies, and of one whose handler takes too
// long: both run again.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var (
	charge = sojourn.Kind[string]{Name: "charge"}
	fetch  = sojourn.Kind[string]{Name: "fetch", Policy: sojourn.Policy{RunTimeout: 200 * time.Millisecond, Backoff: sojourn.Backoff{First: 50 * time.Millisecond}}}
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:")
	if err != nil {
		return err
	}
	defer client.Close()
	jobs := []*sojourn.Job{charge.New("order 42"), fetch.New("slow.example")}
	if _, err := client.EnqueueAll(ctx, jobs...); err != nil {
		return err
	}

	// A worker takes the first job and dies. It claims by hand, because a program cannot kill a
	// part of itself.
	dead, err := driver.Of(client).Claim(ctx, driver.ClaimRequest{Worker: "dead", Queues: []string{sojourn.DefaultQueue}, Kinds: []string{charge.Name},
		Max: 1, Capacity: 1, Lease: time.Second}) // the shortest; the default is 30 s
	if err != nil {
		return err
	}
	fmt.Printf("charge, attempt %d: the worker dies\n", dead[0].Job.Attempt)

	w := worker.New(client, worker.Options{})
	worker.Handle(w, charge, func(ctx context.Context, job *sojourn.Job, order string) error {
		fmt.Printf("charge, attempt %d: crashes %d, failures %d; the same idempotency key: %v\n", job.Attempt, job.Crashes, job.Failures,
			job.IdempotencyKey() == dead[0].Job.IdempotencyKey())
		return nil
	})
	worker.Handle(w, fetch, func(ctx context.Context, job *sojourn.Job, host string) error {
		if job.Attempt == 1 {
			<-ctx.Done() // such as an HTTP request with this context
			limit, _ := errors.AsType[*worker.LimitError](context.Cause(ctx))
			fmt.Printf("fetch, attempt 1: %s\n", limit.Reason)
			return ctx.Err()
		}
		fmt.Printf("fetch, attempt %d: failures %d, the last one: %s\n", job.Attempt, job.Failures, job.Reason)
		return nil
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	for _, j := range jobs {
		if _, err := client.Wait(ctx, j.ID); err != nil {
			return err
		}
	}
	// The dead come back, as a process does whose machine was asleep. Its report changes nothing
	// any more.
	late, err := driver.Of(client).Finish(ctx, []sojourn.Outcome{{Lease: dead[0].Lease, Type: sojourn.OutcomeAbort}})
	if err != nil {
		return err
	}
	fmt.Printf("the dead worker reports a failure: %s; the job stays %s\n", late[0].Status, late[0].State)
	stop()
	return <-stopped
}
