// Command nightly-report shows a schedule: a report every night at 2:30 in Berlin, over the night
// in which the clock skips this time, and a pause of three days. The store's clock is turned by
// hand, so that a week passes in a moment; a worker in production just runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

const berlin = "Europe/Berlin"

// settings are the input of a report.
type settings struct{ Format string }

var report = sojourn.Kind[settings]{Name: "report"}

// nightly is declared by each start of the program. The job is stored with it, so the handler takes
// the day from job.ScheduledFor.
func nightly() schedule.Schedule {
	return schedule.Schedule{Name: "nightly-report", Cron: "30 2 * * *", Zone: berlin, CatchUp: 2, Job: report.New(settings{Format: "pdf"})}
}

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
	start := time.Date(2026, 3, 27, 12, 0, 0, 0, zone) // two days before the clock goes forward
	var passed atomic.Int64
	client, err := sqlite.Open(":memory:", sqlite.Clock(func() time.Time { return start.Add(time.Duration(passed.Load())) }))
	if err != nil {
		return err
	}
	defer client.Close()

	built := make(chan sojourn.ID)
	w := worker.New(client, worker.Options{Concurrency: 1, SweepEvery: 100 * time.Millisecond})
	worker.Handle(w, report, func(ctx context.Context, job *sojourn.Job, s settings) error {
		day := job.ScheduledFor.In(zone).AddDate(0, 0, -1) // the nominal time, also if the run is late
		fmt.Printf("  %s of %s, due %s\n", s.Format, day.Format("Mon Jan 2"), job.ScheduledFor.In(zone).Format("Mon 15:04 MST"))
		built <- job.ID
		return nil
	})
	w.Schedule(nightly())
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()

	if err := declared(ctx, client, ended); err != nil {
		return err
	}
	pass := func(d time.Duration, reports int) error {
		passed.Add(int64(d))
		for range reports { // the clock stands still until they are completed
			if _, err := client.Wait(ctx, <-built); err != nil {
				return err
			}
		}
		return nil
	}
	if err := week(ctx, client, pass); err != nil {
		return err
	}
	jobs, err := client.Jobs().Peek(ctx, "default", 1)
	if err != nil {
		return err
	}
	fmt.Printf("next: %s, virtual: %v\n", jobs[0].ScheduledFor.In(zone).Format("Mon Jan 2 15:04 MST"), jobs[0].Virtual)
	stop()
	return <-ended
}

// declared waits until the worker has declared its schedule.
func declared(ctx context.Context, client *sojourn.Client, ended <-chan error) error {
	calls := schedule.Of(client)
	stored, err := calls.Get(ctx, "nightly-report")
	for errors.Is(err, sojourn.ErrNotFound) {
		select {
		case err := <-ended:
			return err
		case <-time.After(5 * time.Millisecond):
		}
		stored, err = calls.Get(ctx, "nightly-report")
	}
	if err != nil {
		return err
	}
	fmt.Println(stored.Text)
	return nil
}

// week lets time pass; pass waits for so many reports.
func week(ctx context.Context, client *sojourn.Client, pass func(d time.Duration, reports int) error) error {
	calls := schedule.Of(client)
	for range 3 {
		if err := pass(24*time.Hour, 1); err != nil {
			return err
		}
	}
	fmt.Println("an operator pauses it for three days; two missed reports are made up for")
	if err := calls.Pause(ctx, "nightly-report"); err != nil {
		return err
	}
	if err := errors.Join(pass(72*time.Hour, 0), calls.Resume(ctx, "nightly-report"), pass(0, 2)); err != nil {
		return err
	}
	fmt.Println("and one now, on request")
	if _, err := calls.RunNow(ctx, "nightly-report"); err != nil {
		return err
	}
	if err := pass(0, 1); err != nil {
		return err
	}
	stored, err := calls.Get(ctx, "nightly-report")
	if err != nil {
		return err
	}
	fmt.Printf("runs %d, skipped %d\n", stored.Runs, stored.Skipped)
	return nil
}
