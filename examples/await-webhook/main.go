// Command await-webhook shows a job that asks a gateway over HTTP and is finished by the gateway's
// webhook, which comes later, and twice.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// The key is what both sides know: it goes out with the request and comes back with the webhook.
var charge = sojourn.Kind[string]{Name: "charge", Key: func(order string) string { return "order-" + order }}

type shop struct {
	client  *sojourn.Client
	gateway *gateway
}

// charge is the handler. It runs twice: to send the request, and when the answer is there. In
// between no worker is held.
func (s *shop) charge(ctx context.Context, job *sojourn.Job, order string) error {
	if job.Response == nil {
		if err := s.gateway.ask(ctx, job.Key, job.IdempotencyKey()); err != nil {
			return err // retried with backoff
		}
		fmt.Println("asked to charge", job.Key)
		return sojourn.Await(6 * time.Hour)
	}
	var a answer
	if err := json.Unmarshal(job.Response.Body, &a); err != nil {
		return sojourn.Again(err) // this answer is of no use: ask anew
	}
	return job.SetResult(a)
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
	s := &shop{client: client}
	hook, err := serve(s.webhook)
	if err != nil {
		return err
	}
	if s.gateway, err = newGateway(hook); err != nil {
		return err
	}

	w := worker.New(client, worker.Options{})
	worker.Handle(w, charge, s.charge)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	stored, err := client.Enqueue(ctx, charge.New("42"))
	if err != nil {
		return err
	}
	job, err := client.Wait(ctx, stored.ID)
	if err != nil {
		return err
	}
	s.gateway.delivered.Wait()
	fmt.Printf("%s after attempt %d: %s\n", job.State, job.Attempt, job.Result)
	stop()
	return <-stopped
}
