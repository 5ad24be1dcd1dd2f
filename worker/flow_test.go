package worker_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/postgres"
	"github.com/sojourn-queue/sojourn/worker"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

// onBoth runs a test on both stores.
func onBoth(t *testing.T, test func(t *testing.T, c *sojourn.Client)) {
	t.Run("sqlite", func(t *testing.T) { test(t, open(t)) })
	t.Run("postgres", func(t *testing.T) {
		c, err := postgres.Open(pgtest.URL(t), postgres.Schema(pgtest.NewSchema(t)), postgres.AutoMigrate())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		test(t, c)
	})
}

func set(t *testing.T, c *sojourn.Client, q sojourn.QueueSettings) {
	t.Helper()
	if err := c.Queues().Set(t.Context(), "default", q); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok is.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not seen:", what)
		}
	}
}

func status(t *testing.T, c *sojourn.Client) sojourn.QueueStatus {
	t.Helper()
	queues, err := c.Store().Queues(t.Context(), "default")
	if err != nil || len(queues) != 1 {
		t.Fatal(queues, err)
	}
	return queues[0]
}

// A handler obeys a Retry-After: until then no other job of the queue starts, then jobs start on a
// ramp, and no job has lost an attempt. spec:K8 tr:F14
func TestHandlerHoldsItsQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client) {
		const retryAfter = 1200 * time.Millisecond
		w := worker.New(c, worker.Options{Concurrency: 1})
		var mu sync.Mutex
		var held time.Time // when the handler has said so
		var early []time.Duration
		steps := 0
		worker.Handle(w, number, func(context.Context, *sojourn.Job, int) error {
			mu.Lock()
			defer mu.Unlock()
			if steps++; steps == 1 {
				held = time.Now()
				return sojourn.Hold("", retryAfter)
			}
			if since := time.Since(held); since < retryAfter {
				early = append(early, since)
			}
			return nil
		})
		jobs := []*sojourn.Job{number.New(1), number.New(2), number.New(3)}
		enqueue(t, c, jobs...)
		start(t, w)
		for _, job := range jobs {
			if j := await(t, c, job.ID, sojourn.Completed); j.Attempt != 1 || j.Failures+j.Crashes != 0 {
				t.Errorf("attempt %d, %d failures, %d crashes", j.Attempt, j.Failures, j.Crashes)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(early) > 0 || steps != 4 {
			t.Errorf("%d steps; before the hold was over: %v", steps, early)
		}
	})
}

// Failures open the breaker; a probe that fails leaves it open, one that succeeds lets everything
// through. spec:K8
func TestBreakerProbes(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client) {
		set(t, c, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 2, Open: time.Second}})
		w := worker.New(c, worker.Options{Concurrency: 4})
		var down atomic.Bool
		var calls atomic.Int64
		down.Store(true)
		worker.Handle(w, number, func(context.Context, *sojourn.Job, int) error {
			calls.Add(1)
			if down.Load() {
				return errors.New("503")
			}
			return nil
		})
		policy := sojourn.WithPolicy(sojourn.Policy{MaxAttempts: -1, Backoff: sojourn.Backoff{First: 10 * time.Millisecond, Limit: 20 * time.Millisecond}})
		var jobs []*sojourn.Job
		for i := range 6 {
			jobs = append(jobs, number.New(i, policy))
		}
		enqueue(t, c, jobs...)
		start(t, w)
		eventually(t, "the breaker opens", func() bool { return status(t, c).Breaker == sojourn.BreakerOpen })
		// What was claimed when it opened runs to its end; from then on there is one call for each
		// probe, a second apart.
		var before int64
		var opened time.Time
		eventually(t, "what was claimed before has ended", func() bool {
			opened = status(t, c).BreakerUntil
			running, err := c.Store().Find(t.Context(), sojourn.Filter{States: []sojourn.State{sojourn.Running}})
			before = calls.Load()
			return err == nil && len(running) == 0 && status(t, c).BreakerUntil.Equal(opened)
		})
		eventually(t, "a probe has failed", func() bool {
			p := status(t, c)
			return p.Breaker == sojourn.BreakerOpen && p.BreakerUntil.After(opened)
		})
		if probes := calls.Load() - before; probes < 1 || probes > 2 {
			t.Errorf("%d calls for a probe", probes)
		}
		down.Store(false)
		for _, job := range jobs {
			await(t, c, job.ID, sojourn.Completed)
		}
		if p := status(t, c); p.Breaker != sojourn.BreakerClosed {
			t.Errorf("the breaker is %s in the end", p.Breaker)
		}
	})
}

// A window closes over running jobs: they run on, those that want to stop are stopped and go on
// later with the same attempt, and nothing else starts. spec:T4
func TestWindowClosesOverRunningJobs(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client) {
		w := worker.New(c, worker.Options{Concurrency: 2})
		closed, causes := make(chan struct{}), make(chan error, 1)
		worker.Handle(w, number, func(ctx context.Context, _ *sojourn.Job, n int) error {
			if n != 2 {
				<-closed
				return nil
			}
			select {
			case <-ctx.Done():
				causes <- context.Cause(ctx)
				return ctx.Err()
			case <-closed: // the second time
				return nil
			}
		})
		status, err := c.Store().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shuts := status.Now.UTC().Add(3 * time.Second)
		set(t, c, sojourn.QueueSettings{Windows: sojourn.Windows{{Start: shuts.Add(-time.Hour).Format(time.TimeOnly), End: shuts.Format(time.TimeOnly)}}})
		runsOn, stops := number.New(1), number.New(2, sojourn.WithPolicy(sojourn.Policy{StopAtWindowEnd: new(true)}))
		enqueue(t, c, runsOn, stops)
		start(t, w)
		await(t, c, runsOn.ID, sojourn.Running)
		await(t, c, stops.ID, sojourn.Running)
		waits := number.New(3)
		enqueue(t, c, waits)
		if cause := <-causes; cause != worker.ErrWindowClosed {
			t.Errorf("the step that stops ended with %v", cause)
		}
		eventually(t, "the windows hold the next job back", func() bool {
			why, err := c.Jobs().Why(t.Context(), waits.ID)
			if err != nil {
				t.Fatal(err)
			}
			return why.Gate == sojourn.GateWindow && why.Until.After(shuts)
		})
		close(closed)
		await(t, c, runsOn.ID, sojourn.Completed)
		if j := await(t, c, stops.ID, sojourn.Ready, sojourn.Scheduled); j.Attempt != 1 || j.Failures+j.Crashes != 0 {
			t.Errorf("the stopped job: attempt %d, %d failures, %d crashes", j.Attempt, j.Failures, j.Crashes)
		}
		if j := await(t, c, waits.ID, sojourn.Ready); j.Attempt != 0 {
			t.Errorf("the waiting job has started")
		}
		set(t, c, sojourn.QueueSettings{}) // the windows are gone: waiting jobs continue at once
		await(t, c, waits.ID, sojourn.Completed)
	})
}
