// Command approval shows a job that waits for a person, who answers by a link (a token that is good
// for one attempt) or by the job's id.
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

var pay = sojourn.Kind[string]{Name: "pay", Policy: sojourn.Policy{Backoff: sojourn.Backoff{First: -1}}} // no pause: the next letter goes out at once

// handler asks by mail. Each letter carries the token, a secret: anyone with it may answer.
func handler(mail chan<- string) func(context.Context, *sojourn.Job, string) error {
	return func(ctx context.Context, job *sojourn.Job, what string) error {
		switch {
		case job.Response == nil && job.Attempt == 1:
			fmt.Printf("letter 1: may I pay for %s?\n", what)
			mail <- job.Token
			return sojourn.Await(300 * time.Millisecond) // short, so that this program ends soon
		case job.Response == nil:
			fmt.Printf("letter 2: may I pay for %s, please?\n", what)
			mail <- job.Token
			return sojourn.Await(48 * time.Hour)
		case string(job.Response.Body) != "yes":
			return sojourn.Abort(sojourn.WithReason("rejected", errors.New("the answer is no")))
		}
		return job.SetResult("paid for " + what)
	}
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
	mail := make(chan string, 10)
	w := worker.New(client, worker.Options{})
	worker.Handle(w, pay, handler(mail))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	ticket, pen := pay.New("a train ticket"), pay.New("a golden pen")
	if _, err := client.Enqueue(ctx, ticket); err != nil {
		return err
	}
	first, second := <-mail, <-mail // nobody answers the first letter in time, so the attempt ends
	answer(ctx, client, &sojourn.Response{Token: first, ContentType: "text/plain", Body: []byte("no")})
	answer(ctx, client, &sojourn.Response{Token: second, ContentType: "text/plain", Body: []byte("yes")})
	report(ctx, client, ticket.ID)

	if _, err := client.Enqueue(ctx, pen); err != nil {
		return err
	}
	<-mail
	// Everybody can guess an id: your program decides who may answer with one.
	answer(ctx, client, &sojourn.Response{Job: pen.ID, ContentType: "text/plain", Body: []byte("no")})
	report(ctx, client, pen.ID)
	stop()
	return <-stopped
}

// answer is what a person's click does. One that overtakes the Await is "early", and the Await
// finds it.
func answer(ctx context.Context, client *sojourn.Client, r *sojourn.Response) {
	got, err := client.Respond(ctx, r)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("  the answer %q is %s\n", r.Body, got.Outcome)
}

func report(ctx context.Context, client *sojourn.Client, id sojourn.ID) {
	job, err := client.Wait(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("  %s: %s%s\n", job.State, job.Result, job.Reason)
}
