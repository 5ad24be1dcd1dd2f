package txn

import (
	"math"
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/clock"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/rules"
)

// A transaction that stores jobs, and starts them for a waiting claim, first reads ids, keys and
// queues, the worker's last claim, the head of the queue, and overdue jobs. Where a message costs a
// round trip, it uses the results cached by this process's last transactions instead, and its one
// message validates them. The inserts themselves check that ids and keys are new. If a validator
// fails, nothing is written, and the next try reads
// (docs/internals/engine.md#optimistic-reads).
type queueCache struct {
	mu      sync.Mutex
	queues  map[string]QueueRow // as they were read, without gates and pauses
	empty   map[string]bool     // queues of which the last claim has taken all, and where nothing has become ready since, as far as this process knows
	claims  map[string]int64    // worker → number of its last claim
	blocks  []Block             // of ids, the newest last
	rest    int                 // transactions that read before the cache is used again
	penalty int                 // rest after the next failed validation
}

const (
	// After a failed validation MinRest transactions read, twice as many after the next failure,
	// and one less after each success.
	MinRest, MaxRest = 8, 1024
	cachedBlocks     = 64
)

// TextGuessed is the validator of enqueues, for Dialect.Over. It checks that the clock lies between
// two times, no job is due at another, queues have no ready jobs of kinds, a named worker is not
// drained and has the last claim of that number, and no settings hold all queues back.
const TextGuessed = `select 1 where the clock is between $1 and $2, nothing is due at $3, and nothing is ready in (texts($4)) of (texts($5)) for $6 after $7`

// TextGuessedClock is the validator of a transaction that only ends steps, for Dialect.Over.
const TextGuessedClock = `select 1 where the clock is between $1 and $2`

const QGuessedQueues = `select q.name from sj_queue q /*, each*/ where q.name = each($1 text) and q.settings = each($2 text) and q.flow = each($3 text)
	and q.shape = each($4 bigint) and q.paused + q.gated = 0`

// ClockBounds returns the bounds of the server's clock for the estimate now.
func (s *Core) ClockBounds(now int64) (from, to int64) {
	if s.Cfg.Driven {
		return math.MinInt64, math.MaxInt64
	}
	return now - clock.Near.Microseconds(), now + clock.Near.Microseconds()
}

// CachedEnds is the optimistic read of finishes whose rows are cached: they need only the clock.
// Another node that extends leases makes them stale, which is no evidence about queues, so a
// failure disables nothing.
func (t *Tx) CachedEnds(group []Call) bool {
	if len(group) == 0 || slices.ContainsFunc(group, func(c Call) bool { return !c.leased() }) || !t.cachedLeases(group) {
		return false
	}
	now, ok := t.Core.Predict()
	if ok {
		t.Reading = now
		from, to := t.Core.ClockBounds(now.Now)
		t.Validators = &Validators{First: Statement{sqldb.Statement{Text: TextGuessedClock, Args: []any{from, to}, Wanted: 1}, StaleCache}}
	}
	return ok
}

// Validators are the validators of a transaction with cached reads. The first runs before the
// writes. The last checks settings after the writes: a later reindexing waits for these writes (see
// rely). A transaction that only ends steps has no last one.
type Validators struct{ First, Last Statement }

const StaleCache = "the guess was wrong"

// OfQueues reports whether cached queues must be validated.
func (q *Validators) OfQueues() bool { return q != nil && q.Last.Wanted > 0 }

// learned is what a transaction has read of queues and claims, or has confirmed.
type learned struct {
	Queues  map[string]*QueueRow
	Block   Block
	Claims  map[string]int64 // worker → number of its last claim; 0: it must not be cached
	Emptied string           // a queue whose ready jobs were all claimed; "" = none
}

// Learn caches the results of a transaction's reads, or confirms cached ones.
func (k *queueCache) Learn(t *Tx) {
	if t.Core.Cfg.Without.QueueCache {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues == nil {
		k.queues, k.empty, k.claims, k.penalty = map[string]QueueRow{}, map[string]bool{}, map[string]int64{}, MinRest
	}
	if t.Validators.OfQueues() {
		k.penalty = max(k.penalty-1, MinRest)
	}
	if len(k.queues) > jobrow.MapSize || len(k.claims) > jobrow.MapSize {
		clear(k.queues)
		clear(k.claims)
	}
	for p := range t.Ready {
		delete(k.empty, p.Queue)
	}
	if t.Learned.Emptied != "" {
		k.empty[t.Learned.Emptied] = true
	}
	for worker, number := range t.Learned.Claims {
		if k.claims[worker] = number; number == 0 {
			delete(k.claims, worker)
		}
	}
	k.know(t.Learned.Block)
	for name, q := range t.Learned.Queues {
		if k.queues[name] = *q; !q.Found || q.Reindexed >= 0 || q.Paused || rules.Gated(q.QueueSettings) {
			delete(k.queues, name)
		}
	}
}

// NoteBlock caches a block that this process has just leased, so that its first jobs need no read
// of it.
func (k *queueCache) NoteBlock(b Block) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.know(b)
}

// know caches a block. k.mu is held.
func (k *queueCache) know(b Block) {
	if b.Size > 0 && !slices.Contains(k.blocks, b) {
		k.blocks = append(k.blocks[max(0, len(k.blocks)-cachedBlocks+1):], b)
	}
}

// Miss forgets the queues. With backOff transactions read for a while.
func (k *queueCache) Miss(backOff bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if backOff {
		k.rest, k.penalty = k.penalty, min(2*k.penalty, MaxRest)
	}
	clear(k.queues)
	clear(k.empty)
}

func (k *queueCache) blockOf(id int64) (Block, bool) {
	i := slices.IndexFunc(k.blocks, func(b Block) bool { return b.Holds(id) })
	if i < 0 {
		return Block{}, false
	}
	return k.blocks[i], true
}

// cachedBlock returns the cached block of an id in an optimistic transaction. Blocks never change.
func (t *Tx) cachedBlock(id sojourn.ID) (Block, bool) {
	if t.Validators == nil {
		return Block{}, false
	}
	return t.Core.QueueCache.Block(int64(id))
}

// Queue returns the cached row of a queue.
func (k *queueCache) Queue(name string) (QueueRow, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q, ok := k.queues[name]
	return q, ok
}

// LastClaim returns the number of a worker's last claim, 0 if it is not known.
func (k *queueCache) LastClaim(worker string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.claims[worker]
}

// IsEmpty reports whether a queue has no ready jobs, as far as this process knows.
func (k *queueCache) IsEmpty(queue string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.empty[queue]
}

// Block returns the cached block of an id.
func (k *queueCache) Block(id int64) (Block, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.blockOf(id)
}

// Enabled reports whether a transaction may use the cache; after a failed validation some read.
func (k *queueCache) Enabled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rest > 0 {
		k.rest--
		return false
	}
	return true
}
