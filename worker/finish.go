package worker

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

const (
	logEvery    = time.Second // at most, between a line of Job.Log and its flush
	maxOutbytes = 4 << 20     // of results, errors and log lines in one Finish, so that large ones do not pile up to gigabytes
)

// reporter reports the outcomes of a run's steps to the store, and flushes their logs.
type reporter struct {
	r      *run
	filled chan struct{} // capacity 1: the outbox has something
	logged chan struct{} // capacity 1: a job's log has something

	// guarded by r.mu
	outbox    []*step // those whose outcome waits to be reported, in order
	abandoned int     // outcomes that could be reported no more
}

// report hands the outcome of a step to the reporter. Only the first outcome counts: later ones of
// a step that was lost, or reported for a handler that ignores its context, are dropped.
func (s *step) report(o sojourn.Outcome) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.phase != running {
		return
	}
	o.Lease = s.lease
	s.phase, s.out, s.returned = reported, o, time.Now()
	if o.Type == sojourn.OutcomeHold || o.Type == sojourn.OutcomeNoAnswer && o.Delay > 0 {
		s.held = make(chan struct{})
	}
	s.r.reports.outbox = append(s.r.reports.outbox, s)
	signal(s.r.reports.filled)
}

// loop reports all waiting outcomes in one call, and starts the next call as soon as that one
// returns; in between it flushes the logs of running jobs. One goroutine does both, so that the
// lines of a step are on disk, or in its outcome, when it ends.
func (p *reporter) loop() {
	pause := backoff{first: 50 * time.Millisecond, limit: 5 * time.Second}
	var flush <-chan time.Time
	for {
		select {
		case <-p.filled:
		case <-p.logged:
			if flush == nil {
				flush = time.After(logEvery)
			}
		case <-flush:
			flush = nil
			if !p.flush() {
				signal(p.logged)
			}
		case <-p.r.calls.Done():
			return
		}
		for batch := p.batch(); len(batch) > 0; batch = p.batch() {
			err := p.finish(batch)
			switch {
			case err == nil:
				pause.reset()
			case errors.Is(err, sojourn.ErrClosed):
				p.r.failed("finish", err)
				p.giveUp(batch)
			default:
				p.r.failed("finish", err)
				sleep(p.r.calls, pause.next(), nil)
			}
			if p.r.calls.Err() != nil {
				return
			}
		}
	}
}

// batch is the front of the outbox. The steps stay in it until the store has confirmed them.
func (p *reporter) batch() []*step {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	n, size := 0, 0
	for _, s := range p.outbox[:min(len(p.outbox), sojourn.MaxBatch)] {
		s.out.Log = append(s.out.Log, s.log.take()...)
		size += len(s.out.Result) + len(s.out.Text) + len(s.out.Detail) + len(s.out.Ask) + len(s.out.Verdict.Checkpoint)
		for i := range s.out.Next {
			size += len(s.out.Next[i].Args)
		}
		for _, l := range s.out.Log {
			size += len(l.Text)
		}
		if n > 0 && size > maxOutbytes {
			break
		}
		n++
	}
	return p.outbox[:n:n]
}

// finish reports one batch. An error means that its outcome is unknown or that nothing happened;
// repeating it is safe.
func (p *reporter) finish(batch []*step) error {
	call, cancel := context.WithTimeout(p.r.calls, p.r.w.o.Lease)
	defer cancel()
	outcomes := make([]sojourn.Outcome, len(batch))
	for i, s := range batch {
		outcomes[i] = s.out
	}
	sent := time.Now()
	answers, err := p.r.w.store.Finish(call, outcomes)
	if code := sojourn.ErrorCode(err); code == sojourn.CodeInvalid || code == sojourn.CodeInvalidJSON || code == sojourn.CodeTooLarge {
		return p.finishSingly(batch, err)
	}
	if err != nil {
		return err
	}
	p.r.observe(Event{Type: EventReported, Count: len(batch), Took: time.Since(sent)})
	p.settle(batch, answers)
	return nil
}

// finishSingly reports the outcomes of a refused batch one by one, so that the invalid outcome does
// not block the others.
func (p *reporter) finishSingly(batch []*step, refusal error) error {
	if len(batch) == 1 {
		p.settle(batch, []driver.Finished{{Status: driver.FinishRefused, Err: refusal}})
		return nil
	}
	for i := range batch {
		if err := p.finish(batch[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// settle removes the confirmed steps from the outbox. batch is its front.
func (p *reporter) settle(batch []*step, answers []driver.Finished) {
	var again []*step
	var events []Event // to observe or to log
	var failed []failedAttempt
	p.r.mu.Lock()
	for i, s := range batch {
		a := answers[i]
		if a.Status == driver.FinishRefused && s.replace(a.Err) {
			again = append(again, s)
			continue
		}
		s.forget()
		e := s.event(EventFinished, s.out.Reason)
		if a.Status == driver.FinishApplied || a.Status == driver.FinishRepeated {
			failed = s.addFailure(failed, a.State)
		}
		switch {
		case s.committed(a):
			e = s.afterCommit()
		case a.Status == driver.FinishLost:
			e = s.event(EventLost, a.Reason)
		}
		if a.Status == driver.FinishRefused {
			e = s.event(EventFailure, s.out.Reason)
			e.Call, e.Err = "finish", a.Err
		}
		e.State, e.Ran, e.Took = a.State, s.returned.Sub(s.began), time.Since(s.returned)
		if p.r.w.o.Observer != nil || e.Err != nil || e.Type == EventFailure {
			events = append(events, e)
		}
	}
	p.outbox = append(p.outbox[len(batch):], again...)
	if len(p.outbox) == 0 {
		p.outbox = nil // frees the steps before
	}
	p.r.mu.Unlock()
	for _, f := range failed {
		f.log(p.r.w.log)
	}
	for _, e := range events {
		if e.Type == EventFailure {
			p.r.w.log.Error("sojourn: the store refuses each report about a job; its lease will end", "job", e.Job, "error", e.Err)
		} else if e.Err != nil {
			p.r.w.log.Warn("sojourn: a handler returned an error after its transaction had completed the job", "kind", e.Kind, "job", e.Job, "error", e.Err)
		}
		p.r.observe(e)
	}
	signal(p.r.changed)
}

// replace replaces an outcome that the store refuses by the error: once with the step's log, once
// without. r.mu is held.
func (s *step) replace(err error) bool {
	s.refused++
	if s.refused > 2 {
		return false
	}
	reason, text := sojourn.ErrorCode(err), "the store refused the outcome"
	if err != nil {
		text = err.Error()
	}
	if reason == "" {
		reason = sojourn.CodeInvalid
	}
	o := sojourn.Outcome{Lease: s.lease, Type: sojourn.OutcomeError, Reason: reason, Text: sojourn.Cut(text, sojourn.MaxError), Log: s.out.Log}
	switch s.purpose {
	case sojourn.PurposeDecide:
		o.Type = sojourn.OutcomeDecided // by the stored backoff
	case sojourn.PurposePoll:
		o.Type = sojourn.OutcomeNoAnswer
	}
	if s.refused > 1 {
		o.Log = nil
	}
	s.out = o
	return true
}

// giveUp drops a batch that can no longer be reported.
func (p *reporter) giveUp(batch []*step) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	for _, s := range batch {
		s.forget()
	}
	p.abandoned += len(batch)
	p.outbox = p.outbox[len(batch):]
	signal(p.r.changed)
}

// flush saves the logs of running jobs. Lines that cannot be saved now stay for the next flush.
func (p *reporter) flush() (done bool) {
	p.r.mu.Lock()
	var steps []*step
	for s := range p.r.steps {
		if s.phase == running && !s.inTx && s.log.waits() && len(steps) < sojourn.MaxBatch {
			steps = append(steps, s)
		}
	}
	p.r.mu.Unlock()
	if len(steps) == 0 {
		return true
	}
	items := make([]driver.Saved, len(steps))
	for i, s := range steps {
		items[i] = driver.Saved{Lease: s.lease, Log: s.log.take()}
	}
	call, cancel := context.WithTimeout(p.r.calls, p.r.w.o.Lease)
	defer cancel()
	sent := time.Now()
	answers, err := p.r.w.store.Save(call, items)
	if err != nil {
		p.r.failed("save", err)
		for i, s := range steps {
			s.log.putBack(items[i].Log)
		}
		return false
	}
	for i, s := range steps {
		switch {
		case answers[i].Err == nil:
			p.r.extended([]*step{s}, sent)
		case errors.Is(answers[i].Err, sojourn.ErrLeaseLost):
			s.lose(answers[i].Reason)
		default:
			p.r.failed("save", answers[i].Err)
		}
	}
	return len(steps) < sojourn.MaxBatch
}
