package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/throttle/rule"
	"github.com/sojourn-queue/sojourn/worker"
)

// A process of this test has a role, in SOJOURN_OUTAGE_ROLE, and an address, in
// SOJOURN_OUTAGE_ADDRESS, whose form is up to the role.
var (
	opens  = map[string]func(address string) (source.Broker, error){} // by the name of the broker: the role of a child
	serves = map[string]func(address string) error{}                  // by its role: a broker in a process of its own
)

func TestMain(m *testing.M) {
	role, address := os.Getenv("SOJOURN_OUTAGE_ROLE"), os.Getenv("SOJOURN_OUTAGE_ADDRESS")
	var err error
	switch {
	case role == "":
		os.Exit(m.Run())
	case opens[role] != nil:
		err = child(role, address)
	case serves[role] != nil:
		go func() { // stdin ends when the parent process has died
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		err = serves[role](address)
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hasty is the control arm: it acknowledges messages before they are stored. With the third batch
// it stops between the two, says so, and waits to be killed, so that the kill always finds messages
// in that state. (A kill at any other moment may find none: a database server carries out what a
// process sent before it died.)
type hasty struct {
	source.Broker
	batches int
}

const stoppedHasty = "acknowledged, not stored"

func (h *hasty) Receive(ctx context.Context, limit int) ([]*source.Message, error) {
	ms, err := h.Broker.Receive(ctx, limit)
	if len(ms) == 0 {
		return ms, err
	}
	err = errors.Join(err, h.Broker.Acknowledge(ctx, ms))
	if h.batches++; h.batches == 3 {
		fmt.Println(stoppedHasty)
		<-ctx.Done()
	}
	return ms, err
}

func (h *hasty) Acknowledge(context.Context, []*source.Message) error { return nil }

// child takes answers from the broker and works on the jobs until it is told to stop, or killed. It
// says how many messages it has handled.
func child(broker, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := store.Open(os.Getenv("SOJOURN_OUTAGE_URL"))
	if err != nil {
		return err
	}
	defer c.Close()
	from, err := opens[broker](address)
	if err != nil {
		return err
	}
	match, err := rule.Matcher(rule.Match{Kind: `"ask"`, Key: `body.order`, ID: `headers["event-id"]`})
	if err != nil {
		return err
	}
	if os.Getenv("SOJOURN_OUTAGE_HASTY") != "" {
		from = &hasty{Broker: from}
	}
	handled := 0
	s, err := source.New(c, from, source.Options{Name: sourceName, Match: match, Observe: func(source.Handled) {
		if handled++; handled%10 == 0 {
			fmt.Println("handled 10")
		}
	}})
	if err != nil {
		return err
	}
	// On PostgreSQL a short lease: it is what the jobs of a killed child wait for.
	w := worker.New(c, worker.Options{Concurrency: 50, Lease: 3 * time.Second})
	worker.Handle(w, ask, func(_ context.Context, job *sojourn.Job, _ int) error {
		if job.Response == nil {
			return sojourn.Await(0)
		}
		return job.SetResult(job.Response.Body)
	})
	var both sync.WaitGroup
	var failed [2]error
	both.Go(func() { failed[0] = s.Run(ctx); stop() })
	both.Go(func() { failed[1] = w.Run(ctx); stop() })
	both.Wait()
	if failed[0] != nil {
		return failed[0]
	}
	return failed[1]
}
