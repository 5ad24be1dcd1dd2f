package sqlstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sojourn-queue/sojourn"
)

type enqueueAsk struct {
	jobs    []sojourn.Job
	partial bool
}

// enqueueAnswer carries a refusal that was found before anything was written, so that the others of the group need not be run again.
type enqueueAnswer struct {
	done    []sojourn.Enqueued
	refused error
}

var stepEnqueue = eachStep("enqueue", func(t *tx, ask enqueueAsk) (enqueueAnswer, error) {
	e := enqueue{tx: t, jobs: ask.jobs, partial: ask.partial, done: make([]sojourn.Enqueued, len(ask.jobs))}
	if err := e.plan(); err != nil {
		if sojourn.ErrorCode(err) != "" {
			return enqueueAnswer{refused: err}, nil
		}
		return enqueueAnswer{}, err
	}
	return enqueueAnswer{done: e.done}, e.write()
})

// Enqueue stores jobs; see sojourn.Store.
func (s *Store) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	a, err := do[enqueueAnswer](ctx, s, classEnqueue, stepEnqueue, len(jobs), enqueueAsk{jobs, partial})
	if err == nil {
		err = a.refused
	}
	return a.done, err
}

// enqueue is one call: first everything is looked up and decided, then everything is written.
type enqueue struct {
	*tx
	jobs    []sojourn.Job
	partial bool
	ending  *live // the job whose completion carries these along: its key is free by then
	done    []sojourn.Enqueued

	queues   []string           // that do not exist yet
	reused   []kindKey          // keys of final jobs that are still stored
	ids      map[sojourn.ID]int // of this batch → index
	keys     map[kindKey]int    // of jobs that this batch inserts → index
	fresh    []int              // indices to insert
	replaced []int              // indices whose values replace those of done[i].ID
	rows     map[string]*queueRow
	block    block
}

type kindKey struct{ kind, key string }

// plan decides for each job in turn: first the id, then the key, then insert. It only reads.
func (e *enqueue) plan() error {
	e.ids, e.keys, e.rows = map[sojourn.ID]int{}, map[kindKey]int{}, map[string]*queueRow{}
	known, err := e.known()
	if err != nil {
		return err
	}
	for i := range e.jobs {
		if err := e.planOne(i, known); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return err
			}
			indexed := sojourn.AtIndex(i, err)
			if !e.partial {
				return indexed
			}
			e.done[i] = sojourn.Enqueued{Err: indexed}
		}
	}
	return nil
}

const qKnown = `select j.id, j.kind, j.key, coalesce(l.key, j.key), coalesce(l.state, f.state, 0) from sj_job j
	left join sj_live l on l.id = j.id left join sj_final f on f.id = j.id where j.id in (ints($1))`

type knownJob struct {
	kind, key, keyNow string
	state             sojourn.State
}

// known reads the jobs of the batch that were stored before: repeated calls.
func (e *enqueue) known() (map[sojourn.ID]knownJob, error) {
	ids := make(Ints, len(e.jobs))
	for i, j := range e.jobs {
		ids[i] = int64(j.ID)
	}
	known := map[sojourn.ID]knownJob{}
	err := e.query(qKnown, func(r Row) error {
		known[sojourn.ID(r.Int(0))] = knownJob{r.Text(1), r.Text(2), r.Text(3), sojourn.State(r.Int(4))}
		return nil
	}, ids)
	return known, err
}

func (e *enqueue) planOne(i int, known map[sojourn.ID]knownJob) error {
	j := &e.jobs[i]
	if err := j.Validate(e.s.cfg.MaxBytes); err != nil {
		return err
	}
	if j.ID <= 0 {
		return sojourn.Invalid("id", "the job has none; draw ids with Store.IDs, or use Client.Enqueue")
	}
	if err := sojourn.ValidRunAt(j.RunAt, at(e.now)); err != nil {
		return err
	}
	if k, ok := known[j.ID]; ok {
		// Not the args: a replace or an operator may have changed them since.
		if k.kind != j.Kind || k.key != j.Key && k.keyNow != j.Key {
			return sojourn.Conflict("a job with the id %d exists, with another kind or key; draw a new id", j.ID)
		}
		e.done[i] = sojourn.Enqueued{ID: j.ID, State: k.state, Duplicate: true}
		return nil
	}
	if first, ok := e.ids[j.ID]; ok {
		f := &e.jobs[first]
		if f.Kind != j.Kind || f.Key != j.Key || string(f.Args) != string(j.Args) {
			return sojourn.Conflict("the id %d stands twice in the batch, with different jobs", j.ID)
		}
		e.done[i] = e.done[first]
		e.done[i].Duplicate = true
		return nil
	}
	if err := e.checkID(j.ID, &e.block); err != nil {
		return err
	}
	if j.Key != "" {
		if taken, err := e.planKey(i); taken || err != nil {
			return err
		}
	}
	return e.planInsert(i)
}

const qKey = `select job, live, held_until_us from sj_key where kind = $1 and key = $2`

// planKey looks at who holds the key, and reports whether the job is not to be inserted.
func (e *enqueue) planKey(i int) (taken bool, err error) {
	j := &e.jobs[i]
	if first, ok := e.keys[kindKey{j.Kind, j.Key}]; ok {
		if j.OnConflict == sojourn.ReturnError {
			return true, sojourn.Conflict("the key %.64q of kind %s stands twice in the batch", j.Key, j.Kind)
		}
		e.ids[j.ID] = first
		e.done[i] = e.done[first]
		e.done[i].Duplicate = true
		return true, nil
	}
	var holder int64
	var live bool
	err = e.query(qKey, func(r Row) error {
		live = r.Int(1) != 0
		if live && e.ending != nil && r.Int(0) == int64(e.ending.ID) {
			live = false
			if e.ending.Policy.KeepKey == 0 {
				e.reused = append(e.reused, kindKey{j.Kind, j.Key})
				return nil
			}
		} else if !live && r.Int(2) <= e.now {
			e.reused = append(e.reused, kindKey{j.Kind, j.Key})
			return nil
		}
		holder = r.Int(0)
		return nil
	}, j.Kind, j.Key)
	if err != nil || holder == 0 {
		return false, err
	}
	return true, e.meetHolder(i, sojourn.ID(holder), live)
}

// meetHolder answers for a key that is taken: by a live job, or by a final one that keeps it.
func (e *enqueue) meetHolder(i int, holder sojourn.ID, live bool) error {
	j := &e.jobs[i]
	if j.OnConflict == sojourn.ReturnError {
		return sojourn.Conflict("job %d of kind %s has the key %.64q", holder, j.Kind, j.Key)
	}
	done := sojourn.Enqueued{ID: holder, Duplicate: true}
	if !live {
		state, err := e.num(`select state from sj_final where id = $1`, int64(holder))
		if err != nil {
			return err
		}
		done.State = sojourn.State(state)
		if j.OnConflict == sojourn.Replace {
			return sojourn.Conflict("job %d is %s and keeps the key %.64q; it cannot be replaced", holder, done.State, j.Key)
		}
		e.done[i] = done
		return nil
	}
	if j.OnConflict != sojourn.Replace { // a look without a lock: the key is its holder's, whatever becomes of that
		state, err := e.num(qStateOf, int64(holder))
		done.State = sojourn.State(state)
		e.done[i] = done
		return err
	}
	l, err := e.loadOne(holder)
	if err == nil && l == nil {
		err = raced("the holder of a key has ended meanwhile")
	}
	if err != nil {
		return err
	}
	done.State = l.State
	if j.OnConflict == sojourn.Replace {
		if l.Claimed || l.State > sojourn.Ready || l.key != j.Key {
			return sojourn.Conflict("job %d has the key %.64q and was claimed already (%s); it cannot be replaced", holder, j.Key, l.State)
		}
		if err := e.resolve(j); err != nil {
			return err
		}
		done.State, done.Replaced = e.startState(j), true
		e.replaced = append(e.replaced, i)
	}
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
	e.fresh = append(e.fresh, i)
	e.ids[j.ID] = i
	if j.Key != "" {
		e.keys[kindKey{j.Kind, j.Key}] = i
	}
	return nil
}

// row is the queue of a job, which its place in line depends on.
func (e *enqueue) row(queue string) (*queueRow, error) {
	if q, ok := e.rows[queue]; ok {
		return q, nil
	}
	q, err := e.queueRow(queue)
	if err != nil {
		return nil, err
	}
	if !q.found && e.s.cfg.Declared {
		return nil, sojourn.NotFound("there is no queue %s, and this store takes jobs only for queues that were made with SetQueue", queue)
	}
	if !q.found {
		e.queues = append(e.queues, queue)
	}
	e.rows[queue] = &q
	e.rely(queue, q.shape)
	return &q, nil
}

// resolve fills the job's defaults and turns its delay into a time.
func (e *enqueue) resolve(j *sojourn.Job) error {
	q, err := e.row(j.Queue)
	if err != nil {
		return err
	}
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

const (
	qAddJob = `insert into sj_job (id, kind, key, grp, content_type, tags, meta, policy, orig_run_at_us, created_us, args)
		rows($1 bigint, $2 text, $3 text, $4 text, $5 text, $6 text, $7 text, $8 text, $9 bigint, $10 bigint, $11 bytea)
		on conflict (id) do nothing /*hit id*/`
	qTakeKey = `insert into sj_key (job, kind, key, own, live, held_until_us) rows($1 bigint, $2 text, $3 text, $4 bigint, $5 bigint, $6 bigint)
		on conflict (kind, key) do update set job = excluded.job, own = excluded.own, live = excluded.live, held_until_us = excluded.held_until_us
		where sj_key.live = 0 /*hit job*/`
)

// write inserts what plan has chosen.
func (e *enqueue) write() error {
	var id, runAt, created, one, zero, keyed Ints
	var kind, key, group, contentType, tags, meta, policy, keyKind, keyText Texts
	var args Blobs
	lives := make([]*live, 0, len(e.fresh))
	for _, i := range e.fresh {
		j := &e.jobs[i]
		text, err := describe(j)
		if err != nil {
			return err
		}
		id, kind, key, group, contentType = append(id, int64(j.ID)), append(kind, j.Kind), append(key, j.Key), append(group, j.Group), append(contentType, j.ContentType)
		tags, meta, policy = append(tags, text.tags), append(meta, text.meta), append(policy, text.policy)
		runAt, created, args = append(runAt, j.RunAt.UnixMicro()), append(created, e.now), append(args, j.Args)
		if j.Key != "" {
			keyed, keyKind, keyText = append(keyed, int64(j.ID)), append(keyKind, j.Kind), append(keyText, j.Key)
			one, zero = append(one, 1), append(zero, 0)
		}
		lives = append(lives, e.newLive(j))
	}
	if err := e.lockReused(); err != nil {
		return err
	}
	for _, k := range e.reused {
		if err := e.rememberHolder(k.kind, k.key, 0); err != nil {
			return err
		}
	}
	taken := 0
	if err := e.bulk(qTakeKey, func(int64) { taken++ }, keyed, keyKind, keyText, one, one, zero); err != nil {
		return err
	}
	if taken != len(keyed) {
		return raced("a key was taken meanwhile")
	}
	added := 0
	if err := e.bulk(qAddJob, func(int64) { added++ }, id, kind, key, group, contentType, tags, meta, policy, runAt, created, args); err != nil {
		return err
	}
	if added != len(id) {
		return raced("an id was used meanwhile")
	}
	if err := e.insertLive(lives); err != nil {
		return err
	}
	for _, q := range e.queues {
		if err := e.seeQueue(q); err != nil {
			return err
		}
	}
	return e.replace()
}

func (e *enqueue) newLive(j *sojourn.Job) *live {
	l := &live{queue: j.Queue, kind: j.Kind, key: j.Key, group: j.Group, priority: j.Priority, generation: 1,
		runAt: opening(j.RunAt.UnixMicro(), j.Policy)}
	l.ID, l.State, l.Weight = j.ID, e.startState(j), j.Weight
	l.deadline = e.deadlineOf(j.Policy)
	l.put(e.rows[j.Queue].QueueSettings)
	return l
}

func (t *tx) deadlineOf(p sojourn.Policy) int64 {
	if p.Deadline == 0 {
		return 0
	}
	return t.now + p.Deadline.Microseconds()
}

const qReplaceJob = `update sj_job set grp = $1, content_type = $2, tags = $3, meta = $4, policy = $5, orig_run_at_us = $6, args = $7 where id = $8`

// replace gives jobs that were never claimed the values of the newer ones: N6.
func (e *enqueue) replace() error {
	for _, i := range e.replaced {
		j, id := &e.jobs[i], e.done[i].ID
		text, err := describe(j)
		if err != nil {
			return err
		}
		was, err := e.loadOne(id)
		if err == nil && was == nil {
			err = raced("a job ended before it was replaced")
		}
		if err != nil {
			return err
		}
		if _, err := e.exec(qReplaceJob, j.Group, j.ContentType, text.tags, text.meta, text.policy, j.RunAt.UnixMicro(), j.Args, int64(id)); err != nil {
			return err
		}
		l := *was
		l.queue, l.group, l.priority, l.Weight, l.runAt, l.State = j.Queue, j.Group, j.Priority, j.Weight, opening(j.RunAt.UnixMicro(), j.Policy), e.startState(j)
		l.Policy, l.deadline = j.Policy, e.deadlineOf(j.Policy)
		tr := sojourn.Transition{Rule: "N6", To: l.Row, Outcome: "replaced"}
		if err := e.addHistory(was, &l, tr, change{}); err != nil {
			return err
		}
		if err := e.save(was, &l); err != nil {
			return err
		}
	}
	return nil
}

// described is what of a job is stored as JSON.
type described struct{ tags, meta, policy string }

func describe(j *sojourn.Job) (d described, err error) {
	if len(j.Tags) > 0 {
		if d.tags, err = jsonText(j.Tags); err != nil {
			return d, err
		}
	}
	if len(j.Meta) > 0 {
		if d.meta, err = jsonText(j.Meta); err != nil {
			return d, err
		}
	}
	d.policy, err = jsonText(j.Policy)
	return d, err
}

func jsonText(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// micros is t in microseconds, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
