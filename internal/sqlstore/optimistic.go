package sqlstore

import (
	"math"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/wake"
)

// useCachedReads takes the reads of a group from the caches, and reports whether it could. The
// commit validates them (docs/internals/engine.md#optimistic-reads). The group has enqueues, and at
// most one claim that would find only their jobs; or it only ends steps.
func (s *Store) useCachedReads(t *txn.Tx, group []txn.Call) bool {
	if _, own := t.Conn.(sqldb.Committer); !own || !t.Optimistic || s.core.DB.Dialect().Over[txn.TextValidate] == "" {
		return false
	}
	if t.UseCachedRows(group) {
		return true
	}
	if s.core.Cfg.Without.QueueCache || !s.core.Caches.Queues.Enabled() {
		return false
	}
	jobs := &enqueue.Batch{Tx: t, Enqueuer: s.Enqueuer, Known: map[sojourn.ID]enqueue.KnownJob{}, Holders: map[txn.KindKey]txn.Holder{}, Rows: map[string]*txn.QueueRow{}}
	var enqueues, claims []txn.Call
	var claim *driver.ClaimRequest
	for _, c := range group {
		switch r := c.(type) {
		case *txn.Request[enqueue.Request, enqueue.Answer]:
			if !jobs.UseCache(r.Params) {
				return false
			}
			enqueues = append(enqueues, c)
		case *txn.Request[driver.ClaimRequest, wake.ClaimAnswer]:
			if claim != nil || !s.Claimer.CanUseCache(&r.Params) {
				return false
			}
			claim, claims = &r.Params, append(claims, c)
		default:
			return false
		}
	}
	now, ok := s.core.Predict()
	if !ok || len(jobs.Rows) == 0 { // no job is stored: a claim alone is better off with reads
		return false
	}
	t.Reading = now
	last := int64(0)
	if claim != nil {
		q, _ := s.core.Caches.Queues.Queue(claim.Queues[0])
		jobs.Rows[claim.Queues[0]], last = &q, s.core.Caches.Queues.LastClaim(claim.Worker)
		if s.core.Spoils("last claim") {
			last--
		}
		batch := s.Claimer.BeginCached(t, *claim, q.Layout, last)
		t.First.Batches = append(t.First.Batches, txn.Prefetched{Op: s.Claimer.Op, Work: txn.Answering[driver.ClaimRequest, wake.ClaimAnswer]{Batch: batch, Same: claims}})
	}
	for _, q := range jobs.Rows {
		s.core.SpoilQueue(q)
	}
	t.Cache.Validators = s.validators(t, jobs.Rows, claim, last)
	t.First.Batches = append(t.First.Batches, txn.Prefetched{Op: s.Enqueuer.Op, Work: txn.Answering[enqueue.Request, enqueue.Answer]{Batch: jobs, Same: enqueues}})
	return true
}

// validators returns the checks of cached queues and, unless claim is nil, of a claim whose
// worker's last claim has the number last. The settings are checked after the writes, because a
// concurrent reindex waits only for transactions that have written before it.
func (s *Store) validators(t *txn.Tx, rows map[string]*txn.QueueRow, claim *driver.ClaimRequest, last int64) *txn.Validators {
	var names, settings, flows sqldb.Texts
	var layouts sqldb.Ints
	for name, q := range rows {
		names, settings, flows, layouts = append(names, name), append(settings, q.SettingsText), append(flows, q.FlowText), append(layouts, q.Layout)
	}
	due, queues, kinds, worker := int64(math.MinInt64), sqldb.Texts{}, sqldb.Texts{}, ""
	if claim != nil {
		due, queues, kinds, worker = t.Now, claim.Queues, claim.Kinds, claim.Worker
	}
	from, to := s.core.ClockBounds(t.Now)
	return &txn.Validators{
		First: txn.Statement{Statement: sqldb.Statement{Text: txn.TextValidate, Args: []any{from, to, due, queues, kinds, worker, last}, Wanted: 1}, Raced: txn.StaleCache},
		Last:  txn.Statement{Statement: sqldb.Statement{Text: txn.QValidateQueues, Rows: []sqldb.Column{names, settings, flows, layouts}, Wanted: int64(len(names))}, Raced: "settings have changed meanwhile"},
	}
}
