package finish

import (
	"cmp"
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

func extendAll(t *txn.Tx, requests [][]sojourn.Lease) ([][]driver.Extended, error) {
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

// Extend prolongs leases; see driver.Claimer.
func (s *Finisher) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	if len(leases) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("leases", "%d leases exceed the limit of %d a call; split them", len(leases), sojourn.MaxBatch)
	}
	if len(leases) == 0 {
		return nil, nil
	}
	return txn.Do(ctx, s.core, s.extendOp, len(leases), leases)
}

// extend prolongs one lease: until = max(until, now + lease). A strict lease (Policy.NoExtend)
// stays as long as it is.
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

const qTakenAway = `select outcome from sj_history where job = $1 and epoch = $2 and outcome in ('cancelled', 'failed')
	union all select outcome from sj_final where id = $1 and step_epoch = $2 and outcome in ('cancelled', 'failed')`

// whyEnded returns why a lease that the worker had has ended.
func whyEnded(t *txn.Tx, l sojourn.Lease) (string, error) {
	reason := driver.LostEnded
	err := t.Read(`select epoch from sj_live where id = $1`, func(r sqldb.Row) error {
		if r.Int(0) > l.Epoch {
			reason = driver.LostTaken
		}
		return nil
	}, int64(l.ID))
	if err != nil || reason == driver.LostTaken {
		return reason, err
	}
	err = t.Read(qTakenAway, func(sqldb.Row) error {
		reason = driver.LostCancelled
		return nil
	}, int64(l.ID), l.Epoch)
	return reason, err
}

func saveAll(t *txn.Tx, requests [][]driver.Saved) ([][]driver.Extended, error) {
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
			if txn.CheckJSON("checkpoint", "", items[i].Checkpoint).Undeclared() {
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

// Save writes under leases; see driver.Claimer.
func (s *Finisher) Save(ctx context.Context, items []driver.Saved) ([]driver.Extended, error) {
	if len(items) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("items", "%d items exceed the limit of %d a call; split them", len(items), sojourn.MaxBatch)
	}
	if len(items) == 0 {
		return nil, nil
	}
	return txn.Do(ctx, s.core, s.saveOp, len(items), items)
}

// saveOne checks everything before it writes anything, so that a refusal needs no rollback.
func saveOne(t *txn.Tx, s *driver.Saved) (none driver.Extended, err error) {
	if len(s.Checkpoint) > t.Core.Cfg.MaxBytes {
		return none, sojourn.TooLarge("checkpoint", len(s.Checkpoint), t.Core.Cfg.MaxBytes)
	}
	was, err := t.UnderLease(s.Lease)
	if err != nil || was == nil {
		return lost(t, s.Lease, err)
	}
	if err := t.Loaded.Types.Refusal(txn.CheckJSON("checkpoint", "", s.Checkpoint), was.ID); err != nil {
		return none, err
	}
	l := *was
	if s.Key != "" && s.Key != was.Key {
		if err := lifecycle.SetKey(t, &l, s.Key); err != nil {
			return none, err
		}
	}
	if s.Checkpoint != nil || s.Progress != nil {
		if err := lifecycle.SaveData(t, &l, s.Checkpoint, s.Progress); err != nil {
			return none, err
		}
	}
	if err := addLog(t, &l, s.Log); err != nil {
		return none, err
	}
	if !l.Policy.Strict() {
		l.LeaseUntil = max(l.LeaseUntil, t.Now+l.LeaseUs)
	}
	return driver.Extended{Until: jobrow.Time(l.LeaseUntil)}, t.Save(was, &l)
}

// lost is the answer for a lease that is not valid, unless reading it has failed with err. A lease
// that the worker never had has ended, like one of a job that does not exist.
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
