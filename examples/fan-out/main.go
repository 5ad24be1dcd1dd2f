// Command fan-out shows a job that divides its work among children, waits for all of them without
// keeping a worker or a place, and adds up their results; and then goes on as a next stage, which
// waits for a job of another program.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

type file struct {
	Parts    []string
	Approval sojourn.ID // the job that must complete before the import is published
}

var (
	importFile = sojourn.Kind[file]{Name: "import_file"}
	importPart = sojourn.Kind[string]{Name: "import_part", Queue: "parts", Policy: sojourn.Policy{MaxAttempts: 1}}
	approve    = sojourn.Kind[string]{Name: "approve", Queue: "people"}
)

// importAll runs three times: to send the parts out, to collect their results, and to publish them.
func importAll(ctx context.Context, job *sojourn.Job, f file) error {
	switch {
	case job.Stage > 0:
		fmt.Printf("stage 1 publishes %s\n", job.Checkpoint)
		return job.SetResult(json.RawMessage(job.Checkpoint))
	case !job.ChildrenDone:
		fmt.Printf("attempt %d sends out %d parts\n", job.Attempt, len(f.Parts))
		var parts []*sojourn.Job
		for _, p := range f.Parts {
			parts = append(parts, importPart.New(p, sojourn.Name(p)))
		}
		return sojourn.AwaitJobs(time.Hour, parts...)
	}
	rows := 0
	var missing []string
	for part, err := range job.Children(ctx) {
		if err != nil {
			return err
		}
		if part.State != sojourn.Completed {
			missing = append(missing, part.Name)
			continue
		}
		var n int
		if err := part.DecodeResult(&n); err != nil {
			return err
		}
		rows += n
	}
	fmt.Printf("attempt %d has %d rows; without %v\n", job.Attempt, rows, missing)
	next := sojourn.Advance("", sojourn.DependsOn(f.Approval))
	return sojourn.WithCheckpoint(fmt.Appendf(nil, `{"rows": %d}`, rows), next)
}

func importOne(_ context.Context, job *sojourn.Job, part string) error {
	if part == "broken.csv" {
		return sojourn.Abort(errors.New("this part is no CSV"))
	}
	return job.SetResult(len(part))
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
	// One job at a time: a parent that kept its place would wait for its parts for ever.
	if _, err := client.DeclareQueue(ctx, "default", sojourn.QueueSettings{Limit: 1}); err != nil {
		return err
	}
	w := worker.New(client, worker.Options{Queues: []string{"default", "parts"}, Concurrency: 1})
	worker.Handle(w, importFile, importAll)
	worker.Handle(w, importPart, importOne)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	asked, err := client.Enqueue(ctx, approve.New("publish the import?"))
	if err != nil {
		return err
	}
	sent, err := client.Enqueue(ctx, importFile.New(file{Parts: strings.Fields("north.csv south.csv broken.csv"), Approval: asked.ID}))
	if err != nil {
		return err
	}
	if err := waitBlocked(ctx, client, sent.ID); err != nil {
		return err
	}
	why, err := client.Jobs().Why(ctx, sent.ID)
	if err != nil {
		return err
	}
	fmt.Printf("the import waits %s\n", why.Waits)
	p := worker.New(client, worker.Options{Queues: []string{"people"}})
	worker.Handle(p, approve, func(context.Context, *sojourn.Job, string) error { fmt.Println("approved"); return nil })
	if _, err := p.RunOnce(ctx); err != nil {
		return err
	}
	done, err := client.Wait(ctx, sent.ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", done.State, done.Result)
	stop()
	return <-stopped
}

// waitBlocked waits until the import is in its second stage and waits for the approval.
func waitBlocked(ctx context.Context, client *sojourn.Client, id sojourn.ID) error {
	for {
		j, err := client.Get(ctx, id)
		if err != nil || j.Stage == 1 && j.State == sojourn.Blocked {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
