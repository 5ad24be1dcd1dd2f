// Command triage shows how failures are grouped by their cause, and a redrive with canaries.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/operation"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var charge = sojourn.Kind[int]{Name: "charge"}

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
	var fixed atomic.Bool
	w := worker.New(client, worker.Options{Logger: slog.New(slog.DiscardHandler)}) // it logs each failed attempt
	worker.Handle(w, charge, func(_ context.Context, job *sojourn.Job, order int) error {
		switch {
		case fixed.Load():
			return nil
		case order%10 == 0:
			return fmt.Errorf("order %d: card %08x was declined", order, order*7919)
		}
		return fmt.Errorf("order %d: gateway 10.0.0.%d:443 is down", order, order)
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	var jobs []*sojourn.Job
	for order := range 100 {
		jobs = append(jobs, charge.New(order+1, sojourn.MaxAttempts(1)))
	}
	if _, err := client.EnqueueAll(ctx, jobs...); err != nil {
		return err
	}
	for _, job := range jobs {
		if _, err := client.Wait(ctx, job.ID); err != nil {
			return err
		}
	}
	var down failure.Group
	for group, err := range failure.Of(client).All(ctx, failure.Query{Kind: "charge"}) {
		if err != nil {
			return err
		}
		if group.Open > down.Open {
			down = group
		}
	}
	fmt.Printf("%d jobs: %s\n", down.Open, down.Pattern)

	fixed.Store(true)
	op, err := operation.Of(client).Start(ctx, operation.Spec{
		Filter: sojourn.Filter{Failure: down.ID},
		Edit:   sojourn.Edit{Action: sojourn.EditRedrive, Reason: "gateway fixed"},
		Canary: 5,
	})
	if err != nil {
		return err
	}
	if op, err = operation.Of(client).Wait(ctx, op.ID, nil); err != nil {
		return err
	}
	fmt.Printf("%s: %d of %d jobs redriven\n", op.State, op.Changed, op.Total)
	stop()
	return <-stopped
}
