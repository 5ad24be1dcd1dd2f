// Package jobstep reaches what sojourn.Job keeps to itself: the running step behind its methods,
// and who has leased its id. The root package sets the functions; package driver offers them to
// stores and workers. It exists so that the root exports nothing that applications do not need.
package jobstep

import (
	"context"
	"log/slog"
)

// Step carries out the methods of the Job that a worker passes to a handler.
type Step interface {
	SaveCheckpoint(ctx context.Context, b []byte) error
	SetProgress(ctx context.Context, text string) error
	SetKey(ctx context.Context, key string) error
	Logger() *slog.Logger
}

// The functions take a *sojourn.Job. The root package sets them when it is initialized.
var (
	// Attach connects a job with its step.
	Attach func(job any, s Step)
	// Of returns the attached step, nil if there is none.
	Of func(job any) Step
	// FromServer reports whether the Client of a server has leased the job's id.
	FromServer func(job any) bool
)

type serverKey struct{}

// AsServer returns a context in which ids are leased for a server and not for the caller.
func AsServer(ctx context.Context) context.Context { return context.WithValue(ctx, serverKey{}, true) }

// IsServer reports whether ctx comes from AsServer.
func IsServer(ctx context.Context) bool { return ctx.Value(serverKey{}) != nil }
