package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var blockedTrials = []trial{
	{"a blocked claim is woken", "A claim that waits gets its job as soon as one is ready, whatever made it ready.",
		"spec:O14 spec:O15 spec:W8 spec:O7 inv:L5 tr:M1 tr:O7", blockedWoken},
	{"a blocked claim ends", "A claim that waits ends with nothing when its time is over.", "spec:O1 spec:W8", blockedEnds},
	{"a blocked claim is given up", "A claim that was given up takes no job with it.", "rules:A3 spec:O14", blockedGivenUp},
	{"one job for two blocked claims", "One job wakes one of two claims, and the other goes on waiting.", "spec:O14 spec:O15 inv:F1", blockedTwo},
	{"a claim that is not for this job", "A claim is not answered by jobs of other queues, kinds or weights.", "spec:O11 spec:O15", blockedOther},
	{"close ends blocked calls", "Close ends calls that wait, with ErrClosed.", "inv:J1", blockedClose},
	{"find waits for a final job", "Find with a Wait answers as soon as a job matches, and with nothing when its time is over.", "spec:P12 spec:O2", findWaits},
}

func blockedWoken(s *scene) {
	var c driver.Claimed
	woken := func(what string, do func()) {
		s.Helper()
		done := s.block(s.ctx, by("w2"))
		do()
		c = s.answered(done, what)
	}
	woken("an enqueue", func() { s.enqueue(sojourn.Key("k"), steady(time.Minute), sojourn.Timeout(time.Hour)) })
	s.finish(await(c, 0), sojourn.Awaiting)
	woken("a response", func() { s.respond("k") })
	same(s, "purpose", c.Purpose, sojourn.PurposeResume)
	woken("a release", func() { s.reports(released(c), driver.FinishApplied) })
	woken("the end of a snooze", func() {
		s.finish(snooze(c, time.Minute), sojourn.Scheduled)
		s.advance(time.Minute)
	})
	woken("the end of a lease", func() { s.advance(lease) })
	same(s, "crashes", c.Job.Crashes, 1)
	s.finish(completed(c), sojourn.Completed)
	s.paused(true)
	s.enqueue()
	woken("the end of a pause", func() { s.paused(false) })
	s.finish(abort(c), sojourn.Failed)
	woken("a redrive", func() { s.edit(c.Job.ID, redriveEdit) })
	s.finish(completed(c), sojourn.Completed)
	id := s.enqueue(sojourn.Delay(time.Hour))
	woken("a change of run_at", func() {
		d := time.Duration(0)
		s.edit(id, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Delay: &d}})
	})
}

func blockedEnds(s *scene) {
	done := make(chan claimAnswer, 1)
	r := s.request(func(r *driver.ClaimRequest) { r.Wait = 50 * time.Millisecond })
	go func() {
		jobs, err := s.store.Claim(s.ctx, r)
		done <- claimAnswer{jobs, err}
	}()
	for end := time.After(patience); ; {
		select {
		case a := <-done:
			s.must(a.err, "Claim")
			same(s, "jobs", len(a.jobs), 0)
			return
		case <-time.After(moment):
			s.advance(moment) // whichever clock the wait is counted by
		case <-end:
			s.Fatalf("a claim with a wait of %v has not ended within %v", r.Wait, patience)
		}
	}
}

func blockedGivenUp(s *scene) {
	ctx, cancel := context.WithCancel(s.ctx)
	done := s.block(ctx)
	cancel()
	select {
	case a := <-done:
		if len(a.jobs) > 0 {
			s.Fatalf("a claim that was given up gave %v", claimedIDs(a.jobs))
		}
		if a.err != nil && !errors.Is(a.err, context.Canceled) && sojourn.ErrorCode(a.err) != sojourn.CodeUnknown {
			s.Fatalf("a claim that was given up answered %v", a.err)
		}
	case <-time.After(patience):
		s.Fatalf("a claim that was given up has not ended within %v", patience)
	}
	id := s.enqueue()
	c := s.claim(by("w2"))
	same(s, "job", c.Job.ID, id)
	s.counters(id, 1, 0, 0)
	// The same when the caller has gone before the answer: the undelivered job is free at once, and
	// no crash is counted.
	next := s.enqueue()
	if jobs, err := s.store.Claim(ctx, s.request(by("w3"))); err == nil {
		same(s, "jobs given in spite of it", claimedIDs(jobs)[0], next)
		return
	}
	d := s.claim(by("w4"))
	same(s, "job", d.Job.ID, next)
	same(s, "crashes", d.Job.Crashes, 0)
	same(s, "attempt", d.Job.Attempt, 1)
}

func blockedTwo(s *scene) {
	a, b := s.block(s.ctx, by("wa")), s.block(s.ctx, by("wb"))
	for i := range 2 {
		id := s.enqueue()
		select {
		case x := <-a:
			a = b // the one that still waits
			s.must(x.err, "Claim")
			same(s, "job", x.jobs[0].Job.ID, id)
		case x := <-b:
			s.must(x.err, "Claim")
			same(s, "job", x.jobs[0].Job.ID, id)
		case <-time.After(patience):
			s.Fatalf("neither claim was woken within %v", patience)
		}
		if i == 0 {
			s.stays(a)
			b = a
		}
	}
}

func blockedOther(s *scene) {
	done := s.block(s.ctx, from("q"), room(5))
	s.enqueue()
	s.enqueue(sojourn.Queue("q"), ofKind("refund"))
	s.enqueue(sojourn.Queue("q"), sojourn.Weight(6))
	s.enqueue(sojourn.Queue("q"), sojourn.Delay(time.Hour))
	s.stays(done)
	id := s.enqueue(sojourn.Queue("q"), sojourn.Weight(5))
	same(s, "job", s.answered(done, "the right job").Job.ID, id)
}

func blockedClose(s *scene) {
	done := s.block(s.ctx)
	s.closed = true
	s.must(s.store.Close(), "Close")
	select {
	case a := <-done:
		s.is(a.err, sojourn.ErrClosed, "a claim that waits while the store is closed")
	case <-time.After(patience):
		s.Fatalf("Close has not ended a claim within %v", patience)
	}
}

func findWaits(s *scene) {
	c := s.running()
	f := sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}, States: []sojourn.State{sojourn.Completed}, Wait: sojourn.MaxWait, Full: true}
	done := make(chan []sojourn.Job, 1)
	var failed error
	find := func() {
		jobs, err := s.store.Find(s.ctx, f)
		failed = err
		done <- jobs
	}
	go find()
	select {
	case jobs := <-done:
		s.Fatalf("Find gave %d jobs (%v) before one matched", len(jobs), failed)
	case <-time.After(moment):
	}
	s.finish(completed(c), sojourn.Completed)
	for range 2 { // the second time it matches at once
		select {
		case jobs := <-done:
			s.must(failed, "Find")
			same(s, "jobs", len(jobs), 1)
			same(s, "result", string(jobs[0].Result), "done")
		case <-time.After(patience):
			s.Fatalf("Find has not seen the job end within %v", patience)
		}
		go find()
	}
	<-done
	f.States, f.Wait = []sojourn.State{sojourn.Failed}, 50*time.Millisecond
	go find()
	for end := time.After(patience); ; {
		select {
		case jobs := <-done:
			s.must(failed, "Find")
			same(s, "jobs", len(jobs), 0)
			return
		case <-time.After(moment):
			s.advance(moment)
		case <-end:
			s.Fatalf("Find with a wait of %v has not ended within %v", f.Wait, patience)
		}
	}
}
