// Package waketest checks that commits of one store wake the calls that are blocked in another
// store on the same database.
package waketest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// wait bounds each blocked call. A call that is not woken ends empty after it.
const wait = 20 * time.Second

var runs atomic.Int64 // so that each run has a worker of its own

// Run blocks calls in waits, and commits in acts what they wait for. Both stores poll so rarely
// that only a signal can wake a call.
func Run(t *testing.T, acts, waits *sojourn.Client) {
	ctx := t.Context()
	worker := fmt.Sprint("w", runs.Add(1))
	number := int64(0)
	claim := func() <-chan []driver.Claimed {
		number++
		r := driver.ClaimRequest{Worker: worker, Number: number, Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1, Lease: time.Minute, Wait: wait}
		out := make(chan []driver.Claimed, 1)
		go func() {
			jobs, err := driver.Of(waits).Claim(ctx, r)
			if err != nil {
				t.Error(err)
			}
			out <- jobs
		}()
		return out
	}
	got := func(name string, out <-chan []driver.Claimed) driver.Claimed {
		t.Helper()
		jobs := <-out
		if len(jobs) != 1 {
			t.Fatalf("%s: the blocked claim was not woken; it got %d jobs", name, len(jobs))
		}
		return jobs[0]
	}
	var first driver.Claimed
	for range 5 { // the first claim waits before it is known that signals arrive
		out := claim()
		enqueue(t, acts, sojourn.Key("a"))
		first = got("an enqueue", out)
		finish(t, waits, first, sojourn.Outcome{Type: sojourn.OutcomeCompleted})
	}
	out := claim()
	enqueue(t, acts, sojourn.Delay(50*time.Millisecond))
	finish(t, waits, got("a job that falls due", out), sojourn.Outcome{Type: sojourn.OutcomeCompleted})

	if err := acts.Queues().Pause(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	enqueue(t, acts, sojourn.Key("b"))
	out = claim()
	if err := acts.Queues().Resume(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	b := got("the end of a pause", out)
	finish(t, waits, b, sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Within: time.Hour}})
	out = claim()
	if _, err := acts.Respond(ctx, &sojourn.Response{Kind: "k", Key: "b"}); err != nil {
		t.Fatal(err)
	}
	resumed := got("a response", out)
	ended := make(chan *sojourn.Job, 1)
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	go func() {
		j, err := acts.Wait(waiting, resumed.Job.ID)
		if err != nil {
			t.Errorf("a caller that waits for the end: %v", err)
		}
		ended <- j
	}()
	finish(t, waits, resumed, sojourn.Outcome{Type: sojourn.OutcomeCompleted})
	if j := <-ended; j != nil && j.State != sojourn.Completed {
		t.Errorf("the job is %s", j.State)
	}
}

func enqueue(t *testing.T, c *sojourn.Client, o ...sojourn.Option) {
	t.Helper()
	if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil, o...)); err != nil {
		t.Fatal(err)
	}
}

func finish(t *testing.T, c *sojourn.Client, job driver.Claimed, o sojourn.Outcome) {
	t.Helper()
	o.Lease = job.Lease
	if f, err := driver.Of(c).Finish(t.Context(), []sojourn.Outcome{o}); err != nil || f[0].Status != driver.FinishApplied {
		t.Fatal(f, err)
	}
}
