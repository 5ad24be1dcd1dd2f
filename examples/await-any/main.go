// Command await-any shows jobs that wait for the first of several answers, for all of several, and
// for a side that falls silent.
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

// order is a kind whose three jobs show one way to wait each.
var order = sojourn.Kind[int]{Name: "order", Policy: sojourn.Policy{MaxAttempts: 1}}

func handler(_ context.Context, job *sojourn.Job, n int) error {
	waits := job.Response == nil
	switch {
	case n == 1 && waits: // one event for success and one for failure: the first that comes decides
		return sojourn.AwaitAny(time.Hour, "paid-1", "refused-1")
	case n == 1 && job.Response.Key == "refused-1":
		return sojourn.Abort(errors.New("the bank has refused it"))
	case n == 2 && waits:
		return sojourn.AwaitAll(time.Hour, "stock-2", "credit-2")
	case n == 2:
		return job.SetResult(fmt.Sprintf("%s, credit %s", job.ResponseTo("stock-2").Body, job.ResponseTo("credit-2").Body))
	case waits: // an hour at most, but not longer than this without a sign of life
		return sojourn.WithBeat(300*time.Millisecond, sojourn.Await(time.Hour))
	}
	return nil
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
	w := worker.New(client, worker.Options{SweepEvery: 100 * time.Millisecond})
	worker.Handle(w, order, handler)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	s := &shop{ctx, client}
	for _, story := range []func() error{s.any, s.all, s.beat} {
		if err := story(); err != nil {
			return err
		}
	}
	stop()
	return <-stopped
}

// shop tells the three stories.
type shop struct {
	ctx    context.Context
	client *sojourn.Client
}

func (s *shop) any() error {
	j, err := s.waiting(1)
	if err != nil {
		return err
	}
	if err := s.respond("refused-1", ""); err != nil {
		return err
	}
	if err := s.respond("paid-1", ""); err != nil {
		return err
	}
	done, err := s.client.Wait(s.ctx, j.ID)
	if err != nil {
		return err
	}
	fmt.Printf("  order 1 is %s: %s\n", done.State, done.Error)
	left, err := s.client.Inbox().List(s.ctx, sojourn.InboxFilter{Key: "paid-1"})
	if err == nil {
		fmt.Printf("  the other answer is %s now\n", left.Items[0].Outcome)
	}
	return err
}

func (s *shop) all() error {
	j, err := s.waiting(2)
	if err != nil {
		return err
	}
	if err := s.respond("credit-2", "500"); err != nil {
		return err
	}
	if j, err = s.client.Get(s.ctx, j.ID); err != nil {
		return err
	}
	fmt.Printf("  order 2 has an answer from %s\n", strings.Join(j.Waiting.Answered, ", "))
	if err := s.respond("stock-2", "3 pieces"); err != nil {
		return err
	}
	done, err := s.client.Wait(s.ctx, j.ID)
	if err == nil {
		fmt.Printf("  order 2 is %s: %s\n", done.State, done.Result)
	}
	return err
}

func (s *shop) beat() error {
	fmt.Println("order 3 is given up after silence")
	j, err := s.enqueue(3)
	if err != nil {
		return err
	}
	a, err := s.client.Respond(s.ctx, &sojourn.Response{Job: j.ID, Progress: true, Body: []byte("half way")})
	if err != nil {
		return err
	}
	done, err := s.client.Wait(s.ctx, j.ID)
	if err == nil {
		fmt.Printf("  progress: %s, %q\n  order 3 is %s: %s\n", a.Outcome, done.Progress, done.State, done.Reason)
	}
	return err
}

// enqueue adds an order and returns it once it waits.
func (s *shop) enqueue(n int) (*sojourn.Job, error) {
	job := order.New(n)
	if _, err := s.client.Enqueue(s.ctx, job); err != nil {
		return nil, err
	}
	for {
		j, err := s.client.Get(s.ctx, job.ID)
		if err != nil || j.Waiting != nil {
			return j, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *shop) waiting(n int) (*sojourn.Job, error) {
	j, err := s.enqueue(n)
	if err == nil {
		fmt.Printf("order %d waits for %s of %s\n", n, j.Waiting.Mode, strings.Join(j.Waiting.Keys, ", "))
	}
	return j, err
}

func (s *shop) respond(key, body string) error {
	a, err := s.client.Respond(s.ctx, &sojourn.Response{Kind: order.Name, Key: key, ContentType: "text/plain", Body: []byte(body)})
	if err == nil {
		fmt.Printf("  %s: %s\n", key, a.Outcome)
	}
	return err
}
