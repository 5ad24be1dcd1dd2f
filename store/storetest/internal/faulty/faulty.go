// Package faulty is a store around a store, which loses answers, repeats calls and goes away.
package faulty

import (
	"context"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Fault is the fault of one call.
type Fault uint8

// The faults.
const (
	None  Fault = iota
	Lost        // executed, but the caller gets an unknown outcome
	Down        // not executed
	Twice       // executed twice, as by a proxy that repeats; the second answer arrives
)

// String names a fault in the log of a run.
func (f Fault) String() string {
	return [...]string{None: "none", Lost: "lost answer", Down: "store down", Twice: "call doubled"}[f]
}

// Store is a store that injects the fault Next into its next call that can have one, and forgets it
// then. It must not be used concurrently.
type Store struct {
	driver.Store
	Next Fault
}

// Enqueue stores jobs.
func (f *Store) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	return through(f, func() ([]sojourn.Enqueued, error) { return f.Store.Enqueue(ctx, clone(jobs), partial) })
}

// Claim takes jobs.
func (f *Store) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return through(f, func() ([]driver.Claimed, error) { return f.Store.Claim(ctx, r) })
}

// Extend prolongs leases.
func (f *Store) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	return through(f, func() ([]driver.Extended, error) { return f.Store.Extend(ctx, leases) })
}

// Save writes under leases.
func (f *Store) Save(ctx context.Context, items []driver.Saved) ([]driver.Extended, error) {
	return through(f, func() ([]driver.Extended, error) { return f.Store.Save(ctx, items) })
}

// Finish ends steps.
func (f *Store) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	return through(f, func() ([]driver.Finished, error) {
		own := slices.Clone(outcomes)
		for i := range own {
			own[i].Next = clone(own[i].Next)
		}
		return f.Store.Finish(ctx, own)
	})
}

// Respond stores responses.
func (f *Store) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	return through(f, func() ([]sojourn.Responded, error) { return f.Store.Respond(ctx, rs) })
}

// EditInbox changes a response.
func (f *Store) EditInbox(ctx context.Context, seq int64, action string, to sojourn.Response) (sojourn.Responded, error) {
	return through(f, func() (sojourn.Responded, error) { return f.Store.EditInbox(ctx, seq, action, to) })
}

// Edit changes jobs.
func (f *Store) Edit(ctx context.Context, filter sojourn.Filter, e sojourn.Edit) (sojourn.Page[sojourn.Edited], error) {
	return through(f, func() (sojourn.Page[sojourn.Edited], error) { return f.Store.Edit(ctx, filter, e) })
}

// Sweep processes overdue jobs and responses.
func (f *Store) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	return through(f, func() (driver.Swept, error) { return f.Store.Sweep(ctx, limit) })
}

// clone copies the caller's jobs, which the caller sends again, before a store fills in values.
func clone(jobs []sojourn.Job) []sojourn.Job {
	own := slices.Clone(jobs)
	for i := range own {
		own[i].Meta = maps.Clone(own[i].Meta)
	}
	return own
}

func through[A any](f *Store, call func() (A, error)) (A, error) {
	var nothing A
	fault := f.Next
	f.Next = None
	switch fault {
	case Down:
		return nothing, &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: "the simulation has taken the store away", Retryable: true}
	case Lost:
		if _, err := call(); err != nil && sojourn.ErrorCode(err) == "" {
			return nothing, err
		}
		return nothing, &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Message: "the simulation has lost the answer", Retryable: true}
	case Twice:
		if _, err := call(); err != nil && sojourn.ErrorCode(err) == "" {
			return nothing, err
		}
	}
	return call()
}
