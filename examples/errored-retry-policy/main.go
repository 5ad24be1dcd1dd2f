// Command errored-retry-policy shows a kind with a retry policy of its own. It is asked after each
// error, also where no handler was running: when the answer to a request did not come, the job is
// errored, and a worker claims it only to ask the policy.
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

var transfer = sojourn.Kind[string]{Name: "transfer", Policy: sojourn.Policy{MaxAttempts: 10}}

// handle asks a bank that never answers.
func handle(ctx context.Context, job *sojourn.Job, account string) error {
	if job.Response == nil {
		fmt.Printf("attempt %d: ask the bank\n", job.Attempt)
		return sojourn.Await(150 * time.Millisecond)
	}
	return nil
}

// policy says what follows an error. The zero Verdict means: what the stored backoff says. history
// has all errors, for policies that want to know more than the last one.
func policy(job *sojourn.Job, history []sojourn.HistoryEntry) sojourn.Verdict {
	fmt.Printf("policy: error %d is %s\n", job.Failures, job.Reason)
	switch {
	case job.Reason != sojourn.ReasonTimeout:
		return sojourn.Verdict{}
	case job.Failures == 1:
		return sojourn.Verdict{Delay: sojourn.Now} // the bank may have overlooked it
	case job.Failures == 2:
		return sojourn.Verdict{Delay: 100 * time.Millisecond}
	}
	return sojourn.Verdict{Final: true} // attempts are left, but a person must look at it
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
	w := worker.New(client, worker.Options{})
	worker.Handle(w, transfer, handle, worker.Retry(policy))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	stored, err := client.Enqueue(ctx, transfer.New("DE02"))
	if err != nil {
		return err
	}
	job, err := client.Wait(ctx, stored.ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s: attempt %d, failures %d, reason %q\n", job.State, job.Attempt, job.Failures, job.Reason)
	history, err := client.Jobs().History(ctx, job.ID)
	if err != nil {
		return err
	}
	for _, h := range history {
		fmt.Printf("  %d. attempt %d, %-9s → %s %s\n", h.Seq, h.Attempt, h.Outcome, h.State, h.Reason)
	}
	stop()
	return <-stopped
}
