package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/store/postgres"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

// The modes of the child process, in SOJOURN_CRASH_CHILD.
const (
	childWorks    = "works"     // enqueue, work and answer until killed
	childAckEarly = "ack-early" // the control arm: says that a job is stored before it is
	childDrains   = "drains"    // work until nothing is live, then exit 0
	childRelaxed  = "relaxed"   // the control arm on PostgreSQL: does not wait for the disk
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("SOJOURN_CRASH_CHILD"); mode != "" {
		if err := child(mode, os.Getenv("SOJOURN_CRASH_FILE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

// Jobs never fail here for having been interrupted often: a job that is not completed at the end is
// stuck.
var patient = sojourn.Policy{MaxAttempts: sojourn.Unlimited, MaxCrashes: sojourn.Unlimited, Backoff: sojourn.Backoff{First: -1}}

var (
	plain = sojourn.Kind[int]{Name: "plain", Policy: patient}
	ask   = sojourn.Kind[int]{Name: "ask", Policy: patient}
)

func onServer(address string) bool { return strings.HasPrefix(address, "postgres") }

// open opens a SQLite file or a PostgreSQL URL; one with synchronous_commit=off has to be asked
// for.
func open(address string) (*sojourn.Client, error) {
	switch {
	case strings.Contains(address, "synchronous_commit=off"):
		return postgres.Open(address, postgres.Relaxed())
	case onServer(address):
		return postgres.Open(address)
	}
	return sqlite.Open(address)
}

// say writes one line for the parent. A line that the kill has torn has no end, and does not count.
func say(format string, a ...any) { fmt.Fprintf(os.Stdout, format+"\n", a...) }

func child(mode, file string) error {
	if ahead, ok := strings.CutPrefix(mode, childOperates); ok {
		return operateAll(context.Background(), file, ahead)
	}
	switch mode {
	case childChains:
		return chain(context.Background(), file)
	case childRemote:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		return workRemotely(ctx, file)
	}
	c, err := open(file)
	for tries := 0; err != nil && onServer(file) && tries < 100; tries++ { // the server is just crashing
		time.Sleep(50 * time.Millisecond)
		c, err = open(file)
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer c.Close()
	say("opened")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	if mode != childDrains && mode != childComposes {
		for range 4 {
			group.Go(func() { produce(ctx, c, mode == childAckEarly) })
		}
	}
	switch mode {
	case childComposes:
		group.Go(func() { declare(ctx, c) })
		for range 2 {
			group.Go(func() { compose(ctx, c) })
		}
		group.Go(func() { startWholes(ctx, c) })
	case childDrains:
		if err := deleteSchedules(ctx, c); err != nil {
			return err
		}
	}
	o := worker.Options{Concurrency: 8, Grace: time.Second, Queues: []string{"default", "stages"}}
	if onServer(file) { // no lock tells that a process is gone: its leases have to end
		o.Lease, o.SweepEvery = 2*time.Second, 500*time.Millisecond
	}
	w := worker.New(c, o)
	handleComposed(w, c)
	handleWholes(w)
	worker.Handle(w, plain, func(_ context.Context, job *sojourn.Job, _ int) error {
		say("run %d %d", job.ID, job.Epoch)
		return nil
	})
	worker.Handle(w, ask, func(_ context.Context, job *sojourn.Job, _ int) error {
		say("run %d %d", job.ID, job.Epoch)
		if job.Response != nil {
			return nil
		}
		answer := &sojourn.Response{Kind: ask.Name, Key: job.Key, MessageID: fmt.Sprintf("%s-%d", job.IdempotencyKey(), job.Attempt)}
		group.Go(func() { answerLater(ctx, c, answer) })
		return sojourn.Await(300 * time.Millisecond) // an answer that dies with the process is asked for again
	})
	group.Go(func() {
		if mode == childDrains {
			defer cancel()
			untilNothingLives(ctx, c)
			untilWholesEnd(ctx, c)
			untilNothingLives(ctx, c) // the callbacks
		}
	})
	err = w.Run(ctx)
	group.Wait()
	return err
}

// produce enqueues as fast as it can and says which ids were acknowledged.
func produce(ctx context.Context, c *sojourn.Client, early bool) {
	for ctx.Err() == nil {
		job := plain.New(1)
		if rand.IntN(2) == 0 {
			job = ask.New(1, sojourn.Key(fmt.Sprintf("order-%d", rand.Int64())))
		}
		if early {
			id, err := c.Store().IDs(ctx, 1)
			if err != nil {
				return
			}
			job.ID = id
			say("ack %d", id)
		}
		e, err := c.Enqueue(ctx, job)
		if err != nil { // the server may come back
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if !early {
			say("ack %d", e.ID)
		}
	}
}

func answerLater(ctx context.Context, c *sojourn.Client, r *sojourn.Response) {
	select {
	case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
	case <-ctx.Done():
		return
	}
	if _, err := c.Respond(ctx, r); err == nil {
		say("answered %s", r.MessageID)
	}
}

// untilNothingLives polls until every job is final.
func untilNothingLives(ctx context.Context, c *sojourn.Client) {
	live := sojourn.Filter{Limit: 1, States: []sojourn.State{sojourn.Blocked, sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored}}
	for {
		jobs, err := c.Store().Find(ctx, live)
		if err == nil && len(jobs) == 0 || errors.Is(err, context.Canceled) {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}
