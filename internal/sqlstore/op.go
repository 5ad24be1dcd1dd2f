package sqlstore

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
)

// op is one kind of request, with the types of its question and its answer. The requests of one op
// that share a transaction are decided together, as one batch.
type op[Q, A any] struct {
	name  string
	class groupcommit.Class
	begin func(t *tx, qs []Q) batch[A]

	// ends reports whether a request takes the lane of finishes. nil: it never does.
	ends func(q Q, rows int) bool
	// leases passes on the leases under which a request writes; final reports that the request only
	// ends the job. nil: it writes under none.
	leases func(q Q, each func(l sojourn.Lease, final bool))
	// cached: the op reads no live rows but those of its leases, so that it may run beside cached
	// rows, see trust.
	cached bool
	// locks: its own reads lock the rows of the group's leases too.
	locks bool
}

// batch is the requests of one op in one transaction. An error of run rolls the whole transaction
// back.
type batch[A any] interface {
	// reads lists the reads that do not depend on the clock, so that they can be sent in the first
	// message of the transaction.
	reads() []sqldb.Statement
	// run decides the requests in order, and returns an answer to each.
	run() ([]A, error)
}

// eachOp is an op that runs its requests one by one.
func eachOp[Q, A any](name string, class groupcommit.Class, run func(t *tx, q Q) (A, error)) *op[Q, A] {
	return batchOp(name, class, func(t *tx, qs []Q) ([]A, error) {
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

// batchOp is an op without reads in the first message.
func batchOp[Q, A any](name string, class groupcommit.Class, run func(t *tx, qs []Q) ([]A, error)) *op[Q, A] {
	return &op[Q, A]{name: name, class: class, begin: func(t *tx, qs []Q) batch[A] { return plainBatch[Q, A]{t, qs, run} }}
}

type plainBatch[Q, A any] struct {
	t  *tx
	qs []Q
	do func(t *tx, qs []Q) ([]A, error)
}

func (plainBatch[Q, A]) reads() []sqldb.Statement { return nil }
func (b plainBatch[Q, A]) run() ([]A, error)      { return b.do(b.t, b.qs) }

// request is one question of an op, and its answer.
type request[Q, A any] struct {
	op *op[Q, A]
	q  Q
	a  A
}

// call is a request of any op.
type call interface {
	opID() any // the op, to compare
	begin(t *tx, same []call) work
	leases(each func(l sojourn.Lease, final bool))
	cached() bool
	leased() bool
	locks() bool
}

// work is a batch of any op. Its run also stores the answers in the requests.
type work interface {
	reads() []sqldb.Statement
	run() error
	settleStart() (bool, error)
}

// starter is a batch whose first message may have done its work already, see bulk start.
type starter interface {
	// settleStart evaluates the first message, and reports whether it has.
	settleStart() (bool, error)
}

func (r *request[Q, A]) opID() any    { return r.op }
func (r *request[Q, A]) cached() bool { return r.op.cached }
func (r *request[Q, A]) leased() bool { return r.op.cached && r.op.leases != nil }
func (r *request[Q, A]) locks() bool  { return r.op.locks }

func (r *request[Q, A]) leases(each func(l sojourn.Lease, final bool)) {
	if r.op.leases != nil {
		r.op.leases(r.q, each)
	}
}

// begin makes the batch of requests of the same op.
func (r *request[Q, A]) begin(t *tx, same []call) work {
	qs := make([]Q, len(same))
	for i, c := range same {
		qs[i] = c.(*request[Q, A]).q
	}
	return answering[Q, A]{r.op.begin(t, qs), same}
}

// answering gives the answers of a batch to its requests.
type answering[Q, A any] struct {
	batch[A]
	same []call
}

func (w answering[Q, A]) settleStart() (bool, error) {
	if b, ok := w.batch.(starter); ok {
		return b.settleStart()
	}
	return false, nil
}

func (w answering[Q, A]) run() error {
	as, err := w.batch.run()
	if err != nil {
		return err
	}
	for i, c := range w.same {
		c.(*request[Q, A]).a = as[i]
	}
	return nil
}

// lanes are the queues of calls: of everything, and, where finishes have runners of their own, of
// finishes. Claims share the first with enqueues, so that a new job can start in the transaction that
// stores it.
type lanes struct{ all, ends *groupcommit.Lane[call] }

func (l lanes) close() {
	l.all.Close()
	l.ends.Close()
}

// do submits a request and returns its answer when that is durable. rows says about how many rows
// it reads or writes.
func do[Q, A any](ctx context.Context, s *core, o *op[Q, A], rows int, q Q) (A, error) {
	lane := s.lanes.all
	if o.ends != nil && o.ends(q, rows) {
		lane = s.lanes.ends
	}
	r := &request[Q, A]{op: o, q: q}
	if err := lane.Do(ctx, o.class, rows, r); err != nil {
		var none A // the work may go on, and write to r
		return none, err
	}
	return r.a, nil
}

// doAlone is do in a transaction of its own, concurrently with the others.
func doAlone[Q, A any](ctx context.Context, s *core, o *op[Q, A], q Q) (A, error) {
	r := &request[Q, A]{op: o, q: q}
	if err := s.lanes.all.Alone(ctx, r); err != nil {
		var none A
		return none, err
	}
	return r.a, nil
}

// refusal is an answer that may be an error.
type refusal struct{ err error }
