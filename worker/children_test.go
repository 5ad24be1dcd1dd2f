package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// A handler fans out and comes back with the results, also of a child that has failed; the attempt
// is the same, and a retry after it stores no child again.
func TestAwaitJobs(t *testing.T) {
	client := open(t)
	w := worker.New(client, worker.Options{Concurrency: 4})
	part := sojourn.Kind[int]{Name: "part", Policy: sojourn.Policy{MaxAttempts: 1}}
	whole := sojourn.Kind[int]{Name: "whole", Policy: sojourn.Policy{Backoff: sojourn.Backoff{First: time.Millisecond, Jitter: -1}}}
	var parts, turns atomic.Int32
	worker.Handle(w, part, func(_ context.Context, job *sojourn.Job, n int) error {
		parts.Add(1)
		if n == 3 {
			return sojourn.Abort(errors.New("no three"))
		}
		return job.SetResult(n * n)
	})
	worker.Handle(w, whole, func(ctx context.Context, job *sojourn.Job, n int) error {
		if !job.ChildrenDone {
			var children []*sojourn.Job
			for i := range n {
				children = append(children, part.New(i, sojourn.Name(fmt.Sprint("part ", i))))
			}
			return sojourn.AwaitJobs(time.Hour, children...)
		}
		sum, failed := 0, []string{}
		for child, err := range job.Children(ctx) {
			if err != nil {
				return err
			}
			if child.State != sojourn.Completed {
				failed = append(failed, child.Name)
				continue
			}
			var v int
			if err := child.DecodeResult(&v); err != nil {
				return err
			}
			sum += v
		}
		if turns.Add(1) == 1 {
			return errors.New("once more")
		}
		return job.SetResult(fmt.Sprintf("attempt %d, sum %d, failed %v", job.Attempt, sum, failed))
	})
	j := whole.New(150)
	enqueue(t, client, j)
	start(t, w)
	done := await(t, client, j.ID, sojourn.Completed, sojourn.Failed)
	want := `"attempt 2, sum 1113766, failed [part 3]"` // the squares of 0 to 149 without that of 3
	if string(done.Result) != want {
		t.Errorf("the result is %s, want %s; %s %s", done.Result, want, done.Reason, done.Error)
	}
	if n := parts.Load(); n != 150 {
		t.Errorf("%d parts have run, want 150", n)
	}
}

// Jobs that follow a completion get their ids from the store, and a job may await none.
func TestThenAndNoChildren(t *testing.T) {
	client := open(t)
	w := worker.New(client, worker.Options{})
	first, second := sojourn.Kind[string]{Name: "first"}, sojourn.Kind[string]{Name: "second"}
	worker.Handle(w, first, func(_ context.Context, job *sojourn.Job, key string) error {
		if !job.ChildrenDone {
			return sojourn.AwaitJobs(0)
		}
		return sojourn.Then(second.New("a", sojourn.Key(key)), second.New("b"))
	})
	ran := make(chan string, 2)
	worker.Handle(w, second, func(_ context.Context, _ *sojourn.Job, s string) error { ran <- s; return nil })
	j := first.New("key")
	enqueue(t, client, j)
	start(t, w)
	await(t, client, j.ID, sojourn.Completed)
	got := []string{<-ran, <-ran}
	if slices.Sort(got); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("ran %v", got)
	}
}

// What AwaitJobs cannot take is an error of the attempt that says what to do.
func TestAwaitJobsRefuses(t *testing.T) {
	job := func(name string) *sojourn.Job { return sojourn.NewJob("k", nil, sojourn.Name(name)) }
	for what, err := range map[string]error{
		"two with one name":     sojourn.AwaitJobs(0, job("a"), job("a")),
		"the name of a place":   sojourn.AwaitJobs(0, job("1"), job("")),
		"more than one batch":   sojourn.AwaitJobs(0, make([]*sojourn.Job, sojourn.MaxBatch+1)...),
		"a stage with a key":    sojourn.Advance("q", sojourn.Key("k")),
		"args that are no JSON": sojourn.AwaitJobs(0, sojourn.Kind[chan int]{Name: "k"}.New(nil)),
	} {
		if o := sojourn.OutcomeOf(err); o.Type != sojourn.OutcomeError || o.Reason != sojourn.CodeInvalid {
			t.Errorf("%s is the outcome %s, %s: %s", what, o.Type, o.Reason, o.Text)
		}
	}
	o := sojourn.OutcomeOf(sojourn.Advance("q", sojourn.DependsOn(1, 2), sojourn.Delay(time.Second)))
	if o.Type != sojourn.OutcomeAdvance || len(o.Depends) != 1 || o.Delay != time.Second {
		t.Errorf("an advance with dependencies is %+v", o)
	}
}
