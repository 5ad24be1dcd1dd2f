package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker"
)

// spec:W3: a worker that an operator drains finishes its running jobs and then ends; the store
// lists it under its name. spec:W12: and no longer after its end.
func TestRunEndsWhenDrained(t *testing.T) {
	c := open(t)
	k := c.Store()
	w := worker.New(c, worker.Options{Name: "east-1"})
	running, goOn := make(chan struct{}), make(chan struct{})
	worker.Handle(w, sojourn.Kind[struct{}]{Name: "k"}, func(context.Context, *sojourn.Job, struct{}) error {
		close(running)
		<-goOn
		return nil
	})
	enqueue(t, c, sojourn.NewJob("k", []byte("{}")))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	<-running
	shown, err := k.Workers(t.Context(), "", 0, w.ID())
	if err != nil || len(shown) != 1 || shown[0].Name != "east-1" || shown[0].Running != 1 {
		t.Fatalf("the store shows %+v, %v", shown, err)
	}
	if err := k.DrainWorker(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("a drained worker goes on")
	}
	if shown, err := k.Workers(t.Context(), "", 0); err != nil || len(shown) > 0 {
		t.Errorf("after its end the store shows %+v, %v", shown, err)
	}
	if j, err := c.Get(t.Context(), 1); err != nil || j.State != sojourn.Completed {
		t.Errorf("the job that it ran is %v, %v", j, err)
	}
}
