package claims

import (
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var repeatTrials = []kit.Trial{
	{Name: "repeat a claim", Law: "The same request number of the same worker is answered with the same jobs, and takes no others.",
		Covers: "tr:C6 rules:A3 inv:A3 inv:P2", Run: claimRepeated},
	{Name: "repeat a claim after some leases have ended", Law: "A repeated claim names only the jobs whose leases still stand.",
		Covers: "tr:C6 rules:A3", Run: claimRepeatedEnded},
	{Name: "a repeated claim does not wait beside ready jobs", Law: "A repeated claim whose leases have all ended is answered while jobs are ready.",
		Covers: "tr:C6 rules:A3 inv:L5", Run: claimRepeatedNone},
	{Name: "rules:A3 lost answers of a claim", Law: "Three lost answers do not fail a job whose handler never started.",
		Covers: "tr:C6 rules:A3 inv:P2", Run: claimLostAnswers},
	{Name: "claim without a number", Law: "A claim with the number 0 is never taken for a repeat.", Covers: "tr:C6 rules:A3", Run: claimUnnumbered},
	{Name: "repeat a Finish", Law: "The same outcome under the same lease is answered as repeated and changes nothing.",
		Covers: "tr:F12 rules:A2 inv:F8 inv:C5 spec:S9", Run: finishRepeated},
	{Name: "another outcome after a Finish", Law: "Another outcome under a lease that its own Finish has ended is lost.",
		Covers: "tr:F12 tr:L5 rules:A2 inv:F8 spec:W10", Run: finishOther},
	{Name: "rules:A1 a repeated Await never parks an answered job", Law: "A repeated Await does not put down the answer that came meanwhile.",
		Covers: "tr:F12 rules:A1 rules:A2", Run: awaitRepeated},
	{Name: "repeat an Extend", Law: "An Extend whose answer was lost may be repeated at will.", Covers: "tr:L1 inv:A3", Run: extendRepeated},
	{Name: "a call that is given up", Law: "A call whose context has ended either happened or did not, and repeating it does it once.",
		Covers: "inv:A3 inv:A4 rules:F1", Run: givenUp},
}

func claimRepeated(s *kit.Scene) {
	s.Resumed("k")
	s.EnqueueMany(3, kit.Args("in"))
	r := s.Request(kit.UpTo(2))
	first := s.ClaimAs(r)
	kit.Same(s, "jobs", len(first), 2)
	s.Advance(time.Second)
	before := s.Picture(first[1].Job.ID)
	again := s.ClaimAs(r)
	if !slices.Equal(kit.ClaimedIDs(first), kit.ClaimedIDs(again)) {
		s.Fatalf("the repeated claim gave %v, want %v", kit.ClaimedIDs(again), kit.ClaimedIDs(first))
	}
	for i := range again {
		kit.Same(s, "lease", again[i].Lease, first[i].Lease)
		kit.Same(s, "purpose", again[i].Purpose, first[i].Purpose)
		kit.Same(s, "args", string(again[i].Job.Args), string(first[i].Job.Args))
		kit.Same(s, "token", again[i].Job.Token, first[i].Job.Token)
		kit.Same(s, "answers", len(again[i].Job.Responses), len(first[i].Job.Responses))
	}
	s.Unchanged(first[1].Job.ID, before, "a repeated claim")
	r.Worker = "w2" // the same number of another worker is another request
	other := s.ClaimAs(r)
	kit.Same(s, "jobs of another worker", len(other), 2)
	for _, c := range other {
		if slices.Contains(kit.ClaimedIDs(first), c.Job.ID) {
			s.Fatalf("job %d was given to two workers", c.Job.ID)
		}
	}
}

func claimRepeatedEnded(s *kit.Scene) {
	s.EnqueueMany(4)
	r := s.Request(kit.UpTo(3))
	first := s.ClaimAs(r)
	s.Finish(kit.Completed(first[0]), sojourn.Completed)
	s.Cancel(first[1].Job.ID)
	again := s.ClaimAs(r)
	if len(again) != 1 || again[0].Lease != first[2].Lease {
		s.Fatalf("the repeated claim gave %v, want only %d", kit.ClaimedIDs(again), first[2].Job.ID)
	}
}

func claimRepeatedNone(s *kit.Scene) {
	id := s.Enqueue()
	r := s.Request(kit.Waiting())
	kit.Same(s, "jobs", len(s.ClaimAs(r)), 1) // the answer is lost
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(id, sojourn.Ready)
	done := make(chan kit.ClaimAnswer, 1)
	go func() {
		jobs, err := s.Store.Claim(s.Ctx, r)
		done <- kit.ClaimAnswer{Jobs: jobs, Err: err}
	}()
	select {
	case a := <-done: // with nothing, or with the job under a new lease
		s.Must(a.Err, "Claim")
		if len(a.Jobs) == 0 {
			s.Claim()
		}
	case <-time.After(kit.Patience / 4):
		s.Fatalf("a repeated claim has waited for %v beside a ready job", kit.Patience/4)
	}
}

func claimLostAnswers(s *kit.Scene) {
	id := s.Enqueue()
	r := s.Request()
	for range 4 { // no answer comes in time: the worker repeats its number
		cs := s.ClaimAs(r)
		kit.Same(s, "jobs", len(cs), 1)
		s.Advance(kit.LeaseTime / 2)
		s.Extends(cs[0].Lease, true)
	}
	s.Sweep()
	s.State(id, sojourn.Running)
	s.Counters(id, 1, 0, 0)
}

func claimUnnumbered(s *kit.Scene) {
	s.EnqueueMany(2)
	a, b := s.Claim(kit.Numbered(0)), s.Claim(kit.Numbered(0))
	if a.Job.ID == b.Job.ID {
		s.Fatalf("two claims without a number both gave job %d", a.Job.ID)
	}
}

func finishRepeated(s *kit.Scene) {
	ways := map[string]func(c driver.Claimed) sojourn.Outcome{
		"completed": kit.Completed, "error": kit.Failure, "abort": kit.Abort, "released": kit.Released,
		"snooze": func(c driver.Claimed) sojourn.Outcome { return kit.Snooze(c, time.Minute) },
		"await":  func(c driver.Claimed) sojourn.Outcome { return kit.Await(c, time.Hour) },
		"cancel": func(c driver.Claimed) sojourn.Outcome {
			return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled}
		},
		"undecodable": func(c driver.Claimed) sojourn.Outcome {
			return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeUndecodable, Text: "bad"}
		},
	}
	for way, outcome := range kit.InOrder(ways) {
		c := s.Running(kit.Steady(time.Minute))
		o := outcome(c)
		first := s.Reports(o, driver.FinishApplied)
		s.Advance(time.Second)
		before := s.Picture(c.Job.ID)
		again := s.Reports(o, driver.FinishRepeated)
		kit.Same(s, way+": state told", again.State, first.State)
		s.Unchanged(c.Job.ID, before, "a repeated "+way)
		o.Lease.Worker = "w2"
		s.Reports(o, driver.FinishLost)
		s.Unchanged(c.Job.ID, before, "a Finish of another worker")
		if !first.State.Final() {
			s.Cancel(c.Job.ID)
		}
	}
	c := s.Running()
	fs, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{kit.Completed(c), kit.Completed(c)})
	s.Must(err, "Finish")
	if fs[0].Status != driver.FinishApplied || fs[1].Status != driver.FinishRepeated {
		s.Fatalf("one outcome twice in one call answered %s and %s, want applied and repeated", fs[0].Status, fs[1].Status)
	}
	s.Happened(c.Job.ID, "completed")
}

func finishOther(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Minute))
	s.Finish(kit.Completed(c), sojourn.Completed)
	before := s.Picture(c.Job.ID)
	for _, o := range []sojourn.Outcome{kit.Failure(c), kit.Abort(c), kit.Snooze(c, time.Second), kit.Await(c, 0), kit.Released(c)} {
		kit.Same(s, "why", s.Reports(o, driver.FinishLost).Reason, driver.LostEnded)
	}
	s.Unchanged(c.Job.ID, before, "another outcome")
	d := s.Running(kit.Steady(time.Minute))
	s.Finish(kit.Failure(d), sojourn.Scheduled)
	before = s.Picture(d.Job.ID)
	s.Reports(kit.Completed(d), driver.FinishLost)
	s.Unchanged(d.Job.ID, before, "another outcome")
}

func awaitRepeated(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Respond("k")
	before := s.Picture(c.Job.ID)
	s.Reports(kit.Await(c, 0), driver.FinishRepeated)
	s.Unchanged(c.Job.ID, before, "a repeated Await")
	d := s.Claim()
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	before = s.Picture(c.Job.ID)
	s.Reports(kit.Await(c, 0), driver.FinishRepeated) // even under the next lease
	s.Unchanged(c.Job.ID, before, "a repeated Await of an earlier step")
	s.Finish(kit.Completed(d), sojourn.Completed)
}

func extendRepeated(s *kit.Scene) {
	c := s.Running()
	s.Advance(10 * time.Second)
	for range 3 {
		for _, e := range s.Extend(c.Lease, c.Lease) {
			s.Must(e.Err, "Extend")
		}
	}
	s.At("wake_at", s.Get(c.Job.ID).WakeAt, s.Now().Add(kit.LeaseTime))
}

func givenUp(s *kit.Scene) {
	gone, cancel := context.WithCancel(s.Ctx)
	cancel()
	j := s.Job(sojourn.Key("k"))
	for range 3 {
		if _, err := s.Store.Enqueue(gone, []sojourn.Job{j}, false); err == nil {
			break // it may be too fast to notice
		}
	}
	if e := s.Put(j); e.ID != j.ID {
		s.Fatalf("the repeated enqueue answered %+v", e)
	}
	s.State(j.ID, sojourn.Ready)
	r := s.Request()
	_, _ = s.Store.Claim(gone, r)
	cs := s.ClaimAs(r)
	if len(cs) == 0 { // it was executed, and its leases were given back
		cs = s.ClaimMany()
	}
	kit.Same(s, "jobs", len(cs), 1)
	_, _ = s.Store.Finish(gone, []sojourn.Outcome{kit.Completed(cs[0])})
	if f := s.Report(kit.Completed(cs[0])); f.Status != driver.FinishApplied && f.Status != driver.FinishRepeated {
		s.Fatalf("the repeated Finish answered %s", f.Status)
	}
	s.State(j.ID, sojourn.Completed)
	s.Counters(j.ID, 1, 0, 0)
	m := s.Answer("k")
	_, _ = s.Store.Respond(gone, []sojourn.Response{m})
	s.Send(m)
	kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{})), 1)
}
