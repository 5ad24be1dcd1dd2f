// Command poll shows a job whose other side never calls back: a poll function asks how it stands,
// until there is an answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var fetch = sojourn.Kind[string]{Name: "fetch_parcel", Policy: sojourn.Policy{Timeout: time.Hour}}

// carrier is the other side: it loses its callbacks, and is away now and then.
type carrier struct{ asked int }

func (c *carrier) status() (string, error) {
	c.asked++
	switch c.asked {
	case 1:
		return "on its way", nil
	case 2:
		return "", sojourn.WithReason("503", errors.New("the carrier answers 503"))
	}
	return "delivered", nil
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
	c := &carrier{}
	w := worker.New(client, worker.Options{Concurrency: 1})
	worker.Handle(w, fetch, func(_ context.Context, job *sojourn.Job, parcel string) error {
		if job.Response == nil {
			fmt.Println("ask the carrier to fetch the parcel")
			return sojourn.Await(0)
		}
		return job.SetResult(job.Response.Body)
	}, worker.Poll(fetch, sojourn.Backoff{First: sojourn.MinPoll}, // often, so that this program ends soon
		func(_ context.Context, job *sojourn.Job, parcel string) (*worker.Answer, error) {
			status, err := c.status()
			if err != nil {
				fmt.Printf("poll %d: %v\n", c.asked, err)
				return nil, err
			}
			fmt.Printf("poll %d: %s\n", c.asked, status)
			if status != "delivered" {
				return nil, nil // no answer yet
			}
			return &worker.Answer{Body: []byte(status), ContentType: "text/plain"}, nil
		}))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	job := fetch.New("P-17")
	if _, err := client.Enqueue(ctx, job); err != nil {
		return err
	}
	done, err := client.Wait(ctx, job.ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %q, attempt %d, failures %d\n", done.State, done.Result, done.Attempt, done.Failures)
	history, err := client.Jobs().History(ctx, job.ID)
	if err != nil {
		return err
	}
	for _, h := range history {
		fmt.Println(strings.TrimRight(fmt.Sprintf("  %-9s → %s %s", h.Outcome, h.State, h.Reason), " "))
	}
	stop()
	return <-stopped
}
