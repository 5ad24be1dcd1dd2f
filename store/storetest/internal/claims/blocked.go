package claims

import (
	"context"
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var blockedTrials = []kit.Trial{
	{Name: "a blocked claim is woken", Law: "A claim that waits gets its job as soon as one is ready, whatever made it ready.",
		Covers: "spec:O14 spec:O15 spec:W8 spec:O7 inv:L5 tr:M1 tr:O7", Run: blockedWoken},
	{Name: "a blocked claim ends", Law: "A claim that waits ends with nothing when its time is over.", Covers: "spec:O1 spec:W8", Run: blockedEnds},
	{Name: "a blocked claim is given up", Law: "A claim that was given up takes no job with it.", Covers: "rules:A3 spec:O14", Run: blockedGivenUp},
	{Name: "one job for two blocked claims", Law: "One job wakes one of two claims, and the other goes on waiting.", Covers: "spec:O14 spec:O15 inv:F1", Run: blockedTwo},
	{Name: "a claim that is not for this job", Law: "A claim is not answered by jobs of other queues, kinds or weights.", Covers: "spec:O11 spec:O15", Run: blockedOther},
	{Name: "close ends blocked calls", Law: "Close ends calls that wait, with ErrClosed.", Covers: "inv:J1", Run: blockedClose},
	{Name: "find waits for a final job", Law: "Find with a Wait answers as soon as a job matches, and with nothing when its time is over.",
		Covers: "spec:P12 spec:O2", Run: findWaits},
}

func blockedWoken(s *kit.Scene) {
	var c driver.Claimed
	woken := func(what string, do func()) {
		s.Helper()
		done := s.Block(s.Ctx, kit.By("w2"))
		do()
		c = s.Answered(done, what)
	}
	woken("an enqueue", func() { s.Enqueue(sojourn.Key("k"), kit.Steady(time.Minute), sojourn.Timeout(time.Hour)) })
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	woken("a response", func() { s.Respond("k") })
	kit.Same(s, "purpose", c.Purpose, sojourn.PurposeResume)
	woken("a release", func() { s.Reports(kit.Released(c), driver.FinishApplied) })
	woken("the end of a snooze", func() {
		s.Finish(kit.Snooze(c, time.Minute), sojourn.Scheduled)
		s.Advance(time.Minute)
	})
	woken("the end of a lease", func() { s.Advance(kit.LeaseTime) })
	kit.Same(s, "crashes", c.Job.Crashes, 1)
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Paused(true)
	s.Enqueue()
	woken("the end of a pause", func() { s.Paused(false) })
	s.Finish(kit.Abort(c), sojourn.Failed)
	woken("a redrive", func() { s.Edit(c.Job.ID, kit.RedriveEdit) })
	s.Finish(kit.Completed(c), sojourn.Completed)
	id := s.Enqueue(sojourn.Delay(time.Hour))
	woken("a change of run_at", func() {
		d := time.Duration(0)
		s.Edit(id, sojourn.Edit{Action: sojourn.EditChange, Delay: &d})
	})
}

func blockedEnds(s *kit.Scene) {
	done := make(chan kit.ClaimAnswer, 1)
	r := s.Request(func(r *driver.ClaimRequest) { r.Wait = 50 * time.Millisecond })
	go func() {
		jobs, err := s.Store.Claim(s.Ctx, r)
		done <- kit.ClaimAnswer{Jobs: jobs, Err: err}
	}()
	for end := time.After(kit.Patience); ; {
		select {
		case a := <-done:
			s.Must(a.Err, "Claim")
			kit.Same(s, "jobs", len(a.Jobs), 0)
			return
		case <-time.After(kit.Moment):
			s.Advance(kit.Moment) // whichever clock the wait is counted by
		case <-end:
			s.Fatalf("a claim with a wait of %v has not ended within %v", r.Wait, kit.Patience)
		}
	}
}

func blockedGivenUp(s *kit.Scene) {
	ctx, cancel := context.WithCancel(s.Ctx)
	done := s.Block(ctx)
	cancel()
	select {
	case a := <-done:
		if len(a.Jobs) > 0 {
			s.Fatalf("a claim that was given up gave %v", kit.ClaimedIDs(a.Jobs))
		}
		if a.Err != nil && !errors.Is(a.Err, context.Canceled) && sojourn.ErrorCode(a.Err) != sojourn.CodeUnknown {
			s.Fatalf("a claim that was given up answered %v", a.Err)
		}
	case <-time.After(kit.Patience):
		s.Fatalf("a claim that was given up has not ended within %v", kit.Patience)
	}
	id := s.Enqueue()
	c := s.Claim(kit.By("w2"))
	kit.Same(s, "job", c.Job.ID, id)
	s.Counters(id, 1, 0, 0)
	// The same when the caller has gone before the answer: the undelivered job is free at once, and
	// no crash is counted.
	next := s.Enqueue()
	if jobs, err := s.Store.Claim(ctx, s.Request(kit.By("w3"))); err == nil {
		kit.Same(s, "jobs given in spite of it", kit.ClaimedIDs(jobs)[0], next)
		return
	}
	d := s.Claim(kit.By("w4"))
	kit.Same(s, "job", d.Job.ID, next)
	kit.Same(s, "crashes", d.Job.Crashes, 0)
	kit.Same(s, "attempt", d.Job.Attempt, 1)
}

func blockedTwo(s *kit.Scene) {
	a, b := s.Block(s.Ctx, kit.By("wa")), s.Block(s.Ctx, kit.By("wb"))
	for i := range 2 {
		id := s.Enqueue()
		select {
		case x := <-a:
			a = b // the one that still waits
			s.Must(x.Err, "Claim")
			kit.Same(s, "job", x.Jobs[0].Job.ID, id)
		case x := <-b:
			s.Must(x.Err, "Claim")
			kit.Same(s, "job", x.Jobs[0].Job.ID, id)
		case <-time.After(kit.Patience):
			s.Fatalf("neither claim was woken within %v", kit.Patience)
		}
		if i == 0 {
			s.Stays(a)
			b = a
		}
	}
}

func blockedOther(s *kit.Scene) {
	done := s.Block(s.Ctx, kit.From("q"), kit.Room(5))
	s.Enqueue()
	s.Enqueue(sojourn.Queue("q"), kit.OfKind("refund"))
	s.Enqueue(sojourn.Queue("q"), sojourn.Weight(6))
	s.Enqueue(sojourn.Queue("q"), sojourn.Delay(time.Hour))
	s.Stays(done)
	id := s.Enqueue(sojourn.Queue("q"), sojourn.Weight(5))
	kit.Same(s, "job", s.Answered(done, "the right job").Job.ID, id)
}

func blockedClose(s *kit.Scene) {
	done := s.Block(s.Ctx)
	s.Closed = true
	s.Must(s.Store.Close(), "Close")
	select {
	case a := <-done:
		s.Is(a.Err, sojourn.ErrClosed, "a claim that waits while the store is closed")
	case <-time.After(kit.Patience):
		s.Fatalf("Close has not ended a claim within %v", kit.Patience)
	}
}

func findWaits(s *kit.Scene) {
	c := s.Running()
	f := sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}, States: []sojourn.State{sojourn.Completed}, Wait: sojourn.MaxWait, Full: true}
	done := make(chan []sojourn.Job, 1)
	var failed error
	find := func() {
		jobs, err := s.Store.Find(s.Ctx, f)
		failed = err
		done <- jobs
	}
	go find()
	select {
	case jobs := <-done:
		s.Fatalf("Find gave %d jobs (%v) before one matched", len(jobs), failed)
	case <-time.After(kit.Moment):
	}
	s.Finish(kit.Completed(c), sojourn.Completed)
	for range 2 { // the second time it matches at once
		select {
		case jobs := <-done:
			s.Must(failed, "Find")
			kit.Same(s, "jobs", len(jobs), 1)
			kit.Same(s, "result", string(jobs[0].Result), "done")
		case <-time.After(kit.Patience):
			s.Fatalf("Find has not seen the job end within %v", kit.Patience)
		}
		go find()
	}
	<-done
	f.States, f.Wait = []sojourn.State{sojourn.Failed}, 50*time.Millisecond
	go find()
	for end := time.After(kit.Patience); ; {
		select {
		case jobs := <-done:
			s.Must(failed, "Find")
			kit.Same(s, "jobs", len(jobs), 0)
			return
		case <-time.After(kit.Moment):
			s.Advance(kit.Moment)
		case <-end:
			s.Fatalf("Find with a wait of %v has not ended within %v", f.Wait, kit.Patience)
		}
	}
}
