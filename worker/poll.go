package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// Defaults of Poll.
const (
	DefaultPollFirst = time.Minute
	DefaultPollLimit = time.Hour
	// MaxPoll is how long a poll function may take; then its context ends.
	MaxPoll = 30 * time.Second

	pollFactor = 2
	pollJitter = 0.2
)

// Answer is the result of a poll function. The handler gets it as Job.Response, with the source
// sojourn.SourcePoll.
type Answer struct {
	Body        []byte
	ContentType string // default application/json
	// Failed makes it an error response: it ends the attempt with Reason and Error, as one from
	// another channel does. The worker sends it as a response, so over HTTP its token needs the
	// verb respond.
	Failed bool
	Reason string // short stable class of the failure; none = made of Error
	Error  string
}

// PollFunc asks the other side for the answer to a waiting job. nil means that there is none yet.
// An error or a panic is not counted: the job goes on waiting until the next poll, and the history
// of the job has the error. sojourn.Hold closes a queue as in a handler. ctx ends after MaxPoll,
// when the lease is lost, and at the end of a shutdown's grace. Middleware does not run, and the
// Job has no Response.
type PollFunc[T any] func(ctx context.Context, job *sojourn.Job, args T) (*Answer, error)

// Poll sets the poll function of kind k, the kind of Handle, for services that may fail to call
// back: while a job awaits, a worker that has the function calls it in a short step of its own. The
// first answer ends the whole wait, also of AwaitAll, whether it is the poll's or a response. A
// poll step uses 1 of the worker's Concurrency. Pause, hold, breaker and rates of the queue hold it
// back; the limit and windows do not.
//
// every says when: First after the job has begun to wait (default 1 min), then times Factor
// (default 2) up to Limit (default 1 h), with Jitter (default 0.2); First and Limit are at least
// sojourn.MinPoll. It is stored with the wait. Handle panics if it is out of range.
func Poll[T any](k sojourn.Kind[T], every sojourn.Backoff, fn PollFunc[T]) HandleOption {
	return func(h *handling) {
		h.pollKind, h.pollEvery = k.Name, sojourn.Backoff{First: cmp.Or(every.First, DefaultPollFirst), Factor: cmp.Or(every.Factor, pollFactor),
			Limit: cmp.Or(every.Limit, max(DefaultPollLimit, every.First)), Jitter: cmp.Or(every.Jitter, pollJitter)}
		if fn == nil {
			return
		}
		h.poll = func(ctx context.Context, job *sojourn.Job) (*Answer, error) {
			args, err := decode(k, job)
			if err != nil {
				return nil, sojourn.WithReason(sojourn.ReasonUndecodable, err)
			}
			return fn(ctx, job, args)
		}
	}
}

// wrongPoll describes the error in the poll settings of a kind, "" if there is none.
func (h *handling) wrongPoll(kind string) string {
	wait := sojourn.Outcome{Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Poll: h.pollEvery}}
	switch {
	case h.pollKind == "":
		return ""
	case h.pollKind != kind:
		return "the poll function is of the kind " + h.pollKind
	case h.poll == nil:
		return "nil poll function"
	}
	if err := driver.ValidOutcome(&wait, 0); err != nil {
		return err.Error()
	}
	return ""
}

// poll runs the poll function.
func (s *step) poll() {
	o := sojourn.Outcome{Type: sojourn.OutcomeNoAnswer}
	defer func() { s.report(o) }() // also if the function ends the goroutine
	if s.h.poll == nil {
		return
	}
	s.r.observe(s.started())
	answer, err := s.polled()
	if err != nil {
		if instead := readError(err, func() { sojourn.OutcomeOf(err) }); instead != nil {
			err = sojourn.WithReason(sojourn.ReasonPanic, instead)
		}
	}
	var limit *LimitError
	switch cause := s.ctx.ended(); {
	case err == nil && answer != nil && answer.Failed:
		if err := s.sendFailure(answer); err != nil {
			o.Reason, o.Text = sojourn.ReasonOf(err), sojourn.Cut(err.Error(), sojourn.MaxError)
		}
	case err == nil && answer != nil:
		o.Type, o.Result, o.ResultType = sojourn.OutcomeAnswer, answer.Body, cmp.Or(answer.ContentType, "application/json")
	case err != nil && cause != nil && !errors.As(cause, &limit):
		o.Type = sojourn.OutcomeReleased // not the other side's fault
	case err != nil && limit != nil:
		o.Reason, o.Text = sojourn.ReasonRunTimeout, sojourn.Cut(err.Error(), sojourn.MaxError)
	case err != nil:
		o.Reason, o.Text = sojourn.ReasonOf(err), sojourn.Cut(err.Error(), sojourn.MaxError)
		said := sojourn.OutcomeOf(err)
		if o.Detail = said.Detail; said.Type == sojourn.OutcomeHold {
			o.Reason, o.Queue, o.Delay = string(said.Type), said.Queue, said.Delay
			o.Text = "the poll function has closed the queue for " + said.Delay.String()
		}
	}
}

// sendFailure stores an error response for the job. It is kept while the poll step runs, and ends
// the attempt when the step has ended. A wait for all of several keys accepts only responses with
// one of the keys.
func (s *step) sendFailure(a *Answer) error {
	r := &sojourn.Response{Job: s.lease.ID, Source: sojourn.SourcePoll, MessageID: fmt.Sprintf("%d.%d", s.lease.ID, s.lease.Epoch), Failed: true,
		Reason: sojourn.Cut(a.Reason, sojourn.MaxReason), Error: sojourn.Cut(a.Error, sojourn.MaxError), Body: a.Body, ContentType: cmp.Or(a.ContentType, "application/json")}
	if w := s.whole.Waiting; w != nil && w.Mode == sojourn.WaitAll && len(w.Keys) > 0 {
		r.Job, r.Kind, r.Key = 0, s.as.kind, w.Keys[0]
	}
	_, err := s.r.w.store.Respond(&s.ctx, []sojourn.Response{*r})
	return err
}

// polled calls the poll function and turns its panic into an error.
func (s *step) polled() (a *Answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			a, err = nil, sojourn.WithReason(sojourn.ReasonPanic, &panicError{panicked(v, debug.Stack())})
		}
	}()
	return s.h.poll(&s.ctx, s.job)
}
