package claims

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var pollTrials = []kit.Trial{
	{Name: "a poll step", Law: "A waiting job is polled when its wait says so, by workers that can; a step without an answer leaves it waiting, and the next comes later.",
		Covers: "tr:C5 tr:P1 rules:B11 spec:H1", Run: pollStep},
	{Name: "nobody polls", Law: "A wait that names no poll, and a worker that does not name the kind, make no poll steps.", Covers: "tr:C5 rules:B11", Run: pollNobody},
	{Name: "the answer of a poll", Law: "The answer of a poll step is recorded and given to the handler, in the same attempt.",
		Covers: "tr:P2 tr:C3 rules:B11 inv:U4", Run: pollAnswer},
	{Name: "a response during a poll", Law: "A response that comes while a poll step runs is kept; it wins over the step's own answer, which is late.",
		Covers: "tr:P4 tr:M1 rules:B11 inv:U4", Run: pollOvertaken},
	{Name: "an error response during a poll", Law: "An error response that comes while a poll step runs ends the attempt; the step's own answer is late.",
		Covers: "tr:P4 tr:M2 inv:U4", Run: pollOvertakenByError},
	{Name: "another response during a poll", Law: "A response that does not end the wait leaves the poll's answer its right.",
		Covers: "tr:P2 rules:B10", Run: pollBeside},
	{Name: "a response, and no answer", Law: "A response that came while a poll step ran ends the wait when the step brings nothing, or is handed back.",
		Covers: "tr:P1 tr:P3 tr:M1", Run: pollNothing},
	{Name: "a poll that fails", Law: "A failing poll counts nowhere: neither attempt nor failures, and the job goes on waiting.",
		Covers: "tr:P1 rules:B11 spec:S5", Run: pollFails},
	{Name: "a poll step released", Law: "A poll step that is handed back is due again at once.", Covers: "tr:P3 inv:J2", Run: pollReleased},
	{Name: "a poll step lost", Law: "A lost poll step leaves the job waiting and counts a crash; when the crashes are used up the wait is polled no more, and still can be answered.",
		Covers: "tr:W3 rules:B11 inv:P2", Run: pollLost},
	{Name: "the clocks of a polled wait", Law: "Within and beat end a wait under a poll step too; its timeout one lease later.",
		Covers: "tr:W4 tr:W5 inv:L1", Run: pollClocks},
	{Name: "a kept response and the end of a wait", Law: "A response that came in time is not lost to the end of the wait while a poll step runs.",
		Covers: "tr:P1 tr:M1 inv:U4", Run: pollInTime},
	{Name: "an answer that waited longer than the timeout", Law: "A resumed step whose timeout ran out while its answer waited for the end of a poll step has one lease, or the whole timeout if that is less.",
		Covers: "tr:W3 tr:M1 tr:C3 rules:C5 inv:F1", Run: pollAnswerWaited},
	{Name: "polls and gates", Law: "A pause and a rate hold poll steps back, a limit and a window do not.", Covers: "tr:C5 rules:B11 spec:T5", Run: pollGates},
	{Name: "a poll step and little room", Law: "A poll step uses one of the worker's capacity, whatever its job weighs.", Covers: "tr:C5", Run: pollRoom},
	{Name: "a blocked claim and polls", Law: "A blocked claim wakes up when a poll step comes due.", Covers: "tr:C5 spec:O14", Run: pollWakes},
	{Name: "polls that come too often", Law: "A wait that would be polled more often than the store allows is refused.", Covers: "tr:F15 inv:P4", Run: pollRefused},
	{Name: "a key set by a poll step", Law: "A poll step may give its job the key; what lies under it early ends the wait when the step ends, whatever its end.",
		Covers: "tr:L3 tr:W3 tr:P1 tr:M1 rules:B9", Run: pollSetsKey},
	{Name: "a poll step reported again", Law: "A repeated report of a poll step is answered and changes nothing.", Covers: "tr:F12 inv:F8", Run: pollRepeated},
}

func pollStep(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), sojourn.Weight(3))
	began := s.Now()
	j := s.Finish(kit.Polled(c, time.Hour, kit.Every(10*time.Second)), sojourn.Awaiting)
	s.At("the first poll", j.Waiting.Poll, began.Add(10*time.Second))
	s.Advance(10*time.Second - time.Microsecond)
	s.ClaimNone("it is not due", kit.Polling)
	s.Advance(time.Microsecond)
	s.ClaimNone("the worker cannot poll it")
	p := s.Claim(kit.Polling)
	kit.Same(s, "purpose", p.Purpose, sojourn.PurposePoll)
	kit.Same(s, "response", p.Job.Response == nil, true)
	s.InFlight(3, "while a poll step runs")
	s.Counters(c.Job.ID, 1, 0, 0)
	s.ClaimNone("its poll step runs", kit.Polling)
	j = s.State(c.Job.ID, sojourn.Running)
	s.At("the end of the wait", j.Waiting.Until, began.Add(time.Hour))
	s.Advance(time.Second)
	for i, wait := range []time.Duration{20 * time.Second, 40 * time.Second, 40 * time.Second} { // backed off, to the limit
		j = s.Finish(kit.NoAnswer(p), sojourn.Awaiting)
		kit.Same(s, "polls", j.Waiting.Polls, int32(i+1))
		s.At("the next poll", j.Waiting.Poll, s.Now().Add(wait))
		s.At("the end of the wait", j.Waiting.Until, began.Add(time.Hour))
		s.Swept(wait-time.Microsecond, driver.Swept{})
		s.ClaimNone("it is not due", kit.Polling)
		s.Advance(time.Microsecond)
		p = s.Claim(kit.Polling)
	}
	s.InFlight(3, "while it is polled")
	s.Happened(c.Job.ID, "await", "no_answer", "no_answer", "no_answer")
	s.Finish(kit.Released(p), sojourn.Awaiting)
	s.Respond("k", kit.Body("over the other channel"))
	d := s.Claim(kit.Polling)
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	j = s.Finish(kit.Polled(d, 0, kit.Every(time.Minute)), sojourn.Awaiting) // a new wait counts from 0
	kit.Same(s, "polls", j.Waiting.Polls, 0)
	s.At("the first poll", j.Waiting.Poll, s.Now().Add(time.Minute))
}

func pollNobody(s *kit.Scene) {
	a, b := s.Running(), s.Running()
	s.Finish(kit.Await(a, 0), sojourn.Awaiting)
	s.Finish(kit.Polled(b, 0, kit.Every(time.Second)), sojourn.Awaiting)
	s.Advance(time.Hour)
	s.ClaimNone("the worker names no kind to poll")
	s.ClaimNone("the kind to poll is not among its kinds", kit.Kinds("mail"), func(r *driver.ClaimRequest) { r.Pollable = []string{kit.Kind} })
	cs := s.ClaimMany(kit.Polling, kit.UpTo(10))
	if len(cs) != 1 || cs[0].Job.ID != b.Job.ID {
		s.Fatalf("Claim gave %v to poll, want %d", kit.ClaimedIDs(cs), b.Job.ID)
	}
}

func pollAnswer(s *kit.Scene) {
	p := s.UnderPoll("k")
	j := s.Finish(kit.Answers(p, "settled"), sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, true)
	kit.Same(s, "awaits", j.Waiting == nil, true)
	s.ClaimNone("it is paused", pausedBy(s))
	d := s.Claim()
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	r := s.ClaimedResponse(d)
	kit.Same(s, "the answer", string(r.Body), "settled")
	kit.Same(s, "its type", r.ContentType, "text/plain")
	kit.Same(s, "its source", r.Source, sojourn.SourcePoll)
	kit.Same(s, "its job", s.Stored(r.Seq, sojourn.Applied).Job, p.Job.ID)
	s.Counters(p.Job.ID, 1, 0, 0)
	late := s.Respond("k", kit.Body("too late"))
	s.Became(late, sojourn.Early, p.Job.ID)
	s.Finish(kit.Failure(d), sojourn.Scheduled) // an error leaves it for the next attempt
	s.Advance(time.Minute)
	e := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(e).Body), "settled")
	s.Finish(kit.Completed(e), sojourn.Completed)
	s.Stored(late.Seq, sojourn.Late)
	s.Happened(p.Job.ID, "await", "answer", "error", "completed")
}

// pausedBy changes nothing of a request; it pauses the queue for one look.
func pausedBy(s *kit.Scene) kit.ClaimOption {
	return func(r *driver.ClaimRequest) {
		s.Must(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{Paused: true}), "SetQueue")
		cs, err := s.Store.Claim(s.Ctx, *r)
		s.Must(err, "Claim")
		kit.Same(s, "jobs of a paused queue", len(cs), 0)
		s.Must(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{}), "SetQueue")
		r.Number, r.Kinds = 0, []string{"none"}
	}
}

func pollOvertaken(s *kit.Scene) {
	p := s.UnderPoll("k")
	first := s.Respond("k", kit.Body("by webhook"))
	s.Became(first, sojourn.Early, p.Job.ID)
	s.State(p.Job.ID, sojourn.Running)
	f := s.Reports(kit.Answers(p, "by poll"), driver.FinishApplied)
	kit.Same(s, "state told", f.State, sojourn.Ready)
	s.Stored(first.Seq, sojourn.Applied)
	j := s.State(p.Job.ID, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, true)
	kit.Same(s, "kept", j.Kept, 0)
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "by webhook")
	kit.Same(s, "answers", len(d.Job.Responses), 1)
	polls := s.Inbox(sojourn.InboxFilter{Source: sojourn.SourcePoll})
	if len(polls) != 1 || polls[0].Outcome != sojourn.Late || string(polls[0].Body) != "by poll" || polls[0].Job != p.Job.ID {
		s.Fatalf("the poll's answer lies in the inbox as %+v, want it late", polls)
	}
	s.Happened(p.Job.ID, "await", "answer", "responded")
}

func pollOvertakenByError(s *kit.Scene) {
	p := s.UnderPoll("k")
	s.Respond("k", kit.Failing("declined"))
	f := s.Reports(kit.Answers(p, "by poll"), driver.FinishApplied)
	kit.Same(s, "state told", f.State, sojourn.Scheduled)
	kit.Same(s, "reason", s.State(p.Job.ID, sojourn.Scheduled).Reason, "declined")
	s.Counters(p.Job.ID, 1, 1, 0)
	s.InFlight(0, "after the error response")
	kit.Same(s, "the poll's answer", s.Inbox(sojourn.InboxFilter{Source: sojourn.SourcePoll})[0].Outcome, sojourn.Late)
}

func pollBeside(s *kit.Scene) {
	c := s.Running(sojourn.Key("own"))
	s.Finish(kit.Polled(c, 0, kit.Every(10*time.Second), "a", "b"), sojourn.Awaiting)
	s.Advance(10 * time.Second)
	p := s.Claim(kit.Polling)
	s.Became(s.Respond("own"), sojourn.Early, c.Job.ID)
	j := s.Finish(kit.Answers(p, "by poll"), sojourn.Ready)
	kit.Same(s, "kept", j.Kept, 1)
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "by poll")
	s.Finish(kit.Await(d, 0), sojourn.Ready) // the other one is there for its own wait
}

func pollNothing(s *kit.Scene) {
	for i, report := range []func(driver.Claimed) sojourn.Outcome{kit.NoAnswer, kit.Released} {
		key := []string{"a", "b"}[i]
		p := s.UnderPoll(key)
		s.Became(s.Respond(key, kit.Body("by webhook")), sojourn.Early, p.Job.ID)
		f := s.Reports(report(p), driver.FinishApplied)
		kit.Same(s, "state told", f.State, sojourn.Ready)
		d := s.Claim()
		kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
		kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "by webhook")
	}
}

func pollFails(s *kit.Scene) {
	p := s.UnderPoll("k", sojourn.MaxAttempts(1))
	o := kit.NoAnswer(p)
	o.Reason, o.Text = "gateway", "502"
	j := s.Finish(o, sojourn.Awaiting)
	s.Counters(p.Job.ID, 1, 0, 0)
	s.At("the next poll", j.Waiting.Poll, s.Now().Add(20*time.Second))
	as := s.Happened(p.Job.ID, "await", "no_answer")
	kit.Same(s, "reason in the history", as[1].Reason, "gateway")
	kit.Same(s, "reason of the job", j.Reason, "")
	s.Reports(kit.NoAnswer(p), driver.FinishRepeated)
	s.Respond("k")
	s.Claim()
}

func pollReleased(s *kit.Scene) {
	p := s.UnderPoll("k")
	j := s.Finish(kit.Released(p), sojourn.Awaiting)
	s.At("the next poll", j.Waiting.Poll, s.Now())
	kit.Same(s, "polls", j.Waiting.Polls, 0)
	q := s.Claim(kit.Polling)
	kit.Same(s, "purpose", q.Purpose, sojourn.PurposePoll)
	kit.Same(s, "the epoch goes on", q.Lease.Epoch, p.Lease.Epoch+1)
	s.Counters(p.Job.ID, 1, 0, 0)
}

func pollLost(s *kit.Scene) {
	p := s.UnderPoll("k", sojourn.MaxCrashes(2), sojourn.Weight(2))
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	j := s.State(p.Job.ID, sojourn.Awaiting)
	s.Counters(p.Job.ID, 1, 0, 1)
	s.At("the next poll", j.Waiting.Poll, s.Now().Add(20*time.Second))
	s.Reports(kit.NoAnswer(p), driver.FinishLost)
	s.InFlight(2, "after a lost poll step")
	s.Advance(20 * time.Second)
	q := s.Claim(kit.Polling)
	first := s.Respond("k", kit.Failing("x"), kit.ToJob(p.Job.ID)) // kept until the step has ended
	s.Became(first, sojourn.Early, p.Job.ID)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.Stored(first.Seq, sojourn.Applied)
	kit.Same(s, "reason", s.State(q.Job.ID, sojourn.Scheduled).Reason, "x")
	s.Advance(time.Minute)
	d := s.Claim()
	s.Finish(kit.Polled(d, 0, kit.Every(10*time.Second)), sojourn.Awaiting)
	s.Advance(10 * time.Second)
	s.Claim(kit.Polling)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	j = s.State(p.Job.ID, sojourn.Awaiting)
	kit.Same(s, "another poll", j.Waiting.Poll.IsZero(), true)
	s.Advance(time.Hour)
	s.ClaimNone("its polls were lost too often", kit.Polling)
	s.Respond("k")
	kit.Same(s, "purpose", s.Claim(kit.Polling).Purpose, sojourn.PurposeResume)
}

func pollClocks(s *kit.Scene) {
	start := func(key string, within, beat time.Duration, options ...sojourn.Option) driver.Claimed {
		c := s.Running(append(options, sojourn.Key(key), kit.Steady(time.Hour))...)
		o := kit.Polled(c, within, kit.Every(10*time.Second))
		o.Wait.Beat = beat
		s.Finish(o, sojourn.Awaiting)
		s.Advance(10 * time.Second)
		return s.Claim(kit.Polling)
	}
	ends := func(p driver.Claimed, after time.Duration, reason string) {
		s.Helper()
		s.Swept(after-time.Microsecond, driver.Swept{})
		s.State(p.Job.ID, sojourn.Running)
		s.Swept(time.Microsecond, driver.Swept{TimedOut: 1})
		kit.Same(s, "reason", s.State(p.Job.ID, sojourn.Scheduled).Reason, reason)
		s.Counters(p.Job.ID, 1, 1, 0)
		s.Reports(kit.Answers(p, "too late"), driver.FinishLost)
	}
	ends(start("within", 25*time.Second, 0), 15*time.Second, sojourn.ReasonTimeout)
	ends(start("beat", 0, 25*time.Second), 15*time.Second, sojourn.ReasonBeat)
	p := start("lively", 0, 15*time.Second)
	s.Advance(4 * time.Second)
	s.Became(s.Respond("lively", kit.Progress("going on")), sojourn.Applied, p.Job.ID)
	ends(p, 15*time.Second, sojourn.ReasonBeat)
	p = start("between", 0, 25*time.Second) // a poll step is no sign of life of the other side
	s.Advance(10 * time.Second)
	j := s.Finish(kit.NoAnswer(p), sojourn.Awaiting)
	s.At("beat", j.Waiting.Beat, s.Now().Add(5*time.Second))
	s.Swept(5*time.Second, driver.Swept{TimedOut: 1})
	kit.Same(s, "reason", s.State(p.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonBeat)
	p = start("timeout", 0, 0, sojourn.Timeout(20*time.Second))
	s.Advance(10 * time.Second)
	s.Extends(p.Lease, true)
	s.Advance(20 * time.Second)
	s.Extends(p.Lease, true)
	ends(p, 10*time.Second, sojourn.ReasonTimeout)
}

func pollInTime(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), sojourn.MaxAttempts(1))
	s.Finish(kit.Polled(c, 15*time.Second, kit.Every(10*time.Second)), sojourn.Awaiting)
	s.Advance(10 * time.Second)
	p := s.Claim(kit.Polling)
	s.Respond("k", kit.Body("in time"))
	s.Swept(10*time.Second, driver.Swept{})
	s.Reports(kit.NoAnswer(p), driver.FinishApplied)
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "in time")
	s.Counters(c.Job.ID, 1, 0, 0)
}

// pollAnswerWaited: no sweep runs after the worker of the poll step has died, so that the claim
// itself ends its lease, long after the timeout.
func pollAnswerWaited(s *kit.Scene) {
	for _, timeout := range []time.Duration{time.Minute, 20 * time.Second} {
		p := s.UnderPoll("k", sojourn.Timeout(timeout))
		s.Became(s.Respond("k"), sojourn.Early, p.Job.ID)
		s.Advance(time.Hour)
		d := s.Claim()
		kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
		kit.Same(s, "timeout left", d.Timeout, min(kit.LeaseTime, timeout))
		s.Swept(0, driver.Swept{})
		for range 2 {
			s.Swept(20*time.Second, driver.Swept{})
			s.Extends(d.Lease, true)
		}
		s.Swept(min(kit.LeaseTime, timeout)+kit.LeaseTime-40*time.Second-time.Microsecond, driver.Swept{})
		s.Swept(time.Microsecond, driver.Swept{TimedOut: 1})
		kit.Same(s, "reason", s.State(d.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
		s.Counters(d.Job.ID, 1, 1, 1)
		s.Cancel(d.Job.ID)
	}
}

func pollGates(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	s.Finish(kit.Polled(c, 0, kit.Every(10*time.Second)), sojourn.Awaiting)
	s.Enqueue()
	s.Advance(10 * time.Second)
	held := func(q sojourn.QueueSettings, why string) {
		s.Helper()
		s.Must(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, q), "SetQueue")
		s.ClaimNone(why, kit.Polling)
	}
	held(sojourn.QueueSettings{Paused: true}, "the queue is paused")
	held(sojourn.QueueSettings{PausedKinds: []string{kit.Kind}}, "the kind is paused")
	night := sojourn.Windows{{Start: "01:00", End: "02:00"}} // it is morning
	s.Must(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{Limit: 1, Windows: night, Rate: &sojourn.Rate{Count: 1, Per: time.Minute, Burst: 1}}), "SetQueue")
	p := s.Claim(kit.Polling)
	kit.Same(s, "purpose", p.Purpose, sojourn.PurposePoll) // neither the full limit nor the window holds it back
	s.Finish(kit.Released(p), sojourn.Awaiting)
	s.ClaimNone("the rate is used up", kit.Polling)
	s.Advance(time.Minute)
	kit.Same(s, "purpose", s.Claim(kit.Polling).Purpose, sojourn.PurposePoll)
	s.Must(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{}), "SetQueue")
	s.Must(s.Store.HoldQueue(s.Ctx, kit.Queue, time.Hour, "told so"), "HoldQueue")
	s.Sweep()
	s.Advance(time.Minute)
	s.Sweep() // the poll step was lost; it is due again
	s.Advance(time.Minute)
	s.ClaimNone("the queue is held", kit.Polling)
}

func pollRoom(s *kit.Scene) {
	for _, key := range []string{"a", "b", "c"} {
		c := s.Running(sojourn.Key(key), sojourn.Weight(9))
		s.Finish(kit.Polled(c, 0, kit.Every(10*time.Second)), sojourn.Awaiting)
	}
	s.Advance(10 * time.Second)
	s.ClaimNone("there is no room", kit.Polling, kit.Room(0))
	kit.Same(s, "polls with room for two", len(s.ClaimMany(kit.Polling, kit.Room(2), kit.UpTo(10))), 2)
	kit.Same(s, "polls with room for two", len(s.ClaimMany(kit.Polling, kit.Room(2), kit.UpTo(10))), 1)
}

func pollWakes(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	done := s.Block(s.Ctx, kit.Polling, kit.By("w2"))
	s.Finish(kit.Polled(c, 0, kit.Every(10*time.Second)), sojourn.Awaiting)
	s.Advance(10 * time.Second)
	p := s.Answered(done, "a poll step that came due")
	kit.Same(s, "purpose", p.Purpose, sojourn.PurposePoll)
}

func pollRefused(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	for _, b := range []sojourn.Backoff{{First: sojourn.MinPoll - 1}, {First: -1}, {First: time.Second, Limit: time.Millisecond}, {Limit: time.Hour}, {First: time.Second, Factor: 0.5}} {
		f := s.Reports(kit.Polled(c, 0, b), driver.FinishRefused)
		s.Refused(f.Err, sojourn.CodeInvalid, "a poll that comes too often")
	}
	o := kit.Polled(c, 0, kit.Every(time.Second))
	o.Wait.Polls = 30 // the store counts
	kit.Same(s, "polls", s.Finish(o, sojourn.Awaiting).Waiting.Polls, 0)
}

func pollSetsKey(s *kit.Scene) {
	for _, key := range []string{"lost", "told"} {
		early := s.Respond(key, kit.Body("early"))
		c := s.Running(sojourn.MaxCrashes(9))
		s.Finish(kit.Polled(c, 0, kit.Every(10*time.Second)), sojourn.Awaiting)
		s.Advance(10 * time.Second)
		p := s.Claim(kit.Polling)
		s.Must(s.Save(driver.Saved{Lease: p.Lease, Key: key}), "SetKey")
		if key == "lost" {
			s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
		} else {
			s.Reports(kit.NoAnswer(p), driver.FinishApplied)
		}
		s.Stored(early.Seq, sojourn.Applied)
		d := s.Claim()
		kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "early")
		s.Finish(kit.Completed(d), sojourn.Completed)
	}
}

func pollRepeated(s *kit.Scene) {
	p := s.UnderPoll("k")
	s.Finish(kit.Answers(p, "x"), sojourn.Ready)
	f := s.Reports(kit.Answers(p, "x"), driver.FinishRepeated)
	kit.Same(s, "state told", f.State, sojourn.Ready)
	s.Reports(kit.NoAnswer(p), driver.FinishLost)
	kit.Same(s, "answers in the inbox", len(s.Inbox(sojourn.InboxFilter{Job: p.Job.ID})), 1)
	s.Reports(kit.Completed(s.Claim()), driver.FinishApplied)
	q := s.UnderPoll("l")
	s.Refused(s.Reports(kit.Completed(q), driver.FinishRefused).Err, sojourn.CodeInvalid, "a completion of a poll step")
	s.State(q.Job.ID, sojourn.Running)
}
