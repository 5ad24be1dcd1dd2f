package txn

import (
	"slices"
	"sync"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/rules"
)

// queueCache is a cache of what transactions have read of queues, for optimistic reads. A
// transaction that stores jobs, and starts them for a waiting claim, reads ids, keys and queues,
// the worker's last claim, the head of the queue, and overdue jobs. Where a message costs a round
// trip, it takes them from this cache instead, and its one message validates them. The inserts
// themselves check that ids and keys are new. If a validator fails, nothing is written, and the
// next try reads (docs/internals/engine.md#optimistic-reads). Safe for concurrent use.
type queueCache struct {
	mu      sync.Mutex          // guards the fields below
	queues  map[string]QueueRow // as they were read; only those without gates and pauses
	empty   map[string]bool     // queues without ready jobs, as far as this process knows
	claims  map[string]int64    // worker → number of its last claim
	blocks  []Block             // of ids, the newest last
	skip    int                 // transactions that read before the cache is used again
	backoff int                 // skip after the next failed validation
}

// cachedBlocks bounds the blocks that a cache has.
const cachedBlocks = 64

// The back-off after failed validations: MinBackoff transactions read after the first, twice as
// many after the next, up to MaxBackoff, and one less after each success.
const MinBackoff, MaxBackoff = 8, 1024

// Enabled reports whether a transaction may use the cache. After a failed validation it counts the
// transactions that may not.
func (k *queueCache) Enabled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.skip > 0 {
		k.skip--
		return false
	}
	return true
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
	i := slices.IndexFunc(k.blocks, func(b Block) bool { return b.Holds(id) })
	if i < 0 {
		return Block{}, false
	}
	return k.blocks[i], true
}

// Learned is what a transaction has read of queues and claims, or has validated, for the cache.
type Learned struct {
	Queues  map[string]*QueueRow
	Block   Block            // the block of ids that it has read last
	Claims  map[string]int64 // worker → number of its last claim; 0: it must not be cached
	Emptied string           // a queue whose ready jobs were all claimed; "" = none
}

// Learn caches what a committed transaction has read. If it has used the cache, its commit has
// validated that.
func (k *queueCache) Learn(t *Tx) {
	if t.Core.Cfg.Without.QueueCache || t.Core.DB.Dialect().Over[TextValidate] == "" { // nothing reads it there
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues == nil {
		k.queues, k.empty, k.claims, k.backoff = map[string]QueueRow{}, map[string]bool{}, map[string]int64{}, MinBackoff
	}
	if t.Cache.Validators.OfQueues() {
		k.backoff = max(k.backoff-1, MinBackoff)
	}
	if len(k.queues) > jobrow.MaxMapSize || len(k.claims) > jobrow.MaxMapSize {
		clear(k.queues)
		clear(k.claims)
	}
	for p := range t.Events.Ready {
		delete(k.empty, p.Queue)
	}
	if t.Cache.Learned.Emptied != "" {
		k.empty[t.Cache.Learned.Emptied] = true
	}
	for worker, number := range t.Cache.Learned.Claims {
		if k.claims[worker] = number; number == 0 {
			delete(k.claims, worker)
		}
	}
	k.know(t.Cache.Learned.Block)
	for name, q := range t.Cache.Learned.Queues {
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

// know caches a block. The caller holds mu.
func (k *queueCache) know(b Block) {
	if b.Size > 0 && !slices.Contains(k.blocks, b) {
		k.blocks = append(k.blocks[max(0, len(k.blocks)-cachedBlocks+1):], b)
	}
}

// Miss records a failed validation, and forgets the queues. With backOff transactions read for a
// while.
func (k *queueCache) Miss(backOff bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if backOff {
		k.skip, k.backoff = k.backoff, min(2*k.backoff, MaxBackoff)
	}
	clear(k.queues)
	clear(k.empty)
}

// CachedBlock returns the cached block of an id in a transaction with cached reads.
func (t *Tx) CachedBlock(id sojourn.ID) (Block, bool) {
	if t.Cache.Validators == nil {
		return Block{}, false
	}
	return t.Core.Caches.Queues.Block(int64(id))
}
