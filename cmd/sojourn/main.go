// Command sojourn runs the demo, enqueues and answers jobs, and looks after a store: see
// docs/reference/cli.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(command()) }

// command is the whole command; the tests run it as a process of its own. The first SIGINT or
// SIGTERM ends the work in an orderly way, the second one kills.
func command() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}, os.Args[1:])
}
