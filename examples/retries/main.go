// Command retries shows what an error of a handler does: a retry with backoff, a class by which
// failures are grouped, and an end.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var charge = sojourn.Kind[string]{
	Name:   "charge",
	Policy: sojourn.Policy{MaxAttempts: 4, Backoff: sojourn.Backoff{First: 50 * time.Millisecond, Factor: 2, Jitter: -1}},
	// 50 ms, 100 ms, 200 ms, … without chance, so that it can be seen. Leave Jitter alone in your
	// programs.
}

var errBusy = errors.New("the gateway answers 503")

func handle(ctx context.Context, job *sojourn.Job, card string) error {
	switch {
	case card == "stolen":
		return sojourn.Abort(sojourn.WithReason("card_declined", errors.New("the bank says no"))) // no retry can help
	case card == "unlucky" || job.Attempt < 3:
		fmt.Printf("  attempt %d fails\n", job.Attempt)
		return sojourn.WithReason("gateway_busy", errBusy)
	}
	return nil
}

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
	w := worker.New(client, worker.Options{})
	worker.Handle(w, charge, handle)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	fmt.Println("pauses:", charge.Policy.Backoff.Delay(1, 1), charge.Policy.Backoff.Delay(1, 2), charge.Policy.Backoff.Delay(1, 3))
	for _, card := range []string{"good", "stolen", "unlucky"} {
		fmt.Println(card)
		// MaxAttempts of the job wins over that of its kind.
		stored, err := client.Enqueue(ctx, charge.New(card, sojourn.MaxAttempts(3)))
		if err != nil {
			return err
		}
		job, err := client.Wait(ctx, stored.ID)
		if err != nil {
			return err
		}
		fmt.Printf("  %s: attempt %d, failures %d, reason %q, error %q\n", job.State, job.Attempt, job.Failures, job.Reason, job.Error)
	}
	stop()
	return <-stopped
}
