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

// guess takes the reads of a group from the caches, and reports whether it could. The group has
// enqueues, and at most one claim that would find only their jobs; or it only ends steps.
func (s *Store) guess(t *txn.Tx, group []txn.Call) bool {
	if _, own := t.Conn.(sqldb.Committer); !own || !t.Optimistic || s.core.DB.Dialect().Over[txn.TextGuessed] == "" {
		return false
	}
	if t.CachedEnds(group) {
		return true
	}
	if s.core.Cfg.Without.QueueCache || !s.core.QueueCache.Enabled() {
		return false
	}
	e := &enqueue.Batch{Tx: t, Enqueuer: s.Enqueuer, Known: map[sojourn.ID]enqueue.KnownJob{}, Holders: map[txn.KindKey]txn.Holder{}, Rows: map[string]*txn.QueueRow{}}
	var stored, claimed []txn.Call
	var claim *driver.ClaimRequest
	for _, c := range group {
		switch r := c.(type) {
		case *txn.Request[enqueue.Request, enqueue.Answer]:
			if !e.Covers(r.Question) {
				return false
			}
			stored = append(stored, c)
		case *txn.Request[driver.ClaimRequest, wake.ClaimAnswer]:
			if claim != nil || !s.Claimer.Expects(&r.Question) {
				return false
			}
			claim, claimed = &r.Question, append(claimed, c)
		default:
			return false
		}
	}
	now, ok := s.core.Predict()
	if !ok || len(e.Rows) == 0 { // no job is stored: a claim alone is better off with reads
		return false
	}
	t.Reading = now
	last := int64(0)
	if claim != nil {
		q, _ := s.core.QueueCache.Queue(claim.Queues[0])
		e.Rows[claim.Queues[0]], last = &q, s.core.QueueCache.LastClaim(claim.Worker)
		if s.core.Spoils("last claim") {
			last--
		}
		t.Prefetched = append(t.Prefetched, txn.Prefetched{Op: s.Claimer.Op, Work: txn.Answering[driver.ClaimRequest, wake.ClaimAnswer]{Batch: s.Claimer.Cached(t, *claim, q.Layout, last), Same: claimed}})
	}
	for _, q := range e.Rows {
		s.core.SpoilQueue(q)
	}
	t.Validators = s.questions(t, e.Rows, claim, last)
	t.Prefetched = append(t.Prefetched, txn.Prefetched{Op: s.Enqueuer.Op, Work: txn.Answering[enqueue.Request, enqueue.Answer]{Batch: e, Same: stored}})
	return true
}

// questions are the validators of cached queues, and of a claim if it is not nil.
func (s *Store) questions(t *txn.Tx, rows map[string]*txn.QueueRow, claim *driver.ClaimRequest, last int64) *txn.Validators {
	var names, settings, flows sqldb.Texts
	var shapes sqldb.Ints
	for name, q := range rows {
		names, settings, flows, shapes = append(names, name), append(settings, q.SettingsText), append(flows, q.FlowText), append(shapes, q.Layout)
	}
	due, queues, kinds, worker := int64(math.MinInt64), sqldb.Texts{}, sqldb.Texts{}, ""
	if claim != nil {
		due, queues, kinds, worker = t.Now, claim.Queues, claim.Kinds, claim.Worker
	}
	from, to := s.core.ClockBounds(t.Now)
	return &txn.Validators{
		First: txn.Statement{Statement: sqldb.Statement{Text: txn.TextGuessed, Args: []any{from, to, due, queues, kinds, worker, last}, Wanted: 1}, Raced: txn.StaleCache},
		Last:  txn.Statement{Statement: sqldb.Statement{Text: txn.QGuessedQueues, Rows: []sqldb.Column{names, settings, flows, shapes}, Wanted: int64(len(names))}, Raced: "settings have changed meanwhile"},
	}
}
