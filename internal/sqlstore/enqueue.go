package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

type enqueueAsk struct {
	jobs    []sojourn.Job
	digests []digest // of the jobs
	caller  *access.Caller
	partial bool
	notJSON []error  // the refusal of each job whose args do not parse; nil if all do
	given   *[]given // where others write concurrently: the jobs before they were resolved; nil elsewhere
}

// given holds the fields of a job that resolve overwrites: a repeated transaction may find other
// settings.
type given struct {
	priority, weight int32
	runAt            time.Time
	tags             []string
	policy           sojourn.Policy
}

func (s *enqueuer) ask(c *access.Caller, jobs []sojourn.Job, partial bool) enqueueAsk {
	ask := enqueueAsk{jobs: jobs, digests: digests(jobs, c), caller: c, partial: partial, notJSON: s.core.jsonErrors(jobs)}
	if s.core.db.Dialect().Concurrent {
		ask.given = new([]given)
	}
	return ask
}

// restore resets the jobs to their state at its first call.
func (a *enqueueAsk) restore() {
	switch {
	case a.given == nil:
	case *a.given == nil:
		*a.given = make([]given, len(a.jobs))
		for i := range a.jobs {
			j := &a.jobs[i]
			(*a.given)[i] = given{j.Priority, j.Weight, j.RunAt, j.Tags, j.Policy}
		}
	default:
		for i, g := range *a.given {
			j := &a.jobs[i]
			j.Priority, j.Weight, j.RunAt, j.Tags, j.Policy = g.priority, g.weight, g.runAt, g.tags, g.policy
		}
	}
}

// enqueueAnswer carries a refusal that was found before any write, so that the other requests of
// the group need not run again.
type enqueueAnswer struct {
	done    []sojourn.Enqueued
	refused error
}

// enqueuer stores jobs and leases their ids.
type enqueuer struct {
	core    *core
	op      *op[enqueueAsk, enqueueAnswer]
	idsOp   *op[idsAsk, sojourn.ID]
	backlog backlog
	spare   spareIDs // for transactions of the application
}

func newEnqueuer(c *core) *enqueuer {
	s := &enqueuer{core: c, idsOp: eachOp("ids", groupcommit.Claim, leaseIDs)}
	s.op = &op[enqueueAsk, enqueueAnswer]{name: "enqueue", class: groupcommit.Enqueue, cached: true,
		begin: func(t *tx, asks []enqueueAsk) batch[enqueueAnswer] { return &enqueue{tx: t, svc: s, asks: asks} }}
	return s
}

// run plans the calls in turn, and writes the rows of all together.
func (e *enqueue) run() ([]enqueueAnswer, error) {
	answers := make([]enqueueAnswer, len(e.asks))
	for i, ask := range e.asks {
		var err error
		if answers[i].done, err = e.plan(ask); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			answers[i].refused = err
			continue
		}
		if i < len(e.asks)-1 {
			e.remember()
		}
	}
	e.learned.queues, e.learned.block = e.rows, e.block
	return answers, e.write()
}

// Enqueue stores jobs; see driver.Store.
func (s *enqueuer) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if err := s.core.noRoom(); err != nil {
		return nil, err
	}
	a, err := do(ctx, s.core, s.op, len(jobs), s.ask(access.CallerOf(ctx), jobs, partial))
	if err == nil {
		err = a.refused
	}
	return a.done, err
}

// noRoom refuses new jobs if little space is left. Finishes and responses are always accepted.
func (s *core) noRoom() error {
	if s.cfg.NoRoom == nil {
		return nil
	}
	return s.cfg.NoRoom()
}

const (
	// qInsertJob fails if an id was used meanwhile, and with it the transaction, which is repeated.
	// On PostgreSQL it costs a third of qAddJob, which looks up each id before it writes the row,
	// and marks the row once more after it.
	qInsertJob = `insert into sj_job (id, orig_run_at_us, created_us, kind, key, grp, content_type, tags, meta, policy, digest, args)
		rows($1 bigint, $2 bigint, $3 bigint, $4 text, $5 text, $6 text, $7 text, $8 text, $9 text, $10 text, $11 bytea, $12 bytea)`
	// qAddJob is for transactions of the application, which may continue after a conflict.
	qAddJob = qInsertJob + ` on conflict (id) do nothing /*hit id*/`
)

// write inserts the jobs planned so far.
func (e *enqueue) write() error {
	plans := e.plans
	e.plans = nil
	if len(plans) == 0 {
		return nil
	}
	var fresh []*sojourn.Job
	var contents [][]byte // digests of fresh
	var reused []kindKey
	for _, p := range plans {
		for _, i := range p.fresh {
			fresh, contents = append(fresh, &p.jobs[i]), append(contents, p.digests[i][:])
		}
		reused = append(reused, p.reused...)
	}
	if err := e.takeKeys(fresh, reused); err != nil {
		return err
	}
	if err := e.insertJobs(fresh, contents); err != nil {
		return err
	}
	e.insertQueues(plans)
	for _, p := range plans {
		if err := e.replace(p); err != nil {
			return err
		}
	}
	for k, h := range e.holders {
		if h.fresh {
			h.fresh = false
			e.holders[k] = h
		}
	}
	return nil
}

// takeKeys gives the keys to the jobs to be inserted, in one order everywhere.
func (e *enqueue) takeKeys(fresh []*sojourn.Job, reused []kindKey) error {
	slices.SortFunc(reused, func(a, b kindKey) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key)) })
	if err := e.lockReused(reused); err != nil {
		return err
	}
	for _, k := range reused {
		if err := e.rememberHolder(k.kind, k.key, 0); err != nil {
			return err
		}
	}
	keyed := slices.DeleteFunc(slices.Clone(fresh), func(j *sojourn.Job) bool { return j.Key == "" })
	slices.SortFunc(keyed, func(a, b *sojourn.Job) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	s := newSheet(len(keyed), 3, 2, 0)
	for _, j := range keyed {
		s.row(int64(j.ID)).ints(1, 1, 0).strings(j.Kind, j.Key)
	}
	take, wanted := qTakeKey, len(keyed)
	if e.guessed != nil {
		take, wanted = qNewKey, 0
	}
	e.laterSheet(take, wanted, "a key was taken meanwhile", s)
	return nil
}

func (e *enqueue) insertJobs(fresh []*sojourn.Job, contents [][]byte) error {
	n := len(fresh)
	s := newSheet(n, 2, 7, 2)
	e.pending.fresh = slices.Grow(e.pending.fresh, n)
	var policies policyText
	for i, j := range fresh {
		text, err := describe(j, &policies)
		if err != nil {
			return err
		}
		runAt := j.RunAt.UnixMicro()
		s.row(int64(j.ID)).ints(runAt, e.now).strings(j.Kind, j.Key, j.Group, j.ContentType, text.tags, text.meta, text.policy).bytes(contents[i], j.Args)
		l := e.newLive(j)
		l.policyJSON = text.policy
		if l.Policy, err = e.s.decoder.policy(text.policy); err != nil {
			return err
		}
		e.addFresh(l, carried{group: j.Group, contentType: j.ContentType, tags: text.tags, meta: text.meta, origRunAt: runAt, created: e.now, args: j.Args})
	}
	add, wanted := qAddJob, n
	if _, own := e.Conn.(sqldb.Committer); own {
		add, wanted = qInsertJob, 0
	}
	e.laterSheet(add, wanted, "an id was used meanwhile", s)
	return nil
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

// replace gives jobs that were never claimed the values of the newer ones.
func (e *enqueue) replace(p *enqueuePlan) error {
	for _, i := range p.replaced {
		j, id := &p.jobs[i], p.done[i].ID
		text, err := describe(j, &policyText{})
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
		tr := rules.Transition{Rule: "N6", To: l.Row, Outcome: "replaced"}
		e.addHistory(was, &l, tr, change{by: p.caller.Owner()})
		if err := e.save(was, &l); err != nil {
			return err
		}
	}
	return nil
}

// described holds the fields of a job that are stored as JSON.
type described struct{ tags, meta, policy string }

func describe(j *sojourn.Job, policies *policyText) (d described, err error) {
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
	d.policy, err = policies.of(&j.Policy)
	return d, err
}
