package txn

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// Op is one kind of request, with the types of its question and its answer. The requests of one op
// that share a transaction are decided together, as one batch.
type Op[Q, A any] struct {
	Name  string
	Class groupcommit.Class
	Begin func(t *Tx, qs []Q) Batch[A]

	// Ends reports whether a request takes the lane of finishes. nil: it never does.
	Ends func(q Q, rows int) bool
	// Leases passes on the leases under which a request writes; final reports that the request only
	// ends the job. nil: it writes under none.
	Leases func(q Q, each func(l sojourn.Lease, final bool))
	// Cached: the op reads no live rows but those of its leases, so that it may run beside cached
	// rows, see trust.
	Cached bool
	// Locks: its own reads lock the rows of the group's leases too.
	Locks bool
}

// Batch is the requests of one op in one transaction. An error of run rolls the whole transaction
// back.
type Batch[A any] interface {
	// Reads lists the reads that do not depend on the clock, so that they can be sent in the first
	// message of the transaction.
	Reads() []sqldb.Statement
	// Run decides the requests in order, and returns an answer to each.
	Run() ([]A, error)
}

// EachOp is an op that runs its requests one by one.
func EachOp[Q, A any](name string, class groupcommit.Class, run func(t *Tx, q Q) (A, error)) *Op[Q, A] {
	return BatchOp(name, class, func(t *Tx, qs []Q) ([]A, error) {
		as := make([]A, len(qs))
		for i, q := range qs {
			a, err := run(t, q)
			if err != nil {
				return nil, err
			}
			as[i] = a
		}
		return as, nil
	})
}

// BatchOp is an op without reads in the first message.
func BatchOp[Q, A any](name string, class groupcommit.Class, run func(t *Tx, qs []Q) ([]A, error)) *Op[Q, A] {
	return &Op[Q, A]{Name: name, Class: class, Begin: func(t *Tx, qs []Q) Batch[A] { return plainBatch[Q, A]{t, qs, run} }}
}

type plainBatch[Q, A any] struct {
	t  *Tx
	qs []Q
	do func(t *Tx, qs []Q) ([]A, error)
}

func (plainBatch[Q, A]) Reads() []sqldb.Statement { return nil }
func (b plainBatch[Q, A]) Run() ([]A, error)      { return b.do(b.t, b.qs) }

// Request is one question of an op, and its answer.
type Request[Q, A any] struct {
	op     *Op[Q, A]
	Params Q
	Answer A
}

// Call is a request of any op.
type Call interface {
	OpID() any // the op, to compare
	Begin(t *Tx, same []Call) work
	leases(each func(l sojourn.Lease, final bool))
	cached() bool
	leased() bool
	locks() bool
}

// work is a batch of any op. Its run also stores the answers in the requests.
type work interface {
	Reads() []sqldb.Statement
	Run() error
	FinishBulkStart() (bool, error)
}

// starter is a batch whose first message may have done its work already, see bulk start.
type starter interface {
	// FinishBulkStart evaluates the first message, and reports whether it has.
	FinishBulkStart() (bool, error)
}

func (r *Request[Q, A]) OpID() any    { return r.op }
func (r *Request[Q, A]) cached() bool { return r.op.Cached }
func (r *Request[Q, A]) leased() bool { return r.op.Cached && r.op.Leases != nil }
func (r *Request[Q, A]) locks() bool  { return r.op.Locks }

func (r *Request[Q, A]) leases(each func(l sojourn.Lease, final bool)) {
	if r.op.Leases != nil {
		r.op.Leases(r.Params, each)
	}
}

// Begin makes the batch of requests of the same op.
func (r *Request[Q, A]) Begin(t *Tx, same []Call) work {
	qs := make([]Q, len(same))
	for i, c := range same {
		qs[i] = c.(*Request[Q, A]).Params
	}
	return Answering[Q, A]{r.op.Begin(t, qs), same}
}

// Answering gives the answers of a batch to its requests.
type Answering[Q, A any] struct {
	Batch[A]
	Same []Call
}

func (w Answering[Q, A]) FinishBulkStart() (bool, error) {
	if b, ok := w.Batch.(starter); ok {
		return b.FinishBulkStart()
	}
	return false, nil
}

func (w Answering[Q, A]) Run() error {
	as, err := w.Batch.Run()
	if err != nil {
		return err
	}
	for i, c := range w.Same {
		c.(*Request[Q, A]).Answer = as[i]
	}
	return nil
}

// lanes are the queues of calls: of everything, and, where finishes have runners of their own, of
// finishes. Claims share the first with enqueues, so that a new job can start in the transaction that
// stores it.
type Lanes struct{ All, Ends *groupcommit.Lane[Call] }

func (l Lanes) Close() {
	l.All.Close()
	l.Ends.Close()
}

// Do submits a request and returns its answer when that is durable. rows says about how many rows
// it reads or writes.
func Do[Q, A any](ctx context.Context, s *Core, o *Op[Q, A], rows int, q Q) (A, error) {
	lane := s.Lanes.All
	if o.Ends != nil && o.Ends(q, rows) {
		lane = s.Lanes.Ends
	}
	r := &Request[Q, A]{op: o, Params: q}
	if err := lane.Do(ctx, o.Class, rows, r); err != nil {
		var none A // the work may go on, and write to r
		return none, err
	}
	return r.Answer, nil
}

// DoAlone is do in a transaction of its own, concurrently with the others.
func DoAlone[Q, A any](ctx context.Context, s *Core, o *Op[Q, A], q Q) (A, error) {
	r := &Request[Q, A]{op: o, Params: q}
	if err := s.Lanes.All.DoAlone(ctx, r); err != nil {
		var none A
		return none, err
	}
	return r.Answer, nil
}

// Refusal is an answer that may be an error.
type Refusal struct{ Err error }
