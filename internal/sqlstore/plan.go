package sqlstore

import (
	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
)

// enqueue is the calls of one transaction: first all reads and decisions, then all writes.
type enqueue struct {
	*tx
	svc    *enqueuer
	asks   []enqueueAsk
	ending *live // the job whose completion enqueues these: its key is free by then

	// The rows in the database, with the changes of the planned calls.
	known   map[sojourn.ID]knownJob
	holders map[kindKey]holder
	rows    map[string]*queueRow // every queue that a job names
	block   block
	drawn   block            // ids that were drawn for jobs without one, see draw
	counted map[string]int64 // token → queues that it has created, with those of the planned calls

	plans        []*enqueuePlan // to be written; a refused call has none
	*enqueuePlan                // of the current call
}

// enqueuePlan is what one call does.
type enqueuePlan struct {
	jobs    []sojourn.Job
	digests []digest // of the jobs
	caller  *access.Caller
	done    []sojourn.Enqueued
	notJSON []error // see enqueueAsk

	created  map[string]bool    // queues that do not exist yet
	reused   []kindKey          // keys of final jobs that are still stored
	ids      map[sojourn.ID]int // of this call → index; nil if no id can occur twice
	keys     map[kindKey]int    // of jobs that this call inserts → index
	fresh    []int              // indices to insert
	replaced []int              // indices whose values replace those of done[i].ID
}

// knownJob is a job that was stored before: the call is repeated if it has the same digest.
type knownJob struct {
	digest digest
	state  sojourn.State
}

const (
	qKnown = `select j.id, j.digest, coalesce(l.state, f.state, 0) from sj_job j
		left join sj_live l on l.id = j.id left join sj_final f on f.id = j.id where j.id in (ints($1))`
	qHolders = `select k.kind, k.key, k.job, k.live, k.held_until_us, coalesce(l.state, f.state, 0), coalesce(l.queue, f.queue, '') from sj_key k
		left join sj_live l on l.id = k.job left join sj_final f on f.id = k.job /*, each*/
		where k.kind = each($1 text) and k.key = each($2 text)`
)

// covers takes the queues and blocks of ids of a call from the cache, and reports whether all are
// cached. Jobs with windows are written before a claim runs (canHold), so their own rows would fail
// the validator.
func (e *enqueue) covers(ask enqueueAsk) bool {
	e.asks = append(e.asks, ask)
	for i := range ask.jobs {
		j := &ask.jobs[i]
		if len(j.Policy.Windows) > 0 {
			return false
		}
		if !e.block.holds(int64(j.ID)) {
			b, ok := e.s.guesses.block(int64(j.ID))
			if !ok {
				return false
			}
			e.block = b
		}
		if e.rows[j.Queue] == nil {
			q, ok := e.s.guesses.queue(j.Queue)
			if !ok || len(q.Defaults.Policy.Windows) > 0 {
				return false
			}
			e.rows[j.Queue] = &q
		}
	}
	return true
}

// reads returns one query each for ids, keys and queues.
func (e *enqueue) reads() []sqldb.Statement {
	e.known, e.holders = map[sojourn.ID]knownJob{}, map[kindKey]holder{}
	var ids sqldb.Ints
	var kinds, keys, queues sqldb.Texts
	e.rows = map[string]*queueRow{}
	for _, ask := range e.asks {
		for i := range ask.jobs {
			j := &ask.jobs[i]
			if b, fresh := e.unused(j.ID, driver.IDOwner(j, ask.caller.Owner())); fresh {
				e.block = b
			} else {
				ids = append(ids, int64(j.ID))
			}
			if j.Key != "" {
				kinds, keys = append(kinds, j.Kind), append(keys, j.Key)
			}
			if e.rows[j.Queue] == nil {
				e.rows[j.Queue] = &queueRow{reshape: -1}
				queues = append(queues, j.Queue)
			}
		}
	}
	reads := []sqldb.Statement{{Text: qQueueRows, Rows: []sqldb.Column{queues}, Each: func(r sqldb.Row) error { return e.scanQueueRow(r, e.rows) }}}
	if len(ids) > 0 {
		reads = append(reads, sqldb.Statement{Text: qKnown, Args: []any{ids}, Each: func(r sqldb.Row) error {
			k := knownJob{state: sojourn.State(r.Int(2))}
			copy(k.digest[:], r.Bytes(1))
			e.known[sojourn.ID(r.Int(0))] = k
			return nil
		}})
	}
	if e.block.size+e.drawn.size == 0 { // else it was leased or drawn a moment ago
		reads = append(reads, sqldb.Statement{Text: qFindBlock, Args: []any{ids[0]}, Each: e.block.scan})
	}
	if len(keys) > 0 {
		reads = append(reads, sqldb.Statement{Text: qHolders, Rows: []sqldb.Column{kinds, keys}, Each: func(r sqldb.Row) error {
			e.holders[kindKey{r.Text(0), r.Text(1)}] = holder{id: sojourn.ID(r.Int(2)), queue: r.Text(6), live: r.Int(3) != 0, held: r.Int(4),
				state: sojourn.State(r.Int(5))}
			return nil
		}})
	}
	return reads
}

// plan decides for each job of a call in turn: first the id, then the key, then the insert. It only
// reads. A refused call leaves no trace.
func (e *enqueue) plan(ask enqueueAsk) ([]sojourn.Enqueued, error) {
	ask.restore()
	e.enqueuePlan = &enqueuePlan{jobs: ask.jobs, digests: ask.digests, caller: ask.caller, notJSON: ask.notJSON, done: make([]sojourn.Enqueued, len(ask.jobs))}
	if !ascend(ask.jobs) {
		e.ids = make(map[sojourn.ID]int, len(ask.jobs))
	}
	for i := range e.jobs {
		if err := e.planOne(i); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			if e.guessed != nil {
				return nil, raced("who is refused may be known")
			}
			indexed := sojourn.AtIndex(i, err)
			if !ask.partial {
				return nil, indexed
			}
			e.done[i] = sojourn.Enqueued{Err: indexed}
		}
	}
	e.plans = append(e.plans, e.enqueuePlan)
	for q := range e.created {
		e.rows[q].found = true
	}
	if n, ok := e.counted[e.caller.Owner()]; ok {
		e.counted[e.caller.Owner()] = n + int64(len(e.created))
	}
	return e.done, nil
}

// remember makes the planned call visible to the calls after it.
func (e *enqueue) remember() {
	for _, i := range e.fresh {
		j := &e.jobs[i]
		e.known[j.ID] = knownJob{e.digests[i], e.done[i].State}
		if j.Key != "" {
			e.holders[kindKey{j.Kind, j.Key}] = holder{id: j.ID, queue: j.Queue, live: true, state: e.done[i].State, fresh: true}
		}
	}
	for _, i := range e.replaced {
		k := kindKey{e.jobs[i].Kind, e.jobs[i].Key}
		h := e.holders[k]
		h.state, h.queue = e.done[i].State, e.jobs[i].Queue
		e.holders[k] = h
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

func (e *enqueue) planOne(i int) error {
	j := &e.jobs[i]
	if err := j.Validate(e.s.cfg.MaxBytes); err != nil {
		return err
	}
	if e.notJSON != nil && e.notJSON[i] != nil {
		return e.notJSON[i]
	}
	if j.ID <= 0 {
		return sojourn.Invalid("id", "the job has none; draw ids with Store.IDs, or use Client.Enqueue")
	}
	if err := sojourn.ValidRunAt(j.RunAt, at(e.now)); err != nil {
		return err
	}
	k, known := e.known[j.ID]
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
	if !e.drawn.holds(int64(j.ID)) {
		if err := e.checkID(j.ID, driver.IDOwner(j, e.caller.Owner()), &e.block); err != nil {
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
func (e *enqueue) planKey(i int) (taken bool, err error) {
	j := &e.jobs[i]
	k := kindKey{j.Kind, j.Key}
	if first, ok := e.keys[k]; ok {
		if j.OnConflict == sojourn.ReturnError {
			return true, sojourn.Conflict("the key %.64q of kind %s stands twice in the batch", j.Key, j.Kind)
		}
		e.noteID(j.ID, first)
		e.done[i] = e.done[first]
		e.done[i].Duplicate = true
		return true, nil
	}
	h, ok := e.holders[k]
	switch {
	case !ok:
		return false, nil
	case e.guessed != nil:
		return true, raced("who comes second may be known")
	}
	if h.live && e.ending != nil && h.id == e.ending.ID {
		h.live, h.held = false, e.now
		if h.state = sojourn.Completed; e.ending.Policy.KeepKey > 0 {
			h.held = never
		}
	}
	if !h.live && h.held <= e.now {
		e.reused = append(e.reused, k)
		return false, nil
	}
	return true, e.meetHolder(i, h)
}

// meetHolder answers for a key that is taken: by a live job, or by a final one that keeps it.
func (e *enqueue) meetHolder(i int, h holder) error {
	j := &e.jobs[i]
	if !e.caller.Allows(access.VerbEnqueue, h.queue, j.Kind) {
		return sojourn.Conflict("a job that this token has no grant for has the key %.64q of kind %s; use another key", j.Key, j.Kind)
	}
	if j.OnConflict == sojourn.ReturnError {
		return sojourn.Conflict("job %d of kind %s has the key %.64q", h.id, j.Kind, j.Key)
	}
	done := sojourn.Enqueued{ID: h.id, State: h.state, Duplicate: true}
	if j.OnConflict != sojourn.Replace { // no lock: the key is its holder's, even if the holder changes
		e.done[i] = done
		return nil
	}
	if !h.live {
		return sojourn.Conflict("job %d is %s and keeps the key %.64q; it cannot be replaced", h.id, h.state, j.Key)
	}
	if h.fresh {
		if err := e.write(); err != nil { // its row is to be there
			return err
		}
	}
	l, err := e.loadOne(h.id)
	if err == nil && l == nil {
		err = raced("the holder of a key has ended meanwhile")
	}
	if err != nil {
		return err
	}
	if l.Claimed || l.State > sojourn.Ready || l.key != j.Key {
		return sojourn.Conflict("job %d has the key %.64q and was claimed already (%s); it cannot be replaced", h.id, j.Key, l.State)
	}
	if err := e.resolve(j); err != nil {
		return err
	}
	done.State, done.Replaced = e.startState(j), true
	e.replaced = append(e.replaced, i)
	e.done[i] = done
	return nil
}

func (e *enqueue) planInsert(i int) error {
	j := &e.jobs[i]
	if err := e.resolve(j); err != nil {
		return err
	}
	if err := e.admit(j); err != nil {
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
			e.keys = map[kindKey]int{}
		}
		e.keys[kindKey{j.Kind, j.Key}] = i
	}
	return nil
}

func (p *enqueuePlan) noteID(id sojourn.ID, i int) {
	if p.ids != nil {
		p.ids[id] = i
	}
}

// resolve fills the job's defaults and turns its delay into a time.
func (e *enqueue) resolve(j *sojourn.Job) error {
	q := e.rows[j.Queue]
	if !q.found && e.s.cfg.Declared {
		return sojourn.NotFound("there is no queue %s, and this store takes jobs only for queues that were made with DeclareQueue or queue set", j.Queue)
	}
	if !q.found {
		if err := e.createQueue(j.Queue); err != nil {
			return err
		}
	}
	e.rely(j.Queue, q.shape)
	j.Resolve(q.Defaults)
	if j.Delay > 0 {
		j.RunAt = at(e.now + j.Delay.Microseconds())
	}
	if j.RunAt.UnixMicro() < e.now {
		j.RunAt = at(e.now)
	}
	return e.mayStart(j, q.Windows)
}

func (e *enqueue) startState(j *sojourn.Job) sojourn.State {
	if opening(j.RunAt.UnixMicro(), j.Policy) > e.now {
		return sojourn.Scheduled
	}
	return sojourn.Ready
}
