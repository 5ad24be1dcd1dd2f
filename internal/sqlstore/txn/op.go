package txn

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// Op is a kind of request, with the types of its parameters and its answer. The requests of one op
// that share a transaction are decided together, as one batch. It does not change after it was
// made.
type Op[P, A any] struct {
	Name  string
	Class groupcommit.Class            // the place of its requests in a group
	Begin func(t *Tx, ps []P) Batch[A] // makes the batch of requests, in their order

	// Ends reports whether a request takes the lane of finishes. nil: it never does.
	Ends func(p P, rows int) bool
	// Leases passes on the leases under which a request writes; final reports that the request only
	// ends the job. nil: it writes under none.
	Leases func(p P, each func(l sojourn.Lease, final bool))
	// Cached says that the op reads no live rows but those of its leases, so that its group may
	// take them from the row cache.
	Cached bool
	// Locks says that the reads of its batches lock the rows of the group's leases too, in one
	// order with their own.
	Locks bool
}

// Batch is the requests of one op in one transaction.
type Batch[A any] interface {
	// Reads lists the reads that do not depend on the clock, so that they can be sent in the first
	// message of the transaction.
	Reads() []sqldb.Statement
	// Run decides the requests in order, adds their writes, and returns an answer to each. An error
	// rolls the whole transaction back; the refusal of one request is an answer.
	Run() ([]A, error)
}

// EachOp makes an op that runs its requests one by one.
func EachOp[P, A any](name string, class groupcommit.Class, run func(t *Tx, p P) (A, error)) *Op[P, A] {
	return BatchOp(name, class, func(t *Tx, ps []P) ([]A, error) {
		as := make([]A, len(ps))
		for i, p := range ps {
			a, err := run(t, p)
			if err != nil {
				return nil, err
			}
			as[i] = a
		}
		return as, nil
	})
}

// BatchOp makes an op that runs its requests together, without reads in the first message.
func BatchOp[P, A any](name string, class groupcommit.Class, run func(t *Tx, ps []P) ([]A, error)) *Op[P, A] {
	return &Op[P, A]{Name: name, Class: class, Begin: func(t *Tx, ps []P) Batch[A] { return plainBatch[P, A]{t, ps, run} }}
}

// plainBatch is a batch of BatchOp.
type plainBatch[P, A any] struct {
	t  *Tx
	ps []P
	do func(t *Tx, ps []P) ([]A, error)
}

func (plainBatch[P, A]) Reads() []sqldb.Statement { return nil }
func (b plainBatch[P, A]) Run() ([]A, error)      { return b.do(b.t, b.ps) }

// Request is one call of an op: its parameters, and its answer when its batch has run.
type Request[P, A any] struct {
	op     *Op[P, A]
	Params P
	Answer A
}

// Call is a request of any op: the form in which requests pass through lanes.
type Call interface {
	OpID() any                                     // the op, to compare
	Begin(t *Tx, same []Call) work                 // makes the batch of calls of the same op
	leases(each func(l sojourn.Lease, final bool)) // as Op.Leases
	cached() bool                                  // as Op.Cached
	leased() bool                                  // cached, and it has leases
	locks() bool                                   // as Op.Locks
}

// work is a batch of any op. Its Run also stores the answers in the requests.
type work interface {
	Reads() []sqldb.Statement
	Run() error
	FinishBulkStart() (bool, error)
}

// Starter is a batch whose reads in the first message may have started its jobs already
// (docs/internals/engine.md#bulk-start).
type Starter interface {
	// FinishBulkStart evaluates the result, and reports whether jobs were started. Then it has also
	// set the clock of the transaction, and Run only answers.
	FinishBulkStart() (bool, error)
}

// OpID returns the op, to compare.
func (r *Request[P, A]) OpID() any { return r.op }

func (r *Request[P, A]) cached() bool { return r.op.Cached }
func (r *Request[P, A]) leased() bool { return r.op.Cached && r.op.Leases != nil }
func (r *Request[P, A]) locks() bool  { return r.op.Locks }

func (r *Request[P, A]) leases(each func(l sojourn.Lease, final bool)) {
	if r.op.Leases != nil {
		r.op.Leases(r.Params, each)
	}
}

// Begin makes the batch of requests of the same op.
func (r *Request[P, A]) Begin(t *Tx, same []Call) work {
	ps := make([]P, len(same))
	for i, c := range same {
		ps[i] = c.(*Request[P, A]).Params
	}
	return Answering[P, A]{r.op.Begin(t, ps), same}
}

// Answering is a batch that stores its answers in its requests.
type Answering[P, A any] struct {
	Batch[A]
	Same []Call // the requests
}

// FinishBulkStart evaluates a bulk start; it reports false if the batch has none.
func (w Answering[P, A]) FinishBulkStart() (bool, error) {
	if b, ok := w.Batch.(Starter); ok {
		return b.FinishBulkStart()
	}
	return false, nil
}

// Run runs the batch.
func (w Answering[P, A]) Run() error {
	as, err := w.Batch.Run()
	if err != nil {
		return err
	}
	for i, c := range w.Same {
		c.(*Request[P, A]).Answer = as[i]
	}
	return nil
}

// Lanes are the queues of calls: All for every call, and Ends for finishes, where these have
// runners of their own; elsewhere it is the same lane. Claims share All with enqueues, so that a
// new job can start in the transaction that stores it.
type Lanes struct{ All, Ends *groupcommit.Lane[Call] }

// Close refuses new calls and returns when all calls have run.
func (l Lanes) Close() {
	l.All.Close()
	l.Ends.Close()
}

// Do runs a request in a transaction that it may share, and returns its answer when that is
// durable. rows is the approximate number of rows that it reads or writes. For errors see
// groupcommit.Lane.Do.
func Do[P, A any](ctx context.Context, s *Core, o *Op[P, A], rows int, p P) (A, error) {
	lane := s.Lanes.All
	if o.Ends != nil && o.Ends(p, rows) {
		lane = s.Lanes.Ends
	}
	r := &Request[P, A]{op: o, Params: p}
	if err := lane.Do(ctx, o.Class, rows, r); err != nil {
		var none A // the work may go on, and write to r
		return none, err
	}
	return r.Answer, nil
}

// DoAlone runs a request in a transaction of its own, concurrently with the others.
func DoAlone[P, A any](ctx context.Context, s *Core, o *Op[P, A], p P) (A, error) {
	r := &Request[P, A]{op: o, Params: p}
	if err := s.Lanes.All.DoAlone(ctx, r); err != nil {
		var none A
		return none, err
	}
	return r.Answer, nil
}

// Refusal is the answer of an op that has no result but an error: why a request was refused, or
// nil.
type Refusal struct{ Err error }
