package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var progressTrials = []trial{
	{"progress of a wait", "A progress response stores its text and answers nothing; the wait goes on under its own limit.", "tr:R6 rules:B13 spec:J4", progressAwaiting},
	{"the beat of a wait", "Progress starts the beat anew and never moves within; silence beyond it ends the attempt with the reason beat.",
		"tr:R6 tr:W4 rules:B13 spec:S7 inv:L1", progressBeat},
	{"progress moves no limit", "Within and the timeout of the attempt end a wait however lively the other side is.", "tr:R6 tr:W4 rules:B13 rules:C4", progressLimits},
	{"progress of a running job", "A running job takes the text of a progress response beside its own; its handler is not disturbed.", "tr:R6 inv:F2", progressRunning},
	{"progress that nobody waits for", "Progress for a job that neither runs nor awaits is late, for a key that no job has unmatched, of an older attempt stale; it is never kept.",
		"tr:R6 tr:R3 tr:R4 inv:U4", progressLate},
	{"progress is no answer", "Progress under a key wakes nobody, early or late, in any mode.", "tr:R6 tr:M1 inv:U4", progressNoAnswer},
	{"progress sent again", "A progress response that is repeated is a duplicate and starts nothing anew.", "tr:R6 inv:U4", progressAgain},
	{"progress and error at once", "A response is one of answer, error and progress.", "tr:R6 inv:P4", progressRefused},
}

// beating is an await that ends when the other side is silent for so long.
func beating(c driver.Claimed, within, beat time.Duration, keys ...string) sojourn.Outcome {
	o := await(c, within, keys...)
	o.Wait.Beat = beat
	return o
}

func progressAwaiting(s *scene) {
	c := s.running(sojourn.Key("k"))
	s.finish(await(c, time.Hour), sojourn.Awaiting)
	before := s.get(c.Job.ID)
	s.advance(time.Minute)
	lies := s.became(s.respond("k", lively("40 %")), sojourn.Applied, c.Job.ID)
	same(s, "progress in the inbox", lies.Progress, true)
	j := s.state(c.Job.ID, sojourn.Awaiting)
	same(s, "progress", j.Progress, "40 %")
	same(s, "kept", j.Kept, 0)
	s.at("the end of the wait", j.Awaits.Until, before.Awaits.Until)
	same(s, "a beat", j.Awaits.Beat.IsZero(), true)
	s.became(s.respond("", toJob(c.Job.ID), lively("")), sojourn.Applied, c.Job.ID)
	same(s, "progress without a text", s.get(c.Job.ID).Progress, "40 %")
	s.became(s.respond("", token(c.Job.Token), lively("80 %")), sojourn.Applied, c.Job.ID)
	same(s, "progress", s.get(c.Job.ID).Progress, "80 %")
	s.became(s.respond("k", body("done")), sojourn.Applied, c.Job.ID)
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "done")
	same(s, "answers", len(d.Job.Responses), 1)
	same(s, "progress told to the handler", d.Job.Progress, "80 %")
}

func progressBeat(s *scene) {
	c := s.running(sojourn.Key("k"), steady(time.Minute))
	began := s.now()
	j := s.finish(beating(c, time.Hour, 10*time.Second), sojourn.Awaiting)
	s.at("beat", j.Awaits.Beat, began.Add(10*time.Second))
	s.at("wake_at", j.WakeAt, began.Add(10*time.Second))
	for range 3 {
		s.swept(9*time.Second, driver.Swept{})
		s.respond("k", lively("still at it"))
		j = s.state(c.Job.ID, sojourn.Awaiting)
		s.at("beat", j.Awaits.Beat, s.now().Add(10*time.Second))
		s.at("until", j.Awaits.Until, began.Add(time.Hour))
	}
	s.swept(10*time.Second-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{TimedOut: 1})
	j = s.state(c.Job.ID, sojourn.Scheduled)
	same(s, "reason", j.Reason, sojourn.ReasonBeat)
	s.counters(c.Job.ID, 1, 1, 0)
	s.inFlight(0, "after the beat")
	same(s, "reason in the history", s.happened(c.Job.ID, "await", "timed_out")[1].Reason, sojourn.ReasonBeat)
	s.advance(time.Minute)
	d := s.claim() // the next wait has a beat only if it sets one
	j = s.finish(await(d, 0), sojourn.Awaiting)
	same(s, "a beat", j.Awaits.Beat.IsZero(), true)
	s.swept(time.Hour, driver.Swept{})
}

func progressLimits(s *scene) {
	a := s.running(sojourn.Key("a"), steady(time.Hour))
	s.finish(beating(a, 25*time.Second, 10*time.Second), sojourn.Awaiting)
	b := s.running(sojourn.Key("b"), steady(time.Hour), sojourn.Timeout(45*time.Second))
	s.finish(beating(b, 0, 10*time.Second), sojourn.Awaiting)
	d := s.running(sojourn.Key("d"), steady(time.Hour))
	s.finish(beating(d, 10*time.Second, 10*time.Second), sojourn.Awaiting)
	beats := func() { s.respond("a", lively("")); s.respond("b", lively("")) }
	s.swept(9*time.Second, driver.Swept{})
	beats()
	s.swept(9*time.Second, driver.Swept{TimedOut: 1}) // d: both at once, and its limit names it
	same(s, "reason", s.state(d.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
	beats()
	s.swept(7*time.Second, driver.Swept{TimedOut: 1})
	same(s, "reason", s.state(a.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
	for range 2 {
		beats()
		s.advance(9 * time.Second)
	}
	s.respond("b", lively(""))
	s.swept(2*time.Second-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{TimedOut: 1})
	same(s, "reason", s.state(b.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
}

func progressRunning(s *scene) {
	c := s.running(sojourn.Key("k"))
	s.became(s.respond("k", lively("from outside")), sojourn.Applied, c.Job.ID)
	j := s.state(c.Job.ID, sojourn.Running)
	same(s, "progress", j.Progress, "from outside")
	own := "my own"
	s.must(s.save(driver.Saved{Lease: c.Lease, Progress: &own}), "Save")
	same(s, "progress", s.get(c.Job.ID).Progress, "my own")
	s.finish(await(c, 0), sojourn.Awaiting) // nothing was kept
}

func progressLate(s *scene) {
	none := s.became(s.respond("nobody", lively("x")), sojourn.Unmatched, 0)
	s.at("kept until", none.ExpiresAt, s.now().Add(sojourn.DefaultInboxKeep))
	c := s.running(sojourn.Key("nobody"))
	s.finish(await(c, 0), sojourn.Awaiting) // nothing lies there for it
	s.respond("nobody")
	s.became(s.respond("nobody", lively("x")), sojourn.Late, c.Job.ID) // answered: resumed
	d := s.claim()
	s.finish(completed(d), sojourn.Completed)
	s.became(s.respond("nobody", lively("x")), sojourn.Late, c.Job.ID)
	ready := s.enqueue(sojourn.Key("ready"))
	s.became(s.respond("ready", lively("x")), sojourn.Late, ready)
	e := s.claim()
	s.finish(failure(e), sojourn.Scheduled)
	s.became(s.respond("ready", lively("x")), sojourn.Late, ready)
	s.advance(time.Hour)
	f := s.claim()
	s.became(s.respond("", token(e.Job.Token), lively("x")), sojourn.Stale, ready)
	s.finish(await(f, 0), sojourn.Awaiting)
	g := s.errored(sojourn.Key("lost"))
	s.became(s.respond("lost", lively("x")), sojourn.Late, g.Job.ID)
	s.claim(deciding)
	s.became(s.respond("lost", lively("x")), sojourn.Late, g.Job.ID) // its attempt is over
	j := s.get(f.Job.ID)
	same(s, "kept", j.Kept, 0)
	same(s, "progress", j.Progress, "")
}

func progressNoAnswer(s *scene) {
	s.respond("a", lively("early"))
	c := s.running()
	s.finish(awaitAll(c, 0, "a", "b"), sojourn.Awaiting)
	s.became(s.respond("a", lively("x")), sojourn.Applied, c.Job.ID)
	s.became(s.respond("b"), sojourn.Early, c.Job.ID)
	j := s.state(c.Job.ID, sojourn.Awaiting)
	if len(j.Awaits.Answered) != 1 || j.Awaits.Answered[0] != "b" || len(j.Awaits.Keys) != 2 || j.Awaits.Mode != sojourn.WaitAll {
		s.Fatalf("the job shows that it awaits %+v, want all of a and b, and b answered", j.Awaits)
	}
	s.became(s.respond("a"), sojourn.Applied, c.Job.ID)
	d := s.claim()
	same(s, "answers", len(d.Job.Responses), 2)
	same(s, "nothing awaited", d.Job.Awaits == nil, true)
	same(s, "the winner in the history", s.happened(c.Job.ID, "await", "responded")[1].By != "", true)
}

func progressAgain(s *scene) {
	c := s.running(sojourn.Key("k"), steady(time.Minute))
	s.finish(beating(c, 0, 10*time.Second), sojourn.Awaiting)
	r := s.answer("k", lively("1"))
	s.send(r)
	s.advance(8 * time.Second)
	same(s, "the repeat", s.send(r).Outcome, sojourn.Duplicate)
	s.swept(2*time.Second, driver.Swept{TimedOut: 1})
	same(s, "reason", s.get(c.Job.ID).Reason, sojourn.ReasonBeat)
}

func progressRefused(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	r := s.answer("k", lively("1"), failing("declined"))
	_, err := s.store.Respond(s.ctx, []sojourn.Response{r})
	s.refused(err, sojourn.CodeInvalid, "progress that is an error")
	same(s, "kept", s.state(c.Job.ID, sojourn.Awaiting).Kept, 0)
}
