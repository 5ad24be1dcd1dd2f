// Command checkpoint shows a long job that goes on after an error where it stopped, not from the
// start.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// A message to each of n customers.
var send = sojourn.Kind[int]{Name: "send", Policy: sojourn.Policy{Backoff: sojourn.Backoff{First: 50 * time.Millisecond}}}

func handle(ctx context.Context, job *sojourn.Job, customers int) error {
	done, _ := strconv.Atoi(string(job.Checkpoint)) // empty at the first attempt: 0
	fmt.Printf("attempt %d begins after customer %d\n", job.Attempt, done)
	for n := done + 1; n <= customers; n++ {
		if job.Attempt == 1 && n == 5 {
			return errors.New("the mail server is away")
		}
		fmt.Println("  message to customer", n)
		// Durable when it returns nil, and it extends the lease. After a crash at worst the last
		// customer gets a second message: save after each step that must not be repeated, or every
		// few where it does not matter.
		if err := job.SaveCheckpoint(ctx, []byte(strconv.Itoa(n))); err != nil {
			return err // sojourn.ErrLeaseLost: somebody else has the job now
		}
	}
	return job.SetResult(customers)
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
	worker.Handle(w, send, handle)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	stored, err := client.Enqueue(ctx, send.New(7))
	if err != nil {
		return err
	}
	job, err := client.Wait(ctx, stored.ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s after attempt %d, messages sent: %s\n", job.State, job.Attempt, job.Result)
	stop()
	return <-stopped
}
