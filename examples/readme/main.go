// Command readme is the example of the README: a job that asks a gateway, frees its worker, and
// goes on with the answer.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

type charge struct{ OrderID string }

var chargeCard = sojourn.Kind[charge]{Name: "charge_card", Policy: sojourn.Policy{Timeout: 24 * time.Hour}}

func handle(ctx context.Context, job *sojourn.Job, c charge) error {
	if job.Response == nil {
		fmt.Println("asking the gateway to charge order", c.OrderID) // an error returned here is retried with backoff
		return sojourn.Await(6 * time.Hour)                          // frees this worker until the answer comes
	}
	return job.SetResult(job.Response.Body)
}

func main() {
	ctx := context.Background()
	client := must(sqlite.Open("jobs.db"))
	defer client.Close()
	w := worker.New(client, worker.Options{Concurrency: 10})
	worker.Handle(w, chargeCard, handle)
	go w.Run(ctx) // until ctx ends, then drains
	stored := must(client.Enqueue(ctx, chargeCard.New(charge{"42"}, sojourn.Key("order-42"))))
	// Elsewhere, minutes or hours later, perhaps in another process after a restart: the gateway
	// calls a webhook.
	must(client.Respond(ctx, &sojourn.Response{Kind: "charge_card", Key: "order-42", ContentType: "text/plain", Body: []byte("approved")}))
	job := must(client.Wait(ctx, stored.ID))
	fmt.Printf("%s: %s\n", job.State, job.Result)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
