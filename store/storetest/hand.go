package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var handTrials = []trial{
	{"rules:B2 an answer in hand stays", "An answer in hand is given to every later step until the handler disposes of it.",
		"rules:B2 tr:F2 tr:F7 tr:F10 tr:W1 tr:W5 inv:U4", handStays},
	{"again: a fresh request", "Again puts the answer in hand down, so that the next attempt starts without one.", "tr:F4 rules:B2", handAgain},
	{"later answers queue behind the one in hand", "An answer that comes while one is in hand is kept behind it and never replaces it.",
		"rules:B2 tr:R5 tr:F5", handQueue},
	{"again takes the next answer", "After Again a kept answer is taken by the retry.", "tr:F4 tr:M3 rules:B1", handAgainNext},
	{"again without an answer in hand", "Again without an answer in hand is an ordinary error.", "tr:F2 tr:F4", handAgainNone},
	{"rules:C2 a resumed job that nobody runs", "No attempt clock ends a resumed job: at its timeout it only loses its privilege and its weight.",
		"tr:W8 rules:C2 inv:T2 spec:H3", handResumedTooLong},
	{"rules:C2 the last attempt, answered in time", "A job that was answered in time does not fail by its timeout before its handler saw the answer.",
		"tr:W8 rules:C2 inv:U4", handLastAttempt},
}

func handStays(s *scene) {
	s.resumed("k", steady(time.Minute), policy(sojourn.Policy{MaxAttempts: 9, MaxCrashes: 9, Timeout: lease}))
	c := s.claim()
	given := func(when string) {
		s.Helper()
		if c.Job.Response == nil || string(s.inHand(c).Body) != "answer 1" || len(c.Job.Responses) != 1 {
			s.Fatalf("%s the answer in hand is gone", when)
		}
	}
	given("at the resume")
	s.finish(released(c), sojourn.Ready)
	c = s.claim()
	given("after a release")
	s.finish(snooze(c, time.Minute), sojourn.Scheduled)
	s.advance(time.Minute)
	c = s.claim()
	given("after a snooze")
	s.finish(failure(c), sojourn.Scheduled)
	s.advance(time.Minute)
	c = s.claim()
	given("after an error")
	s.swept(lease, driver.Swept{Lost: 1})
	c = s.claim()
	given("after a lost lease")
	s.outlive(c.Lease, driver.Swept{TimedOut: 1})
	s.state(c.Job.ID, sojourn.Scheduled)
	s.advance(time.Minute)
	c = s.claim()
	given("after a timeout")
	s.finish(completed(c), sojourn.Completed)
	s.lies(s.inHand(c).Seq, sojourn.Applied)
}

func handAgain(s *scene) {
	s.resumed("k", steady(time.Minute))
	c := s.claim()
	o := failure(c)
	o.Verdict.Again = true
	j := s.finish(o, sojourn.Scheduled)
	same(s, "answers in hand", len(j.Responses), 0)
	s.lies(s.inHand(c).Seq, sojourn.Applied)
	s.counters(c.Job.ID, 1, 1, 0)
	s.advance(time.Minute)
	d := s.claim()
	same(s, "response", d.Job.Response == nil, true)
	same(s, "attempt", d.Job.Attempt, 2)
	s.finish(await(d, 0), sojourn.Awaiting) // it does not come back
}

func handQueue(s *scene) {
	id := s.resumed("k").Job.ID
	s.became(s.respond("k", body("behind")), sojourn.Early, id)
	c := s.claim()
	same(s, "the answer", string(s.inHand(c).Body), "answer 1")
	s.became(s.respond("k", body("further behind")), sojourn.Early, id)
	s.finish(released(c), sojourn.Ready)
	c = s.claim()
	same(s, "the answer after a release", string(s.inHand(c).Body), "answer 1")
	same(s, "kept", c.Job.Kept, 2)
	s.finish(await(c, 0), sojourn.Ready)
	c = s.claim()
	same(s, "the next answer", string(s.inHand(c).Body), "behind")
	same(s, "answers", len(c.Job.Responses), 1)
}

func handAgainNext(s *scene) {
	id := s.resumed("k", steady(time.Hour)).Job.ID
	c := s.claim()
	s.became(s.respond("k", body("next")), sojourn.Early, id)
	o := failure(c)
	o.Verdict.Again = true
	j := s.finish(o, sojourn.Ready)
	same(s, "resumed", j.Resumed, false)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "next")
}

func handAgainNone(s *scene) {
	c := s.running(sojourn.MaxAttempts(2), steady(time.Minute))
	o := failure(c)
	o.Verdict.Again = true
	s.finish(o, sojourn.Scheduled)
	s.advance(time.Minute)
	o = failure(s.claim())
	o.Verdict.Again = true
	s.finish(o, sojourn.Failed)
}

func handResumedTooLong(s *scene) {
	c := s.running(sojourn.Key("k"), sojourn.Timeout(time.Hour))
	runAt := s.get(c.Job.ID).RunAt
	s.finish(await(c, 0), sojourn.Awaiting)
	s.advance(10 * time.Minute)
	s.respond("k")
	s.inFlight(1, "while it is resumed")
	s.swept(50*time.Minute-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{Resumed: 1})
	j := s.state(c.Job.ID, sojourn.Ready)
	same(s, "resumed", j.Resumed, false)
	same(s, "answers in hand", len(j.Responses), 1)
	s.at("run_at", j.RunAt, runAt)
	s.counters(c.Job.ID, 1, 0, 0)
	s.inFlight(0, "after it has lost the privilege")
	d := s.claim()
	same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	same(s, "the answer", string(s.inHand(d).Body), "answer 1")
	same(s, "timeout left", d.Timeout, time.Hour)
	s.counters(c.Job.ID, 1, 0, 0)
}

func handLastAttempt(s *scene) {
	id := s.resumed("k", sojourn.MaxAttempts(1), sojourn.Timeout(time.Hour)).Job.ID
	s.swept(48*time.Hour, driver.Swept{Resumed: 1})
	c := s.claim()
	same(s, "job", c.Job.ID, id)
	same(s, "the answer", string(s.inHand(c).Body), "answer 1")
	s.finish(completed(c), sojourn.Completed)
}
