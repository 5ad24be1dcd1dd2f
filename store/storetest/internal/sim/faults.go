package sim

import (
	"context"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// fault is the fault of one call.
type fault uint8

const (
	none  fault = iota
	lost        // executed, but the caller gets an unknown outcome
	down        // not executed
	twice       // executed twice, as by a proxy that repeats; the second answer arrives
)

var faultNames = []string{"none", "lost answer", "store down", "call doubled"}

// faulty is a store that injects a fault into its next call.
type faulty struct {
	driver.Store
	next fault
}

func (f *faulty) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	return through(f, func() ([]sojourn.Enqueued, error) { return f.Store.Enqueue(ctx, clone(jobs), partial) })
}

func (f *faulty) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	return through(f, func() ([]driver.Claimed, error) { return f.Store.Claim(ctx, r) })
}

func (f *faulty) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	return through(f, func() ([]driver.Extended, error) { return f.Store.Extend(ctx, leases) })
}

func (f *faulty) Save(ctx context.Context, items []driver.Saved) ([]driver.Extended, error) {
	return through(f, func() ([]driver.Extended, error) { return f.Store.Save(ctx, items) })
}

func (f *faulty) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	return through(f, func() ([]driver.Finished, error) {
		own := slices.Clone(outcomes)
		for i := range own {
			own[i].Next = clone(own[i].Next)
		}
		return f.Store.Finish(ctx, own)
	})
}

func (f *faulty) Respond(ctx context.Context, rs []sojourn.Response) ([]sojourn.Responded, error) {
	return through(f, func() ([]sojourn.Responded, error) { return f.Store.Respond(ctx, rs) })
}

// EditInbox is for stores that keep an inbox.
func (f *faulty) EditInbox(ctx context.Context, e sojourn.InboxEdit) (sojourn.Responded, error) {
	return through(f, func() (sojourn.Responded, error) { return f.Store.EditInbox(ctx, e) })
}

func (f *faulty) Edit(ctx context.Context, filter sojourn.Filter, e sojourn.Edit) (sojourn.Edited, error) {
	return through(f, func() (sojourn.Edited, error) { return f.Store.Edit(ctx, filter, e) })
}

func (f *faulty) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
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

func through[A any](f *faulty, call func() (A, error)) (A, error) {
	var nothing A
	next := f.next
	f.next = none
	switch next {
	case down:
		return nothing, &sojourn.Error{Code: sojourn.CodeUnavailable, Index: -1, Message: "the simulation has taken the store away", Retryable: true}
	case lost:
		if _, err := call(); err != nil && sojourn.ErrorCode(err) == "" {
			return nothing, err
		}
		return nothing, &sojourn.Error{Code: sojourn.CodeUnknown, Index: -1, Message: "the simulation has lost the answer", Retryable: true}
	case twice:
		if _, err := call(); err != nil && sojourn.ErrorCode(err) == "" {
			return nothing, err
		}
	}
	return call()
}
