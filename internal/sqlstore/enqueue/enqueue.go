package enqueue

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Enqueuer stores jobs and leases their ids. Safe for concurrent use.
type Enqueuer struct {
	core  *txn.Core
	Op    *txn.Op[Request, Answer] // the requests of Enqueue; the store also begins them with cached reads
	idsOp *txn.Op[idsRequest, sojourn.ID]
	spare spareIDs // for transactions of the application
}

// NewEnqueuer makes the enqueuer of one store.
func NewEnqueuer(c *txn.Core) *Enqueuer {
	s := &Enqueuer{core: c, idsOp: txn.EachOp("ids", groupcommit.Claim, leaseIDs)}
	s.Op = &txn.Op[Request, Answer]{Name: "enqueue", Class: groupcommit.Enqueue, Cached: true,
		Begin: func(t *txn.Tx, reqs []Request) txn.Batch[Answer] { return &Batch{Tx: t, Enqueuer: s, Requests: reqs} }}
	return s
}

// Enqueue stores jobs; see driver.Store. It returns when they are durable.
func (s *Enqueuer) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if err := checkSpace(s.core); err != nil {
		return nil, err
	}
	rows := len(jobs)
	if len(relinked(jobs)) > 0 {
		rows = txn.Alone
	}
	a, err := txn.Do(ctx, s.core, s.Op, rows, s.newRequest(access.CallerOf(ctx), jobs, partial))
	if err == nil {
		err = a.refused
	}
	return a.done, err
}

// checkSpace refuses new jobs if little disk space is left. Finishes and responses are always
// accepted.
func checkSpace(c *txn.Core) error {
	if c.Cfg.NoRoom == nil {
		return nil
	}
	return c.Cfg.NoRoom()
}

// Request is one call. Digests, Caller and NotJSON are computed before it waits for a transaction.
type Request struct {
	Jobs     []sojourn.Job
	Digests  []jobrow.Digest // of the jobs
	Caller   *access.Caller  // nil: the application itself
	NotJSON  []error         // the refusal of each job whose args do not parse; nil if all do
	partial  bool            // a refused job does not refuse the others
	original *[]original     // where others write concurrently: the jobs before they were resolved; nil elsewhere
}

// original holds the fields of a job that resolve overwrites: a repeated transaction may find other
// settings.
type original struct {
	priority, weight int32
	runAt            time.Time
	tags             []string
	policy           sojourn.Policy
}

// newRequest computes what needs no transaction.
func (s *Enqueuer) newRequest(c *access.Caller, jobs []sojourn.Job, partial bool) Request {
	req := Request{Jobs: jobs, Digests: jobrow.Digests(jobs, c), Caller: c, partial: partial, NotJSON: JSONErrors(s.core, jobs)}
	if s.core.DB.Dialect().Concurrent {
		req.original = new([]original)
	}
	return req
}

// restore undoes resolve, so that a second try of the transaction begins with the jobs as they
// came. The first call saves them.
func (r *Request) restore() {
	switch {
	case r.original == nil:
	case *r.original == nil:
		*r.original = make([]original, len(r.Jobs))
		for i := range r.Jobs {
			j := &r.Jobs[i]
			(*r.original)[i] = original{j.Priority, j.Weight, j.RunAt, j.Tags, j.Policy}
		}
	default:
		for i, o := range *r.original {
			j := &r.Jobs[i]
			j.Priority, j.Weight, j.RunAt, j.Tags, j.Policy = o.priority, o.weight, o.runAt, o.tags, o.policy
		}
	}
}

// Answer is the result of a call. It carries a refusal, which was found before any write, so that
// the other calls of the group need not run again.
type Answer struct {
	done    []sojourn.Enqueued
	refused error
}

// JSONErrors returns the refusals of jobs whose args do not parse, in the order of the jobs; nil if
// all parse. Callers run it before they wait for a transaction, as jobrow.CheckJSON.
func JSONErrors(s *txn.Core, jobs []sojourn.Job) (refused []error) {
	for i := range jobs {
		j := &jobs[i]
		if len(j.Args) > s.Cfg.MaxBytes {
			continue // Validate refuses it
		}
		if err := sojourn.ValidJSON("args", j.ContentType, j.Args); err != nil {
			if refused == nil {
				refused = make([]error, len(jobs))
			}
			refused[i] = err
		}
	}
	return refused
}
