package sqlstore

import (
	"math"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

// A transaction that stores jobs, and starts them for a waiting claim, first reads ids, keys and
// queues, the worker's last claim, the head of the queue, and overdue jobs. Where a message costs a
// round trip, it uses the results cached by this process's last transactions instead, and its one
// message validates them. The inserts themselves check that ids and keys are new. If a validator
// fails, nothing is written, and the next try reads
// (docs/internals/engine.md#optimistic-reads).
type guesses struct {
	mu     sync.Mutex
	queues map[string]queueRow // as they were read, without gates and pauses
	empty  map[string]bool     // queues of which the last claim has taken all, and where nothing has become ready since, as far as this process knows
	claims map[string]int64    // worker → number of its last claim
	blocks []block             // of ids, the newest last
	rest   int                 // transactions that read before the cache is used again
	wrong  int                 // rest after the next failed validation
}

const (
	// guessNear is the allowed difference between the clock and its estimate: no more than the
	// delay that is tolerated for job starts anyhow.
	guessNear = pollEvery
	// After a failed validation restLeast transactions read, twice as many after the next failure,
	// and one less after each success.
	restLeast, restMost = 8, 1024
	guessedBlocks       = 64
)

// TextGuessed is the validator of enqueues, for Dialect.Over. It checks that the clock lies between
// two times, no job is due at another, queues have no ready jobs of kinds, a named worker is not
// drained and has the last claim of that number, and no settings hold all queues back.
const TextGuessed = `select 1 where the clock is between $1 and $2, nothing is due at $3, and nothing is ready in (texts($4)) of (texts($5)) for $6 after $7`

// TextGuessedClock is the validator of a transaction that only ends steps, for Dialect.Over.
const TextGuessedClock = `select 1 where the clock is between $1 and $2`

const qGuessedQueues = `select q.name from sj_queue q /*, each*/ where q.name = each($1 text) and q.settings = each($2 text) and q.flow = each($3 text)
	and q.shape = each($4 bigint) and q.paused + q.gated = 0`

// guess takes the reads of a group from caches, and reports whether it could.
func (t *tx) guess(group []*request) bool {
	if _, own := t.Conn.(sqldb.Committer); !own || !t.hasty || t.s.db.Dialect().Over[TextGuessed] == "" {
		return false
	}
	if t.guessEnds(group) {
		return true
	}
	k := &t.s.guesses
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rest > 0 {
		k.rest--
		return false
	}
	e := &enqueue{tx: t, known: map[sojourn.ID]knownJob{}, holders: map[kindKey]holder{}, rows: map[string]*queueRow{}}
	var claim *driver.ClaimRequest
	for _, r := range group {
		switch in := r.in.(type) {
		case enqueueAsk:
			if !k.covers(e, in.jobs) {
				return false
			}
		case driver.ClaimRequest:
			if claim != nil || !k.expects(&in) {
				return false
			}
			claim = &in
		default:
			return false
		}
	}
	now, ok := t.s.clock.guess()
	if !ok || len(e.rows) == 0 { // no job is stored: a claim alone is better off with reads
		return false
	}
	if claim != nil {
		q := k.queues[claim.Queues[0]]
		e.rows[claim.Queues[0]] = &q
	}
	t.reading = now
	t.guessed = e.asks(claim)
	t.looked = append(t.looked, e)
	if claim != nil {
		t.looked = append(t.looked, k.claimsOf(t, claim, e))
	}
	return true
}

// guessEnds is guess for finishes whose rows are cached: they need only the clock. Another node
// that extends leases makes them stale, which is no evidence about queues, so a failure disables
// nothing.
func (t *tx) guessEnds(group []*request) bool {
	if len(group) == 0 || slices.ContainsFunc(group, func(r *request) bool { return r.step != stepFinish }) || !t.trust(group) {
		return false
	}
	now, ok := t.s.clock.guess()
	if ok {
		t.reading = now
		from, to := t.s.near(now.now)
		t.guessed = &questions{first: statement{sqldb.Statement{Text: TextGuessedClock, Args: []any{from, to}, Wanted: 1}, guessedWrong}}
	}
	return ok
}

// near returns the bounds of the server's clock for the estimate now.
func (s *Store) near(now int64) (from, to int64) {
	if s.cfg.Driven {
		return math.MinInt64, math.MaxInt64
	}
	return now - guessNear.Microseconds(), now + guessNear.Microseconds()
}

// covers gives the queues of jobs to e, if they and the ids are cached. Jobs with windows are
// written before a claim runs (canHold), so their own rows would fail the validator.
func (k *guesses) covers(e *enqueue, jobs []sojourn.Job) bool {
	for i := range jobs {
		j := &jobs[i]
		if len(j.Policy.Windows) > 0 {
			return false
		}
		if !e.block.holds(int64(j.ID)) {
			b, ok := k.blockOf(int64(j.ID))
			if !ok {
				return false
			}
			e.block = b
		}
		if e.rows[j.Queue] == nil {
			q, ok := k.queues[j.Queue]
			if !ok || len(q.Defaults.Policy.Windows) > 0 {
				return false
			}
			e.rows[j.Queue] = &q
		}
	}
	return true
}

// expects reports whether a claim would find only the jobs that its transaction stores.
func (k *guesses) expects(r *driver.ClaimRequest) bool {
	last, queue := k.claims[r.Worker], r.Queues[0]
	_, known := k.queues[queue]
	return known && k.empty[queue] && len(r.Queues) == 1 && len(r.Decidable)+len(r.Pollable) == 0 && last > 0 && r.Number > last
}

func (k *guesses) claimsOf(t *tx, r *driver.ClaimRequest, e *enqueue) *claims {
	q := r.Queues[0]
	c := &claims{tx: t, gates: &t.s.gates, doors: map[string]door{q: {shape: e.rows[q].shape}}, last: map[string]lastClaim{r.Worker: {number: k.claims[r.Worker]}}}
	c.ahead = &foreseen{queue: q, lines: map[string][]candidate{}}
	for _, kind := range r.Kinds {
		c.ahead.lines[kind] = nil
	}
	return c
}

// questions are the validators of a transaction with cached reads. The first runs before the
// writes. The last checks settings after the writes: a later reindexing waits for these writes (see
// rely). A transaction that only ends steps has no last one.
type questions struct{ first, last statement }

const guessedWrong = "the guess was wrong"

// ofQueues reports whether cached queues must be validated.
func (q *questions) ofQueues() bool { return q != nil && q.last.Wanted > 0 }

func (e *enqueue) asks(claim *driver.ClaimRequest) *questions {
	var names, settings, flows sqldb.Texts
	var shapes sqldb.Ints
	for name, q := range e.rows {
		names, settings, flows, shapes = append(names, name), append(settings, q.text), append(flows, q.flowText), append(shapes, q.shape)
	}
	due, queues, kinds, worker := int64(math.MinInt64), sqldb.Texts{}, sqldb.Texts{}, ""
	if claim != nil {
		due, queues, kinds, worker = e.now, claim.Queues, claim.Kinds, claim.Worker
	}
	from, to := e.s.near(e.now)
	return &questions{
		statement{sqldb.Statement{Text: TextGuessed, Args: []any{from, to, due, queues, kinds, worker, e.s.guesses.claims[worker]}, Wanted: 1}, guessedWrong},
		statement{sqldb.Statement{Text: qGuessedQueues, Rows: []sqldb.Column{names, settings, flows, shapes}, Wanted: int64(len(names))}, "settings have changed meanwhile"},
	}
}

// keep caches the results of a transaction's reads, or confirms cached ones.
func (k *guesses) keep(t *tx) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues == nil {
		k.queues, k.empty, k.claims, k.wrong = map[string]queueRow{}, map[string]bool{}, map[string]int64{}, restLeast
	}
	if t.guessed.ofQueues() {
		k.wrong = max(k.wrong-1, restLeast)
	}
	if len(k.queues) > memoSize || len(k.claims) > memoSize {
		clear(k.queues)
		clear(k.claims)
	}
	for p := range t.ready {
		delete(k.empty, p.queue)
	}
	if c := t.claims; c != nil {
		if c.emptied != "" {
			k.empty[c.emptied] = true
		}
		all := c.doors[sojourn.AllQueues]
		for worker, last := range c.last {
			if k.claims[worker] = last.number; last.drained || all.paused || all.gated {
				delete(k.claims, worker)
			}
		}
	}
	if e := t.enqueued; e != nil {
		k.know(e.block)
		for name, q := range e.rows {
			if k.queues[name] = *q; !q.found || q.reshape >= 0 || q.Paused || rules.Gated(q.QueueSettings) {
				delete(k.queues, name)
			}
		}
	}
}

// leased caches a block that this process has just leased, so that its first jobs need no read of
// it.
func (k *guesses) leased(b block) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.know(b)
}

// know caches a block. k.mu is held.
func (k *guesses) know(b block) {
	if b.size > 0 && !slices.Contains(k.blocks, b) {
		k.blocks = append(k.blocks[max(0, len(k.blocks)-guessedBlocks+1):], b)
	}
}

// miss makes transactions read for a while.
func (k *guesses) miss() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rest, k.wrong = k.wrong, min(2*k.wrong, restMost)
	clear(k.queues)
	clear(k.empty)
}

func (k *guesses) blockOf(id int64) (block, bool) {
	i := slices.IndexFunc(k.blocks, func(b block) bool { return b.holds(id) })
	if i < 0 {
		return block{}, false
	}
	return k.blocks[i], true
}

// guessedBlock returns the cached block of an id in an optimistic transaction. Blocks never change.
func (t *tx) guessedBlock(id sojourn.ID) (block, bool) {
	if t.guessed == nil {
		return block{}, false
	}
	k := &t.s.guesses
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.blockOf(int64(id))
}
