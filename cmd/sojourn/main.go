// Command sojourn runs the demo, enqueues and answers jobs, and looks after a store: see
// docs/reference/cli.md.
package main

//go:generate go test -run ^TestReferenceIsFresh$ -update

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

func main() { os.Exit(command()) }

// command is the whole command; the tests run it as a process of its own. The first SIGINT or
// SIGTERM ends the work in an orderly way, the second one kills.
func command() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}, os.Args[1:])
}
