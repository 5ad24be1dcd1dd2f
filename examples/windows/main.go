// Command windows shows jobs that start only at certain times of day: 5 to 7 in the morning and 10
// to 11 in the evening, in Berlin, over the night in which the clock goes back. The store's clock
// is turned by hand, so that two days pass in a moment; a worker in production just runs.
package main

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

const berlin = "Europe/Berlin"

// report may run in one of two windows.
var report = sojourn.Kind[string]{Name: "report", Policy: sojourn.Policy{Windows: []sojourn.Windows{{
	{Start: "05:00", End: "07:00", Zone: berlin},
	{Start: "22:00", End: "23:00", Zone: berlin},
}}}}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	zone, err := rules.Zone(berlin)
	if err != nil {
		return err
	}
	start := time.Date(2026, 10, 24, 12, 0, 0, 0, zone)
	var passed atomic.Int64
	clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	client, err := sqlite.Open(":memory:", sqlite.Clock(clock))
	if err != nil {
		return err
	}
	defer client.Close()

	// The windows of the queue must be open as well. They may change at any time.
	if _, err := client.DeclareQueue(ctx, "reports", sojourn.QueueSettings{Windows: sojourn.Windows{{Start: "02:30", End: "06:30", Zone: berlin}}}); err != nil {
		return err
	}
	sunday := sojourn.Window{Days: []string{"sun"}, Start: "00:00", End: "24:00", Zone: berlin}
	for _, j := range []*sojourn.Job{
		report.New("no time given"),
		report.New("at 22:30", sojourn.RunAt(start.Add(10*time.Hour+30*time.Minute))),
		report.New("at noon, which is outside", sojourn.RunAt(start.Add(25*time.Hour))),
		report.New("on Sunday", sojourn.In(sunday)),
		report.New("in a queue that is open from 2:30 to 6:30", sojourn.Queue("reports")),
		sojourn.Kind[string]{Name: "report", Queue: "reports"}.New("as soon as the queue opens"),
	} {
		stored, err := client.Enqueue(ctx, j)
		if err != nil {
			return err
		}
		job, err := client.Get(ctx, stored.ID)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s for %s\n", j.Args, job.State, job.RunAt.In(zone).Format("Mon 15:04"))
	}

	w := worker.New(client, worker.Options{Queues: []string{"default", "reports"}})
	worker.Handle(w, report, func(ctx context.Context, job *sojourn.Job, text string) error {
		fmt.Printf("%s: %s\n", clock().In(zone).Format("Mon 15:04 MST"), text)
		return nil
	})
	for passed.Load() < int64(48*time.Hour) {
		for ran := true; ran; {
			if ran, err = w.RunOnce(ctx); err != nil {
				return err
			}
		}
		passed.Add(int64(30 * time.Minute))
	}
	return nil
}
