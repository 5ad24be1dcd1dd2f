package driver

import (
	"context"
	"fmt"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/inside"
)

// Store is a whole store: what a Client needs, and what workers need.
type Store interface {
	sojourn.Store
	Claimer
	// Sweep handles up to limit overdue items of each sort. Any process may call it at any time.
	Sweep(ctx context.Context, limit int) (Swept, error)
}

// Of returns the whole store of a client, for workers and tools. The clients of this module's
// stores have one. Of panics if the Store that was given to NewClient is none.
func Of(c *sojourn.Client) Store {
	s, ok := c.Store().(Store)
	if !ok {
		panic(fmt.Sprintf("driver: the store of the client (%T) has no claims: it implements sojourn.Store, but not driver.Store", c.Store()))
	}
	return s
}

// Step carries out the methods of the Job that a worker passes to a handler. SaveCheckpoint,
// SetProgress and SetKey write under the step's lease and extend it. Logger writes to the job's own
// log.
type Step = inside.Step

// Attach connects a job with the step behind its methods.
func Attach(j *sojourn.Job, s Step) { inside.Attach(j, s) }

// TxStep is an optional ability of a Step: a transaction of the application ends it.
type TxStep interface {
	// InTx tells the worker that from now on only a committed transaction completes the job, and
	// that the lease must be left alone, because the transaction has the row locked. It returns the
	// log lines that are not stored yet, or ErrLeaseLost.
	InTx() ([]sojourn.LogLine, error)
}

// URLStep is an optional ability of a Step: it knows the public URL of the receiver of responses.
type URLStep interface {
	// RespondURL is the URL at which the receiver of source/webhook is mounted, without a slash at
	// the end; "" if it is not configured.
	RespondURL() string
}

// CompleteInTx is the outcome that completes j with j.Result, for [TxStore].FinishTx. Once it was
// called, a handler that returns nil without a commit has failed, with ReasonRolledBack.
// Applications call sqlite.FinishTx or postgres.FinishTx instead. CodeInvalid if no handler was
// given j. next are the jobs that follow, see sojourn.Then.
func CompleteInTx(j *sojourn.Job, next ...*sojourn.Job) (sojourn.Outcome, error) {
	step := inside.Of(j)
	if step == nil {
		return sojourn.Outcome{}, sojourn.Invalid("job", "this Job is not running: only the Job that a handler was given can be finished")
	}
	o := sojourn.Outcome{Lease: j.Lease(), Type: sojourn.OutcomeCompleted, Result: j.Result, ResultType: j.ResultType}
	if len(next) > 0 {
		then := sojourn.Then(next...)
		if sojourn.ErrorCode(then) != "" {
			return sojourn.Outcome{}, then
		}
		o.Next = sojourn.OutcomeOf(then).Next
		o.Next = Follow(o.Next, j)
	}
	if s, ok := step.(TxStep); ok {
		var err error
		if o.Log, err = s.InTx(); err != nil {
			return sojourn.Outcome{}, err
		}
	}
	return o, nil
}

// Follow returns the jobs that follow a job, or that it has as children, with its trace context if
// they have none. It changes no job of next, which several steps may share.
func Follow(next []sojourn.Job, job *sojourn.Job) []sojourn.Job {
	parent, state := job.TraceContext()
	if parent == "" || len(next) == 0 {
		return next
	}
	next = slices.Clone(next)
	for i := range next {
		next[i].InheritTrace(parent, state)
	}
	return next
}

// serverOwner leases the ids that servers draw. No access token has this id.
const serverOwner = "*"

// IDOwner returns the expected owner of the block that the id of j comes from: caller, which is the
// id of an access token or "", or the server if its Client has leased the id. Stores compare it
// with the owner of the block.
func IDOwner(j *sojourn.Job, caller string) string {
	if inside.FromServer(j) {
		return serverOwner
	}
	return caller
}

// Leaser returns the owner of the ids that a call of IDs leases for caller.
func Leaser(ctx context.Context, caller string) string {
	if inside.IsServer(ctx) {
		return serverOwner
	}
	return caller
}
