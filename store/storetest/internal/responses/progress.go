package responses

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var progressTrials = []kit.Trial{
	{Name: "progress of a wait", Law: "A progress response stores its text and answers nothing; the wait goes on under its own limit.",
		Covers: "tr:R6 rules:B13 spec:J4", Run: progressAwaiting},
	{Name: "the beat of a wait", Law: "Progress starts the beat anew and never moves within; silence beyond it ends the attempt with the reason beat.",
		Covers: "tr:R6 tr:W4 rules:B13 spec:S7 inv:L1", Run: progressBeat},
	{Name: "progress moves no limit", Law: "Within and the timeout of the attempt end a wait however lively the other side is.",
		Covers: "tr:R6 tr:W4 rules:B13 rules:C4", Run: progressLimits},
	{Name: "progress of a running job", Law: "A running job takes the text of a progress response beside its own; its handler is not disturbed.",
		Covers: "tr:R6 inv:F2", Run: progressRunning},
	{Name: "progress that nobody waits for", Law: "Progress for a job that neither runs nor awaits is late, for a key that no job has unmatched, of an older attempt stale; it is never kept.",
		Covers: "tr:R6 tr:R3 tr:R4 inv:U4", Run: progressLate},
	{Name: "progress is no answer", Law: "Progress under a key wakes nobody, early or late, in any mode.", Covers: "tr:R6 tr:M1 inv:U4", Run: progressNoAnswer},
	{Name: "progress sent again", Law: "A progress response that is repeated is a duplicate and starts nothing anew.", Covers: "tr:R6 inv:U4", Run: progressAgain},
	{Name: "progress and error at once", Law: "A response is one of answer, error and progress.", Covers: "tr:R6 inv:P4", Run: progressRefused},
}

// beating is an await that ends when the other side is silent for so long.
func beating(c driver.Claimed, within, beat time.Duration, keys ...string) sojourn.Outcome {
	o := kit.Await(c, within, keys...)
	o.Wait.Beat = beat
	return o
}

func progressAwaiting(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
	before := s.Get(c.Job.ID)
	s.Advance(time.Minute)
	lies := s.Became(s.Respond("k", kit.Progress("40 %")), sojourn.Applied, c.Job.ID)
	kit.Same(s, "progress in the inbox", lies.Progress, true)
	j := s.State(c.Job.ID, sojourn.Awaiting)
	kit.Same(s, "progress", j.Progress, "40 %")
	kit.Same(s, "kept", j.Kept, 0)
	s.At("the end of the wait", j.Waiting.Until, before.Waiting.Until)
	kit.Same(s, "a beat", j.Waiting.Beat.IsZero(), true)
	s.Became(s.Respond("", kit.ToJob(c.Job.ID), kit.Progress("")), sojourn.Applied, c.Job.ID)
	kit.Same(s, "progress without a text", s.Get(c.Job.ID).Progress, "40 %")
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Progress("80 %")), sojourn.Applied, c.Job.ID)
	kit.Same(s, "progress", s.Get(c.Job.ID).Progress, "80 %")
	s.Became(s.Respond("k", kit.Body("done")), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "done")
	kit.Same(s, "answers", len(d.Job.Responses), 1)
	kit.Same(s, "progress told to the handler", d.Job.Progress, "80 %")
}

func progressBeat(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), kit.Steady(time.Minute))
	began := s.Now()
	j := s.Finish(beating(c, time.Hour, 10*time.Second), sojourn.Awaiting)
	s.At("beat", j.Waiting.Beat, began.Add(10*time.Second))
	s.At("wake_at", j.WakeAt, began.Add(10*time.Second))
	for range 3 {
		s.Swept(9*time.Second, driver.Swept{})
		s.Respond("k", kit.Progress("still at it"))
		j = s.State(c.Job.ID, sojourn.Awaiting)
		s.At("beat", j.Waiting.Beat, s.Now().Add(10*time.Second))
		s.At("until", j.Waiting.Until, began.Add(time.Hour))
	}
	s.Swept(10*time.Second-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{TimedOut: 1})
	j = s.State(c.Job.ID, sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, sojourn.ReasonBeat)
	s.Counters(c.Job.ID, 1, 1, 0)
	s.InFlight(0, "after the beat")
	kit.Same(s, "reason in the history", s.Happened(c.Job.ID, "await", "timed_out")[1].Reason, sojourn.ReasonBeat)
	s.Advance(time.Minute)
	d := s.Claim() // the next wait has a beat only if it sets one
	j = s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	kit.Same(s, "a beat", j.Waiting.Beat.IsZero(), true)
	s.Swept(time.Hour, driver.Swept{})
}

func progressLimits(s *kit.Scene) {
	a := s.Running(sojourn.Key("a"), kit.Steady(time.Hour))
	s.Finish(beating(a, 25*time.Second, 10*time.Second), sojourn.Awaiting)
	b := s.Running(sojourn.Key("b"), kit.Steady(time.Hour), sojourn.Timeout(45*time.Second))
	s.Finish(beating(b, 0, 10*time.Second), sojourn.Awaiting)
	d := s.Running(sojourn.Key("d"), kit.Steady(time.Hour))
	s.Finish(beating(d, 10*time.Second, 10*time.Second), sojourn.Awaiting)
	beats := func() { s.Respond("a", kit.Progress("")); s.Respond("b", kit.Progress("")) }
	s.Swept(9*time.Second, driver.Swept{})
	beats()
	s.Swept(9*time.Second, driver.Swept{TimedOut: 1}) // d: both at once, and its limit names it
	kit.Same(s, "reason", s.State(d.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
	beats()
	s.Swept(7*time.Second, driver.Swept{TimedOut: 1})
	kit.Same(s, "reason", s.State(a.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
	for range 2 {
		beats()
		s.Advance(9 * time.Second)
	}
	s.Respond("b", kit.Progress(""))
	s.Swept(2*time.Second-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{TimedOut: 1})
	kit.Same(s, "reason", s.State(b.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
}

func progressRunning(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	s.Became(s.Respond("k", kit.Progress("from outside")), sojourn.Applied, c.Job.ID)
	j := s.State(c.Job.ID, sojourn.Running)
	kit.Same(s, "progress", j.Progress, "from outside")
	own := "my own"
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Progress: &own}), "Save")
	kit.Same(s, "progress", s.Get(c.Job.ID).Progress, "my own")
	s.Finish(kit.Await(c, 0), sojourn.Awaiting) // nothing was kept
}

func progressLate(s *kit.Scene) {
	none := s.Became(s.Respond("nobody", kit.Progress("x")), sojourn.Unmatched, 0)
	s.At("kept until", none.ExpiresAt, s.Now().Add(sojourn.DefaultInboxKeep))
	c := s.Running(sojourn.Key("nobody"))
	s.Finish(kit.Await(c, 0), sojourn.Awaiting) // nothing lies there for it
	s.Respond("nobody")
	s.Became(s.Respond("nobody", kit.Progress("x")), sojourn.Late, c.Job.ID) // answered: resumed
	d := s.Claim()
	s.Finish(kit.Completed(d), sojourn.Completed)
	s.Became(s.Respond("nobody", kit.Progress("x")), sojourn.Late, c.Job.ID)
	ready := s.Enqueue(sojourn.Key("ready"))
	s.Became(s.Respond("ready", kit.Progress("x")), sojourn.Late, ready)
	e := s.Claim()
	s.Finish(kit.Failure(e), sojourn.Scheduled)
	s.Became(s.Respond("ready", kit.Progress("x")), sojourn.Late, ready)
	s.Advance(time.Hour)
	f := s.Claim()
	s.Became(s.Respond("", kit.Token(e.Job.Token), kit.Progress("x")), sojourn.Stale, ready)
	s.Finish(kit.Await(f, 0), sojourn.Awaiting)
	g := s.Errored(sojourn.Key("lost"))
	s.Became(s.Respond("lost", kit.Progress("x")), sojourn.Late, g.Job.ID)
	s.Claim(kit.Deciding)
	s.Became(s.Respond("lost", kit.Progress("x")), sojourn.Late, g.Job.ID) // its attempt is over
	j := s.Get(f.Job.ID)
	kit.Same(s, "kept", j.Kept, 0)
	kit.Same(s, "progress", j.Progress, "")
}

func progressNoAnswer(s *kit.Scene) {
	s.Respond("a", kit.Progress("early"))
	c := s.Running()
	s.Finish(kit.AwaitAll(c, 0, "a", "b"), sojourn.Awaiting)
	s.Became(s.Respond("a", kit.Progress("x")), sojourn.Applied, c.Job.ID)
	s.Became(s.Respond("b"), sojourn.Early, c.Job.ID)
	j := s.State(c.Job.ID, sojourn.Awaiting)
	if len(j.Waiting.Answered) != 1 || j.Waiting.Answered[0] != "b" || len(j.Waiting.Keys) != 2 || j.Waiting.Mode != sojourn.WaitAll {
		s.Fatalf("the job shows that it awaits %+v, want all of a and b, and b answered", j.Waiting)
	}
	s.Became(s.Respond("a"), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	kit.Same(s, "answers", len(d.Job.Responses), 2)
	kit.Same(s, "nothing awaited", d.Job.Waiting == nil, true)
	kit.Same(s, "the winner in the history", s.Happened(c.Job.ID, "await", "responded")[1].By != "", true)
}

func progressAgain(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), kit.Steady(time.Minute))
	s.Finish(beating(c, 0, 10*time.Second), sojourn.Awaiting)
	r := s.Answer("k", kit.Progress("1"))
	s.Send(r)
	s.Advance(8 * time.Second)
	kit.Same(s, "the repeat", s.Send(r).Outcome, sojourn.Duplicate)
	s.Swept(2*time.Second, driver.Swept{TimedOut: 1})
	kit.Same(s, "reason", s.Get(c.Job.ID).Reason, sojourn.ReasonBeat)
}

func progressRefused(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	r := s.Answer("k", kit.Progress("1"), kit.Failing("declined"))
	_, err := s.Store.Respond(s.Ctx, []sojourn.Response{r})
	s.Refused(err, sojourn.CodeInvalid, "progress that is an error")
	kit.Same(s, "kept", s.State(c.Job.ID, sojourn.Awaiting).Kept, 0)
}
