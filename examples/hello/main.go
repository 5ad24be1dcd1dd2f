// Command hello is the smallest whole program: one kind, one worker, one job.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

type greeting struct {
	Name string `json:"name"`
}

// A kind is declared once, as a package variable. Its name is stored with every job, so it stays as
// it is.
var greet = sojourn.Kind[greeting]{Name: "greet"}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:") // "jobs.db" would be a file that keeps the jobs
	if err != nil {
		return err
	}
	defer client.Close()

	w := worker.New(client, worker.Options{})
	worker.Handle(w, greet, func(ctx context.Context, job *sojourn.Job, g greeting) error {
		fmt.Println("hello,", g.Name)
		return job.SetResult("greeted " + g.Name)
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }() // until ctx ends, then drains

	stored, err := client.Enqueue(ctx, greet.New(greeting{Name: "world"})) // durable when it returns
	if err != nil {
		return err
	}
	job, err := client.Wait(ctx, stored.ID)
	if err != nil {
		return err
	}
	fmt.Printf("job %d is %s: %s\n", job.ID, job.State, job.Result)
	stop()
	return <-stopped
}
