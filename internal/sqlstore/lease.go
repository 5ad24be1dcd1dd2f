package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

func extendAll(t *tx, requests [][]sojourn.Lease) ([][]driver.Extended, error) {
	if err := t.readLeased(slices.Concat(requests...)); err != nil {
		return nil, err
	}
	answers := make([][]driver.Extended, len(requests))
	for i, leases := range requests {
		for _, l := range leases {
			e, err := t.extend(l)
			if err != nil {
				return nil, err
			}
			answers[i] = append(answers[i], e)
		}
	}
	return answers, nil
}

// Extend prolongs leases; see driver.Claimer.
func (s *finisher) Extend(ctx context.Context, leases []sojourn.Lease) ([]driver.Extended, error) {
	if len(leases) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("leases", "%d leases exceed the limit of %d a call; split them", len(leases), sojourn.MaxBatch)
	}
	if len(leases) == 0 {
		return nil, nil
	}
	return do(ctx, s.core, s.extendOp, len(leases), leases)
}

// extend prolongs one lease: until = max(until, now + lease). A strict lease (Policy.NoExtend)
// stays as long as it is.
func (t *tx) extend(lease sojourn.Lease) (driver.Extended, error) {
	was, err := t.underLease(lease)
	if err != nil || was == nil {
		return t.lost(lease, err)
	}
	l := *was
	if !was.Policy.Strict() {
		l.leaseUntil = max(l.leaseUntil, t.now+l.leaseUs)
		t.s.leasing.Store(true)
		err = t.save(was, &l)
	}
	return driver.Extended{Until: at(l.leaseUntil)}, err
}

const qTakenAway = `select outcome from sj_history where job = $1 and epoch = $2 and outcome in ('cancelled', 'failed')
	union all select outcome from sj_final where id = $1 and step_epoch = $2 and outcome in ('cancelled', 'failed')`

// whyEnded returns why a lease that the worker had has ended.
func (t *tx) whyEnded(l sojourn.Lease) (string, error) {
	reason := driver.LostEnded
	err := t.query(`select epoch from sj_live where id = $1`, func(r sqldb.Row) error {
		if r.Int(0) > l.Epoch {
			reason = driver.LostTaken
		}
		return nil
	}, int64(l.ID))
	if err != nil || reason == driver.LostTaken {
		return reason, err
	}
	err = t.query(qTakenAway, func(sqldb.Row) error {
		reason = driver.LostCancelled
		return nil
	}, int64(l.ID), l.Epoch)
	return reason, err
}

func saveAll(t *tx, requests [][]driver.Saved) ([][]driver.Extended, error) {
	var leases []sojourn.Lease
	for _, items := range requests {
		for i := range items {
			leases = append(leases, items[i].Lease)
		}
	}
	if err := t.readLeased(leases); err != nil {
		return nil, err
	}
	var ids sqldb.Ints
	for _, items := range requests {
		for i := range items {
			if parse("checkpoint", "", items[i].Checkpoint).undeclared() {
				ids = append(ids, int64(items[i].Lease.ID))
			}
		}
	}
	if err := t.readTypesOf(ids); err != nil {
		return nil, err
	}
	answers := make([][]driver.Extended, len(requests))
	for i, items := range requests {
		for k := range items {
			e, err := t.saveOne(&items[k])
			if err != nil && sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			answers[i] = append(answers[i], driver.Extended{Until: e.Until, Reason: e.Reason, Err: cmp.Or(err, e.Err)})
		}
	}
	return answers, nil
}

// Save writes under leases; see driver.Claimer.
func (s *finisher) Save(ctx context.Context, items []driver.Saved) ([]driver.Extended, error) {
	if len(items) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("items", "%d items exceed the limit of %d a call; split them", len(items), sojourn.MaxBatch)
	}
	if len(items) == 0 {
		return nil, nil
	}
	return do(ctx, s.core, s.saveOp, len(items), items)
}

// saveOne checks everything before it writes anything, so that a refusal needs no rollback.
func (t *tx) saveOne(s *driver.Saved) (none driver.Extended, err error) {
	if len(s.Checkpoint) > t.s.cfg.MaxBytes {
		return none, sojourn.TooLarge("checkpoint", len(s.Checkpoint), t.s.cfg.MaxBytes)
	}
	was, err := t.underLease(s.Lease)
	if err != nil || was == nil {
		return t.lost(s.Lease, err)
	}
	if err := t.types.refusal(parse("checkpoint", "", s.Checkpoint), was.ID); err != nil {
		return none, err
	}
	l := *was
	if s.Key != "" && s.Key != was.key {
		if err := t.setKey(&l, s.Key); err != nil {
			return none, err
		}
	}
	if s.Checkpoint != nil || s.Progress != nil {
		if err := t.saveData(&l, s.Checkpoint, s.Progress); err != nil {
			return none, err
		}
	}
	if err := t.addLog(&l, s.Log); err != nil {
		return none, err
	}
	if !l.Policy.Strict() {
		l.leaseUntil = max(l.leaseUntil, t.now+l.leaseUs)
	}
	return driver.Extended{Until: at(l.leaseUntil)}, t.save(was, &l)
}

// lost is the answer for a lease that is not valid, unless reading it has failed with err. A lease
// that the worker never had has ended, like one of a job that does not exist.
func (t *tx) lost(l sojourn.Lease, err error) (driver.Extended, error) {
	had, reason := false, driver.LostEnded
	if err == nil {
		err = t.query(qFinishedBefore, func(sqldb.Row) error { had = true; return nil }, int64(l.ID), l.Epoch, l.Worker)
	}
	if err == nil && had {
		reason, err = t.whyEnded(l)
	}
	return driver.Extended{Reason: reason, Err: driver.LeaseLost(l, reason)}, err
}
