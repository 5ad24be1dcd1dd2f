package operate

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

const (
	qAnyOverdue = `select (select count(*) from (select 1 from sj_live where wake_at_us <= $1 and wake_at_us < 9223372036854775807 limit 1) a)
		+ (select count(*) from (select 1 from sj_response where expires_us > 0 and expires_us <= $1 limit 1) b)`
)

var sweepOp = txn.EachOp("sweep", groupcommit.Claim, func(t *txn.Tx, limit int) (driver.Swept, error) {
	swept, err := lifecycle.SweepOverdue(t, limit)
	if err == nil {
		err = sweepInbox(t, limit, &swept)
	}
	return swept, err
})

// Sweep handles overdue jobs; see driver.Store. It reads first, so that a sweep with nothing to do
// writes nothing.
func (s *Operator) Sweep(ctx context.Context, limit int) (driver.Swept, error) {
	if limit < 1 || limit > 10*sojourn.MaxBatch {
		return driver.Swept{}, sojourn.Invalid("limit", "%d is out of range: 1 to %d", limit, 10*sojourn.MaxBatch)
	}
	swept, err := s.sweepOwners(ctx, limit)
	if err != nil {
		return swept, err
	}
	var due int64
	var old []expired
	var missed []txn.KindKey
	var unshaped []string
	var c string
	var now int64
	err = s.Core.View(ctx, func(t *txn.Tx) (err error) {
		if due, err = t.ReadInt(qAnyOverdue, t.Now); err != nil {
			return err
		}
		now = t.Now
		if err := t.Read(txn.QMeta, func(r sqldb.Row) error { c = r.Text(0); return nil }, clock.MetaName); err != nil {
			return err
		}
		if err := t.Read(qReindexes, func(r sqldb.Row) error { unshaped = append(unshaped, r.Text(0)); return nil }); err != nil {
			return err
		}
		if missed, err = lifecycle.MissedKeys(t, limit); err == nil {
			old, err = oldJobs(t, limit)
		}
		return err
	})
	if err != nil {
		return swept, err
	}
	s.Recheck(ctx, missed)
	if err := s.keepMark(ctx, c, now); err != nil {
		return swept, s.Core.Failed(err)
	}
	if due > 0 || s.Core.Clock.HasStepped() {
		more, err := txn.Do(ctx, s.Core, sweepOp, limit, limit)
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
		if err := s.reindex(ctx, queue, 1+limit/reindexBatch); err != nil {
			return swept, err
		}
	}
	return swept, nil
}

const qRunningOf = `select id from sj_live where wake_at_us < 9223372036854775807 and state = 4 and worker >= $1 and worker < $2 limit $3 /*lock*/`

// ownerOp ends leases of a dead process. Its workers are named owner.something.
var ownerOp = txn.EachOp("owner", groupcommit.Claim, func(t *txn.Tx, owner string) (int, error) {
	var ids sqldb.Ints
	// "/" follows "." in every collation that compares bytes.
	if err := t.Read(qRunningOf, func(r sqldb.Row) error { ids = append(ids, r.Int(0)); return nil }, owner+".", owner+"/", sojourn.MaxBatch); err != nil {
		return 0, err
	}
	found, err := t.Load(ids)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := lifecycle.ApplyEvent(t, found[sojourn.ID(id)], rules.Event{Type: rules.EventLeaseEnded}); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
})

// sweepOwners ends the leases of dead processes on this machine before they expire.
func (s *Operator) sweepOwners(ctx context.Context, limit int) (swept driver.Swept, err error) {
	o, ok := s.Core.DB.(sqldb.Owners)
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
			n, err := txn.Do(context.WithoutCancel(ctx), s.Core, ownerOp, 1, owner)
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
		return swept, s.Core.Failed(err)
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
func sweepInbox(t *txn.Tx, limit int, swept *driver.Swept) error {
	type row struct {
		seq, outcome int64
		kind, key    string
	}
	var rows []row
	err := t.Read(qExpired, func(r sqldb.Row) error {
		rows = append(rows, row{r.Int(0), r.Int(3), r.Text(1), r.Text(2)})
		return nil
	}, t.Now, limit)
	if err != nil {
		return err
	}
	var gone sqldb.Ints
	for _, r := range rows {
		if r.outcome != txn.OutcomeEarly {
			gone = append(gone, r.seq)
			continue
		}
		outcome, until := txn.OutcomeUnmatched, t.Now+sojourn.DefaultInboxKeep.Microseconds()
		live, err := t.ReadInt(qKeyLive, r.kind, r.key)
		if err != nil {
			return err
		}
		if live > 0 {
			outcome, until = txn.OutcomeEarly, t.Now+t.Core.Cfg.InboxTTL.Microseconds()
		} else {
			swept.Unmatched++
		}
		if _, err := t.Write(qExpire, outcome, until, r.seq, txn.OutcomeEarly); err != nil {
			return err
		}
	}
	if len(gone) == 0 {
		return nil
	}
	_, err = t.Write(qForget, gone)
	return err
}
