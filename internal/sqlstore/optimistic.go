package sqlstore

import (
	"math"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// guess takes the reads of a group from the caches, and reports whether it could. The group has
// enqueues, and at most one claim that would find only their jobs; or it only ends steps.
func (s *Store) guess(t *tx, group []call) bool {
	if _, own := t.Conn.(sqldb.Committer); !own || !t.hasty || s.core.db.Dialect().Over[TextGuessed] == "" {
		return false
	}
	if t.guessEnds(group) {
		return true
	}
	if !s.core.guesses.mayUse() {
		return false
	}
	e := &enqueue{tx: t, svc: s.enqueuer, known: map[sojourn.ID]knownJob{}, holders: map[kindKey]holder{}, rows: map[string]*queueRow{}}
	var stored, claimed []call
	var claim *driver.ClaimRequest
	for _, c := range group {
		switch r := c.(type) {
		case *request[enqueueAsk, enqueueAnswer]:
			if !e.covers(r.q) {
				return false
			}
			stored = append(stored, c)
		case *request[driver.ClaimRequest, claimAnswer]:
			if claim != nil || !s.claimer.expects(&r.q) {
				return false
			}
			claim, claimed = &r.q, append(claimed, c)
		default:
			return false
		}
	}
	now, ok := s.core.clock.guess()
	if !ok || len(e.rows) == 0 { // no job is stored: a claim alone is better off with reads
		return false
	}
	t.reading = now
	last := int64(0)
	if claim != nil {
		q, _ := s.core.guesses.queue(claim.Queues[0])
		e.rows[claim.Queues[0]], last = &q, s.core.guesses.lastClaim(claim.Worker)
		t.prefetched = append(t.prefetched, prefetched{s.claimer.op, answering[driver.ClaimRequest, claimAnswer]{s.claimer.cached(t, *claim, q.shape, last), claimed}})
	}
	t.guessed = s.questions(t, e.rows, claim, last)
	t.prefetched = append(t.prefetched, prefetched{s.enqueuer.op, answering[enqueueAsk, enqueueAnswer]{e, stored}})
	return true
}

// questions are the validators of cached queues, and of a claim if it is not nil.
func (s *Store) questions(t *tx, rows map[string]*queueRow, claim *driver.ClaimRequest, last int64) *questions {
	var names, settings, flows sqldb.Texts
	var shapes sqldb.Ints
	for name, q := range rows {
		names, settings, flows, shapes = append(names, name), append(settings, q.text), append(flows, q.flowText), append(shapes, q.shape)
	}
	due, queues, kinds, worker := int64(math.MinInt64), sqldb.Texts{}, sqldb.Texts{}, ""
	if claim != nil {
		due, queues, kinds, worker = t.now, claim.Queues, claim.Kinds, claim.Worker
	}
	from, to := s.core.near(t.now)
	return &questions{
		statement{sqldb.Statement{Text: TextGuessed, Args: []any{from, to, due, queues, kinds, worker, last}, Wanted: 1}, guessedWrong},
		statement{sqldb.Statement{Text: qGuessedQueues, Rows: []sqldb.Column{names, settings, flows, shapes}, Wanted: int64(len(names))}, "settings have changed meanwhile"},
	}
}
