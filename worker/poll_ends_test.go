package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/worker"
)

// The answer of a poll function may be an error: it ends the attempt in every mode of the wait:
// tr:R5, tr:P1, tr:M2.
func TestPollBringsAnError(t *testing.T) {
	c := open(t)
	waits := []func(time.Duration) error{
		sojourn.Await,
		func(d time.Duration) error { return sojourn.AwaitAny(d, "paid", "refused") },
		func(d time.Duration) error { return sojourn.AwaitAll(d, "stock", "credit") },
		sojourn.Await, // without a key
	}
	w := worker.New(c, worker.Options{Concurrency: 4})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error { return waits[n](time.Minute) },
		worker.Poll(number, sojourn.Backoff{First: sojourn.MinPoll, Jitter: -1}, func(context.Context, *sojourn.Job, int) (*worker.Answer, error) {
			return &worker.Answer{Failed: true, Reason: "declined", Error: "the bank says no"}, nil
		}))
	start(t, w)
	for n := range waits {
		job := number.New(n, sojourn.MaxAttempts(1))
		if n == 0 {
			job.Key = "own"
		}
		enqueue(t, c, job)
		j := await(t, c, job.ID, sojourn.Failed)
		if j.Reason != "declined" || j.Error != "the bank says no" || j.Failures != 1 || j.Crashes != 0 {
			t.Errorf("wait %d: reason %q, error %q, %d failures, %d crashes", n, j.Reason, j.Error, j.Failures, j.Crashes)
		}
		lies, err := c.Store().Inbox(t.Context(), sojourn.InboxFilter{Job: job.ID})
		if err != nil || len(lies) != 1 || lies[0].Source != sojourn.SourcePoll || lies[0].Outcome != sojourn.Applied || !lies[0].Failed {
			t.Errorf("wait %d: in the inbox %+v, %v", n, lies, err)
		}
	}
}

// A poll function that returns Hold closes the whole queue; its job continues to wait, and no job
// starts or is polled before the hold has ended: tr:C5, tr:P1, spec:K8.
func TestPollHoldsTheQueue(t *testing.T) {
	c := open(t)
	asked := make(chan struct{}, 10)
	w := worker.New(c, worker.Options{Concurrency: 4})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error { return sojourn.Await(time.Minute) },
		worker.Poll(number, sojourn.Backoff{First: sojourn.MinPoll, Factor: 1, Jitter: -1}, func(context.Context, *sojourn.Job, int) (*worker.Answer, error) {
			asked <- struct{}{}
			return nil, sojourn.Hold("", time.Hour)
		}))
	start(t, w)
	job, behind := number.New(1, sojourn.Key("own")), number.New(2)
	enqueue(t, c, job)
	<-asked
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // the report of the step is on its way
		q, err := c.Store().Queues(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		if time.Until(q[0].HeldUntil) > 50*time.Minute {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the queue is not held: %+v", q[0])
		}
	}
	enqueue(t, c, behind)
	if _, err := c.Respond(t.Context(), &sojourn.Response{Kind: "number", Key: "own", Failed: true, Reason: "gone", Error: "gone"}); err != nil {
		t.Fatal(err)
	}
	j := await(t, c, job.ID, sojourn.Scheduled) // the wait was still there to be ended
	if j.Reason != "gone" || len(asked) != 0 {
		t.Errorf("reason %q, %d more polls", j.Reason, len(asked))
	}
	if b, err := c.Get(t.Context(), behind.ID); err != nil || b.State != sojourn.Ready {
		t.Errorf("the job behind is %s, %v", b.State, err)
	}
	history, err := c.Jobs().History(t.Context(), job.ID)
	if err != nil || len(history) < 2 || history[1].Outcome != "no_answer" || history[1].Reason != "hold" {
		t.Errorf("%+v, %v", history, err)
	}
}

// An error response that the store does not take is no answer; the next poll tries again.
func TestPollErrorIsRefused(t *testing.T) {
	c := open(t)
	sent := 0
	w := worker.New(sojourn.NewClient(deaf{driver.Of(c), &sent}), worker.Options{})
	worker.Handle(w, number, func(_ context.Context, j *sojourn.Job, n int) error { return sojourn.Await(time.Minute) },
		worker.Poll(number, sojourn.Backoff{First: sojourn.MinPoll, Factor: 1, Jitter: -1}, func(context.Context, *sojourn.Job, int) (*worker.Answer, error) {
			return &worker.Answer{Failed: true, Error: "no"}, nil
		}))
	start(t, w)
	job := number.New(1, sojourn.MaxAttempts(1))
	enqueue(t, c, job)
	if j := await(t, c, job.ID, sojourn.Failed); j.Failures != 1 || sent != 2 {
		t.Errorf("%d failures after %d responses, want 1 after 2", j.Failures, sent)
	}
	history, err := c.Jobs().History(t.Context(), job.ID)
	if err != nil || len(history) < 3 || history[1].Reason != "not now" || history[1].Outcome != "no_answer" {
		t.Errorf("the history does not say why the first poll brought nothing: %+v, %v", history, err)
	}
}

// deaf takes no response at first.
type deaf struct {
	driver.Store
	sent *int
}

func (d deaf) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	if *d.sent++; *d.sent == 1 {
		return nil, errors.New("not now")
	}
	return d.Store.Respond(ctx, rs)
}
