package callcost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

const (
	kind = "charge"

	lease   = time.Minute
	within  = time.Hour
	settled = 150 * time.Millisecond // a claim that has begun and finds no job is asleep by then
)

// life is the way of two jobs through a store.
type life struct {
	s      driver.Store
	number int
}

// Life takes two jobs through the calls of [Calls], each alone, and hands each call to around. The
// number must be new for the store. The first job has a key, awaits a response and is completed;
// the second one is given to a claim that waits.
func Life(ctx context.Context, s driver.Store, number int, around func(call string, run func() error) error) error {
	l, key := life{s, number}, fmt.Sprint("order-", number)
	first, err := s.IDs(ctx, 2)
	if err != nil {
		return err
	}
	var c driver.Claimed
	claim := func(request int64) func() error {
		return func() (err error) {
			c, err = l.claim(ctx, request, 0)
			return err
		}
	}
	for _, step := range []struct {
		call string
		run  func() error
	}{
		{Enqueue, func() error { return l.enqueue(ctx, first, key) }},
		{Claim, claim(0)},
		{FinishAwait, func() error {
			return l.finish(ctx, sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Within: within}}, sojourn.Awaiting)
		}},
		{Respond, func() error { return l.respond(ctx, key) }},
		{ClaimResume, claim(1)},
		{Finish, func() error { return l.complete(ctx, c) }},
	} {
		if err := around(step.call, step.run); err != nil {
			return fmt.Errorf("%s: %w", step.call, err)
		}
	}
	if c, err = l.enqueueWaiting(ctx, first+1, around); err != nil {
		return fmt.Errorf("%s: %w", EnqueueWaiting, err)
	}
	return l.complete(ctx, c)
}

// enqueueWaiting stores a job without a key while a claim waits for one. The call is over when the
// claim has the job.
func (l life) enqueueWaiting(ctx context.Context, id sojourn.ID, around func(call string, run func() error) error) (c driver.Claimed, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a failed enqueue leaves no claim behind
	answered := make(chan error)
	go func() {
		claimed, err := l.claim(ctx, 2, sojourn.MaxWait)
		c = claimed
		answered <- err
	}()
	if err := l.waiting(ctx); err != nil {
		return c, err
	}
	err = around(EnqueueWaiting, func() error {
		if err := l.enqueue(ctx, id, ""); err != nil {
			cancel()
			return errors.Join(err, <-answered)
		}
		return <-answered
	})
	return c, err
}

// waiting returns when the worker's claim waits for a job.
func (l life) waiting(ctx context.Context) error {
	for {
		ws, err := l.s.Workers(ctx, "", 1, "w")
		if err != nil {
			return err
		}
		time.Sleep(settled)
		if len(ws) == 1 && ws[0].Waiting {
			return nil
		}
	}
}

func (l life) enqueue(ctx context.Context, id sojourn.ID, key string) error {
	j := sojourn.NewJob(kind, []byte(`{"amount":100}`), sojourn.Key(key))
	j.ID = id
	done, err := l.s.Enqueue(ctx, []sojourn.Job{*j}, false)
	if err == nil && done[0].Duplicate {
		err = fmt.Errorf("job %d is a duplicate", id)
	}
	return err
}

// requests is the number of claims of a life.
const requests = 3

// claim takes one job. request counts the claims of the life.
func (l life) claim(ctx context.Context, request int64, wait time.Duration) (driver.Claimed, error) {
	number := int64(l.number)*requests + request
	jobs, err := l.s.Claim(ctx, driver.ClaimRequest{Worker: "w", Number: number, Queues: []string{"default"}, Kinds: []string{kind},
		Max: 10, Capacity: 10, Lease: lease, Wait: wait})
	if err == nil && len(jobs) != 1 {
		err = fmt.Errorf("%d jobs were claimed", len(jobs))
	}
	if err != nil {
		return driver.Claimed{}, err
	}
	return jobs[0], nil
}

func (l life) complete(ctx context.Context, c driver.Claimed) error {
	return l.finish(ctx, sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted, Result: []byte(`"paid"`)}, sojourn.Completed)
}

func (l life) finish(ctx context.Context, o sojourn.Outcome, want sojourn.State) error {
	done, err := l.s.Finish(ctx, []sojourn.Outcome{o})
	if err == nil && (done[0].Status != driver.FinishApplied || done[0].State != want) {
		err = fmt.Errorf("the job is %s (%s)", done[0].State, done[0].Status)
	}
	return err
}

func (l life) respond(ctx context.Context, key string) error {
	done, err := l.s.Respond(ctx, []sojourn.Response{{Kind: kind, Key: key, Source: "webhook", MessageID: key, Body: []byte(`"approved"`)}})
	if err == nil && done[0].Outcome != sojourn.Applied {
		err = fmt.Errorf("the response is %s", done[0].Outcome)
	}
	return err
}
