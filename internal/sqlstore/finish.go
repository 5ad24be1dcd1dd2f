package sqlstore

import (
	"context"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/rules"
)

type finishAnswer []driver.Finished

type finishAsk struct {
	outcomes []sojourn.Outcome
	caller   *access.Caller
	notJSON  []notJSON // of each outcome; nil if all parse
}

// stepFinish prefetches for the outcomes of all requests, decides them in turn, and leaves the
// writes to flush.
var stepFinish = newStep("finish", func(t *tx, requests []finishAsk) ([]finishAnswer, error) {
	if err := t.readAhead(requests); err != nil {
		return nil, err
	}
	n := 0
	for _, r := range requests {
		n += len(r.outcomes)
	}
	t.pending.ended = slices.Grow(t.pending.ended, n) // most end their jobs
	answers := make([]finishAnswer, len(requests))
	for i, r := range requests {
		answers[i] = make(finishAnswer, len(r.outcomes))
		for k := range r.outcomes {
			f, err := t.finishOne(&requests[i], k)
			if err != nil {
				return nil, err
			}
			answers[i][k] = f
		}
	}
	t.waits = waits{}
	return answers, nil
})

// readAhead reads the rows of all leases, and the keys of steps that begin to wait.
func (t *tx) readAhead(requests []finishAsk) error {
	var leases []sojourn.Lease
	for _, r := range requests {
		for i := range r.outcomes {
			if lease := r.outcomes[i].Lease; t.leased[lease.ID] == nil {
				leases = append(leases, lease)
			}
		}
	}
	if err := t.readLeased(leases); err != nil {
		return err
	}
	if err := t.readTypes(requests); err != nil {
		return err
	}
	return t.readWaits(requests)
}

// Finish ends steps; see driver.Claimer.
func (s *Store) Finish(ctx context.Context, outcomes []sojourn.Outcome) ([]driver.Finished, error) {
	if len(outcomes) > sojourn.MaxBatch {
		return nil, sojourn.Invalid("outcomes", "%d outcomes exceed the limit of %d a call; split them", len(outcomes), sojourn.MaxBatch)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	return do[finishAnswer](ctx, s, classFinish, stepFinish, len(outcomes), newFinishAsk(outcomes, access.CallerOf(ctx)))
}

// finishOne ends the step of outcome k: fence, checks, Decide, apply, Match. All refusals come
// before the first write.
func (t *tx) finishOne(ask *finishAsk, k int) (driver.Finished, error) {
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
	if err := t.feelOutcome(was, o, tr); err != nil {
		return driver.Finished{}, err
	}
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
func (t *tx) planNext(was *live, o *sojourn.Outcome, c *access.Caller) (next *enqueue, refusal, err error) {
	if len(o.Next) == 0 {
		return nil, nil, nil
	}
	if o.Type != sojourn.OutcomeCompleted {
		return nil, sojourn.Invalid("next", "only a completed step enqueues jobs, not %s", o.Type), nil
	}
	next = &enqueue{tx: t, ending: was}
	ask := enqueueAsk{jobs: slices.Clone(o.Next), digests: digests(o.Next, c), caller: c, notJSON: t.s.jsonErrors(o.Next)} // a second try resolves them by other settings
	if err := next.lookUp([]enqueueAsk{ask}); err != nil {
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

// keysTaken reports whether a key to await belongs to another live job.
func (t *tx) keysTaken(l *live, keys []string) (bool, error) {
	for _, k := range keys {
		taken := false
		err := t.query(qKey, func(r sqldb.Row) error {
			taken = sojourn.ID(r.Int(0)) != l.ID && (r.Int(1) != 0 || r.Int(2) > t.now)
			return nil
		}, l.kind, k)
		if err != nil || taken {
			return taken, err
		}
	}
	return false, nil
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
