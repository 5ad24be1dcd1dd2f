// Command limits bounds the exports of each customer and their starts per second. An operator's
// change of a limit outlasts the next start of the program.
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

type exportArgs struct{ Customer, Table string }

var export = sojourn.Kind[exportArgs]{Name: "export", Queue: "exports",
	Group: func(a exportArgs) string { return a.Customer }}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// declare is what a program does at each start. It writes only what differs.
func declare(ctx context.Context, client *sojourn.Client) error {
	status, err := client.DeclareQueue(ctx, "exports", sojourn.QueueSettings{
		Limit:      50,                                         // jobs in flight: running and awaiting
		GroupLimit: 2,                                          // of them, those of one customer
		Rate:       &sojourn.Rate{Count: 20, Per: time.Second}, // starts, on all nodes together
	})
	if err != nil {
		return err
	}
	fmt.Printf("limit of each customer: %d; set by an operator: %v\n", status.Settings.GroupLimit, status.Overrides.Fields())
	return nil
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:")
	if err != nil {
		return err
	}
	defer client.Close()
	if err := declare(ctx, client); err != nil {
		return err
	}

	begun, finish := make(chan string, 6), make(chan struct{})
	w := worker.New(client, worker.Options{Concurrency: 10})
	worker.Handle(w, export, func(ctx context.Context, _ *sojourn.Job, a exportArgs) error {
		begun <- a.Customer
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	var jobs []*sojourn.Job
	for _, customer := range []string{"ada", "ben"} {
		for _, table := range []string{"orders", "payments", "refunds"} {
			jobs = append(jobs, export.New(exportArgs{customer, table}))
		}
	}
	if _, err := client.EnqueueAll(ctx, jobs...); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	running := map[string]int{}
	for range 4 { // two of each customer
		running[<-begun]++
	}
	fmt.Println("in flight:", running)
	why, err := client.Jobs().Why(ctx, jobs[2].ID)
	if err != nil {
		return err
	}
	fmt.Printf("ada's third export waits at the gate %q: %s\n", why.Gate, why.Waits)

	one := sojourn.QueuePatch{GroupLimit: new(int64(1))} // nobody has to read before writing
	if _, err := client.As("ann").Queues().Update(ctx, "exports", one); err != nil {
		return err
	}
	if err := declare(ctx, client); err != nil { // the next start of the program
		return err
	}
	close(finish)
	for _, job := range jobs {
		if _, err := client.Wait(ctx, job.ID); err != nil {
			return err
		}
	}
	fmt.Println("all exports are done:", len(jobs))
	stop()
	return <-stopped
}
