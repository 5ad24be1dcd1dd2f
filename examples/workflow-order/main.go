// Command workflow-order shows a workflow: a job that waits for two others, and a callback when all
// of them have ended.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/workflow"
)

var (
	charge = sojourn.Kind[int]{Name: "charge"}
	pack   = sojourn.Kind[int]{Name: "pack"}
	ship   = sojourn.Kind[int]{Name: "ship"}
	mail   = sojourn.Kind[int]{Name: "mail"}
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
	order := workflow.New("order-42").
		Add("charge", charge.New(42)).
		Add("pack", pack.New(42)).
		Add("ship", ship.New(42), workflow.After("charge", "pack")).
		OnEnd(mail.New(42))
	if _, err := workflows.Start(ctx, order); err != nil {
		return err
	}
	again, err := workflows.Start(ctx, order) // after a lost answer, say
	if err != nil {
		return err
	}
	fmt.Printf("%v; started twice: %v\n", again, again.Duplicate)
	for member, err := range workflows.Members(ctx, "order-42", sojourn.Blocked) {
		if err != nil {
			return err
		}
		fmt.Printf("%s waits\n", member.Name)
	}

	w := worker.New(client, worker.Options{Concurrency: 1})
	for _, kind := range []sojourn.Kind[int]{charge, pack, ship} {
		worker.Handle(w, kind, func(_ context.Context, job *sojourn.Job, order int) error {
			fmt.Printf("%s: order %d\n", job.Member, order)
			return nil
		})
	}
	mailed := make(chan string, 1)
	worker.Handle(w, mail, func(_ context.Context, job *sojourn.Job, order int) error {
		mailed <- fmt.Sprintf("mail: order %d is %s, %s of %s", order, job.Meta["workflow_state"], job.Meta["workflow_completed"], job.Meta["workflow_total"])
		return nil
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	done, err := workflows.Wait(ctx, "order-42")
	if err != nil {
		return err
	}
	fmt.Println(<-mailed)
	fmt.Println(done)
	stop()
	return <-stopped
}
