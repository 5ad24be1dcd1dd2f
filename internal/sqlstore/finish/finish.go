package finish

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/edge"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/joblog"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/member"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/question"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/ask"
)

// Finisher ends steps, extends leases, and writes under them. Safe for concurrent use.
type Finisher struct {
	core     *txn.Core
	gates    *gate.Gates
	enqueuer *enqueue.Enqueuer // stores the jobs that follow a completed one
	op       *txn.Op[request, answer]
	extendOp *txn.Op[[]sojourn.Lease, []driver.Extended]
	saveOp   *txn.Op[[]driver.Saved, []driver.Extended]
	members  *member.Counter // in transactions of the application
}

// NewFinisher makes the finisher of one store.
func NewFinisher(c *txn.Core, g *gate.Gates, e *enqueue.Enqueuer, m *member.Counter) *Finisher {
	s := &Finisher{core: c, gates: g, enqueuer: e, members: m}
	s.op = &txn.Op[request, answer]{Name: "finish", Class: groupcommit.Finish, Cached: true, Leases: leasesOf,
		Begin: func(t *txn.Tx, requests []request) txn.Batch[answer] { return &batch{t, s, requests} },
		Ends:  func(_ request, rows int) bool { return rows >= c.Cfg.Apart }} // small ones do not justify a sync of their own
	s.extendOp = txn.BatchOp("extend", groupcommit.Finish, extendBatch)
	s.extendOp.Leases = func(leases []sojourn.Lease, each func(sojourn.Lease, bool)) {
		for i := range leases {
			each(leases[i], false)
		}
	}
	s.saveOp = txn.BatchOp("save", groupcommit.Finish, saveBatch)
	s.saveOp.Leases = func(items []driver.Saved, each func(sojourn.Lease, bool)) {
		for i := range items {
			each(items[i].Lease, false)
		}
	}
	return s
}

// leasesOf passes on the leases of a request. The end of a job without next jobs concerns only the
// job, so that its row may come from a cache.
func leasesOf(req request, each func(l sojourn.Lease, final bool)) {
	for i := range req.outcomes {
		o := &req.outcomes[i]
		each(o.Lease, o.Type == sojourn.OutcomeCompleted && len(o.Next) == 0)
	}
}

// Finish ends steps; see driver.Claimer.
func (s *Finisher) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	if len(outcomes) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("outcomes", "%d outcomes exceed the limit of %d a call; split them", len(outcomes), sojourn.MaxBatch)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	req := newRequest(outcomes, access.CallerOf(ctx))
	if err := s.drawNext(ctx, &req); err != nil {
		return nil, err
	}
	return txn.Do(ctx, s.core, s.op, len(outcomes), req)
}

// drawNext draws ids for the next jobs without one. The caller need not: a repeated report is known
// by its lease, so it stores no job twice.
func (s *Finisher) drawNext(ctx context.Context, req *request) error {
	for i := range req.outcomes {
		n := withoutID(req.outcomes[i].Next)
		if n == 0 || n > sojourn.MaxBatch { // too many are refused later
			continue
		}
		ids, err := s.enqueuer.DrawIDs(ctx, n)
		if err != nil {
			return err
		}
		if req.drawn == nil {
			req.outcomes, req.drawn = slices.Clone(req.outcomes), make([]txn.Block, len(req.outcomes))
		}
		o := &req.outcomes[i]
		o.Next, req.drawn[i] = slices.Clone(o.Next), ids
		next := sojourn.ID(ids.First)
		for k := range o.Next {
			if o.Next[k].ID == 0 {
				o.Next[k].ID = next
				next++
			}
		}
	}
	return nil
}

func withoutID(jobs []sojourn.Job) (n int) {
	for i := range jobs {
		if jobs[i].ID == 0 {
			n++
		}
	}
	return n
}

// FinishTx ends a step in a transaction of the application; see driver.TxStore.
func (s *Finisher) FinishTx(ctx context.Context, in any, o sojourn.Outcome) error {
	req := newRequest([]sojourn.Outcome{o}, access.CallerOf(ctx))
	var folds func()
	err := s.core.Join(ctx, in, func(t *txn.Tx) error {
		if withoutID(o.Next) > 0 {
			next := slices.Clone(o.Next)
			ids, err := s.enqueuer.DrawInTx(ctx, t, next)
			if err != nil {
				return err
			}
			req.outcomes[0].Next, req.drawn = next, []txn.Block{ids}
		}
		if err := readTypes(t, []request{req}); err != nil {
			return err
		}
		b := batch{Tx: t, svc: s}
		f, err := b.one(&req, 0)
		if err != nil {
			return err
		}
		if err := s.gates.FlushPace(t); err != nil {
			return err
		}
		if err := edge.FlushJoined(t); err != nil {
			return err
		}
		folds = s.members.FlushJoined(t)
		switch f.Status {
		case driver.FinishApplied:
			return nil
		case driver.FinishRefused:
			return f.Err
		case driver.FinishRepeated:
			f.Reason = "this step has reported before that the job is " + f.State.String()
		}
		return &sojourn.Error{Code: sojourn.CodeLeaseLost, Index: -1, Err: sojourn.ErrLeaseLost,
			Message: "the lease of job " + strconv.FormatInt(int64(o.Lease.ID), 10) + " does not stand (" + f.Reason + "): roll back"}
	})
	if err == nil {
		folds()
	}
	return err
}

// request is one call of Finish.
type request struct {
	outcomes []sojourn.Outcome
	caller   *access.Caller   // for the next jobs
	notJSON  []jobrow.NotJSON // of each outcome; nil if all parse
	drawn    []txn.Block      // ids that the store has drawn for the next jobs of each outcome; nil: none
}

// newRequest parses the bytes of outcomes, which takes time, before the request waits for a
// transaction.
func newRequest(outcomes []sojourn.Outcome, c *access.Caller) request {
	req := request{outcomes: outcomes, caller: c}
	copied := false
	for i := range outcomes {
		o := &outcomes[i]
		if len(o.Detail) > 0 {
			if !copied {
				req.outcomes, copied = slices.Clone(outcomes), true
			}
			req.outcomes[i].Detail = sojourn.CutDetail(o.Detail)
		}
		n := jobrow.CheckJSON("result", o.ResultType, o.Result)
		if n.Err == nil && !n.Undeclared() {
			n = jobrow.CheckJSON("checkpoint", "", o.Verdict.Checkpoint)
		}
		if n.Err != nil || n.Undeclared() {
			if req.notJSON == nil {
				req.notJSON = make([]jobrow.NotJSON, len(outcomes))
			}
			req.notJSON[i] = n
		}
	}
	return req
}

// answer has a result for each outcome of a request.
type answer []driver.Finished

// batch is the finishes of one transaction.
type batch struct {
	*txn.Tx
	svc      *Finisher
	requests []request
}

// Reads returns no reads: the transaction reads the rows of all its leases by itself.
func (batch) Reads() []sqldb.Statement { return nil }

// Run decides the outcomes in turn.
func (b *batch) Run() ([]answer, error) {
	if err := readRows(b.Tx, b.requests); err != nil {
		return nil, err
	}
	n := 0
	for _, req := range b.requests {
		n += len(req.outcomes)
	}
	b.Writes.Ended = slices.Grow(b.Writes.Ended, n) // most end their jobs
	answers := make([]answer, len(b.requests))
	for i, req := range b.requests {
		answers[i] = make(answer, len(req.outcomes))
		for k := range req.outcomes {
			f, err := b.one(&b.requests[i], k)
			if err != nil {
				return nil, err
			}
			answers[i][k] = f
		}
	}
	b.Loaded.Waits = txn.WaitReads{}
	return answers, nil
}

// one ends the step of outcome k: fence, checks, the rules, the transition, and what follows from
// it. All refusals come before the first write.
func (b *batch) one(req *request, k int) (driver.Finished, error) {
	o := &req.outcomes[k]
	was, err := b.UnderLease(o.Lease)
	if err != nil {
		return driver.Finished{}, err
	}
	if was == nil {
		return finishedBefore(b.Tx, o)
	}
	if err := b.valid(req, k, was.ID); err != nil {
		return refused(was, err), nil
	}
	e, err := eventOf(b.Tx, was, o)
	if err != nil {
		return driver.Finished{}, err
	}
	o = e.Outcome
	tr, err := rules.Decide(was.Row, e)
	if err != nil {
		return refused(was, err), nil
	}
	next, err := b.planNext(was, o, req, k)
	if sojourn.ErrorCode(err) != "" {
		return refused(was, err), nil
	}
	if err != nil {
		return driver.Finished{}, err
	}
	if e.Open = next.open; e.Open > 0 || o.Type == sojourn.OutcomeAwaitJobs {
		if tr, err = rules.Decide(was.Row, e); err != nil {
			return driver.Finished{}, err
		}
	}
	if err := joblog.Add(b.Tx, was.ID, was.Attempt, "", o.Log); err != nil {
		return driver.Finished{}, err
	}
	noteOutcome(b.Tx, was, o, tr)
	l, err := lifecycle.Apply(b.Tx, was, tr, changeOf(o))
	if err != nil {
		return driver.Finished{}, err
	}
	if next.write != nil {
		if err := next.write(); err != nil {
			return driver.Finished{}, err
		}
	}
	if o.Type == sojourn.OutcomeAnswer {
		if err := lifecycle.StorePollAnswer(b.Tx, was, o, e.Answered); err != nil {
			return driver.Finished{}, err
		}
	}
	if l.State == sojourn.Awaiting {
		question.Add(b.Tx, l, o.Ask)
		if l, err = lifecycle.BeginWait(b.Tx, l); err != nil {
			return driver.Finished{}, err
		}
	}
	l, err = lifecycle.Match(b.Tx, l)
	if err != nil {
		return driver.Finished{}, err
	}
	return driver.Finished{Status: driver.FinishApplied, State: l.State}, nil
}

// valid checks everything about outcome k that does not depend on the state of its job.
func (b *batch) valid(req *request, k int, id sojourn.ID) error {
	o := &req.outcomes[k]
	if err := driver.ValidOutcome(o, b.Core.Cfg.MaxBytes); err != nil {
		return err
	}
	if err := ask.ValidOutcome(o); err != nil {
		return err
	}
	if err := sojourn.ValidRunAt(o.Verdict.RunAt, jobrow.Time(b.Now)); err != nil {
		return err
	}
	if req.notJSON == nil {
		return nil
	}
	return b.Loaded.Types.Refusal(req.notJSON[k], id)
}

// eventOf builds the event of an outcome for the rules, which read no database.
func eventOf(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome) (e rules.Event, err error) {
	e = rules.Event{Type: rules.EventFinished, Outcome: o}
	switch o.Type {
	case sojourn.OutcomeAwait:
		e.KeyConflict, err = lifecycle.KeysTaken(t, was, o.Wait.Keys)
	case sojourn.OutcomeAnswer:
		e.Answered, err = lifecycle.AnsweredBefore(t, was)
	case sojourn.OutcomeHold:
		if o.Queue == was.Queue { // the queue is named, but is the job's own
			own := *o
			own.Queue = ""
			e.Outcome = &own
		}
	}
	return e, err
}

// changeOf returns what an outcome stores beside the transition.
func changeOf(o *sojourn.Outcome) lifecycle.Change {
	c := lifecycle.Change{Result: o.Result, ResultType: o.ResultType, Verdict: o.Verdict, Reported: true, Detail: o.Detail}
	if o.Type == sojourn.OutcomeAdvance {
		c.Queue, c.Verdict.RunAt, c.Verdict.Priority = o.Queue, o.RunAt, o.Priority
	}
	return c
}

// following is what an outcome stores beside its own job: next jobs, children, dependencies.
type following struct {
	open  int32        // dependencies or children that are open
	write func() error // after the job's row was saved; nil: nothing
}

// planNext decides the jobs that a completion enqueues, awaited children, and the queue and the
// dependencies of a next stage. No limit of the queues refuses them: a report that cannot be stored
// would run its job again for ever. An error with a code refuses the outcome.
func (b *batch) planNext(was *jobrow.Row, o *sojourn.Outcome, from *request, k int) (f following, err error) {
	c := from.caller
	var drawn txn.Block
	if from.drawn != nil {
		drawn = from.drawn[k]
	}
	switch {
	case o.Type == sojourn.OutcomeAwaitJobs:
		children, err := b.svc.enqueuer.PlanChildren(b.Tx, was, o, c, drawn)
		if err != nil {
			return f, err
		}
		return following{children.Open, children.Write}, nil
	case o.Type == sojourn.OutcomeAdvance && len(o.Next) == 0:
		stage, err := enqueue.NextStage(b.Tx, was, o, c)
		if err != nil || len(o.Depends) == 0 {
			return f, err
		}
		return following{stage.Open, func() error { return stage.Write(b.Tx) }}, nil
	case len(o.Next) == 0:
		return f, nil
	case o.Type != sojourn.OutcomeCompleted:
		return f, sojourn.Invalid("next", "only a completed step and await_jobs enqueue jobs, not %s", o.Type)
	}
	for i := range o.Next {
		if err := enqueue.MayFollow(c, o.Next[i].Queue, o.Next[i].Kind); err != nil {
			return f, sojourn.AtIndex(i, err)
		}
	}
	req := enqueue.Request{Jobs: slices.Clone(o.Next), Digests: jobrow.Digests(o.Next, c), Caller: c, NotJSON: enqueue.JSONErrors(b.Core, o.Next)} // a second try resolves them by other settings
	next := &enqueue.Batch{Tx: b.Tx, Enqueuer: b.svc.enqueuer, Requests: []enqueue.Request{req}, Ending: was}
	next.Drawn(drawn)
	if err := next.ReadAll(next.Reads()); err != nil {
		return f, err
	}
	_, err = next.Plan(req)
	return following{write: next.WriteJobs}, err
}

// noteOutcome records what the end of a step says about the other side, for rates and breakers. A
// released, snoozed or undecodable step says nothing.
func noteOutcome(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome, tr rules.Transition) {
	if o.Type == sojourn.OutcomeHold || o.Type == sojourn.OutcomeNoAnswer && o.Delay > 0 {
		s := t.StatsFor(cmp.Or(o.Queue, was.Queue))
		s.Hold, s.Reason = max(s.Hold, min(o.Delay, sojourn.MaxHold)), "job "+strconv.FormatInt(int64(was.ID), 10)+" was told to come back later"
		return
	}
	if was.Purpose == sojourn.PurposeDecide {
		return
	}
	switch o.Type {
	case sojourn.OutcomeError, sojourn.OutcomeAbort, sojourn.OutcomeNoAnswer:
		if tr.Reason != "" {
			s := t.StatsFor(was.Queue)
			s.Failed = append(s.Failed, txn.FailedStep{Reason: tr.Reason, Began: was.BeganAt, Reported: true})
			return
		}
	case sojourn.OutcomeCompleted, sojourn.OutcomeAdvance, sojourn.OutcomeAwait, sojourn.OutcomeAwaitJobs, sojourn.OutcomeCancelled, sojourn.OutcomeAnswer:
	default:
		return
	}
	s := t.StatsFor(was.Queue)
	s.Answered = append(s.Answered, was.BeganAt)
}

// refused is the result of an outcome that is not executed; the step goes on.
func refused(l *jobrow.Row, err error) driver.Finished {
	return driver.Finished{Status: driver.FinishRefused, State: l.State, Err: err}
}

const (
	// qFinishedBefore finds the end of a step by its lease, in the history or in the job's end.
	qFinishedBefore = `select outcome, state, seq from sj_history where job = $1 and epoch = $2 and worker = $3
	union all select outcome, state, history from sj_final where id = $1 and step_epoch = $2 and worker = $3 order by seq desc limit 1`
	qStateOf = `select coalesce((select state from sj_live where id = $1), (select state from sj_final where id = $1), 0)`
)

// finishedBefore answers for a lease that is not valid: either the same outcome was executed
// before, or the lease is lost. For a lease that the worker never had it reveals nothing about the
// job, which may be another caller's.
func finishedBefore(t *txn.Tx, o *sojourn.Outcome) (f driver.Finished, err error) {
	had := false
	err = t.Read(qFinishedBefore, func(r sqldb.Row) error {
		had = true
		if r.Text(0) == string(o.Type) {
			f = driver.Finished{Status: driver.FinishRepeated, State: sojourn.State(r.Int(1))}
		}
		return nil
	}, int64(o.Lease.ID), o.Lease.Epoch, o.Lease.Worker)
	if err != nil || f.Status != "" {
		return f, err
	}
	if !had {
		return driver.Finished{Status: driver.FinishLost, Reason: driver.LostEnded, Err: driver.LeaseLost(o.Lease, driver.LostEnded)}, nil
	}
	f.Status = driver.FinishLost
	if f.Reason, err = whyEnded(t, o.Lease); err != nil {
		return f, err
	}
	f.Err = driver.LeaseLost(o.Lease, f.Reason)
	state, err := t.ReadInt(qStateOf, int64(o.Lease.ID))
	f.State = sojourn.State(state)
	return f, err
}
