package worker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// step is one taken job of the worker, from the claim until its report is confirmed.
type step struct {
	r        *run
	h        *handling // nil if the kind has none here
	job      *sojourn.Job
	as       original
	whole    *sojourn.Job // the job as it was claimed, with all fields, for retry policies and short steps
	lease    sojourn.Lease
	purpose  sojourn.Purpose
	history  []sojourn.HistoryEntry
	weight   int64 // of the worker's concurrency
	limit    *LimitError
	leaseFor time.Duration
	log      lines
	ctx      stepContext
	began    time.Time
	waited   time.Duration // from its run_at until its claim

	// guarded by r.mu
	phase    phase
	until    time.Time       // end of the lease, counted from before the request that won it was sent
	warned   bool            // the handler was told that the lease ends
	out      sojourn.Outcome // once reported
	returned time.Time
	refused  int
	held     chan struct{} // of one that holds a queue: closed when that is stored
	inTx     bool          // a transaction of the application completes the job, see InTx
}

// original has the fields of the claimed job that every step needs; handlers may modify their Job.
type original struct {
	kind, queue string
	failures    int32
	maxAttempts int32
	onPanic     sojourn.Recovery
	noExtend    bool
}

// phase of a step.
type phase uint8

const (
	running  phase = iota // its handler may still report
	reported              // an outcome is being sent; later results of the handler are ignored
	gone                  // answered or lost
)

// take registers claimed jobs with the worker and starts their steps, or hands them back at once.
func (r *run) take(got []driver.Claimed, sent time.Time, back bool) {
	steps := make([]*step, len(got))
	for i := range got {
		steps[i] = r.newStep(&got[i])
	}
	early := false
	r.mu.Lock()
	for _, s := range steps {
		s.until = sent.Add(s.leaseFor)
		early = early || s.leaseFor < r.w.o.Lease-r.w.o.Lease/10
		r.watched(s)
		r.steps[s] = struct{}{}
		r.active++
		r.used += s.weight
		r.claims.pending.heaviest = max(r.claims.pending.heaviest, s.weight)
	}
	if !back {
		r.waiting = append(r.waiting, steps...)
		r.another()
	}
	r.mu.Unlock()
	if early { // else the first extension may come after the end of these leases
		signal(r.early)
	}
	for _, s := range steps {
		if back {
			s.report(sojourn.Outcome{Type: sojourn.OutcomeReleased})
			s.leave()
		}
	}
}

func (r *run) newStep(c *driver.Claimed) *step {
	s := &step{r: r, h: r.w.handlers[c.Job.Kind], job: &c.Job, lease: c.Lease, purpose: c.Purpose, history: c.History,
		leaseFor: c.LeaseFor, began: time.Now(), log: lines{attempt: c.Job.Attempt, wake: r.reports.logged}}
	s.job.Result, s.job.ResultType = nil, "" // of an earlier generation, if anything
	s.as = original{c.Job.Kind, c.Job.Queue, c.Job.Failures, c.Job.Policy.MaxAttempts, c.Job.Policy.OnPanic, c.Job.Policy.Strict()}
	if s.leaseFor <= 0 {
		s.leaseFor = r.w.o.Lease
	}
	if c.Purpose == sojourn.PurposeStart && !c.Job.RunAt.IsZero() && c.Job.StartedAt.After(c.Job.RunAt) {
		s.waited = c.Job.StartedAt.Sub(c.Job.RunAt)
	}
	s.ctx.base = r.base
	switch c.Purpose {
	case sojourn.PurposeStart, sojourn.PurposeResume:
		s.weight, s.limit = int64(c.Job.Weight), nearest(c)
		s.ctx.endAfter(s.began, s.limit, c.Window)
	case sojourn.PurposePoll:
		s.weight, s.limit = 1, &LimitError{sojourn.ReasonRunTimeout, MaxPoll}
		s.ctx.endAfter(s.began, s.limit, 0)
	}
	if short := c.Purpose == sojourn.PurposeDecide || c.Purpose == sojourn.PurposePoll; short || s.h != nil && s.h.retry != nil {
		whole := c.Job
		s.whole = &whole
	}
	driver.Attach(s.job, handlerStep{s})
	return s
}

// nearest is the limit that ends the handler's context first, nil if there is none. The durations
// count from the claim's response; the store ends a step one lease after its limit.
func nearest(c *driver.Claimed) *LimitError {
	var out LimitError
	for _, l := range [...]LimitError{{sojourn.ReasonRunTimeout, c.Job.Policy.RunTimeout}, {sojourn.ReasonTimeout, c.Timeout}, {sojourn.ReasonDeadline, c.Deadline}} {
		if l.Limit != 0 && (out.Limit == 0 || l.Limit < out.Limit) {
			out = l
		}
	}
	if out.Limit == 0 {
		return nil
	}
	return &out
}

// another starts a goroutine if steps wait for one and none is starting; r.mu is held.
func (r *run) another() {
	if len(r.waiting) > 0 && !r.coming {
		r.coming = true
		go r.runSteps()
	}
}

// runSteps runs one step after the other while steps wait, so that short handlers share a goroutine
// and its grown stack. No step waits for the handler of another one: before a goroutine runs a
// step, it starts the next goroutine if more steps wait.
func (r *run) runSteps() {
	for first := true; ; first = false {
		r.mu.Lock()
		if first {
			r.coming = false
		}
		if len(r.waiting) == 0 {
			r.mu.Unlock()
			return
		}
		s := r.waiting[0]
		r.waiting[0], r.waiting = nil, r.waiting[1:]
		r.another()
		r.mu.Unlock()
		s.run()
	}
}

// run executes the step according to its purpose.
func (s *step) run() {
	defer s.leave()
	switch {
	case s.h == nil || s.leaseOver(time.Now()): // nil: a store that hands out kinds that were not asked for
		s.report(sojourn.Outcome{Type: sojourn.OutcomeReleased})
	case s.purpose == sojourn.PurposeDecide:
		s.decide()
	case s.purpose == sojourn.PurposePoll:
		s.poll()
	default:
		s.handle()
	}
}

// leaseOver reports whether the lease has ended before the step could start, for example after a
// pause of the whole process: another worker may have the job by now. It compares the wall clock
// too, because the monotonic clock stands still while the machine sleeps.
func (s *step) leaseOver(now time.Time) bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return !now.Before(s.until) || !now.Round(0).Before(s.until.Round(0))
}

// exited is the reason of a handler that has ended its goroutine.
const exited = "goexit"

var errExited = sojourn.WithReason(exited, errors.New("the handler called runtime.Goexit"))

// panicError is the error of a handler that has panicked.
type panicError struct{ text string }

func (e *panicError) Error() string { return e.text }

// handle runs the handler.
func (s *step) handle() {
	s.r.observe(s.started())
	var err error
	returned := false
	defer func() { // also when the handler panics, or ends its goroutine
		if v := recover(); v != nil {
			err = &panicError{panicked(v, debug.Stack())}
		} else if !returned {
			err = errExited
		}
		s.end(err, s.ctx.ended())
	}()
	err = s.h.run(&s.ctx, s.job)
	returned = true
}

// end reports the error that the handler returned; cause is the cause of its context if that had
// ended before.
func (s *step) end(err, cause error) {
	o := sojourn.Outcome{Type: sojourn.OutcomeError, Reason: exited, Text: errExited.Error()}
	defer func() { s.report(o) }() // also if a method of the error or the retry policy ends the goroutine
	o = s.outcome(err, cause)
	if o.Type == sojourn.OutcomeAwait {
		o.Wait.Poll = s.h.pollEvery
	}
	if o.Type == sojourn.OutcomeCompleted && s.leftAlone() {
		o = rolledBack() // without the retry policy: nearly always the store answers that the job is completed
		return
	}
	if o.Type == sojourn.OutcomeError && s.h.retry != nil && !o.Verdict.Final && !spent(s.as.failures+1, s.as.maxAttempts) {
		again := o.Verdict.Again
		o.Verdict = s.ask(s.present(o), append(slices.Clip(s.history), s.attempt(o)))
		o.Verdict.Again = o.Verdict.Again || again
	}
}

// readError calls read, which calls methods of err, and returns the error to use instead if one of
// them panics; nil if none does. A typed nil pointer, returned as an error by mistake, is the usual
// cause.
func readError(err error, read func()) (instead *panicError) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		what := fmt.Sprintf("an error of type %T that panics when it is read", err)
		if p := reflect.ValueOf(err); p.Kind() == reflect.Pointer && p.IsNil() {
			what = fmt.Sprintf("a nil %T as its error; return a plain nil for success", err)
		}
		instead = &panicError{sojourn.Cut("the handler returned "+what+": "+panicked(v, debug.Stack()), sojourn.MaxError)}
	}()
	read()
	return nil
}

// outcome converts the error that the handler returned. An error that cannot be read counts as a
// panic of the handler.
func (s *step) outcome(err, cause error) (o sojourn.Outcome) {
	if err == nil {
		return s.translate(nil, cause)
	}
	if instead := readError(err, func() { o = s.translate(err, cause) }); instead != nil {
		return s.translate(instead, cause)
	}
	return o
}

func (s *step) translate(err, cause error) sojourn.Outcome {
	if broken, ok := errors.AsType[*undecodable](err); ok {
		return sojourn.Outcome{Type: sojourn.OutcomeUndecodable, Reason: sojourn.ReasonUndecodable, Text: sojourn.Cut(broken.Error(), sojourn.MaxError)}
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		return sojourn.Outcome{Type: sojourn.OutcomeError, Reason: sojourn.ReasonPanic, Text: p.text,
			Verdict: sojourn.Verdict{Final: s.as.onPanic == sojourn.Fail}}
	}
	o := sojourn.OutcomeOf(err)
	o.Next = driver.Follow(o.Next, s.job)
	switch o.Type {
	case sojourn.OutcomeCompleted, sojourn.OutcomeAbort, sojourn.OutcomeCancelled:
		o.Result, o.ResultType = s.job.Result, s.job.ResultType
	}
	if o.Type == sojourn.OutcomeError && cause != nil {
		return ended(o, cause)
	}
	return o
}

// ended converts an error that a handler returns after its context has ended: only the cause of the
// end counts. A cause outside the job hands the job back and uses up no attempt.
func ended(o sojourn.Outcome, cause error) sojourn.Outcome {
	if l, ok := errors.AsType[*LimitError](cause); ok {
		o.Reason, o.Verdict.Final = l.Reason, l.Reason == sojourn.ReasonDeadline
		return o
	}
	if errors.Is(cause, ErrLeaseOver) {
		o.Reason = sojourn.ReasonLeaseLost
		return o
	}
	return sojourn.Outcome{Type: sojourn.OutcomeReleased}
}

// decide runs only the retry policy, for an attempt that ended outside a handler.
func (s *step) decide() {
	o := sojourn.Outcome{Type: sojourn.OutcomeDecided, Reason: s.whole.Reason, Text: s.whole.Error}
	if n := len(s.history); n > 0 && o.Reason == "" && o.Text == "" {
		o.Reason, o.Text = s.history[n-1].Reason, s.history[n-1].Error
	}
	defer func() { s.report(o) }()
	if s.h.retry != nil {
		o.Verdict = s.ask(*s.whole, slices.Clone(s.history))
	}
}

// ask calls the kind's retry policy with a copy of the job. If it panics, the stored backoff
// decides.
func (s *step) ask(job sojourn.Job, history []sojourn.HistoryEntry) (v sojourn.Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = sojourn.Verdict{}
			s.r.w.log.Error("sojourn: a retry policy panicked; the stored backoff decides", "kind", s.as.kind, "job", s.lease.ID, "panic", panicked(p, debug.Stack()))
		}
	}()
	return s.h.retry(&job, history)
}

// present is the job for its retry policy: with the current error counted.
func (s *step) present(o sojourn.Outcome) sojourn.Job {
	j := *s.whole
	j.Failures, j.Reason, j.Error, j.ErrorDetail = j.Failures+1, o.Reason, o.Text, o.Detail
	j.Checkpoint = s.job.Checkpoint
	return j
}

// attempt is the current error as an entry of the history. Its times are the store's, as far as the
// worker knows them.
func (s *step) attempt(o sojourn.Outcome) sojourn.HistoryEntry {
	a := sojourn.HistoryEntry{Seq: int32(len(s.history)) + 1, Generation: s.whole.Generation, Attempt: s.whole.Attempt, Epoch: s.lease.Epoch,
		Purpose: s.purpose, Worker: s.lease.Worker, Outcome: string(o.Type), State: sojourn.Running, Reason: o.Reason, Error: o.Text, ErrorDetail: o.Detail}
	if n := len(s.history); n > 0 {
		a.Seq = s.history[n-1].Seq + 1
	}
	if !s.whole.UpdatedAt.IsZero() {
		a.BeganAt = s.whole.UpdatedAt
		a.EndedAt = a.BeganAt.Add(time.Since(s.began))
	}
	return a
}

func spent(n, budget int32) bool { return budget > 0 && n >= budget }

// leave frees the step's capacity when its goroutine ends. The capacity of a step that holds a
// queue is freed only when the store has stored the hold; otherwise this worker would take the next
// job of the queue in between.
func (s *step) leave() {
	s.ctx.cancel(context.Canceled)
	s.r.mu.Lock()
	if held := s.held; held != nil {
		s.r.mu.Unlock()
		select {
		case <-held:
		case <-s.r.calls.Done():
		}
		s.r.mu.Lock()
	}
	s.r.active--
	s.r.used -= s.weight
	s.r.claims.overtake()
	s.r.mu.Unlock()
	signal(s.r.changed)
}

func (s *step) owns() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.phase == running
}
