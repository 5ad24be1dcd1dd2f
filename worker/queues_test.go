package worker_test

import (
	"context"
	"slices"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// TestQueuesOfKinds: without Options.Queues a worker takes jobs from the queues of the kinds that
// it handles, and these take turns.
func TestQueuesOfKinds(t *testing.T) {
	c := open(t)
	plain, slow, pay := sojourn.Kind[int]{Name: "plain"}, sojourn.Kind[int]{Name: "slow", Queue: "payments"}, sojourn.Kind[int]{Name: "pay", Queue: "payments"}
	w := worker.New(c, worker.Options{Concurrency: 1})
	var ran []string
	count := func(_ context.Context, j *sojourn.Job, _ int) error { ran = append(ran, j.Queue); return nil }
	worker.Handle(w, plain, count)
	worker.Handle(w, slow, count)
	worker.Handle(w, pay, count)
	for range 2 {
		enqueue(t, c, plain.New(1), plain.New(1), slow.New(1), pay.New(1))
	}
	for {
		if more, err := w.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		} else if !more {
			break
		}
	}
	if len(ran) != 8 || !slices.Contains(ran[:2], "default") || !slices.Contains(ran[:2], "payments") {
		t.Errorf("jobs ran from the queues %v, want 8 from two queues in turns", ran)
	}
}

// TestQueuesOfShares: Shares without Queues name the queues.
func TestQueuesOfShares(t *testing.T) {
	c := open(t)
	k := sojourn.Kind[int]{Name: "k", Queue: "b"}
	w := worker.New(c, worker.Options{Shares: map[string]int{"a": 1, "b": 2}})
	ran := 0
	worker.Handle(w, k, func(context.Context, *sojourn.Job, int) error { ran++; return nil })
	enqueue(t, c, k.New(1), k.New(1, sojourn.Queue("other")))
	for {
		if more, err := w.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		} else if !more {
			break
		}
	}
	if ran != 1 {
		t.Errorf("%d jobs ran, want the one in b", ran)
	}
}
