// Package operation changes many jobs by a stored operation: redrive, cancel, fail, edit, move, tag
// or purge. The store carries it out slice by slice, on any process that sweeps, and goes on after
// a crash. Each job is changed once: a slice and the place in the list are one transaction.
//
//	op, err := operation.Of(client).Start(ctx, operation.Spec{
//		Filter: sojourn.Filter{Failure: group.ID},
//		Edit:   sojourn.Edit{Action: sojourn.EditRedrive, Reason: "gateway fixed"},
//		Rate:   50,
//		Canary: 10,
//	})
package operation

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

const (
	// MaxCanary is the maximum of Spec.Canary.
	MaxCanary = 100
	// MaxRate is the maximum of Spec.Rate.
	MaxRate = 10_000
	// MinRate is the minimum of Spec.Rate, except for 0: one job a day.
	MinRate = 1.0 / 86400
	// Keep is how long an operation is kept after its end.
	Keep = 30 * 24 * time.Hour
	// MaxRunning is the number of operations of one access token that have not ended.
	MaxRunning = 20
)

// Spec is an operation to be started.
type Spec struct {
	// ID names the operation, as other names. Start draws one if it is empty. The same call with
	// the same ID starts it once.
	ID string
	// Filter chooses the jobs. Without States it takes those in which the action is possible; of
	// redrive, the failed ones. Jobs that are enqueued after the start, and final jobs that end
	// after it, are not taken. It has no Limit, After, Newest, Next and Wait.
	Filter sojourn.Filter
	// Edit is the change. DependOn and Undepend are not possible. DryRun counts the jobs, and
	// stores nothing.
	Edit sojourn.Edit
	// Limit ends the operation after so many changed jobs. 0 = all.
	Limit int64
	// Rate is the maximum of jobs a second. 0 = as fast as it goes.
	Rate float64
	// Canary, of redrive: so many jobs are redriven first, at most MaxCanary. The rest follows only
	// if all of them complete. At the first failed attempt of one of them the operation stops.
	Canary int
}

// Validate checks the ranges. maxBytes bounds new args.
func (s Spec) Validate(maxBytes int) error {
	if s.ID != "" {
		if err := sojourn.ValidName("operation", s.ID); err != nil {
			return err
		}
	}
	if err := s.Filter.Validate(); err != nil {
		return err
	}
	if err := s.Edit.Validate(maxBytes); err != nil {
		return err
	}
	f := s.Filter
	switch {
	case f.Limit != 0 || f.After != "" || f.Newest || f.Next || f.Full || f.Wait != 0:
		return sojourn.Invalid("filter", "of an operation has no limit, after, newest, next, full and wait; use the operation's own limit")
	case s.Edit.DependOn != nil || s.Edit.Undepend != nil:
		return sojourn.Invalid("depend_on", "an operation changes no dependencies; edit the jobs by their ids")
	case s.Limit < 0:
		return sojourn.Invalid("limit", "%d is negative", s.Limit)
	case s.Rate != 0 && (s.Rate < MinRate || s.Rate > MaxRate):
		return sojourn.Invalid("rate", "%v is out of range: one job a day (1/86400) to %d jobs a second, 0 = any", s.Rate, MaxRate)
	case s.Canary < 0 || s.Canary > MaxCanary:
		return sojourn.Invalid("canary", "%d is out of range: 0 to %d", s.Canary, MaxCanary)
	case s.Canary > 0 && s.Edit.Action != sojourn.EditRedrive:
		return sojourn.Invalid("canary", "only a redrive has canaries: the success of %s shows in no job", s.Edit.Action)
	}
	return nil
}

// NewID draws an id for an operation.
func NewID() string { return "op-" + strings.ToLower(rand.Text()[:12]) }

// ParseRate reads a Spec.Rate from a text such as 50/s, 10/m or 3/h; a number alone is one a
// second, and the empty text is 0. The error has CodeInvalid.
func ParseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	seconds, known := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || !known || !(n > 0) {
		return 0, sojourn.Invalid("rate", "%.64q is not a rate; write jobs a second, minute or hour, such as 50/s, 10/m or 3/h", text)
	}
	return n / seconds, nil
}

// State is the state of an operation.
type State string

// The states of an operation.
const (
	Running   State = "running"
	Canary    State = "canary"    // it waits for its canaries to complete
	Paused    State = "paused"    // by Pause
	Stopped   State = "stopped"   // a canary has failed, or the token of its maker may not go on: see Status.Problem. Resume goes on
	Completed State = "completed" // all jobs were handled
	Cancelled State = "cancelled" // by Cancel; jobs that were changed stay so
)

// Ended reports whether nothing follows without a call: stopped, completed or cancelled.
func (s State) Ended() bool { return s == Stopped || s == Completed || s == Cancelled }

// Status is a stored operation.
type Status struct {
	ID        string             `json:"id"`
	State     State              `json:"state"`
	Action    sojourn.EditAction `json:"action"`
	Failure   string             `json:"failure,omitempty"` // the failure group, if the filter has one
	Total     int64              `json:"total"`             // jobs that the filter matched at the start
	Changed   int64              `json:"changed"`
	Unchanged int64              `json:"unchanged,omitempty"` // jobs that were so already
	Refused   int64              `json:"refused,omitempty"`   // jobs that could not be changed, see Problem
	Problem   string             `json:"problem,omitempty"`   // why it has stopped, or the last refusal
	Limit     int64              `json:"limit,omitempty"`
	Rate      float64            `json:"rate,omitempty"`
	Canary    int                `json:"canary,omitempty"`
	Canaries  []sojourn.ID       `json:"canaries,omitempty"` // jobs that it waits for
	Owner     string             `json:"owner,omitempty"`    // access token that has started it, with whose grants it runs; empty without one
	By        string             `json:"by,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	DryRun    bool               `json:"dry_run,omitempty"` // only Total was counted; nothing is stored
	Duplicate bool               `json:"duplicate,omitempty"`
	CreatedAt time.Time          `json:"created_at,omitzero"`
	UpdatedAt time.Time          `json:"updated_at,omitzero"`
	EndedAt   time.Time          `json:"ended_at,omitzero"`
}

// String is a short text for people: "op-x (redrive) is running: 20 of 100 jobs".
func (s Status) String() string {
	return fmt.Sprintf("%s (%s) is %s: %d of %d jobs", s.ID, s.Action, s.State, s.Changed+s.Unchanged+s.Refused, s.Total)
}

// Action is a change of a stored operation.
type Action string

// The actions of ChangeOperation.
const (
	ActionPause  Action = "pause"
	ActionResume Action = "resume"
	ActionCancel Action = "cancel"
)

// Query chooses operations.
type Query struct {
	ID    string // one
	After string // the id of the last operation of the page before
	Limit int    // 1 to sojourn.MaxFind, 0 = 100
}

// Store is an optional ability of a sojourn.Store: it carries out operations. All methods are safe
// for concurrent use. An access token sees and changes its own operations; one that may operate
// everywhere, all.
type Store interface {
	// StartOperation stores an operation. ErrConflict if another one has the id.
	StartOperation(ctx context.Context, s Spec) (Status, error)
	// Operations lists operations, the newest first. ErrNotFound if q.ID names none.
	Operations(ctx context.Context, q Query) ([]Status, error)
	// ChangeOperation carries out an action. ErrConflict if the state does not allow it.
	ChangeOperation(ctx context.Context, id string, a Action) (Status, error)
}

// Operations are the calls about operations of a client. Safe for concurrent use.
type Operations struct{ store Store }

// Of returns the calls about operations of a client. If its store has none, each call returns an
// error with CodeInvalid. The stores of this module have them.
func Of(c *sojourn.Client) Operations { return Operations{StoreOf(c.Store())} }

// StoreOf is a store's ability to carry out operations. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if ops, ok := s.(Store); ok {
		return ops
	}
	return none{}
}

// Start stores an operation, and returns at once. Any process that sweeps carries it out: workers
// and servers do.
func (o Operations) Start(ctx context.Context, s Spec) (Status, error) {
	if s.ID == "" {
		s.ID = NewID()
	}
	if err := s.Validate(sojourn.MaxMaxBytes); err != nil {
		return Status{}, err
	}
	return o.store.StartOperation(ctx, s)
}

// Get returns one operation. ErrNotFound if there is none.
func (o Operations) Get(ctx context.Context, id string) (Status, error) {
	found, err := o.store.Operations(ctx, Query{ID: id})
	if err != nil {
		return Status{}, err
	}
	if len(found) == 0 {
		return Status{}, sojourn.NotFound("there is no operation %.64q", id)
	}
	return found[0], nil
}

// All walks through the operations, the newest first. It ends with the first error.
func (o Operations) All(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for after := ""; ; {
			page, err := o.store.Operations(ctx, Query{After: after})
			if err != nil {
				yield(Status{}, err)
				return
			}
			for _, s := range page {
				if after = s.ID; !yield(s, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// Pause stops an operation until Resume. A slice that runs is completed.
func (o Operations) Pause(ctx context.Context, id string) (Status, error) {
	return o.store.ChangeOperation(ctx, id, ActionPause)
}

// Resume goes on with a paused or stopped operation. One that a canary has stopped goes on without
// waiting for canaries.
func (o Operations) Resume(ctx context.Context, id string) (Status, error) {
	return o.store.ChangeOperation(ctx, id, ActionResume)
}

// Cancel ends an operation. Jobs that were changed stay so.
func (o Operations) Cancel(ctx context.Context, id string) (Status, error) {
	return o.store.ChangeOperation(ctx, id, ActionCancel)
}

// runner is an optional ability of a Store: it carries out what is due in this process.
type runner interface {
	SweepOperations(ctx context.Context) error
}

// Wait waits until an operation has ended, and returns it. If the store is in this process, Wait
// also carries it out. report, if not nil, is called about once a second.
func (o Operations) Wait(ctx context.Context, id string, report func(Status)) (Status, error) {
	for {
		if r, ok := o.store.(runner); ok {
			if err := r.SweepOperations(ctx); err != nil {
				return Status{}, err
			}
		}
		s, err := o.Get(ctx, id)
		if err != nil || s.State.Ended() {
			return s, err
		}
		if report != nil {
			report(s)
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// none is a store without operations.
type none struct{}

func (none) StartOperation(context.Context, Spec) (Status, error) { return Status{}, errNone() }

func (none) Operations(context.Context, Query) ([]Status, error) { return nil, errNone() }

func (none) ChangeOperation(context.Context, string, Action) (Status, error) {
	return Status{}, errNone()
}

func errNone() error {
	return sojourn.Invalid("store", "this store has no stored operations; use one of store/sqlite, store/postgres or httpapi")
}
