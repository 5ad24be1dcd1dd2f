package claims

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var handTrials = []kit.Trial{
	{Name: "rules:B2 an answer in hand stays", Law: "An answer in hand is given to every later step until the handler disposes of it.",
		Covers: "rules:B2 tr:F2 tr:F7 tr:F10 tr:W1 tr:W5 inv:U4", Run: handStays},
	{Name: "again: a fresh request", Law: "Again puts the answer in hand down, so that the next attempt starts without one.", Covers: "tr:F4 rules:B2", Run: handAgain},
	{Name: "later answers queue behind the one in hand", Law: "An answer that comes while one is in hand is kept behind it and never replaces it.",
		Covers: "rules:B2 tr:R5 tr:F5", Run: handQueue},
	{Name: "again takes the next answer", Law: "After Again a kept answer is taken by the retry.", Covers: "tr:F4 tr:M3 rules:B1", Run: handAgainNext},
	{Name: "again without an answer in hand", Law: "Again without an answer in hand is an ordinary error.", Covers: "tr:F2 tr:F4", Run: handAgainNone},
	{Name: "rules:C2 a resumed job that nobody runs", Law: "No attempt clock ends a resumed job: at its timeout it only loses its privilege and its weight.",
		Covers: "tr:W8 rules:C2 inv:T2 spec:H3", Run: handResumedTooLong},
	{Name: "rules:C2 the last attempt, answered in time", Law: "A job that was answered in time does not fail by its timeout before its handler saw the answer.",
		Covers: "tr:W8 rules:C2 inv:U4", Run: handLastAttempt},
}

func handStays(s *kit.Scene) {
	s.Resumed("k", kit.Steady(time.Minute), kit.Policy(sojourn.Policy{MaxAttempts: 9, MaxCrashes: 9, Timeout: kit.LeaseTime}))
	c := s.Claim()
	given := func(when string) {
		s.Helper()
		if c.Job.Response == nil || string(s.ClaimedResponse(c).Body) != "answer 1" || len(c.Job.Responses) != 1 {
			s.Fatalf("%s the answer in hand is gone", when)
		}
	}
	given("at the resume")
	s.Finish(kit.Released(c), sojourn.Ready)
	c = s.Claim()
	given("after a release")
	s.Finish(kit.Snooze(c, time.Minute), sojourn.Scheduled)
	s.Advance(time.Minute)
	c = s.Claim()
	given("after a snooze")
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Advance(time.Minute)
	c = s.Claim()
	given("after an error")
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	c = s.Claim()
	given("after a lost lease")
	s.Outlive(c.Lease, driver.Swept{TimedOut: 1})
	s.State(c.Job.ID, sojourn.Scheduled)
	s.Advance(time.Minute)
	c = s.Claim()
	given("after a timeout")
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Stored(s.ClaimedResponse(c).Seq, sojourn.Applied)
}

func handAgain(s *kit.Scene) {
	s.Resumed("k", kit.Steady(time.Minute))
	c := s.Claim()
	o := kit.Failure(c)
	o.Verdict.Again = true
	j := s.Finish(o, sojourn.Scheduled)
	kit.Same(s, "answers in hand", len(j.Responses), 0)
	s.Stored(s.ClaimedResponse(c).Seq, sojourn.Applied)
	s.Counters(c.Job.ID, 1, 1, 0)
	s.Advance(time.Minute)
	d := s.Claim()
	kit.Same(s, "response", d.Job.Response == nil, true)
	kit.Same(s, "attempt", d.Job.Attempt, 2)
	s.Finish(kit.Await(d, 0), sojourn.Awaiting) // it does not come back
}

func handQueue(s *kit.Scene) {
	id := s.Resumed("k").Job.ID
	s.Became(s.Respond("k", kit.Body("behind")), sojourn.Early, id)
	c := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(c).Body), "answer 1")
	s.Became(s.Respond("k", kit.Body("further behind")), sojourn.Early, id)
	s.Finish(kit.Released(c), sojourn.Ready)
	c = s.Claim()
	kit.Same(s, "the answer after a release", string(s.ClaimedResponse(c).Body), "answer 1")
	kit.Same(s, "kept", c.Job.Kept, 2)
	s.Finish(kit.Await(c, 0), sojourn.Ready)
	c = s.Claim()
	kit.Same(s, "the next answer", string(s.ClaimedResponse(c).Body), "behind")
	kit.Same(s, "answers", len(c.Job.Responses), 1)
}

func handAgainNext(s *kit.Scene) {
	id := s.Resumed("k", kit.Steady(time.Hour)).Job.ID
	c := s.Claim()
	s.Became(s.Respond("k", kit.Body("next")), sojourn.Early, id)
	o := kit.Failure(c)
	o.Verdict.Again = true
	j := s.Finish(o, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, false)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "next")
}

func handAgainNone(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(2), kit.Steady(time.Minute))
	o := kit.Failure(c)
	o.Verdict.Again = true
	s.Finish(o, sojourn.Scheduled)
	s.Advance(time.Minute)
	o = kit.Failure(s.Claim())
	o.Verdict.Again = true
	s.Finish(o, sojourn.Failed)
}

func handResumedTooLong(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), sojourn.Timeout(time.Hour))
	runAt := s.Get(c.Job.ID).RunAt
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Advance(10 * time.Minute)
	s.Respond("k")
	s.InFlight(1, "while it is resumed")
	s.Swept(50*time.Minute-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{Resumed: 1})
	j := s.State(c.Job.ID, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, false)
	kit.Same(s, "answers in hand", len(j.Responses), 1)
	s.At("run_at", j.RunAt, runAt)
	s.Counters(c.Job.ID, 1, 0, 0)
	s.InFlight(0, "after it has lost the privilege")
	d := s.Claim()
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "answer 1")
	kit.Same(s, "timeout left", d.Timeout, time.Hour)
	s.Counters(c.Job.ID, 1, 0, 0)
}

func handLastAttempt(s *kit.Scene) {
	id := s.Resumed("k", sojourn.MaxAttempts(1), sojourn.Timeout(time.Hour)).Job.ID
	s.Swept(48*time.Hour, driver.Swept{Resumed: 1})
	c := s.Claim()
	kit.Same(s, "job", c.Job.ID, id)
	kit.Same(s, "the answer", string(s.ClaimedResponse(c).Body), "answer 1")
	s.Finish(kit.Completed(c), sojourn.Completed)
}
