// Command saga shows compensation: each step of a journey is booked by a job, and when a step fails
// for good, what was booked before is given back.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/workflow"
)

var (
	book   = sojourn.Kind[string]{Name: "book"}
	undo   = sojourn.Kind[string]{Name: "undo"}
	report = sojourn.Kind[string]{Name: "report"}
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
	workflows := workflow.Of(client)
	w := worker.New(client, worker.Options{Concurrency: 1})
	worker.Handle(w, book, func(_ context.Context, job *sojourn.Job, what string) error {
		if what == "car" {
			fmt.Println("book car: none is left")
			return sojourn.Abort(errors.New("none is left"))
		}
		fmt.Println("book", what)
		return nil
	})
	// The callback of the first failure reads what was done, and undoes it. It may run twice, as
	// any job, so undoing is idempotent.
	undone := make(chan string, 1)
	worker.Handle(w, undo, func(ctx context.Context, job *sojourn.Job, _ string) error {
		for member, err := range workflows.Members(ctx, job.Workflow, sojourn.Completed) {
			if err != nil {
				return err
			}
			fmt.Println("undo", member.Name)
		}
		undone <- job.Workflow
		return nil
	})
	ended := make(chan string, 1)
	worker.Handle(w, report, func(_ context.Context, job *sojourn.Job, _ string) error {
		ended <- fmt.Sprintf("%s is %s: completed %s, failed %s, cancelled %s", job.Workflow, job.Meta["workflow_state"],
			job.Meta["workflow_completed"], job.Meta["workflow_failed"], job.Meta["workflow_cancelled"])
		return nil
	})

	// A step that follows a failed one is cancelled.
	after := func(name string) workflow.Edge { return workflow.After(name).OnFailure(sojourn.CancelOnFailure) }
	_, err = workflows.Start(ctx, workflow.New("journey").
		Add("flight", book.New("flight")).
		Add("hotel", book.New("hotel"), after("flight")).
		Add("car", book.New("car"), after("hotel")).
		Add("museum", book.New("museum"), after("car")).
		OnFirstFailure(undo.New("")).
		OnEnd(report.New("")))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	<-undone
	fmt.Println(<-ended)
	stop()
	return <-stopped
}
