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
	"github.com/sojourn-queue/sojourn/internal/sqlstore/enqueue"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/gate"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/lifecycle"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/txn"
	"github.com/sojourn-queue/sojourn/rules"
)

type answer []driver.Finished

type request struct {
	outcomes []sojourn.Outcome
	caller   *access.Caller
	notJSON  []txn.NotJSON // of each outcome; nil if all parse
}

// Finisher ends steps, and writes under their leases.
type Finisher struct {
	core     *txn.Core
	gates    *gate.Gates
	enqueuer *enqueue.Enqueuer // of the jobs that follow a completed one
	op       *txn.Op[request, answer]
	extendOp *txn.Op[[]sojourn.Lease, []driver.Extended]
	saveOp   *txn.Op[[]driver.Saved, []driver.Extended]
}

func NewFinisher(c *txn.Core, g *gate.Gates, e *enqueue.Enqueuer) *Finisher {
	s := &Finisher{core: c, gates: g, enqueuer: e}
	s.op = &txn.Op[request, answer]{Name: "finish", Class: groupcommit.Finish, Cached: true, Leases: leasesOfOutcomes,
		Begin: func(t *txn.Tx, asks []request) txn.Batch[answer] { return &batch{t, s, asks} },
		Ends:  func(_ request, rows int) bool { return rows >= c.Cfg.Apart }} // small ones do not justify a sync of their own
	s.extendOp = txn.BatchOp("extend", groupcommit.Finish, extendAll)
	s.extendOp.Leases = func(leases []sojourn.Lease, each func(sojourn.Lease, bool)) {
		for i := range leases {
			each(leases[i], false)
		}
	}
	s.saveOp = txn.BatchOp("save", groupcommit.Finish, saveAll)
	s.saveOp.Leases = func(items []driver.Saved, each func(sojourn.Lease, bool)) {
		for i := range items {
			each(items[i].Lease, false)
		}
	}
	return s
}

func leasesOfOutcomes(ask request, each func(l sojourn.Lease, final bool)) {
	for i := range ask.outcomes {
		o := &ask.outcomes[i]
		each(o.Lease, o.Type == sojourn.OutcomeCompleted && len(o.Next) == 0)
	}
}

// batch are the outcomes of one transaction. They are decided in turn; flush writes them.
type batch struct {
	*txn.Tx
	svc  *Finisher
	asks []request
}

// Reads: none, because the rows of all leases are read with those of other requests.
func (batch) Reads() []sqldb.Statement { return nil }

func (b *batch) Run() ([]answer, error) {
	if err := readAhead(b.Tx, b.asks); err != nil {
		return nil, err
	}
	n := 0
	for _, ask := range b.asks {
		n += len(ask.outcomes)
	}
	b.Writes.Ended = slices.Grow(b.Writes.Ended, n) // most end their jobs
	answers := make([]answer, len(b.asks))
	for i, ask := range b.asks {
		answers[i] = make(answer, len(ask.outcomes))
		for k := range ask.outcomes {
			f, err := b.one(&b.asks[i], k)
			if err != nil {
				return nil, err
			}
			answers[i][k] = f
		}
	}
	b.Loaded.Waits = txn.WaitReads{}
	return answers, nil
}

// Finish ends steps; see driver.Claimer.
func (s *Finisher) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	if len(outcomes) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("outcomes", "%d outcomes exceed the limit of %d a call; split them", len(outcomes), sojourn.MaxBatch)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	return txn.Do(ctx, s.core, s.op, len(outcomes), newRequest(outcomes, access.CallerOf(ctx)))
}

// one ends the step of outcome k: fence, checks, Decide, apply, Match. All refusals come
// before the first write.
func (t *batch) one(ask *request, k int) (driver.Finished, error) {
	o := &ask.outcomes[k]
	was, err := t.UnderLease(o.Lease)
	if err != nil {
		return driver.Finished{}, err
	}
	if was == nil {
		return finishedBefore(t.Tx, o)
	}
	if err := o.Validate(t.Core.Cfg.MaxBytes); err != nil {
		return refused(was, err), nil
	}
	if err := sojourn.ValidRunAt(o.Verdict.RunAt, jobrow.Time(t.Now)); err != nil {
		return refused(was, err), nil
	}
	if ask.notJSON != nil {
		if err := t.Loaded.Types.Refusal(ask.notJSON[k], was.ID); err != nil {
			return refused(was, err), nil
		}
	}
	e, err := finished(t.Tx, was, o)
	if err != nil {
		return driver.Finished{}, err
	}
	o = e.Outcome
	tr, err := rules.Decide(was.Row, e)
	if err != nil {
		return refused(was, err), nil
	}
	next, refusal, err := t.planNext(was, o, ask.caller)
	if err != nil {
		return driver.Finished{}, err
	}
	if refusal != nil {
		return refused(was, refusal), nil
	}
	if err := addLog(t.Tx, was, o.Log); err != nil {
		return driver.Finished{}, err
	}
	noteOutcome(t.Tx, was, o, tr)
	l, err := lifecycle.Apply(t.Tx, was, tr, lifecycle.Change{Result: o.Result, ResultType: o.ResultType, Verdict: o.Verdict})
	if err != nil {
		return driver.Finished{}, err
	}
	if next != nil {
		if err := next.WriteJobs(); err != nil {
			return driver.Finished{}, err
		}
	}
	if o.Type == sojourn.OutcomeAnswer {
		if err := lifecycle.StorePollAnswer(t.Tx, was, o, e.Answered); err != nil {
			return driver.Finished{}, err
		}
	}
	if l.State == sojourn.Awaiting {
		if l, err = lifecycle.BeginWait(t.Tx, l); err != nil {
			return driver.Finished{}, err
		}
	}
	l, err = lifecycle.Match(t.Tx, l)
	if err != nil {
		return driver.Finished{}, err
	}
	return driver.Finished{Status: driver.FinishApplied, State: l.State}, nil
}

// finished builds the event of an outcome for the rules.
func finished(t *txn.Tx, was *jobrow.Row, o *sojourn.Outcome) (e rules.Event, err error) {
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

func refused(l *jobrow.Row, err error) driver.Finished {
	return driver.Finished{Status: driver.FinishRefused, State: l.State, Err: err}
}

const qFinishedBefore = `select outcome, state, seq from sj_history where job = $1 and epoch = $2 and worker = $3
	union all select outcome, state, history from sj_final where id = $1 and step_epoch = $2 and worker = $3 order by seq desc limit 1`

// finishedBefore answers for a lease that is not valid: the same outcome was executed before, or
// the lease is lost. For a lease that the worker never had it reveals nothing about the job, which
// may be another caller's.
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

const qStateOf = `select coalesce((select state from sj_live where id = $1), (select state from sj_final where id = $1), 0)`

// planNext checks the next jobs of a completion. They use up no limit and no limit refuses them: a
// completion that cannot be stored would run its job again for ever.
func (t *batch) planNext(was *jobrow.Row, o *sojourn.Outcome, c *access.Caller) (next *enqueue.Batch, refusal, err error) {
	if len(o.Next) == 0 {
		return nil, nil, nil
	}
	if o.Type != sojourn.OutcomeCompleted {
		return nil, sojourn.Invalid("next", "only a completed step enqueues jobs, not %s", o.Type), nil
	}
	ask := enqueue.Request{Jobs: slices.Clone(o.Next), Digests: jobrow.Digests(o.Next, c), Caller: c, NotJSON: t.Core.JSONErrors(o.Next)} // a second try resolves them by other settings
	next = &enqueue.Batch{Tx: t.Tx, Enqueuer: t.svc.enqueuer, Requests: []enqueue.Request{ask}, Ending: was}
	if err := next.ReadAll(next.Reads()); err != nil {
		return nil, nil, err
	}
	if _, err := next.Plan(ask); err != nil {
		if sojourn.ErrorCode(err) == "" {
			return nil, nil, err
		}
		return nil, err, nil
	}
	return next, nil, nil
}

const (
	qLastLog = `select coalesce(max(seq), 0) from sj_log where job = $1`
	qAddLog  = `insert into sj_log (job, seq, at_us, attempt, level, text, dropped) values ($1, $2, $3, $4, $5, $6, $7)`
	qDropped = `select coalesce(sum(1 + dropped), 0) from sj_log where job = $1 and seq > 1 and seq <= $2`
	qTrimLog = `delete from sj_log where job = $1 and seq > 1 and seq <= $2`
	// The numbers have gaps only where lines were dropped before, so the line after upTo exists.
	qSayDropped = `update sj_log set dropped = dropped + $1 where job = $2 and seq = $3`
)

// addLog appends lines to the job's log, which keeps the first and the newest 99.
func addLog(t *txn.Tx, l *jobrow.Row, lines []sojourn.LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	last, err := t.ReadInt(qLastLog, int64(l.ID))
	if err != nil {
		return err
	}
	for _, line := range lines {
		last++
		_, err := t.Write(qAddLog, int64(l.ID), last, t.Now, int64(l.Attempt), sojourn.Cut(line.Level, sojourn.MaxReason), sojourn.Cut(line.Text, sojourn.MaxProgress), line.Dropped)
		if err != nil {
			return err
		}
	}
	return trimLog(t, l.ID, last-(sojourn.MaxLogLines-1))
}

// trimLog drops the lines from the second to number upTo; the next line records how many were
// dropped.
func trimLog(t *txn.Tx, id sojourn.ID, upTo int64) error {
	dropped, err := t.ReadInt(qDropped, int64(id), upTo)
	if err != nil || dropped == 0 {
		return err
	}
	if _, err := t.Write(qTrimLog, int64(id), upTo); err != nil {
		return err
	}
	_, err = t.Write(qSayDropped, dropped, int64(id), upTo+1)
	return err
}

// FinishTx ends a step in a transaction of the application; see driver.TxStore.
func (s *Finisher) FinishTx(ctx context.Context, in any, o sojourn.Outcome) error {
	ask := newRequest([]sojourn.Outcome{o}, access.CallerOf(ctx))
	return s.core.Join(ctx, in, func(t *txn.Tx) error {
		if err := readTypes(t, []request{ask}); err != nil {
			return err
		}
		b := batch{Tx: t, svc: s}
		f, err := b.one(&ask, 0)
		if err != nil {
			return err
		}
		if err := s.gates.FlushPace(t); err != nil {
			return err
		}
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
}

// newRequest parses the bytes of outcomes, before they wait for a transaction.
func newRequest(outcomes []sojourn.Outcome, c *access.Caller) request {
	ask := request{outcomes: outcomes, caller: c}
	for i := range outcomes {
		o := &outcomes[i]
		n := txn.CheckJSON("result", o.ResultType, o.Result)
		if n.Err == nil && !n.Undeclared() {
			n = txn.CheckJSON("checkpoint", "", o.Verdict.Checkpoint)
		}
		if n.Err != nil || n.Undeclared() {
			if ask.notJSON == nil {
				ask.notJSON = make([]txn.NotJSON, len(outcomes))
			}
			ask.notJSON[i] = n
		}
	}
	return ask
}

// noteOutcome records what an ended step says about the other side. A released, snoozed or
// undecodable step says nothing.
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
	case sojourn.OutcomeCompleted, sojourn.OutcomeAwait, sojourn.OutcomeCancelled, sojourn.OutcomeAnswer:
	default:
		return
	}
	s := t.StatsFor(was.Queue)
	s.Answered = append(s.Answered, was.BeganAt)
}
