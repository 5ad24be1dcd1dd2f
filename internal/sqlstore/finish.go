package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/groupcommit"
	"github.com/sojourn-queue/sojourn/rules"
)

type finishAnswer []driver.Finished

type finishAsk struct {
	outcomes []sojourn.Outcome
	caller   *access.Caller
	notJSON  []notJSON // of each outcome; nil if all parse
}

// finisher ends steps, and writes under their leases.
type finisher struct {
	core     *core
	gates    *gates
	enqueuer *enqueuer // of the jobs that follow a completed one
	op       *op[finishAsk, finishAnswer]
	extendOp *op[[]sojourn.Lease, []driver.Extended]
	saveOp   *op[[]driver.Saved, []driver.Extended]
}

func newFinisher(c *core, g *gates, e *enqueuer) *finisher {
	s := &finisher{core: c, gates: g, enqueuer: e}
	s.op = &op[finishAsk, finishAnswer]{name: "finish", class: groupcommit.Finish, cached: true, leases: leasesOfOutcomes,
		begin: func(t *tx, asks []finishAsk) batch[finishAnswer] { return &finishes{t, s, asks} },
		ends:  func(_ finishAsk, rows int) bool { return rows >= c.cfg.Apart }} // small ones do not justify a sync of their own
	s.extendOp = batchOp("extend", groupcommit.Finish, extendAll)
	s.extendOp.leases = func(leases []sojourn.Lease, each func(sojourn.Lease, bool)) {
		for i := range leases {
			each(leases[i], false)
		}
	}
	s.saveOp = batchOp("save", groupcommit.Finish, saveAll)
	s.saveOp.leases = func(items []driver.Saved, each func(sojourn.Lease, bool)) {
		for i := range items {
			each(items[i].Lease, false)
		}
	}
	return s
}

func leasesOfOutcomes(ask finishAsk, each func(l sojourn.Lease, final bool)) {
	for i := range ask.outcomes {
		o := &ask.outcomes[i]
		each(o.Lease, o.Type == sojourn.OutcomeCompleted && len(o.Next) == 0)
	}
}

// finishes are the outcomes of one transaction. They are decided in turn; flush writes them.
type finishes struct {
	*tx
	svc  *finisher
	asks []finishAsk
}

// reads: none, because the rows of all leases are read with those of other requests.
func (finishes) reads() []sqldb.Statement { return nil }

func (b *finishes) run() ([]finishAnswer, error) {
	if err := b.readAhead(b.asks); err != nil {
		return nil, err
	}
	n := 0
	for _, ask := range b.asks {
		n += len(ask.outcomes)
	}
	b.pending.ended = slices.Grow(b.pending.ended, n) // most end their jobs
	answers := make([]finishAnswer, len(b.asks))
	for i, ask := range b.asks {
		answers[i] = make(finishAnswer, len(ask.outcomes))
		for k := range ask.outcomes {
			f, err := b.one(&b.asks[i], k)
			if err != nil {
				return nil, err
			}
			answers[i][k] = f
		}
	}
	b.waits = waits{}
	return answers, nil
}

// Finish ends steps; see driver.Claimer.
func (s *finisher) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	if len(outcomes) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("outcomes", "%d outcomes exceed the limit of %d a call; split them", len(outcomes), sojourn.MaxBatch)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	return do(ctx, s.core, s.op, len(outcomes), newFinishAsk(outcomes, access.CallerOf(ctx)))
}

// one ends the step of outcome k: fence, checks, Decide, apply, Match. All refusals come
// before the first write.
func (t *finishes) one(ask *finishAsk, k int) (driver.Finished, error) {
	o := &ask.outcomes[k]
	was, err := t.underLease(o.Lease)
	if err != nil {
		return driver.Finished{}, err
	}
	if was == nil {
		return t.finishedBefore(o)
	}
	if err := o.Validate(t.s.cfg.MaxBytes); err != nil {
		return refused(was, err), nil
	}
	if err := sojourn.ValidRunAt(o.Verdict.RunAt, at(t.now)); err != nil {
		return refused(was, err), nil
	}
	if ask.notJSON != nil {
		if err := t.types.refusal(ask.notJSON[k], was.ID); err != nil {
			return refused(was, err), nil
		}
	}
	e, err := t.finished(was, o)
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
	if err := t.addLog(was, o.Log); err != nil {
		return driver.Finished{}, err
	}
	t.noteOutcome(was, o, tr)
	l, err := t.apply(was, tr, change{result: o.Result, resultType: o.ResultType, verdict: o.Verdict})
	if err != nil {
		return driver.Finished{}, err
	}
	if next != nil {
		if err := next.write(); err != nil {
			return driver.Finished{}, err
		}
	}
	if o.Type == sojourn.OutcomeAnswer {
		if err := t.keepAnswer(was, o, e.Answered); err != nil {
			return driver.Finished{}, err
		}
	}
	if l.State == sojourn.Awaiting {
		if l, err = t.beginWait(l); err != nil {
			return driver.Finished{}, err
		}
	}
	l, err = t.match(l)
	if err != nil {
		return driver.Finished{}, err
	}
	return driver.Finished{Status: driver.FinishApplied, State: l.State}, nil
}

// finished builds the event of an outcome for the rules.
func (t *tx) finished(was *live, o *sojourn.Outcome) (e rules.Event, err error) {
	e = rules.Event{Type: rules.EventFinished, Outcome: o}
	switch o.Type {
	case sojourn.OutcomeAwait:
		e.KeyConflict, err = t.keysTaken(was, o.Wait.Keys)
	case sojourn.OutcomeAnswer:
		e.Answered, err = t.answeredBefore(was)
	case sojourn.OutcomeHold:
		if o.Queue == was.queue { // the queue is named, but is the job's own
			own := *o
			own.Queue = ""
			e.Outcome = &own
		}
	}
	return e, err
}

func refused(l *live, err error) driver.Finished {
	return driver.Finished{Status: driver.FinishRefused, State: l.State, Err: err}
}

const qFinishedBefore = `select outcome, state, seq from sj_history where job = $1 and epoch = $2 and worker = $3
	union all select outcome, state, history from sj_final where id = $1 and step_epoch = $2 and worker = $3 order by seq desc limit 1`

// finishedBefore answers for a lease that is not valid: the same outcome was executed before, or
// the lease is lost. For a lease that the worker never had it reveals nothing about the job, which
// may be another caller's.
func (t *tx) finishedBefore(o *sojourn.Outcome) (f driver.Finished, err error) {
	had := false
	err = t.query(qFinishedBefore, func(r sqldb.Row) error {
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
	if f.Reason, err = t.whyEnded(o.Lease); err != nil {
		return f, err
	}
	f.Err = driver.LeaseLost(o.Lease, f.Reason)
	state, err := t.num(qStateOf, int64(o.Lease.ID))
	f.State = sojourn.State(state)
	return f, err
}

const qStateOf = `select coalesce((select state from sj_live where id = $1), (select state from sj_final where id = $1), 0)`

// planNext checks the next jobs of a completion. They use up no limit and no limit refuses them: a
// completion that cannot be stored would run its job again for ever.
func (t *finishes) planNext(was *live, o *sojourn.Outcome, c *access.Caller) (next *enqueue, refusal, err error) {
	if len(o.Next) == 0 {
		return nil, nil, nil
	}
	if o.Type != sojourn.OutcomeCompleted {
		return nil, sojourn.Invalid("next", "only a completed step enqueues jobs, not %s", o.Type), nil
	}
	ask := enqueueAsk{jobs: slices.Clone(o.Next), digests: digests(o.Next, c), caller: c, notJSON: t.s.jsonErrors(o.Next)} // a second try resolves them by other settings
	next = &enqueue{tx: t.tx, svc: t.svc.enqueuer, asks: []enqueueAsk{ask}, ending: was}
	if err := next.readAll(next.reads()); err != nil {
		return nil, nil, err
	}
	if _, err := next.plan(ask); err != nil {
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
func (t *tx) addLog(l *live, lines []sojourn.LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	last, err := t.num(qLastLog, int64(l.ID))
	if err != nil {
		return err
	}
	for _, line := range lines {
		last++
		_, err := t.exec(qAddLog, int64(l.ID), last, t.now, int64(l.Attempt), sojourn.Cut(line.Level, sojourn.MaxReason), sojourn.Cut(line.Text, sojourn.MaxProgress), line.Dropped)
		if err != nil {
			return err
		}
	}
	return t.trimLog(l.ID, last-(sojourn.MaxLogLines-1))
}

// trimLog drops the lines from the second to number upTo; the next line records how many were
// dropped.
func (t *tx) trimLog(id sojourn.ID, upTo int64) error {
	dropped, err := t.num(qDropped, int64(id), upTo)
	if err != nil || dropped == 0 {
		return err
	}
	if _, err := t.exec(qTrimLog, int64(id), upTo); err != nil {
		return err
	}
	_, err = t.exec(qSayDropped, dropped, int64(id), upTo+1)
	return err
}

// FinishTx ends a step in a transaction of the application; see driver.TxStore.
func (s *finisher) FinishTx(ctx context.Context, in any, o sojourn.Outcome) error {
	ask := newFinishAsk([]sojourn.Outcome{o}, access.CallerOf(ctx))
	return s.core.join(ctx, in, func(t *tx) error {
		if err := t.readTypes([]finishAsk{ask}); err != nil {
			return err
		}
		b := finishes{tx: t, svc: s}
		f, err := b.one(&ask, 0)
		if err != nil {
			return err
		}
		if err := s.gates.flushPace(t); err != nil {
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

// newFinishAsk parses the bytes of outcomes, before they wait for a transaction.
func newFinishAsk(outcomes []sojourn.Outcome, c *access.Caller) finishAsk {
	ask := finishAsk{outcomes: outcomes, caller: c}
	for i := range outcomes {
		o := &outcomes[i]
		n := parse("result", o.ResultType, o.Result)
		if n.err == nil && !n.undeclared() {
			n = parse("checkpoint", "", o.Verdict.Checkpoint)
		}
		if n.err != nil || n.undeclared() {
			if ask.notJSON == nil {
				ask.notJSON = make([]notJSON, len(outcomes))
			}
			ask.notJSON[i] = n
		}
	}
	return ask
}

// noteOutcome records what an ended step says about the other side. A released, snoozed or
// undecodable step says nothing.
func (t *tx) noteOutcome(was *live, o *sojourn.Outcome, tr rules.Transition) {
	if o.Type == sojourn.OutcomeHold || o.Type == sojourn.OutcomeNoAnswer && o.Delay > 0 {
		s := t.statsFor(cmp.Or(o.Queue, was.queue))
		s.hold, s.reason = max(s.hold, min(o.Delay, sojourn.MaxHold)), "job "+strconv.FormatInt(int64(was.ID), 10)+" was told to come back later"
		return
	}
	if was.Purpose == sojourn.PurposeDecide {
		return
	}
	switch o.Type {
	case sojourn.OutcomeError, sojourn.OutcomeAbort, sojourn.OutcomeNoAnswer:
		if tr.Reason != "" {
			s := t.statsFor(was.queue)
			s.failed = append(s.failed, failedStep{tr.Reason, was.began, true})
			return
		}
	case sojourn.OutcomeCompleted, sojourn.OutcomeAwait, sojourn.OutcomeCancelled, sojourn.OutcomeAnswer:
	default:
		return
	}
	s := t.statsFor(was.queue)
	s.answered = append(s.answered, was.began)
}
