package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var repeatTrials = []trial{
	{"repeat a claim", "The same request number of the same worker is answered with the same jobs, and takes no others.",
		"tr:C6 rules:A3 inv:A3 inv:P2", claimRepeated},
	{"repeat a claim after some leases have ended", "A repeated claim names only the jobs whose leases still stand.", "tr:C6 rules:A3", claimRepeatedEnded},
	{"a repeated claim does not wait beside ready jobs", "A repeated claim whose leases have all ended is answered while jobs are ready.",
		"tr:C6 rules:A3 inv:L5", claimRepeatedNone},
	{"rules:A3 lost answers of a claim", "Three lost answers do not fail a job whose handler never started.", "tr:C6 rules:A3 inv:P2", claimLostAnswers},
	{"claim without a number", "A claim with the number 0 is never taken for a repeat.", "tr:C6 rules:A3", claimUnnumbered},
	{"repeat a Finish", "The same outcome under the same lease is answered as repeated and changes nothing.",
		"tr:F12 rules:A2 inv:F8 inv:C5 spec:S9", finishRepeated},
	{"another outcome after a Finish", "Another outcome under a lease that its own Finish has ended is lost.", "tr:F12 tr:L5 rules:A2 inv:F8 spec:W10", finishOther},
	{"rules:A1 a repeated Await never parks an answered job", "A repeated Await does not put down the answer that came meanwhile.",
		"tr:F12 rules:A1 rules:A2", awaitRepeated},
	{"repeat an Extend", "An Extend whose answer was lost may be repeated at will.", "tr:L1 inv:A3", extendRepeated},
	{"a call that is given up", "A call whose context has ended either happened or did not, and repeating it does it once.",
		"inv:A3 inv:A4 rules:F1", givenUp},
}

func claimRepeated(s *scene) {
	s.resumed("k")
	s.enqueueMany(3, args("in"))
	r := s.request(upTo(2))
	first := s.claimAs(r)
	same(s, "jobs", len(first), 2)
	s.advance(time.Second)
	before := s.picture(first[1].Job.ID)
	again := s.claimAs(r)
	if !slices.Equal(claimedIDs(first), claimedIDs(again)) {
		s.Fatalf("the repeated claim gave %v, want %v", claimedIDs(again), claimedIDs(first))
	}
	for i := range again {
		same(s, "lease", again[i].Lease, first[i].Lease)
		same(s, "purpose", again[i].Purpose, first[i].Purpose)
		same(s, "args", string(again[i].Job.Args), string(first[i].Job.Args))
		same(s, "token", again[i].Job.Token, first[i].Job.Token)
		same(s, "answers", len(again[i].Job.Responses), len(first[i].Job.Responses))
	}
	s.unchanged(first[1].Job.ID, before, "a repeated claim")
	r.Worker = "w2" // the same number of another worker is another request
	other := s.claimAs(r)
	same(s, "jobs of another worker", len(other), 2)
	for _, c := range other {
		if slices.Contains(claimedIDs(first), c.Job.ID) {
			s.Fatalf("job %d was given to two workers", c.Job.ID)
		}
	}
}

func claimRepeatedEnded(s *scene) {
	s.enqueueMany(4)
	r := s.request(upTo(3))
	first := s.claimAs(r)
	s.finish(completed(first[0]), sojourn.Completed)
	s.cancel(first[1].Job.ID)
	again := s.claimAs(r)
	if len(again) != 1 || again[0].Lease != first[2].Lease {
		s.Fatalf("the repeated claim gave %v, want only %d", claimedIDs(again), first[2].Job.ID)
	}
}

func claimRepeatedNone(s *scene) {
	id := s.enqueue()
	r := s.request(waiting())
	same(s, "jobs", len(s.claimAs(r)), 1) // the answer is lost
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(id, sojourn.Ready)
	done := make(chan claimAnswer, 1)
	go func() {
		jobs, err := s.store.Claim(s.ctx, r)
		done <- claimAnswer{jobs, err}
	}()
	select {
	case a := <-done: // with nothing, or with the job under a new lease
		s.must(a.err, "Claim")
		if len(a.jobs) == 0 {
			s.claim()
		}
	case <-time.After(patience / 4):
		s.Fatalf("a repeated claim has waited for %v beside a ready job", patience/4)
	}
}

func claimLostAnswers(s *scene) {
	id := s.enqueue()
	r := s.request()
	for range 4 { // no answer comes in time: the worker repeats its number
		cs := s.claimAs(r)
		same(s, "jobs", len(cs), 1)
		s.advance(lease / 2)
		s.extends(cs[0].Lease, true)
	}
	s.sweep()
	s.state(id, sojourn.Running)
	s.counters(id, 1, 0, 0)
}

func claimUnnumbered(s *scene) {
	s.enqueueMany(2)
	a, b := s.claim(numbered(0)), s.claim(numbered(0))
	if a.Job.ID == b.Job.ID {
		s.Fatalf("two claims without a number both gave job %d", a.Job.ID)
	}
}

func finishRepeated(s *scene) {
	ways := map[string]func(c driver.Claimed) sojourn.Outcome{
		"completed": completed, "error": failure, "abort": abort, "released": released,
		"snooze": func(c driver.Claimed) sojourn.Outcome { return snooze(c, time.Minute) },
		"await":  func(c driver.Claimed) sojourn.Outcome { return await(c, time.Hour) },
		"cancel": func(c driver.Claimed) sojourn.Outcome {
			return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled}
		},
		"undecodable": func(c driver.Claimed) sojourn.Outcome {
			return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeUndecodable, Text: "bad"}
		},
	}
	for way, outcome := range inOrder(ways) {
		c := s.running(steady(time.Minute))
		o := outcome(c)
		first := s.reports(o, driver.FinishApplied)
		s.advance(time.Second)
		before := s.picture(c.Job.ID)
		again := s.reports(o, driver.FinishRepeated)
		same(s, way+": state told", again.State, first.State)
		s.unchanged(c.Job.ID, before, "a repeated "+way)
		o.Lease.Worker = "w2"
		s.reports(o, driver.FinishLost)
		s.unchanged(c.Job.ID, before, "a Finish of another worker")
		if !first.State.Final() {
			s.cancel(c.Job.ID)
		}
	}
	c := s.running()
	fs, err := s.store.Finish(s.ctx, []sojourn.Outcome{completed(c), completed(c)})
	s.must(err, "Finish")
	if fs[0].Status != driver.FinishApplied || fs[1].Status != driver.FinishRepeated {
		s.Fatalf("one outcome twice in one call answered %s and %s, want applied and repeated", fs[0].Status, fs[1].Status)
	}
	s.happened(c.Job.ID, "completed")
}

func finishOther(s *scene) {
	c := s.running(steady(time.Minute))
	s.finish(completed(c), sojourn.Completed)
	before := s.picture(c.Job.ID)
	for _, o := range []sojourn.Outcome{failure(c), abort(c), snooze(c, time.Second), await(c, 0), released(c)} {
		same(s, "why", s.reports(o, driver.FinishLost).Reason, driver.LostEnded)
	}
	s.unchanged(c.Job.ID, before, "another outcome")
	d := s.running(steady(time.Minute))
	s.finish(failure(d), sojourn.Scheduled)
	before = s.picture(d.Job.ID)
	s.reports(completed(d), driver.FinishLost)
	s.unchanged(d.Job.ID, before, "another outcome")
}

func awaitRepeated(s *scene) {
	c := s.running(sojourn.Key("k"))
	s.finish(await(c, 0), sojourn.Awaiting)
	s.respond("k")
	before := s.picture(c.Job.ID)
	s.reports(await(c, 0), driver.FinishRepeated)
	s.unchanged(c.Job.ID, before, "a repeated Await")
	d := s.claim()
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	before = s.picture(c.Job.ID)
	s.reports(await(c, 0), driver.FinishRepeated) // even under the next lease
	s.unchanged(c.Job.ID, before, "a repeated Await of an earlier step")
	s.finish(completed(d), sojourn.Completed)
}

func extendRepeated(s *scene) {
	c := s.running()
	s.advance(10 * time.Second)
	for range 3 {
		for _, e := range s.extend(c.Lease, c.Lease) {
			s.must(e.Err, "Extend")
		}
	}
	s.at("wake_at", s.get(c.Job.ID).WakeAt, s.now().Add(lease))
}

func givenUp(s *scene) {
	gone, cancel := context.WithCancel(s.ctx)
	cancel()
	j := s.job(sojourn.Key("k"))
	for range 3 {
		if _, err := s.store.Enqueue(gone, []sojourn.Job{j}, false); err == nil {
			break // it may be too fast to notice
		}
	}
	if e := s.put(j); e.ID != j.ID {
		s.Fatalf("the repeated enqueue answered %+v", e)
	}
	s.state(j.ID, sojourn.Ready)
	r := s.request()
	_, _ = s.store.Claim(gone, r)
	cs := s.claimAs(r)
	if len(cs) == 0 { // it was executed, and its leases were given back
		cs = s.claimMany()
	}
	same(s, "jobs", len(cs), 1)
	_, _ = s.store.Finish(gone, []sojourn.Outcome{completed(cs[0])})
	if f := s.report(completed(cs[0])); f.Status != driver.FinishApplied && f.Status != driver.FinishRepeated {
		s.Fatalf("the repeated Finish answered %s", f.Status)
	}
	s.state(j.ID, sojourn.Completed)
	s.counters(j.ID, 1, 0, 0)
	m := s.answer("k")
	_, _ = s.store.Respond(gone, []sojourn.Response{m})
	s.send(m)
	same(s, "responses", len(s.inbox(sojourn.InboxFilter{})), 1)
}
