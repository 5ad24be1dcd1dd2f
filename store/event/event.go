// Package event follows the transitions of jobs: each change of a job's state is an event.
//
//	events := event.Of(client)
//	_, err := events.Follow(ctx, "billing", event.Filter{Queue: "payments", States: []sojourn.State{sojourn.Completed, sojourn.Failed}})
//	for e, err := range events.Tail(ctx, "billing") {
//		...
//	}
//
// A follower has a name. From its creation on, transitions are stored until all followers have read
// them, at most for Keep. Without a follower nothing is stored. Each follower gets each event of
// its filter at least once, the events of one job in their order. One that was too slow gets an
// event of type Gap in the place of those that it has missed.
package event

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const (
	// Keep is how long events are kept for a follower that does not read them.
	Keep = 24 * time.Hour
	// KeepFollower is how long a follower is kept that does not read.
	KeepFollower = 7 * 24 * time.Hour
	// MaxFollowers is the number of followers of one access token, and of the application.
	MaxFollowers = 20
	// MaxLag bounds the events that Status.Lag counts.
	MaxLag = 10_000
)

// Filter chooses events. Everything that is set must match the job as it was at the transition.
type Filter struct {
	Queue  string          `json:"queue,omitempty"`
	Kind   string          `json:"kind,omitempty"`
	Key    string          `json:"key,omitempty"`
	Tag    string          `json:"tag,omitempty"`
	States []sojourn.State `json:"states,omitempty"` // the states after the transition; none: all
}

// Validate checks names and states.
func (f Filter) Validate() error {
	for _, n := range []struct{ field, name string }{{"queue", f.Queue}, {"kind", f.Kind}} {
		if n.name != "" {
			if err := sojourn.ValidName(n.field, n.name); err != nil {
				return err
			}
		}
	}
	for _, k := range []struct{ field, text string }{{"key", f.Key}, {"tag", f.Tag}} {
		if k.text != "" {
			if err := sojourn.ValidKey(k.field, k.text); err != nil {
				return err
			}
		}
	}
	for i, s := range f.States {
		if s < sojourn.Blocked || s > sojourn.Cancelled {
			return sojourn.Invalid("states", "number %d is no state", i+1)
		}
	}
	return nil
}

// Type is the type of an event.
type Type string

// The types of events.
const (
	Transition Type = "transition"
	// Gap stands for events that were deleted before the follower had read them, or that a copy of
	// the database does not have. Any number of transitions may be missing, of any jobs: read the
	// jobs that matter again.
	Gap Type = "gap"
)

// Event is a transition of a job, or a gap, which has only Type and Position.
type Event struct {
	Type       Type          `json:"type"`
	Position   Position      `json:"position"`
	Job        sojourn.ID    `json:"job,omitempty"`
	At         time.Time     `json:"at,omitzero"`
	Queue      string        `json:"queue,omitempty"` // after the transition
	Kind       string        `json:"kind,omitempty"`
	Key        string        `json:"key,omitempty"`
	Tags       []string      `json:"tags,omitempty"`
	From       sojourn.State `json:"from,omitzero"`        // the state before; 0 for a job that was enqueued or redriven
	State      sojourn.State `json:"state,omitzero"`       // the state after it
	Generation int32         `json:"generation,omitempty"` // 1, and one more with each redrive
	Attempt    int32         `json:"attempt,omitempty"`
}

// Position is a place in the events of one store. The empty one is before all events.
type Position string

// PositionOf makes a position of the two numbers by which a store orders events.
func PositionOf(transaction, number int64) Position {
	return Position(strconv.FormatInt(transaction, 10) + "-" + strconv.FormatInt(number, 10))
}

// Parse returns the two numbers of a position. The error has CodeInvalid.
func (p Position) Parse() (transaction, number int64, err error) {
	a, b, _ := strings.Cut(string(p), "-")
	transaction, err1 := strconv.ParseInt(a, 10, 64)
	number, err2 := strconv.ParseInt(b, 10, 64)
	if err1 != nil || err2 != nil || PositionOf(transaction, number) != p {
		return 0, 0, sojourn.Invalid("ack", "%.64q is not a position; send the position of an event that you have read", string(p))
	}
	return transaction, number, nil
}

// Status is a follower.
type Status struct {
	Name     string   `json:"name"`
	Owner    string   `json:"owner,omitempty"` // the access token that has made it; empty without one
	Filter   Filter   `json:"filter"`
	Position Position `json:"position"` // of the last acknowledged event
	// Lag counts stored events after it, also those that do not match the filter; at most MaxLag.
	// For a token that may not read all jobs it counts those that match, among the next
	// sojourn.MaxFind.
	Lag       int64     `json:"lag"`
	Behind    float64   `json:"behind"`        // age in seconds of the oldest of them; 0 = none
	Gap       bool      `json:"gap,omitempty"` // events were deleted before it has read them
	CreatedAt time.Time `json:"created_at"`
	SeenAt    time.Time `json:"seen_at"` // when it was read last, to the hour
}

// Read is one read of a follower.
type Read struct {
	Follower string
	// Ack acknowledges all events up to this position, so that they are not read again. It is the
	// Position of an event or the Next of a page that this follower has got. One before the
	// follower's position changes nothing. Empty: nothing is acknowledged.
	Ack Position
	// After reads behind this position, which this follower has got, and acknowledges nothing. One
	// before the follower's position changes nothing. Empty: behind the follower's position.
	After Position
	Limit int           // 1 to sojourn.MaxFind; 0 = 100
	Wait  time.Duration // how long to wait for an event; at most sojourn.MaxWait
}

// Page is the answer of a read: the events after the follower's position. They stay until they are
// acknowledged.
type Page struct {
	Events []Event  `json:"events"`
	Next   Position `json:"next"` // acknowledges all of them, and those in between that do not match the filter
}

// Store is an optional ability of a sojourn.Store: it keeps followers. All methods are safe for
// concurrent use. A follower belongs to the Caller in ctx that has made it; others do not see it.
// The application without a Caller lists all, and reads and deletes its own.
type Store interface {
	// Follow makes a follower. All transitions that are committed after it returns are events for
	// it. The same name and filter again change nothing; with another filter it is ErrConflict. A
	// filter without a queue or kind gets the events that the Caller may read. The error has
	// CodeUnavailable if a transaction that has changed jobs stays open for long; repeat the call.
	Follow(ctx context.Context, name string, f Filter) (Status, error)
	// ReadEvents acknowledges and reads events. ErrNotFound if there is no follower of that name.
	ReadEvents(ctx context.Context, r Read) (Page, error)
	// Followers lists followers in the order of owner and name.
	Followers(ctx context.Context) ([]Status, error)
	// Unfollow deletes a follower, or ErrNotFound.
	Unfollow(ctx context.Context, name string) error
}

// Events are the calls about events of a client. Safe for concurrent use.
type Events struct{ store Store }

// Of returns the calls about events of a client. If its store has none, each call returns an error
// with CodeInvalid. The stores of this module have them.
func Of(c *sojourn.Client) Events { return Events{StoreOf(c.Store())} }

// StoreOf is a store's ability to keep followers. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if e, ok := s.(Store); ok {
		return e
	}
	return none{}
}

// Follow makes a follower; see Store.
func (e Events) Follow(ctx context.Context, name string, f Filter) (Status, error) {
	if err := sojourn.ValidName("follower", name); err != nil {
		return Status{}, err
	}
	if err := f.Validate(); err != nil {
		return Status{}, err
	}
	return e.store.Follow(ctx, name, f)
}

// Read acknowledges and reads events; see Store.
func (e Events) Read(ctx context.Context, r Read) (Page, error) { return e.store.ReadEvents(ctx, r) }

// Tail walks through the events of a follower, and waits for more until ctx ends, which ends it
// with the error of ctx. A page of up to sojourn.MaxFind events is acknowledged when the loop has
// come to its end: after a crash, or after the loop was left, the events of the last page come
// again. Errors that are Retryable are retried with pauses; another error ends it.
func (e Events) Tail(ctx context.Context, name string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := Read{Follower: name, Limit: sojourn.MaxFind, Wait: sojourn.MaxWait}
		for pause := firstPause; ; {
			page, err := e.store.ReadEvents(ctx, r)
			switch {
			case ctx.Err() != nil:
				yield(Event{}, ctx.Err())
				return
			case err != nil && !retryable(err):
				yield(Event{}, err)
				return
			case err != nil:
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
				pause = min(2*pause, lastPause)
				continue
			}
			pause = firstPause
			for _, one := range page.Events {
				if !yield(one, nil) {
					return
				}
			}
			r.Ack = page.Next
		}
	}
}

func retryable(err error) bool {
	e, ok := errors.AsType[*sojourn.Error](err)
	return ok && e.Retryable
}

// The pauses of Tail after errors.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Followers lists followers; see Store.
func (e Events) Followers(ctx context.Context) ([]Status, error) { return e.store.Followers(ctx) }

// Unfollow deletes a follower; see Store.
func (e Events) Unfollow(ctx context.Context, name string) error { return e.store.Unfollow(ctx, name) }

// none is a store without events.
type none struct{}

func (none) Follow(context.Context, string, Filter) (Status, error) { return Status{}, errNone() }

func (none) ReadEvents(context.Context, Read) (Page, error) { return Page{}, errNone() }

func (none) Followers(context.Context) ([]Status, error) { return nil, errNone() }

func (none) Unfollow(context.Context, string) error { return errNone() }

func errNone() error {
	return sojourn.Invalid("store", "this store has no events; use one of store/sqlite, store/postgres or httpapi")
}
