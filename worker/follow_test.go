package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// A handler completes with next jobs, goes on with its next stage, reads the results of the jobs
// that it depends on, and fails with details. spec:D2 spec:R12 tr:F16
func TestHandlersFollowUp(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client) {
		w := worker.New(c, worker.Options{Concurrency: 2, Queues: []string{"default", "ship"}})
		var part = sojourn.Kind[int]{Name: "part"}
		worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error {
			if err := j.SetResult(n); err != nil {
				return err
			}
			return sojourn.Then(sojourn.NewJob("other", nil, sojourn.Key("next")))
		})
		worker.Handle(w, part, func(ctx context.Context, j *sojourn.Job, n int) error {
			if j.Stage == 0 {
				return sojourn.WithCheckpoint(fmt.Append(nil, n), sojourn.Advance("ship"))
			}
			parents, err := j.Parents(ctx)
			if err != nil || len(parents) != 1 {
				return fmt.Errorf("the parents are %v, %v", parents, err)
			}
			if err := j.SetResult(string(parents[0].Result) + " " + string(j.Checkpoint) + " " + j.Queue); err != nil {
				return err
			}
			return sojourn.WithCheckpoint([]byte(`"spent"`), sojourn.Abort(errors.New("no stock")))
		})
		ids, err := c.Reserve(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		enqueue(t, c, number.New(7, sojourn.WithID(ids[0])), part.New(8, sojourn.WithID(ids[1]), sojourn.DependsOn(ids[0]), sojourn.MaxAttempts(1)))
		stop := start(t, w)
		got := await(t, c, ids[1], sojourn.Failed)
		if string(got.Result) != `"7 8 ship"` || string(got.Checkpoint) != `"spent"` || got.Stage != 1 || got.Attempt != 1 {
			t.Errorf("it ended with the result %s and the checkpoint %s in stage %d, attempt %d: %s", got.Result, got.Checkpoint, got.Stage, got.Attempt, got.Error)
		}
		if next, err := c.GetByKey(t.Context(), "next", "other"); err != nil || next.State != sojourn.Ready || next.ID == 0 {
			t.Errorf("the next job is %+v, %v", next, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
