package enqueue

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// Batch is the calls of one transaction: first all reads and decisions, then all writes.
type Batch struct {
	*txn.Tx
	Enqueuer *Enqueuer
	Requests []Request
	Ending   *jobrow.Row // the job whose completion enqueues these: its key is free by then

	// The rows in the database, with the changes of the planned calls.
	Known   map[sojourn.ID]KnownJob
	Holders map[txn.KindKey]txn.Holder
	Rows    map[string]*txn.QueueRow // every queue that a job names
	block   txn.Block
	drawn   txn.Block        // ids that were drawn for jobs without one, see draw
	counted map[string]int64 // token → queues that it has created, with those of the planned calls

	plans     []*callPlan // to be written; a refused call has none
	*callPlan             // of the current call
}

// callPlan is what one call does.
type callPlan struct {
	jobs    []sojourn.Job
	digests []jobrow.Digest // of the jobs
	caller  *access.Caller
	done    []sojourn.Enqueued
	notJSON []error // see Request

	created  map[string]bool     // queues that do not exist yet
	reused   []txn.KindKey       // keys of final jobs that are still stored
	ids      map[sojourn.ID]int  // of this call → index; nil if no id can occur twice
	keys     map[txn.KindKey]int // of jobs that this call inserts → index
	fresh    []int               // indices to insert
	replaced []int               // indices whose values replace those of done[i].ID
}

// KnownJob is a job that was stored before: the call is repeated if it has the same digest.
type KnownJob struct {
	digest jobrow.Digest
	state  sojourn.State
}

const (
	qKnown = `select j.id, j.digest, coalesce(l.state, f.state, 0) from sj_job j
		left join sj_live l on l.id = j.id left join sj_final f on f.id = j.id where j.id in (ints($1))`
	qHolders = `select k.kind, k.key, k.job, k.live, k.held_until_us, coalesce(l.state, f.state, 0), coalesce(l.queue, f.queue, '') from sj_key k
		left join sj_live l on l.id = k.job left join sj_final f on f.id = k.job /*, each*/
		where k.kind = each($1 text) and k.key = each($2 text)`
)

// UseCache takes the queues and blocks of ids of a call from the cache, and reports whether all are
// cached. Jobs with windows are written before a claim runs (CanHoldInserts), so their own rows
// would fail the validator.
func (e *Batch) UseCache(ask Request) bool {
	e.Requests = append(e.Requests, ask)
	for i := range ask.Jobs {
		j := &ask.Jobs[i]
		if len(j.Policy.Windows) > 0 {
			return false
		}
		if !e.block.Holds(int64(j.ID)) {
			b, ok := e.Core.QueueCache.Block(int64(j.ID))
			if !ok {
				return false
			}
			e.block = b
		}
		if e.Rows[j.Queue] == nil {
			q, ok := e.Core.QueueCache.Queue(j.Queue)
			if !ok || len(q.Defaults.Policy.Windows) > 0 {
				return false
			}
			e.Rows[j.Queue] = &q
		}
	}
	return true
}

// Reads returns one query each for ids, keys and queues.
func (e *Batch) Reads() []sqldb.Statement {
	e.Known, e.Holders = map[sojourn.ID]KnownJob{}, map[txn.KindKey]txn.Holder{}
	var ids sqldb.Ints
	var kinds, keys, queues sqldb.Texts
	e.Rows = map[string]*txn.QueueRow{}
	for _, ask := range e.Requests {
		for i := range ask.Jobs {
			j := &ask.Jobs[i]
			if b, fresh := e.FreeID(j.ID, driver.IDOwner(j, ask.Caller.Owner())); fresh {
				e.block = b
			} else {
				ids = append(ids, int64(j.ID))
			}
			if j.Key != "" {
				kinds, keys = append(kinds, j.Kind), append(keys, j.Key)
			}
			if e.Rows[j.Queue] == nil {
				e.Rows[j.Queue] = &txn.QueueRow{Reindexed: -1}
				queues = append(queues, j.Queue)
			}
		}
	}
	reads := []sqldb.Statement{{Text: txn.QQueueRows, Rows: []sqldb.Column{queues}, Each: func(r sqldb.Row) error { return e.ScanQueueRow(r, e.Rows) }}}
	if len(ids) > 0 {
		reads = append(reads, sqldb.Statement{Text: qKnown, Args: []any{ids}, Each: func(r sqldb.Row) error {
			k := KnownJob{state: sojourn.State(r.Int(2))}
			copy(k.digest[:], r.Bytes(1))
			e.Known[sojourn.ID(r.Int(0))] = k
			return nil
		}})
	}
	if e.block.Size+e.drawn.Size == 0 { // else it was leased or drawn a moment ago
		reads = append(reads, sqldb.Statement{Text: txn.QFindBlock, Args: []any{ids[0]}, Each: e.block.Scan})
	}
	if len(keys) > 0 {
		reads = append(reads, sqldb.Statement{Text: qHolders, Rows: []sqldb.Column{kinds, keys}, Each: func(r sqldb.Row) error {
			e.Holders[txn.KindKey{Kind: r.Text(0), Key: r.Text(1)}] = txn.Holder{ID: sojourn.ID(r.Int(2)), Queue: r.Text(6), Live: r.Int(3) != 0, Held: r.Int(4),
				State: sojourn.State(r.Int(5))}
			return nil
		}})
	}
	return reads
}

// Plan decides for each job of a call in turn: first the id, then the key, then the insert. It only
// reads. A refused call leaves no trace.
func (e *Batch) Plan(ask Request) ([]sojourn.Enqueued, error) {
	ask.restore()
	e.callPlan = &callPlan{jobs: ask.Jobs, digests: ask.Digests, caller: ask.Caller, notJSON: ask.NotJSON, done: make([]sojourn.Enqueued, len(ask.Jobs))}
	if !ascend(ask.Jobs) {
		e.ids = make(map[sojourn.ID]int, len(ask.Jobs))
	}
	for i := range e.jobs {
		if err := e.planOne(i); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			if e.Validators != nil {
				return nil, txn.Raced("who is refused may be known")
			}
			indexed := sojourn.AtIndex(i, err)
			if !ask.partial {
				return nil, indexed
			}
			e.done[i] = sojourn.Enqueued{Err: indexed}
		}
	}
	e.plans = append(e.plans, e.callPlan)
	for q := range e.created {
		e.Rows[q].Found = true
	}
	if n, ok := e.counted[e.caller.Owner()]; ok {
		e.counted[e.caller.Owner()] = n + int64(len(e.created))
	}
	return e.done, nil
}

// register makes the planned call visible to the calls after it.
func (e *Batch) register() {
	for _, i := range e.fresh {
		j := &e.jobs[i]
		e.Known[j.ID] = KnownJob{e.digests[i], e.done[i].State}
		if j.Key != "" {
			e.Holders[txn.KindKey{Kind: j.Kind, Key: j.Key}] = txn.Holder{ID: j.ID, Queue: j.Queue, Live: true, State: e.done[i].State, Fresh: true}
		}
	}
	for _, i := range e.replaced {
		k := txn.KindKey{Kind: e.jobs[i].Kind, Key: e.jobs[i].Key}
		h := e.Holders[k]
		h.State, h.Queue = e.done[i].State, e.jobs[i].Queue
		e.Holders[k] = h
	}
}

// ascend reports whether the ids are strictly ascending, as clients allocate them.
func ascend(jobs []sojourn.Job) bool {
	for i := 1; i < len(jobs); i++ {
		if jobs[i-1].ID >= jobs[i].ID {
			return false
		}
	}
	return true
}

func (e *Batch) planOne(i int) error {
	j := &e.jobs[i]
	if err := j.Validate(e.Core.Cfg.MaxBytes); err != nil {
		return err
	}
	if e.notJSON != nil && e.notJSON[i] != nil {
		return e.notJSON[i]
	}
	if j.ID <= 0 {
		return sojourn.Invalid("id", "the job has none; draw ids with Store.IDs, or use Client.Enqueue")
	}
	if err := sojourn.ValidRunAt(j.RunAt, jobrow.Time(e.Now)); err != nil {
		return err
	}
	k, known := e.Known[j.ID]
	if known && k.digest == e.digests[i] { // the digest contains the owner of the id
		e.done[i] = sojourn.Enqueued{ID: j.ID, State: k.state, Duplicate: true}
		return nil
	}
	if first, ok := e.ids[j.ID]; ok && !known {
		if e.digests[first] != e.digests[i] {
			return sojourn.Conflict("the id %d stands twice in the batch, with different jobs", j.ID)
		}
		e.done[i] = e.done[first]
		e.done[i].Duplicate = true
		return nil
	}
	// Before the conflict, so that no caller learns whether an id of another caller has a job.
	if !e.drawn.Holds(int64(j.ID)) {
		if err := e.CheckID(j.ID, driver.IDOwner(j, e.caller.Owner()), &e.block); err != nil {
			return err
		}
	}
	if known {
		return sojourn.Conflict("a job with the id %d exists, with other content; draw a new id", j.ID)
	}
	if j.Key != "" {
		if taken, err := e.planKey(i); taken || err != nil {
			return err
		}
	}
	return e.planInsert(i)
}

// planKey checks the holder of the key, and reports whether the job is not to be inserted.
func (e *Batch) planKey(i int) (taken bool, err error) {
	j := &e.jobs[i]
	k := txn.KindKey{Kind: j.Kind, Key: j.Key}
	if first, ok := e.keys[k]; ok {
		if j.OnConflict == sojourn.ReturnError {
			return true, sojourn.Conflict("the key %.64q of kind %s stands twice in the batch", j.Key, j.Kind)
		}
		e.noteID(j.ID, first)
		e.done[i] = e.done[first]
		e.done[i].Duplicate = true
		return true, nil
	}
	h, ok := e.Holders[k]
	switch {
	case !ok:
		return false, nil
	case e.Validators != nil:
		return true, txn.Raced("who comes second may be known")
	}
	if h.Live && e.Ending != nil && h.ID == e.Ending.ID {
		h.Live, h.Held = false, e.Now
		if h.State = sojourn.Completed; e.Ending.Policy.KeepKey > 0 {
			h.Held = jobrow.Never
		}
	}
	if !h.Live && h.Held <= e.Now {
		e.reused = append(e.reused, k)
		return false, nil
	}
	return true, e.meetHolder(i, h)
}

// meetHolder answers for a key that is taken: by a live job, or by a final one that keeps it.
func (e *Batch) meetHolder(i int, h txn.Holder) error {
	j := &e.jobs[i]
	if !e.caller.Allows(access.VerbEnqueue, h.Queue, j.Kind) {
		return sojourn.Conflict("a job that this token has no grant for has the key %.64q of kind %s; use another key", j.Key, j.Kind)
	}
	if j.OnConflict == sojourn.ReturnError {
		return sojourn.Conflict("job %d of kind %s has the key %.64q", h.ID, j.Kind, j.Key)
	}
	done := sojourn.Enqueued{ID: h.ID, State: h.State, Duplicate: true}
	if j.OnConflict != sojourn.Replace { // no lock: the key is its holder's, even if the holder changes
		e.done[i] = done
		return nil
	}
	if !h.Live {
		return sojourn.Conflict("job %d is %s and keeps the key %.64q; it cannot be replaced", h.ID, h.State, j.Key)
	}
	if h.Fresh {
		if err := e.WriteJobs(); err != nil { // its row is to be there
			return err
		}
	}
	l, err := e.LoadOne(h.ID)
	if err == nil && l == nil {
		err = txn.Raced("the holder of a key has ended meanwhile")
	}
	if err != nil {
		return err
	}
	if l.Claimed || l.State > sojourn.Ready || l.Key != j.Key {
		return sojourn.Conflict("job %d has the key %.64q and was claimed already (%s); it cannot be replaced", h.ID, j.Key, l.State)
	}
	if err := e.resolve(j); err != nil {
		return err
	}
	done.State, done.Replaced = e.startState(j), true
	e.replaced = append(e.replaced, i)
	e.done[i] = done
	return nil
}

func (e *Batch) planInsert(i int) error {
	j := &e.jobs[i]
	if err := e.resolve(j); err != nil {
		return err
	}
	if err := e.checkDepth(j); err != nil {
		return err
	}
	e.done[i] = sojourn.Enqueued{ID: j.ID, State: e.startState(j)}
	if e.fresh == nil {
		e.fresh = make([]int, 0, len(e.jobs))
	}
	e.fresh = append(e.fresh, i)
	if len(e.jobs) == 1 {
		return nil // ids and keys are not checked for repeats
	}
	e.noteID(j.ID, i)
	if j.Key != "" {
		if e.keys == nil {
			e.keys = map[txn.KindKey]int{}
		}
		e.keys[txn.KindKey{Kind: j.Kind, Key: j.Key}] = i
	}
	return nil
}

func (p *callPlan) noteID(id sojourn.ID, i int) {
	if p.ids != nil {
		p.ids[id] = i
	}
}

// resolve fills the job's defaults and turns its delay into a time.
func (e *Batch) resolve(j *sojourn.Job) error {
	q := e.Rows[j.Queue]
	if !q.Found && e.Core.Cfg.Declared {
		return sojourn.NotFound("there is no queue %s, and this store takes jobs only for queues that were made with DeclareQueue or queue set", j.Queue)
	}
	if !q.Found {
		if err := e.createQueue(j.Queue); err != nil {
			return err
		}
	}
	e.AssumeSettings(j.Queue, q.Layout)
	j.Resolve(q.Defaults)
	if j.Delay > 0 {
		j.RunAt = jobrow.Time(e.Now + j.Delay.Microseconds())
	}
	if j.RunAt.UnixMicro() < e.Now {
		j.RunAt = jobrow.Time(e.Now)
	}
	return gate.CheckWindows(e.Tx, j, q.Windows)
}

func (e *Batch) startState(j *sojourn.Job) sojourn.State {
	if lifecycle.Opening(j.RunAt.UnixMicro(), j.Policy) > e.Now {
		return sojourn.Scheduled
	}
	return sojourn.Ready
}
