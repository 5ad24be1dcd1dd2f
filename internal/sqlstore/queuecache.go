package sqlstore

import (
	"math"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
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

// near returns the bounds of the server's clock for the estimate now.
func (s *core) near(now int64) (from, to int64) {
	if s.cfg.Driven {
		return math.MinInt64, math.MaxInt64
	}
	return now - guessNear.Microseconds(), now + guessNear.Microseconds()
}

// guessEnds is the optimistic read of finishes whose rows are cached: they need only the clock.
// Another node that extends leases makes them stale, which is no evidence about queues, so a failure
// disables nothing.
func (t *tx) guessEnds(group []call) bool {
	if len(group) == 0 || slices.ContainsFunc(group, func(c call) bool { return !c.leased() }) || !t.trust(group) {
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

// questions are the validators of a transaction with cached reads. The first runs before the
// writes. The last checks settings after the writes: a later reindexing waits for these writes (see
// rely). A transaction that only ends steps has no last one.
type questions struct{ first, last statement }

const guessedWrong = "the guess was wrong"

// ofQueues reports whether cached queues must be validated.
func (q *questions) ofQueues() bool { return q != nil && q.last.Wanted > 0 }

// learned is what a transaction has read of queues and claims, or has confirmed.
type learned struct {
	queues  map[string]*queueRow
	block   block
	claims  map[string]int64 // worker → number of its last claim; 0: it must not be cached
	emptied string           // a queue whose ready jobs were all claimed; "" = none
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
	if t.learned.emptied != "" {
		k.empty[t.learned.emptied] = true
	}
	for worker, number := range t.learned.claims {
		if k.claims[worker] = number; number == 0 {
			delete(k.claims, worker)
		}
	}
	k.know(t.learned.block)
	for name, q := range t.learned.queues {
		if k.queues[name] = *q; !q.found || q.reshape >= 0 || q.Paused || rules.Gated(q.QueueSettings) {
			delete(k.queues, name)
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
	return t.s.guesses.block(int64(id))
}

// queue returns the cached row of a queue.
func (k *guesses) queue(name string) (queueRow, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q, ok := k.queues[name]
	return q, ok
}

// lastClaim returns the number of a worker's last claim, 0 if it is not known.
func (k *guesses) lastClaim(worker string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.claims[worker]
}

// isEmpty reports whether a queue has no ready jobs, as far as this process knows.
func (k *guesses) isEmpty(queue string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.empty[queue]
}

// block returns the cached block of an id.
func (k *guesses) block(id int64) (block, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.blockOf(id)
}

// mayUse reports whether a transaction may use the cache; after a failed validation some read.
func (k *guesses) mayUse() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rest > 0 {
		k.rest--
		return false
	}
	return true
}
