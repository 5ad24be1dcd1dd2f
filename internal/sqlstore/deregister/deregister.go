// Package deregister removes workers and ends their leases, see the public package store/workers.
package deregister

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/query"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/workers"
)

const (
	// qLeases has the conditions of the index of jobs that wait for a time.
	qLeases = `select id from sj_live where wake_at_us < 9223372036854775807 and state = 4 and worker = $1 order by id limit $2 /*lock*/`
	qForget = `delete from sj_worker where worker = $1`
)

// Registrar removes the workers of a store. Safe for concurrent use.
type Registrar struct {
	core     *txn.Core
	hub      *wake.Hub
	forgetOp *txn.Op[request, workers.Removed]
}

type request struct {
	worker string
	force  bool
}

// New makes the registrar of a store.
func New(c *txn.Core, hub *wake.Hub) *Registrar {
	return &Registrar{c, hub, txn.EachOp("forget worker", groupcommit.Finish, forget)}
}

// ForgetWorker removes a worker; see workers.Store. Claims that wait run again, so that a worker
// that lives is registered again at once.
func (s *Registrar) ForgetWorker(ctx context.Context, worker string, o workers.Forget) (out workers.Removed, err error) {
	if err := sojourn.ValidName("worker", worker); err != nil {
		return out, err
	}
	if !access.CallerOf(ctx).Allows(access.VerbOperate, "", "") {
		return out, &sojourn.Error{Code: access.CodeScope, Index: -1, Message: "this token has no grant to operate in all queues, and a worker may have leases of any; use one that has"}
	}
	out, err = txn.Do(ctx, s.core, s.forgetOp, txn.Alone, request{worker, o.Force})
	if err == nil && !out.More {
		s.core.Workers.Forget(worker)
		s.hub.WakeAll()
		s.hub.SignalAll()
	}
	return out, err
}

// forget ends leases of a worker, and removes its row if these were all.
func forget(t *txn.Tx, r request) (out workers.Removed, err error) {
	found, err := query.ListWorkers(t, "", 1, []string{r.worker})
	if err == nil && len(found) == 0 {
		err = sojourn.NotFound("no worker has the id %.64q", r.worker)
	}
	if err != nil {
		return out, err
	}
	leases, err := leasesOf(t, r.worker)
	if err != nil {
		return out, err
	}
	if err := refuse(found[0], leases, t.Now); err != nil && !r.force {
		return out, err
	}
	for _, l := range leases {
		if err := lifecycle.ApplyEvent(t, l, rules.Event{Type: rules.EventLeaseEnded}); err != nil {
			return out, err
		}
	}
	out.Jobs = len(leases)
	if out.More = len(leases) == sojourn.MaxBatch; out.More {
		return out, nil
	}
	_, err = t.Write(qForget, r.worker)
	return out, err
}

// leasesOf reads and locks the jobs that a worker runs, at most sojourn.MaxBatch.
func leasesOf(t *txn.Tx, worker string) ([]*jobrow.Row, error) {
	var ids sqldb.Ints
	if err := t.Read(qLeases, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, worker, sojourn.MaxBatch); err != nil || len(ids) == 0 {
		return nil, err
	}
	loaded, err := t.Load(ids)
	if err != nil {
		return nil, err
	}
	var out []*jobrow.Row
	for _, id := range ids {
		if l := loaded[sojourn.ID(id)]; l != nil && l.State == sojourn.Running && l.Worker == worker {
			out = append(out, l)
		}
	}
	return out, nil
}

// refuse returns the refusal for a worker that lives.
func refuse(w sojourn.WorkerStatus, leases []*jobrow.Row, now int64) error {
	const advice = "; drain it and let it end, or use force to end its leases now"
	if w.Waiting {
		return sojourn.Conflict("worker %.64q lives: it waits for jobs%s", w.Worker, advice)
	}
	for _, l := range leases {
		if l.LeaseUntil > now {
			return sojourn.Conflict("worker %.64q may live: its lease of job %d has not expired%s", w.Worker, l.ID, advice)
		}
	}
	return nil
}
