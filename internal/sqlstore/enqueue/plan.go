package enqueue

import (
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
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
}

// Plan decides a call, and adds it to the plans to be written. It only reads, except that a job
// that replaces one of an earlier call has that written first. An error with a code refuses the
// call; other errors fail the transaction.
func (e *Batch) Plan(req Request) ([]sojourn.Enqueued, error) {
	req.restore()
	e.callPlan = &callPlan{jobs: req.Jobs, digests: req.Digests, caller: req.Caller, notJSON: req.NotJSON, done: make([]sojourn.Enqueued, len(req.Jobs))}
	if !ascending(req.Jobs) {
		e.ids = make(map[sojourn.ID]int, len(req.Jobs))
	}
	for i := range e.jobs {
		if err := e.planOne(i); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			if e.Cache.Validators != nil {
				return nil, txn.Raced("a refusal is not decided from the cache")
			}
			indexed := sojourn.AtIndex(i, err)
			if !req.partial {
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

// planKey decides by the holder of the key, and reports whether the job is not inserted.
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
	case e.Cache.Validators != nil:
		return true, txn.Raced("the holder of a key is not decided from the cache")
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
	return true, e.planHeldKey(i, h)
}

// planHeldKey decides a job whose key is taken: by a live job, or by a final one that keeps it.
func (e *Batch) planHeldKey(i int, h txn.Holder) error {
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
	if h.Pending {
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

// planInsert decides the insert of a job that is new, by its queue.
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

// noteID records the position of an id in the call.
func (p *callPlan) noteID(id sojourn.ID, i int) {
	if p.ids != nil {
		p.ids[id] = i
	}
}

// resolve fills in the defaults of the job's queue, and turns its delay into a time. It notes a
// queue that is to be created.
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

// startState is the state in which a job is stored.
func (e *Batch) startState(j *sojourn.Job) sojourn.State {
	if lifecycle.Opening(j.RunAt.UnixMicro(), j.Policy) > e.Now {
		return sojourn.Scheduled
	}
	return sojourn.Ready
}

// register makes the planned call visible to the calls after it.
func (e *Batch) register() {
	for _, i := range e.fresh {
		j := &e.jobs[i]
		e.Known[j.ID] = KnownJob{e.digests[i], e.done[i].State}
		if j.Key != "" {
			e.Holders[txn.KindKey{Kind: j.Kind, Key: j.Key}] = txn.Holder{ID: j.ID, Queue: j.Queue, Live: true, State: e.done[i].State, Pending: true}
		}
	}
	for _, i := range e.replaced {
		k := txn.KindKey{Kind: e.jobs[i].Kind, Key: e.jobs[i].Key}
		h := e.Holders[k]
		h.State, h.Queue = e.done[i].State, e.jobs[i].Queue
		e.Holders[k] = h
	}
}
