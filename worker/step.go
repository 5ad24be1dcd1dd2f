package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// step is one job in the worker's hands, from the claim to the answer to its report. It is the sojourn.Step of its Job.
type step struct {
	r        *run
	h        *handling // nil if the kind has none here
	job      *sojourn.Job
	as       sojourn.Job // the job as it was claimed; handlers may write into theirs
	lease    sojourn.Lease
	purpose  sojourn.Purpose
	history  []sojourn.Attempt
	weight   int64 // of the worker's concurrency
	limit    *LimitError
	window   time.Duration // after which the handler has to stop; 0 = none
	leaseFor time.Duration
	log      *jobLog
	ctx      context.Context
	cancel   context.CancelCauseFunc
	began    time.Time

	// guarded by r.mu
	phase    phase
	until    time.Time // end of the lease, counted from before the request that won it was sent
	watch    *time.Timer
	out      sojourn.Outcome // once reported
	returned time.Time
	refused  int
	held     chan struct{} // of one that holds a queue: closed when that is stored
	inTx     bool          // a transaction of the application completes the job, see InTx
}

// phase of a step.
type phase uint8

const (
	running  phase = iota // its handler may still report
	reported              // an outcome is on its way; what the handler still does is ignored
	gone                  // answered or lost
)

// take puts a claimed job into the worker's hands and starts its step, or hands it straight back.
func (r *run) take(c *sojourn.Claimed, sent time.Time, back bool) {
	s := &step{r: r, h: r.w.handlers[c.Job.Kind], job: &c.Job, as: c.Job, lease: c.Lease, purpose: c.Purpose, history: c.History,
		leaseFor: c.LeaseFor, began: time.Now()}
	s.as.Result, s.job.Result, s.job.ResultType = nil, nil, "" // of an earlier generation, if anything
	if s.leaseFor <= 0 {
		s.leaseFor = r.w.o.Lease
	}
	if c.Purpose == sojourn.PurposeStart || c.Purpose == sojourn.PurposeResume {
		s.weight, s.limit, s.window = int64(c.Job.Weight), nearest(c), c.Window
	}
	if c.Purpose == sojourn.PurposePoll {
		s.weight, s.limit = 1, &LimitError{sojourn.ReasonRunTimeout, MaxPoll}
	}
	s.log = newJobLog(c.Job.Attempt, r.logged)
	s.ctx, s.cancel = context.WithCancelCause(r.base)
	s.job.Attach(s)
	r.mu.Lock()
	r.steps[s.lease] = s
	r.active++
	r.used += s.weight
	r.pending.heaviest = max(r.pending.heaviest, s.weight)
	s.until = sent.Add(s.leaseFor)
	s.watch = time.AfterFunc(time.Until(s.handlerEnd()), s.overdue)
	r.mu.Unlock()
	if back {
		s.report(sojourn.Outcome{Type: sojourn.OutcomeReleased})
		s.leave()
		return
	}
	go s.run()
}

// nearest is the limit that ends the handler's context first, nil if there is none. The durations count from the claim's answer;
// the store ends what overstays one lease later.
func nearest(c *sojourn.Claimed) *LimitError {
	var out *LimitError
	for _, l := range []LimitError{{sojourn.ReasonRunTimeout, c.Job.Policy.RunTimeout}, {sojourn.ReasonTimeout, c.Timeout}, {sojourn.ReasonDeadline, c.Deadline}} {
		if l.Limit != 0 && (out == nil || l.Limit < out.Limit) {
			out = &l
		}
	}
	return out
}

// run does what the step is for.
func (s *step) run() {
	defer s.leave()
	switch {
	case s.h == nil: // a store that hands out what nobody asked for
		s.report(sojourn.Outcome{Type: sojourn.OutcomeReleased})
	case s.purpose == sojourn.PurposeDecide:
		s.decide()
	case s.purpose == sojourn.PurposePoll:
		s.poll()
	default:
		s.handle()
	}
}

// errExited is the error of a handler that has ended its goroutine.
var errExited = sojourn.WithReason("goexit", errors.New("the handler called runtime.Goexit"))

// panicError is the error of a handler that has panicked.
type panicError struct{ text string }

func (e *panicError) Error() string { return e.text }

// handle runs the handler.
func (s *step) handle() {
	ctx := s.ctx
	if s.limit != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, s.limit.Limit, s.limit)
		defer stop()
	}
	if s.window > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, s.window, ErrWindowClosed)
		defer stop()
	}
	s.r.observe(Event{Type: EventStarted, Kind: s.as.Kind, Queue: s.as.Queue, Job: s.lease.ID, Purpose: s.purpose})
	var err error
	returned := false
	defer func() { // also when the handler panics, or ends its goroutine
		if v := recover(); v != nil {
			err = &panicError{panicked(v, debug.Stack())}
		} else if !returned {
			err = errExited
		}
		s.end(err, context.Cause(ctx))
	}()
	err = s.h.run(ctx, s.job)
	returned = true
}

// end reports what the handler has returned; cause says why its context had ended before, if it had.
func (s *step) end(err, cause error) {
	o := s.outcome(err, cause)
	if o.Type == sojourn.OutcomeAwait {
		o.Wait.Poll = s.h.pollEvery
	}
	defer func() { s.report(o) }() // also if the retry policy ends the goroutine
	if o.Type == sojourn.OutcomeCompleted && s.leftAlone() {
		o = rolledBack() // no question for the retry policy: nearly always the store answers that the job is completed
		return
	}
	if o.Type == sojourn.OutcomeError && !o.Verdict.Final && !spent(s.as.Failures+1, s.as.Policy.MaxAttempts) {
		again := o.Verdict.Again
		o.Verdict = s.ask(s.present(o), append(slices.Clip(s.history), s.attempt(o)))
		o.Verdict.Again = o.Verdict.Again || again
	}
}

// outcome translates what the handler has returned.
func (s *step) outcome(err, cause error) sojourn.Outcome {
	if broken, ok := errors.AsType[*undecodable](err); ok {
		return sojourn.Outcome{Type: sojourn.OutcomeUndecodable, Reason: sojourn.ReasonUndecodable, Text: sojourn.Cut(broken.Error(), sojourn.MaxError)}
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		return sojourn.Outcome{Type: sojourn.OutcomeError, Reason: sojourn.ReasonPanic, Text: p.text,
			Verdict: sojourn.Verdict{Final: s.as.Policy.OnPanic == sojourn.FailPanic}}
	}
	o := sojourn.OutcomeOf(err)
	if o.Type == sojourn.OutcomeCompleted {
		o.Result, o.ResultType = s.job.Result, s.job.ResultType
	}
	if o.Type == sojourn.OutcomeError && cause != nil {
		return ended(o, cause)
	}
	return o
}

// ended says what an error means that a handler returns after its context has ended: the end, however the error is worded. What is
// not the job's fault hands it back and uses up nothing.
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

// decide runs the retry policy alone: an attempt has ended where no handler code could decide.
func (s *step) decide() {
	o := sojourn.Outcome{Type: sojourn.OutcomeDecided, Reason: s.as.Reason, Text: s.as.Error}
	if n := len(s.history); n > 0 && o.Reason == "" && o.Text == "" {
		o.Reason, o.Text = s.history[n-1].Reason, s.history[n-1].Error
	}
	defer func() { s.report(o) }()
	if s.h.retry != nil {
		o.Verdict = s.ask(s.as, slices.Clone(s.history))
	}
}

// ask calls the kind's retry policy with a copy of the job. Without one, or if it panics, the stored backoff decides.
func (s *step) ask(job sojourn.Job, history []sojourn.Attempt) (v sojourn.Verdict) {
	if s.h.retry == nil {
		return sojourn.Verdict{}
	}
	defer func() {
		if p := recover(); p != nil {
			v = sojourn.Verdict{}
			s.r.w.log.Error("sojourn: a retry policy panicked; the stored backoff decides", "kind", s.as.Kind, "job", s.lease.ID, "panic", panicked(p, debug.Stack()))
		}
	}()
	return s.h.retry(&job, history)
}

// present is the job as its retry policy sees it: with the present error counted.
func (s *step) present(o sojourn.Outcome) sojourn.Job {
	j := s.as
	j.Failures, j.Reason, j.Error = j.Failures+1, o.Reason, o.Text
	j.Checkpoint = s.job.Checkpoint
	return j
}

// attempt is the present error as an entry of the history. Its times are the store's, as far as the worker knows them.
func (s *step) attempt(o sojourn.Outcome) sojourn.Attempt {
	a := sojourn.Attempt{Seq: int32(len(s.history)) + 1, Generation: s.as.Generation, Attempt: s.as.Attempt, Epoch: s.lease.Epoch,
		Purpose: s.purpose, Worker: s.lease.Worker, Outcome: string(o.Type), State: sojourn.Running, Reason: o.Reason, Error: o.Text}
	if n := len(s.history); n > 0 {
		a.Seq = s.history[n-1].Seq + 1
	}
	if !s.as.UpdatedAt.IsZero() {
		a.BeganAt = s.as.UpdatedAt
		a.EndedAt = a.BeganAt.Add(time.Since(s.began))
	}
	return a
}

func spent(n, budget int32) bool { return budget > 0 && n >= budget }

// leave gives the step's room back: its goroutine ends. Room of one that holds a queue is given back when the store knows of it, else this
// worker would take the next job of the queue in between.
func (s *step) leave() {
	s.cancel(context.Canceled)
	s.r.mu.Lock()
	held := s.held
	s.r.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-s.r.calls.Done():
		}
	}
	s.r.mu.Lock()
	s.r.active--
	s.r.used -= s.weight
	s.r.overtake()
	s.r.mu.Unlock()
	signal(s.r.changed)
}

// Save writes under the step's lease. After the step has been reported or lost it is sojourn.ErrLeaseLost.
func (s *step) Save(ctx context.Context, saved sojourn.Saved) error {
	if !s.owns() {
		return sojourn.ErrLeaseLost
	}
	saved.Lease = s.lease
	sent := time.Now()
	answers, err := s.r.w.store.Save(ctx, []sojourn.Saved{saved})
	if err != nil {
		return err
	}
	if errors.Is(answers[0], sojourn.ErrLeaseLost) {
		s.lose(sojourn.LostEnded)
	} else if answers[0] == nil {
		s.r.extended([]*step{s}, sent)
	}
	return answers[0]
}

// RespondURL is Options.RespondURL, for Job.RespondURL.
func (s *step) RespondURL() string { return s.r.w.o.RespondURL }

// Logger writes to the job's own log.
func (s *step) Logger() *slog.Logger { return slog.New(s.log) }

func (s *step) owns() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.phase == running
}
