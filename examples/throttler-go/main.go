// Command throttler-go decides in Go which jobs may start: of 100 slots 40 are for the east, 30 for
// the north and 30 for the west.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/throttle"
)

var visit = sojourn.Kind[int]{Name: "visit"}

var slots = map[string]int64{"east": 40, "north": 30, "west": 30}

// regions sees the candidate and the load in flight: jobs that run or await their response.
func regions(_ context.Context, c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
	used := f.Sum(func(l throttle.FlightLoad) bool { return l.Group == c.Group }).Weight
	return throttle.Admission{Start: used+int64(c.Weight) <= slots[c.Group], Text: "the slots of " + c.Group + " are taken"}, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:", sqlite.Throttle("default", throttle.ThrottlerFunc(regions)))
	if err != nil {
		return err
	}
	defer client.Close()
	for region := range slots {
		jobs := make([]*sojourn.Job, 50)
		for i := range jobs {
			jobs[i] = visit.New(i, sojourn.Group(region))
		}
		if _, err := client.EnqueueAll(ctx, jobs...); err != nil {
			return err
		}
	}
	in := map[string]int{}
	for more := true; more; { // a throttler has some time for each claim: on a busy machine one does not get to all groups
		started, err := driver.Of(client).Claim(ctx, driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"visit"}, Max: 150, Capacity: 150})
		if err != nil {
			return err
		}
		for _, c := range started {
			in[c.Job.Group]++
		}
		more = len(started) > 0
	}
	fmt.Println("in flight:", in)
	waiting, err := client.Jobs().Peek(ctx, "default", 1)
	if err != nil {
		return err
	}
	why, err := client.Jobs().Why(ctx, waiting[0].ID)
	if err != nil {
		return err
	}
	fmt.Printf("a job of the %s waits at the gate %q: %s\n", why.Group, why.Gate, why.Waits)
	return nil
}
