package finish

import (
	"cmp"
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/joblog"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Extend extends leases; see driver.Claimer.
func (s *Finisher) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	if len(leases) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("leases", "%d leases exceed the limit of %d a call; split them", len(leases), sojourn.MaxBatch)
	}
	if len(leases) == 0 {
		return nil, nil
	}
	return txn.Do(ctx, s.core, s.extendOp, len(leases), leases)
}

// extendBatch extends the leases of all calls in a transaction.
func extendBatch(t *txn.Tx, requests [][]sojourn.Lease) ([][]driver.Extended, error) {
	if err := t.ReadLeased(slices.Concat(requests...)); err != nil {
		return nil, err
	}
	answers := make([][]driver.Extended, len(requests))
	for i, leases := range requests {
		for _, l := range leases {
			e, err := extend(t, l)
			if err != nil {
				return nil, err
			}
			answers[i] = append(answers[i], e)
		}
	}
	return answers, nil
}

// extend extends one lease: until = max(until, now + lease). A strict lease (Policy.NoExtend) stays
// as it is.
func extend(t *txn.Tx, lease sojourn.Lease) (driver.Extended, error) {
	was, err := t.UnderLease(lease)
	if err != nil || was == nil {
		return lost(t, lease, err)
	}
	l := *was
	if !was.Policy.Strict() {
		l.LeaseUntil = max(l.LeaseUntil, t.Now+l.LeaseUs)
		t.Core.Leasing.Store(true)
		err = t.Save(was, &l)
	}
	return driver.Extended{Until: jobrow.Time(l.LeaseUntil)}, err
}

// Save stores data of running jobs; see driver.Claimer.
func (s *Finisher) Save(ctx context.Context, items []driver.Saved) ([]driver.Extended, error) {
	if len(items) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("items", "%d items exceed the limit of %d a call; split them", len(items), sojourn.MaxBatch)
	}
	if len(items) == 0 {
		return nil, nil
	}
	return txn.Do(ctx, s.core, s.saveOp, len(items), items)
}

// saveBatch executes all calls of Save in a transaction. A refused item does not refuse the others.
func saveBatch(t *txn.Tx, requests [][]driver.Saved) ([][]driver.Extended, error) {
	var leases []sojourn.Lease
	for _, items := range requests {
		for i := range items {
			leases = append(leases, items[i].Lease)
		}
	}
	if err := t.ReadLeased(leases); err != nil {
		return nil, err
	}
	var ids sqldb.Ints
	for _, items := range requests {
		for i := range items {
			if jobrow.CheckJSON("checkpoint", "", items[i].Checkpoint).Undeclared() {
				ids = append(ids, int64(items[i].Lease.ID))
			}
		}
	}
	if err := t.ReadTypesOf(ids); err != nil {
		return nil, err
	}
	answers := make([][]driver.Extended, len(requests))
	for i, items := range requests {
		for k := range items {
			e, err := saveOne(t, &items[k])
			if err != nil && sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			answers[i] = append(answers[i], driver.Extended{Until: e.Until, Reason: e.Reason, Err: cmp.Or(err, e.Err)})
		}
	}
	return answers, nil
}

// saveOne executes one item. It checks everything before it writes anything, so that a refusal
// needs no rollback.
func saveOne(t *txn.Tx, in *driver.Saved) (none driver.Extended, err error) {
	if len(in.Checkpoint) > t.Core.Cfg.MaxBytes {
		return none, sojourn.TooLarge("checkpoint", len(in.Checkpoint), t.Core.Cfg.MaxBytes)
	}
	was, err := t.UnderLease(in.Lease)
	if err != nil || was == nil {
		return lost(t, in.Lease, err)
	}
	if err := t.Loaded.Types.Refusal(jobrow.CheckJSON("checkpoint", "", in.Checkpoint), was.ID); err != nil {
		return none, err
	}
	l := *was
	if in.Key != "" && in.Key != was.Key {
		if err := lifecycle.SetKey(t, &l, in.Key); err != nil {
			return none, err
		}
	}
	if in.Checkpoint != nil || in.Progress != nil {
		if err := lifecycle.SaveData(t, &l, in.Checkpoint, in.Progress); err != nil {
			return none, err
		}
	}
	if err := joblog.Add(t, l.ID, l.Attempt, "", in.Log); err != nil {
		return none, err
	}
	if !l.Policy.Strict() {
		l.LeaseUntil = max(l.LeaseUntil, t.Now+l.LeaseUs)
	}
	return driver.Extended{Until: jobrow.Time(l.LeaseUntil)}, t.Save(was, &l)
}

// lost is the answer for a lease that is not valid, unless reading its row has failed with err. For
// a lease that the worker never had the reason is LostEnded, as for a job that does not exist.
func lost(t *txn.Tx, l sojourn.Lease, err error) (driver.Extended, error) {
	had, reason := false, driver.LostEnded
	if err == nil {
		err = t.Read(qFinishedBefore, func(sqldb.Row) error { had = true; return nil }, int64(l.ID), l.Epoch, l.Worker)
	}
	if err == nil && had {
		reason, err = whyEnded(t, l)
	}
	return driver.Extended{Reason: reason, Err: driver.LeaseLost(l, reason)}, err
}

const (
	qEpochOf = `select epoch from sj_live where id = $1`
	// qEndedByOthers finds a step whose job an operator has cancelled, failed or released.
	qEndedByOthers = `select outcome from sj_history where job = $1 and epoch = $2 and outcome in ('cancelled', 'failed', 'revoked')
	union all select outcome from sj_final where id = $1 and step_epoch = $2 and outcome in ('cancelled', 'failed')`
)

// whyEnded returns why a lease has ended that the worker had. A release comes first: another worker
// has commonly claimed the job since.
func whyEnded(t *txn.Tx, l sojourn.Lease) (string, error) {
	reason := driver.LostEnded
	err := t.Read(qEndedByOthers, func(r sqldb.Row) error {
		if reason = driver.LostCancelled; r.Text(0) == "revoked" {
			reason = driver.LostRevoked
		}
		return nil
	}, int64(l.ID), l.Epoch)
	if err != nil || reason == driver.LostRevoked {
		return reason, err
	}
	err = t.Read(qEpochOf, func(r sqldb.Row) error {
		if r.Int(0) > l.Epoch {
			reason = driver.LostTaken
		}
		return nil
	}, int64(l.ID))
	return reason, err
}
