// Command priority shows the order in which jobs start: the lowest priority number first, then the
// earlier run_at, then the lower id.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var say = sojourn.Kind[string]{Name: "say"}

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

	jobs := []*sojourn.Job{
		say.New("bulk", sojourn.Priority(500)),
		say.New("first normal"), // sojourn.DefaultPriority, 100
		say.New("urgent", sojourn.Priority(1)),
		say.New("second normal"),
		say.New("in a moment, but urgent then", sojourn.Priority(1), sojourn.Delay(time.Second)),
		say.New("forgotten", sojourn.Priority(900)),
	}
	stored, err := client.EnqueueAll(ctx, jobs...) // all or none
	if err != nil {
		return err
	}
	// What waits can be moved to the front.
	front := int32(0)
	_, err = client.Jobs().EditAll(ctx, sojourn.Filter{IDs: []sojourn.ID{stored[5].ID}},
		sojourn.Edit{Action: sojourn.EditChange, By: "ana", Priority: &front})
	if err != nil {
		return err
	}

	w := worker.New(client, worker.Options{Concurrency: 1}) // one at a time, so that the order shows
	worker.Handle(w, say, func(ctx context.Context, job *sojourn.Job, text string) error {
		fmt.Printf("priority %3d: %s\n", job.Priority, text)
		return nil
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	for _, s := range stored {
		if _, err := client.Wait(ctx, s.ID); err != nil {
			return err
		}
	}
	stop()
	return <-stopped
}
