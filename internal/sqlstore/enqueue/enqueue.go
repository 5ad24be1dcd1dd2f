package enqueue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

type Request struct {
	Jobs    []sojourn.Job
	Digests []jobrow.Digest // of the jobs
	Caller  *access.Caller
	partial bool
	NotJSON []error  // the refusal of each job whose args do not parse; nil if all do
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

func (s *Enqueuer) ask(c *access.Caller, jobs []sojourn.Job, partial bool) Request {
	ask := Request{Jobs: jobs, Digests: jobrow.Digests(jobs, c), Caller: c, partial: partial, NotJSON: s.core.JSONErrors(jobs)}
	if s.core.DB.Dialect().Concurrent {
		ask.given = new([]given)
	}
	return ask
}

// restore resets the jobs to their state at its first call.
func (a *Request) restore() {
	switch {
	case a.given == nil:
	case *a.given == nil:
		*a.given = make([]given, len(a.Jobs))
		for i := range a.Jobs {
			j := &a.Jobs[i]
			(*a.given)[i] = given{j.Priority, j.Weight, j.RunAt, j.Tags, j.Policy}
		}
	default:
		for i, g := range *a.given {
			j := &a.Jobs[i]
			j.Priority, j.Weight, j.RunAt, j.Tags, j.Policy = g.priority, g.weight, g.runAt, g.tags, g.policy
		}
	}
}

// Answer carries a refusal that was found before any write, so that the other requests of
// the group need not run again.
type Answer struct {
	done    []sojourn.Enqueued
	refused error
}

// Enqueuer stores jobs and leases their ids.
type Enqueuer struct {
	core    *txn.Core
	Op      *txn.Op[Request, Answer]
	idsOp   *txn.Op[idsAsk, sojourn.ID]
	backlog backlog
	spare   spareIDs // for transactions of the application
}

func NewEnqueuer(c *txn.Core) *Enqueuer {
	s := &Enqueuer{core: c, idsOp: txn.EachOp("ids", groupcommit.Claim, leaseIDs)}
	s.Op = &txn.Op[Request, Answer]{Name: "enqueue", Class: groupcommit.Enqueue, Cached: true,
		Begin: func(t *txn.Tx, asks []Request) txn.Batch[Answer] { return &Batch{Tx: t, Enqueuer: s, Requests: asks} }}
	return s
}

// Run plans the calls in turn, and writes the rows of all together.
func (e *Batch) Run() ([]Answer, error) {
	answers := make([]Answer, len(e.Requests))
	for i, ask := range e.Requests {
		var err error
		if answers[i].done, err = e.Plan(ask); err != nil {
			if sojourn.ErrorCode(err) == "" {
				return nil, err
			}
			answers[i].refused = err
			continue
		}
		if i < len(e.Requests)-1 {
			e.register()
		}
	}
	e.Cache.Learned.Queues, e.Cache.Learned.Block = e.Rows, e.block
	return answers, e.WriteJobs()
}

// Enqueue stores jobs; see driver.Store.
func (s *Enqueuer) Enqueue(ctx context.Context, jobs []sojourn.Job, partial bool) ([]sojourn.Enqueued, error) {
	if len(jobs) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("jobs", "%d jobs exceed the limit of %d a call; split them", len(jobs), sojourn.MaxBatch)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	if err := checkRoom(s.core); err != nil {
		return nil, err
	}
	a, err := txn.Do(ctx, s.core, s.Op, len(jobs), s.ask(access.CallerOf(ctx), jobs, partial))
	if err == nil {
		err = a.refused
	}
	return a.done, err
}

// checkRoom refuses new jobs if little space is left. Finishes and responses are always accepted.
func checkRoom(s *txn.Core) error {
	if s.Cfg.NoRoom == nil {
		return nil
	}
	return s.Cfg.NoRoom()
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

// WriteJobs inserts the jobs planned so far.
func (e *Batch) WriteJobs() error {
	plans := e.plans
	e.plans = nil
	if len(plans) == 0 {
		return nil
	}
	var fresh []*sojourn.Job
	var contents [][]byte // digests of fresh
	var reused []txn.KindKey
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
	for k, h := range e.Holders {
		if h.Pending {
			h.Pending = false
			e.Holders[k] = h
		}
	}
	return nil
}

// takeKeys gives the keys to the jobs to be inserted, in one order everywhere.
func (e *Batch) takeKeys(fresh []*sojourn.Job, reused []txn.KindKey) error {
	slices.SortFunc(reused, func(a, b txn.KindKey) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	if err := e.lockReused(reused); err != nil {
		return err
	}
	for _, k := range reused {
		if err := lifecycle.RememberHolder(e.Tx, k.Kind, k.Key, 0); err != nil {
			return err
		}
	}
	keyed := slices.DeleteFunc(slices.Clone(fresh), func(j *sojourn.Job) bool { return j.Key == "" })
	slices.SortFunc(keyed, func(a, b *sojourn.Job) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	s := jobrow.NewColumns(len(keyed), 3, 2, 0)
	for _, j := range keyed {
		s.Row(int64(j.ID)).Ints(1, 1, 0).Strings(j.Kind, j.Key)
	}
	take, wanted := lifecycle.QTakeKey, len(keyed)
	if e.Cache.Validators != nil {
		take, wanted = lifecycle.QNewKey, 0
	}
	e.AddColumns(take, wanted, "a key was taken meanwhile", s)
	return nil
}

func (e *Batch) insertJobs(fresh []*sojourn.Job, contents [][]byte) error {
	n := len(fresh)
	s := jobrow.NewColumns(n, 2, 7, 2)
	e.Writes.Inserts = slices.Grow(e.Writes.Inserts, n)
	var policies jobrow.PolicyText
	for i, j := range fresh {
		text, err := describe(j, &policies)
		if err != nil {
			return err
		}
		runAt := j.RunAt.UnixMicro()
		s.Row(int64(j.ID)).Ints(runAt, e.Now).Strings(j.Kind, j.Key, j.Group, j.ContentType, text.tags, text.meta, text.policy).Bytes(contents[i], j.Args)
		l := e.newLive(j)
		l.PolicyJSON = text.policy
		if l.Policy, err = e.Core.Caches.Decoder.Policy(text.policy); err != nil {
			return err
		}
		e.AddInsert(l, txn.JobColumns{Group: j.Group, ContentType: j.ContentType, Tags: text.tags, Meta: text.meta, OrigRunAt: runAt, Created: e.Now, Args: j.Args})
	}
	add, wanted := qAddJob, n
	if _, own := e.Conn.(sqldb.Committer); own {
		add, wanted = qInsertJob, 0
	}
	e.AddColumns(add, wanted, "an id was used meanwhile", s)
	return nil
}

func (e *Batch) newLive(j *sojourn.Job) *jobrow.Row {
	l := &jobrow.Row{Queue: j.Queue, Kind: j.Kind, Key: j.Key, Group: j.Group, Priority: j.Priority, Generation: 1,
		RunAt: lifecycle.Opening(j.RunAt.UnixMicro(), j.Policy)}
	l.ID, l.State, l.Weight = j.ID, e.startState(j), j.Weight
	l.Deadline = DeadlineOf(e.Tx, j.Policy)
	l.SetRank(e.Rows[j.Queue].QueueSettings)
	return l
}

func DeadlineOf(t *txn.Tx, p sojourn.Policy) int64 {
	if p.Deadline == 0 {
		return 0
	}
	return t.Now + p.Deadline.Microseconds()
}

const qReplaceJob = `update sj_job set grp = $1, content_type = $2, tags = $3, meta = $4, policy = $5, orig_run_at_us = $6, args = $7 where id = $8`

// replace gives jobs that were never claimed the values of the newer ones.
func (e *Batch) replace(p *callPlan) error {
	for _, i := range p.replaced {
		j, id := &p.jobs[i], p.done[i].ID
		text, err := describe(j, &jobrow.PolicyText{})
		if err != nil {
			return err
		}
		was, err := e.LoadOne(id)
		if err == nil && was == nil {
			err = txn.Raced("a job ended before it was replaced")
		}
		if err != nil {
			return err
		}
		if _, err := e.Write(qReplaceJob, j.Group, j.ContentType, text.tags, text.meta, text.policy, j.RunAt.UnixMicro(), j.Args, int64(id)); err != nil {
			return err
		}
		l := *was
		l.Queue, l.Group, l.Priority, l.Weight, l.RunAt, l.State = j.Queue, j.Group, j.Priority, j.Weight, lifecycle.Opening(j.RunAt.UnixMicro(), j.Policy), e.startState(j)
		l.Policy, l.Deadline = j.Policy, DeadlineOf(e.Tx, j.Policy)
		tr := rules.Transition{Rule: "N6", To: l.Row, Outcome: "replaced"}
		lifecycle.AddHistory(e.Tx, was, &l, tr, lifecycle.Change{By: p.caller.Owner()})
		if err := e.Save(was, &l); err != nil {
			return err
		}
	}
	return nil
}

// described holds the fields of a job that are stored as JSON.
type described struct{ tags, meta, policy string }

func describe(j *sojourn.Job, policies *jobrow.PolicyText) (d described, err error) {
	if len(j.Tags) > 0 {
		if d.tags, err = jobrow.JSONText(j.Tags); err != nil {
			return d, err
		}
	}
	if len(j.Meta) > 0 {
		if d.meta, err = jobrow.JSONText(j.Meta); err != nil {
			return d, err
		}
	}
	d.policy, err = policies.Of(&j.Policy)
	return d, err
}
