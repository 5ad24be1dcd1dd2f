package operate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/field"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qForgetQueue   = `delete from sj_queue where name = $1`
	qForgetBuckets = `delete from sj_bucket where queue = $1`
	qQueueInUse    = `select (select count(*) from (select 1 from sj_live where queue = $1 limit 1) a)
		+ (select count(*) from (select 1 from sj_final where queue = $1 limit 1) b)
		+ (select count(*) from (select 1 from sj_schedule where queue = $1 limit 1) c)`
	qQueueExists = `select count(*) from sj_queue where name = $1`
	qQueueHas    = `select (select count(*) from sj_live where queue = $1), (select count(*) from sj_final where queue = $1),
		(select count(*) from sj_schedule where queue = $1)`
	// qYoung counts jobs that were enqueued after a time, and so have ended after it too.
	qYoung = `select count(*), max(j.created_us) from sj_final f join sj_job j on j.id = f.id
		where f.queue = $1 and f.finished_us >= $2 and j.created_us >= $2`
	qYoungLive       = `select count(*), max(j.created_us) from sj_live l join sj_job j on j.id = l.id where l.queue = $1 and j.created_us >= $2`
	qForgetSchedules = `delete from sj_schedule where name in (select name from sj_schedule where queue = $1 order by name limit $2)`
	qOldFinals       = `select f.id from sj_final f join sj_job j on j.id = f.id where f.queue = $1 and j.created_us < $2 limit $3`
)

// forgetRows bounds the jobs of one slice.
const forgetRows = 500

// forgetRequest is one slice of the end of a queue.
type forgetRequest struct {
	queue  string
	o      sojourn.ForgetOptions
	caller *access.Caller
}

// forgetAnswer is what a slice has done, with the refusal that ended it.
type forgetAnswer struct {
	sojourn.Forgotten
	txn.Refusal
	inUse bool
}

// ForgetQueue removes a queue, or does a slice of what comes before; see sojourn.Store.
func (s *Operator) ForgetQueue(ctx context.Context, name string, o sojourn.ForgetOptions) (sojourn.Forgotten, error) {
	if err := sojourn.ValidName("queue", name); err != nil {
		return sojourn.Forgotten{}, err
	}
	if o.Dependents != "" && o.Dependents != sojourn.DependentsCancel && o.Dependents != sojourn.DependentsRelease {
		return sojourn.Forgotten{}, sojourn.Invalid("dependents", "%.64q is neither cancel nor release", o.Dependents)
	}
	if o.DryRun && !o.Force {
		return sojourn.Forgotten{}, sojourn.Invalid("dry_run", "only a forced call counts what it would delete; set force too")
	}
	o.Reason = cmp.Or(o.Reason, "queue forgotten")
	r := forgetRequest{name, o, access.CallerOf(ctx)}
	if o.DryRun {
		return s.countForgotten(ctx, r)
	}
	rows := 1
	if o.Force {
		rows = forgetRows
	}
	a, err := txn.Do(ctx, s.core, forgetQueueOp, rows, r)
	if err == nil && a.inUse {
		err = s.inUse(ctx, name)
	} else if err == nil {
		err = a.Err
	}
	return a.Forgotten, err
}

// inUse is the refusal of a queue that is not empty. It counts outside of the transaction that has
// locked out writers.
func (s *Operator) inUse(ctx context.Context, name string) error {
	var live, final, schedules int64
	err := s.core.View(ctx, func(t *txn.Tx) error {
		return t.Read(qQueueHas, func(r sqldb.Row) error { live, final, schedules = r.Int(0), r.Int(1), r.Int(2); return nil }, name)
	})
	if err != nil {
		return err
	}
	return sojourn.Conflict("queue %s has %s, %s that have ended, and %s; purge the jobs or wait for their retention, and delete the schedules, or set force",
		name, number(live, "live job"), number(final, "job"), number(schedules, "schedule"))
}

func number(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countForgotten is the dry run of a forced call. Like the call it refuses dependents elsewhere.
func (s *Operator) countForgotten(ctx context.Context, r forgetRequest) (out sojourn.Forgotten, err error) {
	err = s.core.View(ctx, func(t *txn.Tx) error {
		out = sojourn.Forgotten{}
		if n, err := t.ReadInt(qQueueExists, r.queue); err != nil || n == 0 {
			return cmp.Or(err, error(sojourn.NotFound("there is no queue %s", r.queue)))
		}
		if err := edge.HinderedQueue(t, r.queue, r.o.Dependents, r.caller); err != nil {
			return err
		}
		if err := t.Read(qQueueHas, func(row sqldb.Row) error {
			out.Cancelled, out.Purged, out.Schedules = row.Int(0), row.Int(0)+row.Int(1), row.Int(2)
			return nil
		}, r.queue); err != nil {
			return err
		}
		return cmp.Or(young(t, qYoung, r.queue, &out), young(t, qYoungLive, r.queue, &out))
	})
	return out, err
}

// young adds the jobs that may not be deleted yet, by qYoung or qYoungLive.
func young(t *txn.Tx, q, queue string, out *sojourn.Forgotten) error {
	return t.Read(q, func(r sqldb.Row) error {
		if r.Int(0) == 0 {
			return nil
		}
		out.Young += r.Int(0)
		if until := jobrow.Time(r.Int(1) + sojourn.IDLife.Microseconds() + 1); until.After(out.YoungUntil) {
			out.YoungUntil = until
		}
		return nil
	}, queue, t.Now-sojourn.IDLife.Microseconds())
}

// forgetQueueOp does one slice: it deletes schedules, else cancels live jobs, else purges old jobs,
// else removes the queue. Each step leaves what the next slice, of any process, can go on with. A
// refusal was found before any write about its job.
var forgetQueueOp = txn.EachOp("forget queue", groupcommit.Finish, func(t *txn.Tx, r forgetRequest) (a forgetAnswer, err error) {
	if r.o.Force {
		if err := edge.HinderedQueue(t, r.queue, r.o.Dependents, r.caller); err != nil {
			return refusal(a, err)
		}
		if a.Schedules, err = t.Write(qForgetSchedules, r.queue, forgetRows); a.Schedules > 0 || err != nil {
			a.More = true
			return a, err
		}
		if a.Cancelled, err = endSlice(t, r, sojourn.EditCancel); a.Cancelled > 0 || err != nil {
			a.More = true
			return refusal(a, err)
		}
		if a.Purged, err = endSlice(t, r, sojourn.EditPurge); a.Purged > 0 || err != nil {
			a.More = true
			return refusal(a, err)
		}
		if err = young(t, qYoung, r.queue, &a.Forgotten); a.Young > 0 || err != nil {
			return a, err
		}
	}
	if err := lockOutWriters(t); err != nil {
		return a, err
	}
	used, err := t.ReadInt(qQueueInUse, r.queue)
	if err != nil || used > 0 {
		a.More, a.inUse = r.o.Force, !r.o.Force // jobs that have come meanwhile
		return a, err
	}
	if _, err := t.Write(qForgetBuckets, r.queue); err != nil {
		return a, err
	}
	if _, err := t.Write(field.QDrop, r.queue); err != nil {
		return a, err
	}
	n, err := t.Write(qForgetQueue, r.queue)
	if err == nil && n == 0 {
		a.Err = sojourn.NotFound("there is no queue %s", r.queue)
	}
	a.Gone = n > 0
	return a, err
})

// refusal makes an answer of an error for the caller.
func refusal(a forgetAnswer, err error) (forgetAnswer, error) {
	if sojourn.ErrorCode(err) == "" {
		return a, err
	}
	a.Err = err
	return a, nil
}

// endSlice cancels live jobs of the queue, or purges old ones, and returns of how many.
func endSlice(t *txn.Tx, r forgetRequest, action sojourn.EditAction) (n int64, err error) {
	f := sojourn.Filter{Queue: r.queue, Limit: forgetRows}
	if action == sojourn.EditCancel {
		f.States = []sojourn.State{sojourn.Scheduled, sojourn.Blocked, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored}
	} else {
		f.States = []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled}
		f.IDs = []sojourn.ID{}
		add := func(row sqldb.Row) error { f.IDs = append(f.IDs, sojourn.ID(row.Int(0))); return nil }
		if err := t.Read(qOldFinals, add, r.queue, t.Now-sojourn.IDLife.Microseconds(), forgetRows); err != nil || len(f.IDs) == 0 {
			return 0, err
		}
	}
	found, err := findLocked(t, f)
	if err != nil {
		return 0, err
	}
	e := editRequest{edit: sojourn.Edit{Action: action, By: r.o.By, Reason: r.o.Reason, Dependents: r.o.Dependents}, caller: r.caller, queue: r.queue}
	for i := range found {
		var changed bool
		if action == sojourn.EditCancel {
			_, changed, err = endByHand(t, &found[i], &e, rules.EventCancel, sojourn.Cancelled)
		} else {
			_, changed, err = purge(t, &found[i], &e)
		}
		if err != nil {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}
