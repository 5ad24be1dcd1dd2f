// Command throttler-cel decides with a rule which jobs may start: of 100 slots 40 are for the east,
// 30 for the north and 30 for the west.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

var visit = sojourn.Kind[int]{Name: "visit"}

// regions is a rule in CEL. It is a setting of the queue, so it may be changed while everything
// runs.
const regions = `group in {"east": 40, "north": 30, "west": 30} &&
	in_flight.group(group).weight() + weight <= {"east": 40, "north": 30, "west": 30}[group]
	? start() : not_now("the slots of " + group + " are taken")`

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:", sqlite.Rules(rule.Throttlers()))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.DeclareQueue(ctx, "default", sojourn.QueueSettings{Throttle: regions}); err != nil {
		return err // with line and column, if it does not compile
	}
	for _, region := range []string{"east", "north", "west"} {
		jobs := make([]*sojourn.Job, 50)
		for i := range jobs {
			jobs[i] = visit.New(i, sojourn.Group(region))
		}
		if _, err := client.EnqueueAll(ctx, jobs...); err != nil {
			return err
		}
	}
	in := map[string]int{}
	for more := true; more; { // rules have some time for each claim: on a busy machine one does not get to all groups
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
