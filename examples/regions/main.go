// Command regions divides the 100 slots of a service among three regions, 40/30/30, and counts what
// is in flight at the service: running and waiting for its answer.
package main

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var deliver = sojourn.Kind[string]{Name: "deliver", Queue: "courier"}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// board counts the requested deliveries by region.
type board struct {
	mu    sync.Mutex // guards the fields below
	now   map[string]int
	keys  map[string][]string // of the jobs that wait for their answer
	asked int
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:")
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.DeclareQueue(ctx, "courier", sojourn.QueueSettings{
		Limit:  100,
		Shares: map[string]float64{"east": .4, "north": .3, "west": .3},
	})
	if err != nil {
		return err
	}
	var jobs []*sojourn.Job
	for i := range 150 { // the north has most to do, and was first
		for region, n := range map[string]int{"north": 150, "east": 60, "west": 60} {
			if i < n {
				jobs = append(jobs, deliver.New(region, sojourn.Group(region), sojourn.Key(fmt.Sprintf("%s-%d", region, i))))
			}
		}
	}
	if _, err := client.EnqueueAll(ctx, jobs...); err != nil {
		return err
	}

	b := &board{now: map[string]int{}, keys: map[string][]string{}}
	full := make(chan struct{}, 1000)
	w := worker.New(client, worker.Options{Queues: []string{"courier"}, Concurrency: 20})
	worker.Handle(w, deliver, func(ctx context.Context, job *sojourn.Job, region string) error {
		if job.Response != nil {
			return nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now[region]++
		b.keys[region] = append(b.keys[region], job.Key)
		if b.asked++; b.asked == 100 || b.asked == 110 {
			full <- struct{}{}
		}
		return sojourn.Await(0) // no worker is held up, but the slot of the service is
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	<-full
	b.show("the service is full")
	for _, key := range b.some("west", 10) { // ten answers make room for ten more of the same region
		if _, err := client.Respond(ctx, &sojourn.Response{Kind: deliver.Name, Key: key}); err != nil {
			return err
		}
	}
	<-full
	b.show("asked so far, after ten answers for the west")
	stop()
	return <-stopped
}

func (b *board) show(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Println(what)
	for _, region := range slices.Sorted(maps.Keys(b.now)) {
		fmt.Printf("  %-5s %d\n", region, b.now[region])
	}
}

func (b *board) some(region string, n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.keys[region][:n])
}
