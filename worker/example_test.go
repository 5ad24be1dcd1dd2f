package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

func Example() {
	type Mail struct{ To string }
	mail := sojourn.Kind[Mail]{Name: "mail"}

	client, err := sqlite.Open(":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	w := worker.New(client, worker.Options{Concurrency: 10, Grace: 5 * time.Second})
	worker.Handle(w, mail, func(_ context.Context, job *sojourn.Job, m Mail) error {
		fmt.Println("mail to", m.To)
		stop() // a program would do so on a signal
		return nil
	})
	if _, err := client.Enqueue(ctx, mail.New(Mail{"ada@example.org"})); err != nil {
		fmt.Println(err)
	}
	fmt.Println("Run:", w.Run(ctx))
	// Output:
	// mail to ada@example.org
	// Run: <nil>
}

// A retry policy in code: the gateway's own reason decides.
func ExampleRetry() {
	charge := sojourn.Kind[string]{Name: "charge"}
	client, err := sqlite.Open(":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	w := worker.New(client, worker.Options{})
	worker.Handle(w, charge, func(_ context.Context, job *sojourn.Job, order string) error {
		if job.Attempt == 1 {
			return sojourn.WithReason("busy", errors.New("gateway is busy"))
		}
		return sojourn.WithReason("declined", errors.New("card declined"))
	}, worker.Retry(func(_ *sojourn.Job, history []sojourn.HistoryEntry) sojourn.Verdict {
		last := history[len(history)-1]
		fmt.Printf("error %d: %s\n", len(history), last.Reason)
		if last.Reason == "declined" {
			return sojourn.Verdict{Final: true}
		}
		return sojourn.Verdict{Delay: sojourn.Now}
	}))
	ctx := context.Background()
	job := charge.New("order-42")
	if _, err := client.Enqueue(ctx, job); err != nil {
		fmt.Println(err)
	}
	for {
		if ran, err := w.RunOnce(ctx); !ran || err != nil {
			break
		}
	}
	j, _ := client.Get(ctx, job.ID)
	fmt.Println(j.State, j.Reason)
	// Output:
	// error 1: busy
	// error 2: declined
	// failed declined
}
