package workflow

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// Action is a change of a stored workflow.
type Action string

// The actions of ChangeWorkflow.
const (
	ActionClose   Action = "close"
	ActionCancel  Action = "cancel"
	ActionRedrive Action = "redrive"
)

// Query chooses workflows.
type Query struct {
	Names  []string // these, each of which must exist
	Prefix string   // those whose names begin with it
	States []State  // none: all
	After  string   // the last name of the page before
	Limit  int      // 1 to sojourn.MaxFind, 0 = 100
	// Wait, with one name, waits up to this long until the workflow is final; at most
	// sojourn.MaxWait.
	Wait time.Duration
}

// MemberQuery chooses members of a workflow.
type MemberQuery struct {
	States []sojourn.State // none: all
	After  string          // the last name of the page before
	Limit  int             // 1 to sojourn.MaxFind, 0 = 100
}

// Store is an optional ability of a sojourn.Store: it keeps workflows. All methods are safe for
// concurrent use. An access token sees and changes only workflows whose members are all within its
// grants; others do not exist for it.
type Store interface {
	// StartWorkflow stores a workflow with its members, all or none. The same workflow again is a
	// duplicate. ErrConflict if the name is taken by another one.
	StartWorkflow(ctx context.Context, w Workflow) (Status, error)
	// AppendWorkflow adds members to an open workflow, all or none. A member that is there already
	// with the same content is skipped. ErrConflict if it has other content, or the workflow takes
	// no more members.
	AppendWorkflow(ctx context.Context, name string, ms []Member) (Status, error)
	// ChangeWorkflow carries out an action. Cancel and redrive run in slices of transactions, and
	// go on without the caller once they have begun.
	ChangeWorkflow(ctx context.Context, name string, a Action, reason string) (Status, error)
	// Workflows lists workflows in the order of their names.
	Workflows(ctx context.Context, q Query) ([]Status, error)
	// WorkflowMembers lists members in the order of their names.
	WorkflowMembers(ctx context.Context, name string, q MemberQuery) ([]MemberStatus, error)
}

// Workflows are the calls about workflows of a client. Safe for concurrent use.
type Workflows struct{ store Store }

// Of returns the calls about workflows of a client. If its store keeps none, each call returns an
// error with CodeInvalid. The stores of this module keep them.
func Of(c *sojourn.Client) Workflows { return Workflows{StoreOf(c.Store())} }

// StoreOf is a store's ability to keep workflows. If it has none, each call returns an error.
func StoreOf(s sojourn.Store) Store {
	if keeps, ok := s.(Store); ok {
		return keeps
	}
	return none{}
}

// Start stores a workflow with up to sojourn.MaxBatch members in one transaction: all or none. It
// is idempotent: the same workflow again changes nothing (Status.Duplicate). ErrConflict if another
// workflow has the name. A name is taken until Workflow.Keep after the end of its workflow.
func (s Workflows) Start(ctx context.Context, w *Workflow) (Status, error) {
	if err := w.Validate(sojourn.MaxMaxBytes); err != nil {
		return Status{}, err
	}
	return s.store.StartWorkflow(ctx, *w)
}

// StartAll stores a workflow with any number of members, up to MaxMembers: it starts an open one,
// appends the rest in the order of the dependencies, and closes it unless w stays open. Members run
// as soon as they are stored. If it fails in between, the same call again goes on where it stopped.
func (s Workflows) StartAll(ctx context.Context, w *Workflow) (Status, error) {
	if len(w.Members) <= sojourn.MaxBatch {
		return s.Start(ctx, w)
	}
	if len(w.Members) > MaxMembers {
		return Status{}, sojourn.Invalid("members", "%d members exceed the limit of %d", len(w.Members), MaxMembers)
	}
	sorted, err := w.inOrder()
	if err != nil {
		return Status{}, err
	}
	var out Status
	for i, part := range slices.Collect(slices.Chunk(sorted, sojourn.MaxBatch)) {
		if i > 0 {
			out, err = s.Append(ctx, w.Name, part...)
		} else {
			first := *w
			first.Members, first.Open = part, true
			out, err = s.Start(ctx, &first)
		}
		if err != nil {
			return out, err
		}
	}
	if w.Open {
		return out, nil
	}
	return s.Close(ctx, w.Name)
}

// Append adds up to sojourn.MaxBatch members to an open workflow in one transaction: all or none.
// They may wait for each other and for members that are stored already. It may be repeated.
func (s Workflows) Append(ctx context.Context, name string, ms ...Member) (Status, error) {
	if err := ValidMembers(ms, false, sojourn.MaxMaxBytes); err != nil {
		return Status{}, err
	}
	return s.store.AppendWorkflow(ctx, name, ms)
}

// Close ends the time in which an open workflow takes members. It may be repeated. A workflow
// whose members are all final ends with it.
func (s Workflows) Close(ctx context.Context, name string) (Status, error) {
	return s.store.ChangeWorkflow(ctx, name, ActionClose, "")
}

// Cancel cancels all members that are not final, and closes the workflow. It works in slices of
// transactions; if it is interrupted, the store goes on by itself. It returns when all is done.
// Jobs outside of the workflow that wait for a member go on waiting.
func (s Workflows) Cancel(ctx context.Context, name, reason string) (Status, error) {
	return s.store.ChangeWorkflow(ctx, name, ActionCancel, reason)
}

// Redrive runs all failed and cancelled members again, in the order of their dependencies. It
// reopens a workflow that has ended: its generation rises, and it ends again. It works in slices,
// as Cancel does.
func (s Workflows) Redrive(ctx context.Context, name, reason string) (Status, error) {
	return s.store.ChangeWorkflow(ctx, name, ActionRedrive, reason)
}

// Get returns one workflow with the numbers of its members by state. ErrNotFound if there is none.
func (s Workflows) Get(ctx context.Context, name string) (Status, error) {
	return s.one(ctx, Query{Names: []string{name}})
}

// Wait returns when the workflow is final, or ctx ends.
func (s Workflows) Wait(ctx context.Context, name string) (Status, error) {
	for {
		out, err := s.one(ctx, Query{Names: []string{name}, Wait: sojourn.MaxWait})
		if err != nil || out.State.Final() {
			return out, err
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
	}
}

func (s Workflows) one(ctx context.Context, q Query) (Status, error) {
	found, err := s.store.Workflows(ctx, q)
	if err == nil && len(found) == 0 {
		err = sojourn.NotFound("there is no workflow %.64q", q.Names[0])
	}
	if err != nil {
		return Status{}, err
	}
	return found[0], nil
}

// All walks through the workflows whose names begin with prefix and that are in one of the states
// (none: all), in the order of their names. It ends with the first error.
func (s Workflows) All(ctx context.Context, prefix string, states ...State) iter.Seq2[Status, error] {
	return pages(func(after string) ([]Status, error) {
		return s.store.Workflows(ctx, Query{Prefix: prefix, States: states, After: after})
	}, func(w Status) string { return w.Name })
}

// Members walks through the members of a workflow that are in one of the states (none: all), in
// the order of their names. It ends with the first error.
func (s Workflows) Members(ctx context.Context, name string, states ...sojourn.State) iter.Seq2[MemberStatus, error] {
	return pages(func(after string) ([]MemberStatus, error) {
		return s.store.WorkflowMembers(ctx, name, MemberQuery{States: states, After: after, Limit: sojourn.MaxFind})
	}, func(m MemberStatus) string { return m.Name })
}

// pages walks through the pages of a list until one is empty.
func pages[T any](read func(after string) ([]T, error), name func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := ""; ; {
			page, err := read(after)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range page {
				if after = name(item); !yield(item, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// none is a store without workflows.
type none struct{}

func (none) StartWorkflow(context.Context, Workflow) (Status, error) { return Status{}, errNone() }
func (none) AppendWorkflow(context.Context, string, []Member) (Status, error) {
	return Status{}, errNone()
}
func (none) ChangeWorkflow(context.Context, string, Action, string) (Status, error) {
	return Status{}, errNone()
}
func (none) Workflows(context.Context, Query) ([]Status, error) { return nil, errNone() }
func (none) WorkflowMembers(context.Context, string, MemberQuery) ([]MemberStatus, error) {
	return nil, errNone()
}

func errNone() error {
	return sojourn.Invalid("store", "this store keeps no workflows; use one of store/sqlite, store/postgres or httpapi")
}
