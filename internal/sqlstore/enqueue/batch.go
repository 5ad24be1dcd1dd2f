package enqueue

import (
	"github.com/sojourn-queue/sojourn/driver"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Batch is the calls of one transaction: first all reads and decisions, then all writes.
type Batch struct {
	*txn.Tx
	Enqueuer *Enqueuer
	Requests []Request
	Ending   *jobrow.Row // the job whose completion enqueues these: its key is free by then; nil: none
	Follows  bool        // a step stores these and awaits them
	Ticks    bool        // a schedule or a workflow enqueues these by itself: no limit refuses them, and what has made them is stored
	Workflow int64       // number of the workflow whose members these are; 0: none

	// What is stored, with the changes of the planned calls.
	Known   map[sojourn.ID]KnownJob
	Holders map[txn.KindKey]txn.Holder
	Rows    map[string]*txn.QueueRow // every queue that a job names
	block   txn.Block                // the block of ids that was last looked up
	drawn   txn.Block                // ids that the store has given to jobs without one
	depths  map[string]int64         // queue with a max_depth → its ready jobs, with those of this batch
	counted map[string]int64         // token → queues that it has created, with those of the planned calls

	plans     []*callPlan // to be written; a refused call has none
	*callPlan             // of the current call
}

// Drawn notes the ids that the store has drawn for jobs of this batch. They are not checked.
func (b *Batch) Drawn(ids txn.Block) { b.drawn = ids }

// KnownJob is a job that is stored. An enqueue of its id is a repeat if it has the same digest, and
// a conflict otherwise.
type KnownJob struct {
	digest jobrow.Digest
	state  sojourn.State
}

const (
	// qKnown looks up ids.
	qKnown = `select j.id, j.digest, coalesce(l.state, f.state, 0) from sj_job j
		left join sj_live l on l.id = j.id left join sj_final f on f.id = j.id where j.id in (ints($1))`
	// qHolders looks up keys.
	qHolders = `select k.kind, k.key, k.job, k.live, k.held_until_us, coalesce(l.state, f.state, 0), coalesce(l.queue, f.queue, '') from sj_key k
		left join sj_live l on l.id = k.job left join sj_final f on f.id = k.job /*, each*/
		where k.kind = each($1 text) and k.key = each($2 text)`
)

// UseCache adds a call and takes its queues and blocks of ids from the cache. It reports whether
// all are cached. Jobs with windows are written before a claim runs (CanHoldInserts), so their own
// rows would fail the validator.
func (b *Batch) UseCache(req Request) bool {
	b.Requests = append(b.Requests, req)
	for i := range req.Jobs {
		j := &req.Jobs[i]
		if len(j.Policy.Windows)+len(j.Depends) > 0 {
			return false
		}
		if !b.block.Holds(int64(j.ID)) {
			block, ok := b.Core.Caches.Queues.Block(int64(j.ID))
			if !ok {
				return false
			}
			b.block = block
		}
		if b.Rows[j.Queue] == nil {
			q, ok := b.Core.Caches.Queues.Queue(j.Queue)
			if !ok || len(q.Defaults.Windows) > 0 {
				return false
			}
			b.Rows[j.Queue] = &q
		}
	}
	return true
}

// Reads returns one query each for queues, ids and keys, and one for the block of the ids.
func (b *Batch) Reads() []sqldb.Statement {
	b.Known, b.Holders = map[sojourn.ID]KnownJob{}, map[txn.KindKey]txn.Holder{}
	var ids sqldb.Ints
	var kinds, keys, queues sqldb.Texts
	b.Rows = map[string]*txn.QueueRow{}
	for _, req := range b.Requests {
		for i := range req.Jobs {
			j := &req.Jobs[i]
			if block, fresh := b.FreeID(j.ID, driver.IDOwner(j, req.Caller.Owner())); fresh {
				b.block = block
			} else {
				ids = append(ids, int64(j.ID))
			}
			if j.Key != "" {
				kinds, keys = append(kinds, j.Kind), append(keys, j.Key)
			}
			if b.Rows[j.Queue] == nil {
				b.Rows[j.Queue] = &txn.QueueRow{Reindexed: -1}
				queues = append(queues, j.Queue)
			}
		}
	}
	reads := []sqldb.Statement{{Text: txn.QQueueRows, Rows: []sqldb.Column{queues}, Each: func(r sqldb.Row) error { return b.ScanQueueRow(r, b.Rows) }}}
	if len(ids) > 0 {
		reads = append(reads, sqldb.Statement{Text: qKnown, Args: []any{ids}, Each: func(r sqldb.Row) error {
			k := KnownJob{state: sojourn.State(r.Int(2))}
			copy(k.digest[:], r.Bytes(1))
			b.Known[sojourn.ID(r.Int(0))] = k
			return nil
		}})
	}
	if b.block.Size+b.drawn.Size == 0 { // else it was leased or drawn a moment ago
		reads = append(reads, sqldb.Statement{Text: txn.QFindBlock, Args: []any{ids[0]}, Each: b.block.Scan})
	}
	if len(keys) > 0 {
		reads = append(reads, sqldb.Statement{Text: qHolders, Rows: []sqldb.Column{kinds, keys}, Each: func(r sqldb.Row) error {
			b.Holders[txn.KindKey{Kind: r.Text(0), Key: r.Text(1)}] = txn.Holder{ID: sojourn.ID(r.Int(2)), Queue: r.Text(6), Live: r.Int(3) != 0, Held: r.Int(4),
				State: sojourn.State(r.Int(5))}
			return nil
		}})
	}
	return reads
}

// Run plans the calls in turn, and writes the jobs of all together.
func (b *Batch) Run() ([]Answer, error) {
	var ds []sojourn.Dependency
	for _, req := range b.Requests {
		for i := range req.Jobs {
			ds = append(ds, req.Jobs[i].Depends...)
		}
	}
	if len(b.Requests) > 1 && len(ds) > 0 { // else the calls of two groups lock the same jobs in different orders
		if err := edge.LockParents(b.Tx, ds); err != nil {
			return nil, err
		}
	}
	answers := make([]Answer, len(b.Requests))
	for i, req := range b.Requests {
		var err error
		if answers[i].done, err = b.Plan(req); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			answers[i].refused = err
			continue
		}
		if i < len(b.Requests)-1 {
			b.register()
		}
	}
	b.Cache.Learned.Queues, b.Cache.Learned.Block = b.Rows, b.block
	return answers, b.WriteJobs()
}
