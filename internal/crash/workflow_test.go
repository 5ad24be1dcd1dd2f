package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
	"github.com/sojourn-queue/sojourn/workflow"
)

// The kinds of workflows and children.
var (
	whole  = sojourn.Kind[int]{Name: "whole", Policy: patient}  // a member of a workflow
	ended  = sojourn.Kind[int]{Name: "ended", Policy: patient}  // the callback of a workflow
	splits = sojourn.Kind[int]{Name: "splits", Policy: patient} // awaits children
	part   = sojourn.Kind[int]{Name: "part", Policy: patient}   // one of them
)

// parts is how many children a job awaits.
const parts = 3

// handleWholes registers the handlers of workflows and children.
func handleWholes(w *worker.Worker) {
	for _, k := range []sojourn.Kind[int]{whole, ended, part} {
		worker.Handle(w, k, func(_ context.Context, job *sojourn.Job, _ int) error {
			say("run %d %d", job.ID, job.Epoch)
			return nil
		})
	}
	worker.Handle(w, splits, func(_ context.Context, job *sojourn.Job, _ int) error {
		say("run %d %d", job.ID, job.Epoch)
		if job.ChildrenDone {
			return nil
		}
		var children []*sojourn.Job
		for i := range parts {
			children = append(children, part.New(i))
		}
		return sojourn.AwaitJobs(time.Minute, children...)
	})
}

// startWholes starts workflows, and jobs that await children, until it is stopped.
func startWholes(ctx context.Context, c *sojourn.Client) {
	for ctx.Err() == nil {
		name := "w" + strconv.FormatUint(rand.Uint64(), 36)
		w := workflow.New(name).Add("a", whole.New(1)).Add("b", whole.New(1), workflow.After("a")).Add("c", whole.New(1), workflow.After("a")).
			Add("d", whole.New(1), workflow.After("b", "c")).OnEnd(ended.New(1))
		_, err := workflow.Of(c).Start(ctx, w)
		if err == nil {
			say("started %s", name)
			var e sojourn.Enqueued
			if e, err = c.Enqueue(ctx, splits.New(1)); err == nil {
				say("ack %d", e.ID)
			}
		}
		if err != nil { // the server may come back
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// untilWholesEnd waits for the end of each workflow, and so for its callback.
func untilWholesEnd(ctx context.Context, c *sojourn.Client) {
	for w, err := range workflow.Of(c).All(ctx, "", workflow.Open, workflow.Running) {
		if err == nil {
			_, err = workflow.Of(c).Wait(ctx, w.Name)
		}
		if err != nil {
			return
		}
	}
}

// auditWholes checks that each acknowledged workflow is stored, and that each workflow is completed
// with its members and one callback (inv:A1); and that each job that awaits has had its children
// once (rules:A2).
func (l *ledger) auditWholes(t *testing.T, c *sojourn.Client) {
	t.Helper()
	stored, callbacks, children, count := map[string]bool{}, map[string]int{}, 0, map[string]int{}
	for j, err := range c.Jobs().All(t.Context(), sojourn.Filter{Limit: sojourn.MaxFind}) {
		if err != nil {
			t.Fatal(err)
		}
		count[j.Kind]++
		switch j.Kind {
		case ended.Name:
			callbacks[j.Workflow]++
		case splits.Name:
			found, err := c.Jobs().List(t.Context(), sojourn.Filter{AwaitedBy: j.ID})
			if err != nil {
				t.Fatal(err)
			}
			if children += len(found.Items); len(found.Items) != parts {
				t.Errorf("job %d has %d children", j.ID, len(found.Items))
			}
		}
	}
	for w, err := range workflow.Of(c).All(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		stored[w.Name] = true
		if text := fmt.Sprint(w.State, w.Total, w.Counts, callbacks[w.Name]); text != fmt.Sprint(workflow.Completed, 4, map[sojourn.State]int64{sojourn.Completed: 4}, 1) {
			t.Errorf("workflow %s: %s", w.Name, text)
		}
	}
	for name := range l.started {
		if !stored[name] {
			t.Errorf("workflow %s was acknowledged and is not stored", name)
		}
	}
	if count[whole.Name] != 4*len(stored) || count[part.Name] != children || len(stored) == 0 || children == 0 {
		t.Errorf("%d workflows, %d awaited children, and by kind %v", len(stored), children, count)
	}
	t.Logf("%d workflows, %d of them acknowledged, and %d awaited children", len(stored), len(l.started), children)
}
