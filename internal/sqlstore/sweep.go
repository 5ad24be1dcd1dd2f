package sqlstore

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qAnyOverdue = `select (select count(*) from (select 1 from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 limit 1) a)
		+ (select count(*) from (select 1 from sj_response where expires_us > 0 and expires_us <= $1 limit 1) b)`
)

var sweepOp = eachOp("sweep", groupcommit.Claim, func(t *tx, limit int) (driver.Swept, error) {
	swept, err := t.sweepDue(limit)
	if err == nil {
		err = t.sweepInbox(limit, &swept)
	}
	return swept, err
})

// Sweep handles overdue jobs; see driver.Store. It reads first, so that a sweep with nothing to do
// writes nothing.
func (s *operator) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	if limit < 1 || limit > 10*sojourn.MaxBatch {
		return driver.Swept{}, sojourn.Invalid("limit", "%d is out of range: 1 to %d", limit, 10*sojourn.MaxBatch)
	}
	swept, err := s.sweepOwners(ctx, limit)
	if err != nil {
		return swept, err
	}
	var due int64
	var old []expired
	var missed []kindKey
	var unshaped []string
	var clock string
	var now int64
	err = s.core.view(ctx, func(t *tx) (err error) {
		if due, err = t.num(qAnyOverdue, t.now); err != nil {
			return err
		}
		now = t.now
		if err := t.query(qMeta, func(r sqldb.Row) error { clock = r.Text(0); return nil }, metaClock); err != nil {
			return err
		}
		if err := t.query(qReshapings, func(r sqldb.Row) error { unshaped = append(unshaped, r.Text(0)); return nil }); err != nil {
			return err
		}
		if missed, err = t.missed(limit); err == nil {
			old, err = t.oldJobs(limit)
		}
		return err
	})
	if err != nil {
		return swept, err
	}
	s.lookAgain(ctx, missed)
	if err := s.keepMark(ctx, clock, now); err != nil {
		return swept, s.core.failed(err)
	}
	if due > 0 || s.core.clock.hasStepped() {
		more, err := do(ctx, s.core, sweepOp, limit, limit)
		if err != nil {
			return swept, err
		}
		more.Lost += swept.Lost
		swept = more
	}
	if swept.Pruned, err = s.prune(ctx, old); err != nil {
		return swept, err
	}
	for _, queue := range unshaped { // the process that changed the settings may have died before it finished; last, because it may wait
		if err := s.reshape(ctx, queue, 1+limit/piece); err != nil {
			return swept, err
		}
	}
	return swept, nil
}

const qRunningOf = `select id from sj_live where wake_at_us < 9223372036854775807 and state = 4 and worker >= $1 and worker < $2 limit $3 /*lock*/`

// ownerOp ends leases of a dead process. Its workers are named owner.something.
var ownerOp = eachOp("owner", groupcommit.Claim, func(t *tx, owner string) (int, error) {
	var ids sqldb.Ints
	// "/" follows "." in every collation that compares bytes.
	if err := t.query(qRunningOf, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, owner+".", owner+"/", sojourn.MaxBatch); err != nil {
		return 0, err
	}
	found, err := t.load(ids)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := t.happen(found[sojourn.ID(id)], rules.Event{Type: rules.EventLeaseEnded}); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
})

// sweepOwners ends the leases of dead processes on this machine before they expire.
func (s *operator) sweepOwners(ctx context.Context, limit int) (swept driver.Swept, err error) {
	o, ok := s.core.db.(sqldb.Owners)
	if !ok {
		return swept, nil
	}
	err = o.EndDead(ctx, func(owner string) (finished bool, err error) {
		for swept.Lost < limit { // the rest with the next sweep
			if err := ctx.Err(); err != nil {
				return false, err
			}
			// The transaction completes even if ctx ends: the owner is known to be dead only until
			// this function returns.
			n, err := do(context.WithoutCancel(ctx), s.core, ownerOp, 1, owner)
			if err != nil || n == 0 {
				return err == nil, err
			}
			swept.Lost += n
		}
		return false, nil
	})
	if err != nil && ctx.Err() != nil {
		return swept, ctx.Err()
	}
	if err != nil {
		return swept, s.core.failed(err)
	}
	return swept, nil
}

const (
	qExpired = `select seq, kind, key, outcome, job from sj_response where expires_us > 0 and expires_us <= $1 order by expires_us, seq limit $2`
	qExpire  = `update sj_response set outcome = $1, expires_us = $2 where seq = $3 and outcome = $4 and job = 0`
	qForget  = `delete from sj_response where seq in (ints($1)) and outcome > 2`
	qKeyLive = `select count(*) from sj_key where kind = $1 and key = $2 and live = 1`
)

// sweepInbox ends the time to live of early responses for which no job came, and deletes those
// whose retention is over. As long as a live job has the key, its Await may still match them.
func (t *tx) sweepInbox(limit int, swept *driver.Swept) error {
	type row struct {
		seq, outcome int64
		kind, key    string
	}
	var rows []row
	err := t.query(qExpired, func(r sqldb.Row) error {
		rows = append(rows, row{r.Int(0), r.Int(3), r.Text(1), r.Text(2)})
		return nil
	}, t.now, limit)
	if err != nil {
		return err
	}
	var gone sqldb.Ints
	for _, r := range rows {
		if r.outcome != outEarly {
			gone = append(gone, r.seq)
			continue
		}
		outcome, until := outUnmatched, t.now+sojourn.DefaultInboxKeep.Microseconds()
		live, err := t.num(qKeyLive, r.kind, r.key)
		if err != nil {
			return err
		}
		if live > 0 {
			outcome, until = outEarly, t.now+t.s.cfg.InboxTTL.Microseconds()
		} else {
			swept.Unmatched++
		}
		if _, err := t.exec(qExpire, outcome, until, r.seq, outEarly); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	_, err = t.exec(qForget, gone)
	return err
}
