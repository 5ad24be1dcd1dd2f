package enqueue

import (
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
)

// callPlan is what one call does.
type callPlan struct {
	jobs    []sojourn.Job
	digests []jobrow.Digest // of the jobs
	caller  *access.Caller
	notJSON []error // see Request
	done    []sojourn.Enqueued

	created  map[string]bool     // queues that do not exist yet
	reused   []txn.KindKey       // keys of final jobs that are still stored
	ids      map[sojourn.ID]int  // of this call → index; nil if no id can occur twice
	keys     map[txn.KindKey]int // of jobs that this call inserts → index
	fresh    []int               // indices to insert
	replaced []int               // indices whose values replace those of done[i].ID

	linked map[sojourn.ID]link // jobs with edges; see linking
	links  edge.Links
}

// Plan decides a call, and adds it to the plans to be written. It only reads, except that a job
// that replaces one of an earlier call has that written first. An error with a code refuses the
// call; other errors fail the transaction.
func (b *Batch) Plan(req Request) ([]sojourn.Enqueued, error) {
	req.restore()
	b.callPlan = &callPlan{jobs: req.Jobs, digests: req.Digests, caller: req.Caller, notJSON: req.NotJSON, done: make([]sojourn.Enqueued, len(req.Jobs))}
	if !ascending(req.Jobs) {
		b.ids = make(map[sojourn.ID]int, len(req.Jobs))
	}
	if err := b.lockParents(); err != nil {
		return nil, err
	}
	for i := range b.jobs {
		if err := b.planOne(i); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			if b.Cache.Validators != nil {
				return nil, txn.Raced("a refusal is not decided from the cache")
			}
			indexed := sojourn.AtIndex(i, err)
			if !req.partial {
				return nil, indexed
			}
			b.done[i] = sojourn.Enqueued{Err: indexed}
		}
	}
	if hasDependencies(req.Jobs) {
		if err := b.planLinks(req.partial); err != nil {
			return nil, err
		}
	}
	b.plans = append(b.plans, b.callPlan)
	for q := range b.created {
		b.Rows[q].Found = true
	}
	if n, ok := b.counted[b.caller.Owner()]; ok {
		b.counted[b.caller.Owner()] = n + int64(len(b.created))
	}
	return b.done, nil
}

// lockParents locks what comes before the rows of jobs that the call may replace: two edges that
// are added at once must not close a cycle.
func (b *Batch) lockParents() error {
	ds := relinked(b.jobs)
	if len(ds) == 0 {
		return nil
	}
	if err := edge.LockCycles(b.Tx); err != nil {
		return err
	}
	return edge.LockParents(b.Tx, ds)
}

// relinked returns the dependencies of the jobs that may replace stored ones.
func relinked(jobs []sojourn.Job) (ds []sojourn.Dependency) {
	for i := range jobs {
		if j := &jobs[i]; len(j.Depends) > 0 && j.Key != "" && j.OnConflict == sojourn.Replace {
			ds = append(ds, j.Depends...)
		}
	}
	return ds
}

// hasDependencies reports whether any of the jobs depends on another.
func hasDependencies(jobs []sojourn.Job) bool {
	for i := range jobs {
		if len(jobs[i].Depends) > 0 {
			return true
		}
	}
	return false
}

// ascending reports whether the ids ascend strictly, as clients allocate them.
func ascending(jobs []sojourn.Job) bool {
	for i := 1; i < len(jobs); i++ {
		if jobs[i-1].ID >= jobs[i].ID {
			return false
		}
	}
	return true
}

// planOne decides one job.
func (b *Batch) planOne(i int) error {
	j := &b.jobs[i]
	if err := j.Validate(b.Core.Cfg.MaxBytes); err != nil {
		return err
	}
	if b.notJSON != nil && b.notJSON[i] != nil {
		return b.notJSON[i]
	}
	if j.ID <= 0 {
		return sojourn.Invalid("id", "the job has none; draw ids with Store.IDs, or use Client.Enqueue")
	}
	if err := sojourn.ValidRunAt(j.RunAt, jobrow.Time(b.Now)); err != nil {
		return err
	}
	k, known := b.Known[j.ID]
	if known && k.digest == b.digests[i] { // the digest contains the owner of the id
		b.done[i] = sojourn.Enqueued{ID: j.ID, State: k.state, Duplicate: true}
		return nil
	}
	if first, ok := b.ids[j.ID]; ok && !known {
		if b.digests[first] != b.digests[i] {
			return sojourn.Conflict("the id %d stands twice in the batch, with different jobs", j.ID)
		}
		b.done[i] = b.done[first]
		b.done[i].Duplicate = true
		return nil
	}
	// Before the conflict, so that no caller learns whether an id of another caller has a job.
	if !b.drawn.Holds(int64(j.ID)) {
		if err := b.checkID(j.ID, driver.IDOwner(j, b.caller.Owner()), &b.block); err != nil {
			return err
		}
	}
	if known {
		return sojourn.Conflict("a job with the id %d exists, with other content; draw a new id", j.ID)
	}
	if j.Key != "" {
		if taken, err := b.planKey(i); taken || err != nil {
			return err
		}
	}
	return b.planInsert(i)
}

// planKey decides by the holder of the key, and reports whether the job is not inserted.
func (b *Batch) planKey(i int) (taken bool, err error) {
	j := &b.jobs[i]
	k := txn.KindKey{Kind: j.Kind, Key: j.Key}
	if first, ok := b.keys[k]; ok {
		if j.OnConflict == sojourn.ReturnError {
			return true, sojourn.Conflict("the key %.64q of kind %s stands twice in the batch", j.Key, j.Kind)
		}
		b.noteID(j.ID, first)
		b.done[i] = b.done[first]
		b.done[i].Duplicate = true
		return true, nil
	}
	h, ok := b.Holders[k]
	switch {
	case !ok:
		return false, nil
	case b.Cache.Validators != nil:
		return true, txn.Raced("the holder of a key is not decided from the cache")
	}
	if h.Live && b.Ending != nil && h.ID == b.Ending.ID {
		h.Live, h.Held = false, b.Now
		if h.State = sojourn.Completed; b.Ending.Policy.KeepKey > 0 {
			h.Held = jobrow.Never
		}
	}
	if !h.Live && h.Held <= b.Now {
		b.reused = append(b.reused, k)
		return false, nil
	}
	return true, b.planHeldKey(i, h)
}

// planHeldKey decides a job whose key is taken: by a live job, or by a final one that keeps it.
func (b *Batch) planHeldKey(i int, h txn.Holder) error {
	j := &b.jobs[i]
	if !b.caller.Allows(access.VerbEnqueue, h.Queue, j.Kind) {
		return sojourn.Conflict("a job that this token has no grant for has the key %.64q of kind %s; use another key", j.Key, j.Kind)
	}
	if j.OnConflict == sojourn.ReturnError {
		return sojourn.Conflict("job %d of kind %s has the key %.64q", h.ID, j.Kind, j.Key)
	}
	done := sojourn.Enqueued{ID: h.ID, State: h.State, Duplicate: true}
	if j.OnConflict != sojourn.Replace { // no lock: the key is its holder's, even if the holder changes
		b.done[i] = done
		return nil
	}
	if !h.Live {
		return sojourn.Conflict("job %d is %s and keeps the key %.64q; it cannot be replaced", h.ID, h.State, j.Key)
	}
	if h.Pending {
		if err := b.WriteJobs(); err != nil { // its row is to be there
			return err
		}
	}
	l, err := b.LoadOne(h.ID)
	if err == nil && l == nil {
		err = txn.Raced("the holder of a key has ended meanwhile")
	}
	if err != nil {
		return err
	}
	if l.Claimed || l.State > sojourn.Ready || l.Key != j.Key {
		return sojourn.Conflict("job %d has the key %.64q and was claimed already (%s); it cannot be replaced", h.ID, j.Key, l.State)
	}
	if err := b.resolve(j); err != nil {
		return err
	}
	done.State, done.Replaced = b.startState(j), true
	b.replaced = append(b.replaced, i)
	b.done[i] = done
	return nil
}

// planInsert decides the insert of a job that is new, by its queue.
func (b *Batch) planInsert(i int) error {
	j := &b.jobs[i]
	if err := b.resolve(j); err != nil {
		return err
	}
	if err := b.checkDepth(j); err != nil {
		return err
	}
	b.done[i] = sojourn.Enqueued{ID: j.ID, State: b.startState(j)}
	if b.fresh == nil {
		b.fresh = make([]int, 0, len(b.jobs))
	}
	b.fresh = append(b.fresh, i)
	if len(b.jobs) == 1 {
		return nil // ids and keys are not checked for repeats
	}
	b.noteID(j.ID, i)
	if j.Key != "" {
		if b.keys == nil {
			b.keys = map[txn.KindKey]int{}
		}
		b.keys[txn.KindKey{Kind: j.Kind, Key: j.Key}] = i
	}
	return nil
}

// noteID records the position of an id in the call.
func (p *callPlan) noteID(id sojourn.ID, i int) {
	if p.ids != nil {
		p.ids[id] = i
	}
}

// resolve fills in the defaults of the job's queue, and turns its delay into a time. It notes a
// queue that is to be created.
func (b *Batch) resolve(j *sojourn.Job) error {
	q := b.Rows[j.Queue]
	if !q.Found && b.Core.Cfg.Declared {
		return sojourn.NotFound("there is no queue %s, and this store takes jobs only for queues that were made with DeclareQueue or queue set", j.Queue)
	}
	if !q.Found {
		if err := b.createQueue(j.Queue); err != nil {
			return err
		}
	}
	j.Resolve(q.Defaults)
	if j.Delay > 0 {
		j.RunAt = jobrow.Time(b.Now + j.Delay.Microseconds())
	}
	if j.RunAt.UnixMicro() < b.Now {
		j.RunAt = jobrow.Time(b.Now)
	}
	return gate.CheckWindows(b.Tx, j, q.Windows)
}

// startState is the state in which a job is stored.
func (b *Batch) startState(j *sojourn.Job) sojourn.State {
	if lifecycle.Opening(j.RunAt.UnixMicro(), j.Policy) > b.Now {
		return sojourn.Scheduled
	}
	return sojourn.Ready
}

// register makes the planned call visible to the calls after it.
func (b *Batch) register() {
	for _, i := range b.fresh {
		j := &b.jobs[i]
		b.Known[j.ID] = KnownJob{b.digests[i], b.done[i].State}
		if j.Key != "" {
			b.Holders[txn.KindKey{Kind: j.Kind, Key: j.Key}] = txn.Holder{ID: j.ID, Queue: j.Queue, Live: true, State: b.done[i].State, Pending: true}
		}
	}
	for _, i := range b.replaced {
		k := txn.KindKey{Kind: b.jobs[i].Kind, Key: b.jobs[i].Key}
		h := b.Holders[k]
		h.State, h.Queue = b.done[i].State, b.jobs[i].Queue
		b.Holders[k] = h
	}
}
