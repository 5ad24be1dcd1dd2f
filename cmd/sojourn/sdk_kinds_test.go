package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// why is the word of the file for the end of a handler's context.
func why(ctx context.Context) string {
	<-ctx.Done()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, worker.ErrCancelled):
		return "cancelled"
	case errors.Is(cause, worker.ErrLeaseOver):
		return "lease_over"
	case errors.Is(cause, worker.ErrShutdown):
		return "shutdown"
	case errors.Is(cause, sojourn.ErrLeaseLost):
		return "lease_lost"
	default:
		return fmt.Sprint(cause)
	}
}

func (d *scenarioDriver) handlers(w *worker.Worker) {
	handle := func(kind string, fn func(ctx context.Context, j *sojourn.Job, args string) error, options ...worker.HandleOption) {
		worker.Handle(w, sojourn.Kind[[]byte]{Name: kind, Codec: sojourn.Bytes}, func(ctx context.Context, j *sojourn.Job, args []byte) error {
			return fn(ctx, j, string(args))
		}, options...)
	}
	answered := func(j *sojourn.Job) error { return j.SetResult(json.RawMessage(j.Response.Body)) }
	ask := func(_ context.Context, j *sojourn.Job, _ string) error {
		if j.Response == nil {
			return sojourn.Await(time.Minute)
		}
		return answered(j)
	}
	worker.Handle(w, sojourn.Kind[[]byte]{Name: "echo", Codec: either{sojourn.Bytes}}, func(_ context.Context, j *sojourn.Job, args []byte) error {
		if j.ContentType == "application/json" {
			return j.SetResult(json.RawMessage(args))
		}
		return j.SetResult(args)
	})
	handle("line", func(_ context.Context, _ *sojourn.Job, args string) error {
		d.record("line", strings.Trim(args, `"`))
		return nil
	})
	handle("steps", func(ctx context.Context, j *sojourn.Job, _ string) error {
		if j.Attempt == 1 {
			err := j.SaveCheckpoint(ctx, []byte(`{"done":2}`))
			d.record("steps", strings.Trim(string(j.Checkpoint), `{"done:}`))
			return errors.Join(errors.New("the first attempt"), err)
		}
		return j.SetResult(json.RawMessage(j.Checkpoint))
	})
	handle("ask", ask)
	handle("choose", func(_ context.Context, j *sojourn.Job, args string) error {
		if j.Response == nil {
			return sojourn.AwaitAny(time.Minute, list(args)...)
		}
		return j.SetResult(j.Response.Key)
	})
	handle("both", func(_ context.Context, j *sojourn.Job, args string) error {
		var bodies []json.RawMessage
		for _, key := range list(args) {
			r := j.ResponseTo(key)
			if r == nil {
				return sojourn.AwaitAll(time.Minute, list(args)...)
			}
			bodies = append(bodies, r.Body)
		}
		return j.SetResult(bodies)
	})
	handle("named", func(ctx context.Context, j *sojourn.Job, args string) error {
		if j.Response == nil {
			if err := j.SetKey(ctx, strings.Trim(args, `"`)); err != nil {
				return err
			}
		}
		return ask(ctx, j, args)
	})
	handle("flaky", func(_ context.Context, j *sojourn.Job, _ string) error {
		if j.Attempt < 3 {
			return errors.New("not yet")
		}
		return j.SetResult(j.Attempt)
	}, worker.Retry(func(*sojourn.Job, []sojourn.HistoryEntry) sojourn.Verdict { return sojourn.Verdict{Delay: sojourn.Now} }))
	handle("doomed", func(context.Context, *sojourn.Job, string) error {
		return sojourn.Abort(sojourn.WithReason("declined", errors.New("no money")))
	})
	handle("broken", func(context.Context, *sojourn.Job, string) error { return errors.New("broken") })
	once := func(verdict error) func(context.Context, *sojourn.Job, string) error {
		return func(_ context.Context, j *sojourn.Job, _ string) error {
			if j.Epoch == 1 {
				return verdict
			}
			return j.SetResult("ran")
		}
	}
	handle("held", once(sojourn.Hold("", time.Second)))
	handle("snoozer", once(sojourn.Snooze(50*time.Millisecond)))
	handle("huge", func(_ context.Context, j *sojourn.Job, _ string) error {
		return j.SetResult(strings.Repeat("x", 300_000))
	})
	d.followHandlers(w)
	handle("endless", func(ctx context.Context, j *sojourn.Job, _ string) error {
		d.record(j.ID, "began")
		d.record(j.ID, why(ctx))
		return ctx.Err()
	})
	handle("taken", func(ctx context.Context, j *sojourn.Job, _ string) error {
		if j.Epoch > 1 {
			return j.SetResult("fresh")
		}
		b, err := json.Marshal(map[string]any{"outcomes": []any{map[string]any{"lease": j.Lease(), "type": "released"}}})
		if err == nil {
			err = d.call(ctx, http.MethodPost, "/v1/finish", d.token, b)
		}
		d.record(j.ID, why(ctx))
		if errors.Is(j.SaveCheckpoint(context.WithoutCancel(ctx), []byte("zombie")), sojourn.ErrLeaseLost) {
			d.record(j.ID, sojourn.CodeLeaseLost)
		}
		return errors.Join(err, j.SetResult("zombie"))
	})
}

// list reads a list of texts.
func list(text string) (all []string) {
	_ = json.Unmarshal([]byte(text), &all)
	return all
}

// either takes bytes as they are; those that begin an object must be JSON.
type either struct{ sojourn.Codec }

func (either) Decode(b []byte, v any) error {
	if bytes.HasPrefix(b, []byte("{")) && !json.Valid(b) {
		return errors.New("no JSON")
	}
	return sojourn.Bytes.Decode(b, v)
}
