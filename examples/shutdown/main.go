// Command shutdown shows what a worker does when it is told to stop: it claims nothing more, lets
// its handlers end within the grace, then ends their contexts and hands their jobs back. Nothing is
// lost, and no attempt is used up.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
	"github.com/sojourn-queue/sojourn/worker"
)

var export = sojourn.Kind[time.Duration]{Name: "export"}

// handle works for as long as the job says, unless it is told to stop. started hears of it.
func handle(started chan<- sojourn.ID) func(context.Context, *sojourn.Job, time.Duration) error {
	return func(ctx context.Context, job *sojourn.Job, length time.Duration) error {
		started <- job.ID
		select {
		case <-time.After(length):
			return nil
		case <-ctx.Done(): // the grace is over: put things in order and return the error
			fmt.Printf("job %d stops: %v\n", job.ID, context.Cause(ctx)) // worker.ErrShutdown
			return ctx.Err()
		}
	}
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := sqlite.Open(":memory:")
	if err != nil {
		return err
	}
	defer client.Close()
	short, long := export.New(200*time.Millisecond), export.New(time.Hour)
	if _, err := client.EnqueueAll(ctx, short, long); err != nil {
		return err
	}

	started := make(chan sojourn.ID, 2)
	w := worker.New(client, worker.Options{Grace: time.Second}) // default 30 s
	worker.Handle(w, export, handle(started))
	// Ctrl-C and SIGTERM end the context; a second one ends the program, because stop gives the
	// signals back.
	signalled, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-started
		<-started
		fmt.Println("both run; now the signal comes")
		stop()
	}()
	if err := w.Run(signalled); err != nil {
		return err
	}
	for _, id := range []sojourn.ID{short.ID, long.ID} {
		job, err := client.Get(ctx, id)
		if err != nil {
			return err
		}
		fmt.Printf("job %d is %s: attempt %d, failures %d, crashes %d\n", job.ID, job.State, job.Attempt, job.Failures, job.Crashes)
	}
	return nil
}
