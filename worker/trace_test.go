package worker_test

import (
	"context"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

const (
	someTrace  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	otherTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-ffffffffffffffff-01"
)

// The jobs that follow a job belong to its trace, unless they name another. Middleware may give the
// step a trace context of its own. An outcome that several steps share is not changed.
func TestFollowUpJobsInheritTheTrace(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client) {
		own := sojourn.NewJob("other", nil, sojourn.Key("own"), sojourn.Meta(sojourn.MetaTraceparent, someTrace))
		shared := sojourn.Then(sojourn.NewJob("other", nil, sojourn.Key("inherits")), own)
		w := worker.New(c, worker.Options{Middleware: []worker.Middleware{func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, j *sojourn.Job) error {
				if parent, _ := j.TraceContext(); parent != someTrace {
					t.Errorf("the handler gets the trace context %q", parent)
				}
				j.Meta = map[string]string{sojourn.MetaTraceparent: otherTrace}
				return next(ctx, j)
			}
		}}})
		worker.Handle(w, number, func(context.Context, *sojourn.Job, int) error { return shared })
		enqueue(t, c, number.New(1, sojourn.Key("first"), sojourn.Meta(sojourn.MetaTraceparent, someTrace), sojourn.Meta("tenant", "a")))
		stop := start(t, w)
		first, err := c.GetByKey(t.Context(), "first")
		if err != nil {
			t.Fatal(err)
		}
		if got := await(t, c, first.ID, sojourn.Completed); got.Meta[sojourn.MetaTraceparent] != someTrace || got.Meta["tenant"] != "a" {
			t.Errorf("the job has the meta %v", got.Meta)
		}
		for key, want := range map[string]string{"inherits": otherTrace, "own": someTrace} {
			if next, err := c.GetByKey(t.Context(), key, "other"); err != nil || next.Meta[sojourn.MetaTraceparent] != want {
				t.Errorf("%s: %+v, %v", key, next, err)
			}
		}
		if then := sojourn.OutcomeOf(shared); then.Next[0].Meta != nil {
			t.Errorf("the shared outcome has the meta %v", then.Next[0].Meta)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// tracer gives each job the same trace context.
type tracer struct{ sojourn.Tracer }

func (tracer) Enqueue(ctx context.Context, jobs []*sojourn.Job) (context.Context, func(error)) {
	for _, j := range jobs {
		j.InheritTrace(someTrace, "")
	}
	return ctx, func(error) {}
}

// A transaction of the application enqueues with the tracer too, and FinishTx gives the next jobs
// the trace context of the job.
func TestTraceInTransactions(t *testing.T) {
	client, db := shared(t)
	traced := client.WithTracer(tracer{})
	w := worker.New(client, worker.Options{})
	worker.Handle(w, number, func(ctx context.Context, job *sojourn.Job, _ int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := sqlite.FinishTx(ctx, client, tx, job, sojourn.NewJob("other", nil, sojourn.Key("next"))); err != nil {
			return err
		}
		return tx.Commit()
	})
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	es, err := sqlite.EnqueueTx(t.Context(), traced, tx, number.New(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	start(t, w)
	await(t, client, es[0].ID, sojourn.Completed)
	if next, err := client.GetByKey(t.Context(), "next", "other"); err != nil || next.Meta[sojourn.MetaTraceparent] != someTrace {
		t.Errorf("the next job is %+v, %v", next, err)
	}
}
