package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var pollTrials = []trial{
	{"a poll step", "A waiting job is polled when its wait says so, by workers that can; a step without an answer leaves it waiting, and the next comes later.",
		"tr:C5 tr:P1 rules:B11 spec:H1", pollStep},
	{"nobody polls", "A wait that names no poll, and a worker that does not name the kind, make no poll steps.", "tr:C5 rules:B11", pollNobody},
	{"the answer of a poll", "The answer of a poll step is recorded and given to the handler, in the same attempt.", "tr:P2 tr:C3 rules:B11 inv:U4", pollAnswer},
	{"a response during a poll", "A response that comes while a poll step runs is kept; it wins over the step's own answer, which is late.",
		"tr:P4 tr:M1 rules:B11 inv:U4", pollOvertaken},
	{"an error response during a poll", "An error response that comes while a poll step runs ends the attempt; the step's own answer is late.", "tr:P4 tr:M2 inv:U4", pollOvertakenByError},
	{"another response during a poll", "A response that does not end the wait leaves the poll's answer its right.", "tr:P2 rules:B10", pollBeside},
	{"a response, and no answer", "A response that came while a poll step ran ends the wait when the step brings nothing, or is handed back.", "tr:P1 tr:P3 tr:M1", pollNothing},
	{"a poll that fails", "A failing poll counts nowhere: neither attempt nor failures, and the job goes on waiting.", "tr:P1 rules:B11 spec:S5", pollFails},
	{"a poll step released", "A poll step that is handed back is due again at once.", "tr:P3 inv:J2", pollReleased},
	{"a poll step lost", "A lost poll step leaves the job waiting and counts a crash; when the crashes are used up the wait is polled no more, and still can be answered.",
		"tr:W3 rules:B11 inv:P2", pollLost},
	{"the clocks of a polled wait", "Within and beat end a wait under a poll step too; its timeout one lease later.", "tr:W4 tr:W5 inv:L1", pollClocks},
	{"a kept response and the end of a wait", "A response that came in time is not lost to the end of the wait while a poll step runs.", "tr:P1 tr:M1 inv:U4", pollInTime},
	{"an answer that waited longer than the timeout", "A resumed step whose timeout ran out while its answer waited for the end of a poll step has one lease, or the whole timeout if that is less.",
		"tr:W3 tr:M1 tr:C3 rules:C5 inv:F1", pollAnswerWaited},
	{"polls and gates", "A pause and a rate hold poll steps back, a limit and a window do not.", "tr:C5 rules:B11 spec:T5", pollGates},
	{"a poll step and little room", "A poll step uses one of the worker's capacity, whatever its job weighs.", "tr:C5", pollRoom},
	{"a blocked claim and polls", "A blocked claim wakes up when a poll step comes due.", "tr:C5 spec:O14", pollWakes},
	{"polls that come too often", "A wait that would be polled more often than the store allows is refused.", "tr:F15 inv:P4", pollRefused},
	{"a key set by a poll step", "A poll step may give its job the key; what lies under it early ends the wait when the step ends, whatever its end.", "tr:L3 tr:W3 tr:P1 tr:M1 rules:B9", pollSetsKey},
	{"a poll step reported again", "A repeated report of a poll step is answered and changes nothing.", "tr:F12 inv:F8", pollRepeated},
}

func pollStep(s *scene) {
	c := s.running(sojourn.Key("k"), sojourn.Weight(3))
	began := s.now()
	j := s.finish(polled(c, time.Hour, every(10*time.Second)), sojourn.Awaiting)
	s.at("the first poll", j.Awaits.Poll, began.Add(10*time.Second))
	s.advance(10*time.Second - time.Microsecond)
	s.claimNone("it is not due", polling)
	s.advance(time.Microsecond)
	s.claimNone("the worker cannot poll it")
	p := s.claim(polling)
	same(s, "purpose", p.Purpose, sojourn.PurposePoll)
	same(s, "response", p.Job.Response == nil, true)
	s.inFlight(3, "while a poll step runs")
	s.counters(c.Job.ID, 1, 0, 0)
	s.claimNone("its poll step runs", polling)
	j = s.state(c.Job.ID, sojourn.Running)
	s.at("the end of the wait", j.Awaits.Until, began.Add(time.Hour))
	s.advance(time.Second)
	for i, wait := range []time.Duration{20 * time.Second, 40 * time.Second, 40 * time.Second} { // backed off, to the limit
		j = s.finish(noAnswer(p), sojourn.Awaiting)
		same(s, "polls", j.Awaits.Polls, int32(i+1))
		s.at("the next poll", j.Awaits.Poll, s.now().Add(wait))
		s.at("the end of the wait", j.Awaits.Until, began.Add(time.Hour))
		s.swept(wait-time.Microsecond, driver.Swept{})
		s.claimNone("it is not due", polling)
		s.advance(time.Microsecond)
		p = s.claim(polling)
	}
	s.inFlight(3, "while it is polled")
	s.happened(c.Job.ID, "await", "no_answer", "no_answer", "no_answer")
	s.finish(released(p), sojourn.Awaiting)
	s.respond("k", body("over the other channel"))
	d := s.claim(polling)
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	j = s.finish(polled(d, 0, every(time.Minute)), sojourn.Awaiting) // a new wait counts from 0
	same(s, "polls", j.Awaits.Polls, 0)
	s.at("the first poll", j.Awaits.Poll, s.now().Add(time.Minute))
}

func pollNobody(s *scene) {
	a, b := s.running(), s.running()
	s.finish(await(a, 0), sojourn.Awaiting)
	s.finish(polled(b, 0, every(time.Second)), sojourn.Awaiting)
	s.advance(time.Hour)
	s.claimNone("the worker names no kind to poll")
	s.claimNone("the kind to poll is not among its kinds", kinds("mail"), func(r *driver.ClaimRequest) { r.Pollable = []string{charge} })
	cs := s.claimMany(polling, upTo(10))
	if len(cs) != 1 || cs[0].Job.ID != b.Job.ID {
		s.Fatalf("Claim gave %v to poll, want %d", claimedIDs(cs), b.Job.ID)
	}
}

func pollAnswer(s *scene) {
	p := s.underPoll("k")
	j := s.finish(answers(p, "settled"), sojourn.Ready)
	same(s, "resumed", j.Resumed, true)
	same(s, "awaits", j.Awaits == nil, true)
	s.claimNone("it is paused", pausedBy(s))
	d := s.claim()
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	r := s.inHand(d)
	same(s, "the answer", string(r.Body), "settled")
	same(s, "its type", r.ContentType, "text/plain")
	same(s, "its source", r.Source, sojourn.SourcePoll)
	same(s, "its job", s.lies(r.Seq, sojourn.Applied).Job, p.Job.ID)
	s.counters(p.Job.ID, 1, 0, 0)
	late := s.respond("k", body("too late"))
	s.became(late, sojourn.Early, p.Job.ID)
	s.finish(failure(d), sojourn.Scheduled) // an error leaves it for the next attempt
	s.advance(time.Minute)
	e := s.claim()
	same(s, "the answer", string(s.inHand(e).Body), "settled")
	s.finish(completed(e), sojourn.Completed)
	s.lies(late.Seq, sojourn.Late)
	s.happened(p.Job.ID, "await", "answer", "error", "completed")
}

// pausedBy changes nothing of a request; it pauses the queue for one look.
func pausedBy(s *scene) wish {
	return func(r *driver.ClaimRequest) {
		s.must(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{Paused: true}), "SetQueue")
		cs, err := s.store.Claim(s.ctx, *r)
		s.must(err, "Claim")
		same(s, "jobs of a paused queue", len(cs), 0)
		s.must(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{}), "SetQueue")
		r.Number, r.Kinds = 0, []string{"none"}
	}
}

func pollOvertaken(s *scene) {
	p := s.underPoll("k")
	first := s.respond("k", body("by webhook"))
	s.became(first, sojourn.Early, p.Job.ID)
	s.state(p.Job.ID, sojourn.Running)
	f := s.reports(answers(p, "by poll"), driver.FinishApplied)
	same(s, "state told", f.State, sojourn.Ready)
	s.lies(first.Seq, sojourn.Applied)
	j := s.state(p.Job.ID, sojourn.Ready)
	same(s, "resumed", j.Resumed, true)
	same(s, "kept", j.Kept, 0)
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "by webhook")
	same(s, "answers", len(d.Job.Responses), 1)
	polls := s.inbox(sojourn.InboxFilter{Source: sojourn.SourcePoll})
	if len(polls) != 1 || polls[0].Outcome != sojourn.Late || string(polls[0].Body) != "by poll" || polls[0].Job != p.Job.ID {
		s.Fatalf("the poll's answer lies in the inbox as %+v, want it late", polls)
	}
	s.happened(p.Job.ID, "await", "answer", "responded")
}

func pollOvertakenByError(s *scene) {
	p := s.underPoll("k")
	s.respond("k", failing("declined"))
	f := s.reports(answers(p, "by poll"), driver.FinishApplied)
	same(s, "state told", f.State, sojourn.Scheduled)
	same(s, "reason", s.state(p.Job.ID, sojourn.Scheduled).Reason, "declined")
	s.counters(p.Job.ID, 1, 1, 0)
	s.inFlight(0, "after the error response")
	same(s, "the poll's answer", s.inbox(sojourn.InboxFilter{Source: sojourn.SourcePoll})[0].Outcome, sojourn.Late)
}

func pollBeside(s *scene) {
	c := s.running(sojourn.Key("own"))
	s.finish(polled(c, 0, every(10*time.Second), "a", "b"), sojourn.Awaiting)
	s.advance(10 * time.Second)
	p := s.claim(polling)
	s.became(s.respond("own"), sojourn.Early, c.Job.ID)
	j := s.finish(answers(p, "by poll"), sojourn.Ready)
	same(s, "kept", j.Kept, 1)
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "by poll")
	s.finish(await(d, 0), sojourn.Ready) // the other one is there for its own wait
}

func pollNothing(s *scene) {
	for i, report := range []func(driver.Claimed) sojourn.Outcome{noAnswer, released} {
		key := []string{"a", "b"}[i]
		p := s.underPoll(key)
		s.became(s.respond(key, body("by webhook")), sojourn.Early, p.Job.ID)
		f := s.reports(report(p), driver.FinishApplied)
		same(s, "state told", f.State, sojourn.Ready)
		d := s.claim()
		same(s, "purpose", d.Purpose, sojourn.PurposeResume)
		same(s, "the answer", string(s.inHand(d).Body), "by webhook")
	}
}

func pollFails(s *scene) {
	p := s.underPoll("k", sojourn.MaxAttempts(1))
	o := noAnswer(p)
	o.Reason, o.Text = "gateway", "502"
	j := s.finish(o, sojourn.Awaiting)
	s.counters(p.Job.ID, 1, 0, 0)
	s.at("the next poll", j.Awaits.Poll, s.now().Add(20*time.Second))
	as := s.happened(p.Job.ID, "await", "no_answer")
	same(s, "reason in the history", as[1].Reason, "gateway")
	same(s, "reason of the job", j.Reason, "")
	s.reports(noAnswer(p), driver.FinishRepeated)
	s.respond("k")
	s.claim()
}

func pollReleased(s *scene) {
	p := s.underPoll("k")
	j := s.finish(released(p), sojourn.Awaiting)
	s.at("the next poll", j.Awaits.Poll, s.now())
	same(s, "polls", j.Awaits.Polls, 0)
	q := s.claim(polling)
	same(s, "purpose", q.Purpose, sojourn.PurposePoll)
	same(s, "the epoch goes on", q.Lease.Epoch, p.Lease.Epoch+1)
	s.counters(p.Job.ID, 1, 0, 0)
}

func pollLost(s *scene) {
	p := s.underPoll("k", sojourn.MaxCrashes(2), sojourn.Weight(2))
	s.swept(lease, driver.Swept{Lost: 1})
	j := s.state(p.Job.ID, sojourn.Awaiting)
	s.counters(p.Job.ID, 1, 0, 1)
	s.at("the next poll", j.Awaits.Poll, s.now().Add(20*time.Second))
	s.reports(noAnswer(p), driver.FinishLost)
	s.inFlight(2, "after a lost poll step")
	s.advance(20 * time.Second)
	q := s.claim(polling)
	first := s.respond("k", failing("x"), toJob(p.Job.ID)) // kept until the step has ended
	s.became(first, sojourn.Early, p.Job.ID)
	s.swept(lease, driver.Swept{Lost: 1})
	s.lies(first.Seq, sojourn.Applied)
	same(s, "reason", s.state(q.Job.ID, sojourn.Scheduled).Reason, "x")
	s.advance(time.Minute)
	d := s.claim()
	s.finish(polled(d, 0, every(10*time.Second)), sojourn.Awaiting)
	s.advance(10 * time.Second)
	s.claim(polling)
	s.swept(lease, driver.Swept{Lost: 1})
	j = s.state(p.Job.ID, sojourn.Awaiting)
	same(s, "another poll", j.Awaits.Poll.IsZero(), true)
	s.advance(time.Hour)
	s.claimNone("its polls were lost too often", polling)
	s.respond("k")
	same(s, "purpose", s.claim(polling).Purpose, sojourn.PurposeResume)
}

func pollClocks(s *scene) {
	start := func(key string, within, beat time.Duration, options ...sojourn.Option) driver.Claimed {
		c := s.running(append(options, sojourn.Key(key), steady(time.Hour))...)
		o := polled(c, within, every(10*time.Second))
		o.Wait.Beat = beat
		s.finish(o, sojourn.Awaiting)
		s.advance(10 * time.Second)
		return s.claim(polling)
	}
	ends := func(p driver.Claimed, after time.Duration, reason string) {
		s.Helper()
		s.swept(after-time.Microsecond, driver.Swept{})
		s.state(p.Job.ID, sojourn.Running)
		s.swept(time.Microsecond, driver.Swept{TimedOut: 1})
		same(s, "reason", s.state(p.Job.ID, sojourn.Scheduled).Reason, reason)
		s.counters(p.Job.ID, 1, 1, 0)
		s.reports(answers(p, "too late"), driver.FinishLost)
	}
	ends(start("within", 25*time.Second, 0), 15*time.Second, sojourn.ReasonTimeout)
	ends(start("beat", 0, 25*time.Second), 15*time.Second, sojourn.ReasonBeat)
	p := start("lively", 0, 15*time.Second)
	s.advance(4 * time.Second)
	s.became(s.respond("lively", lively("going on")), sojourn.Applied, p.Job.ID)
	ends(p, 15*time.Second, sojourn.ReasonBeat)
	p = start("between", 0, 25*time.Second) // a poll step is no sign of life of the other side
	s.advance(10 * time.Second)
	j := s.finish(noAnswer(p), sojourn.Awaiting)
	s.at("beat", j.Awaits.Beat, s.now().Add(5*time.Second))
	s.swept(5*time.Second, driver.Swept{TimedOut: 1})
	same(s, "reason", s.state(p.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonBeat)
	p = start("timeout", 0, 0, sojourn.Timeout(20*time.Second))
	s.advance(10 * time.Second)
	s.extends(p.Lease, true)
	s.advance(20 * time.Second)
	s.extends(p.Lease, true)
	ends(p, 10*time.Second, sojourn.ReasonTimeout)
}

func pollInTime(s *scene) {
	c := s.running(sojourn.Key("k"), sojourn.MaxAttempts(1))
	s.finish(polled(c, 15*time.Second, every(10*time.Second)), sojourn.Awaiting)
	s.advance(10 * time.Second)
	p := s.claim(polling)
	s.respond("k", body("in time"))
	s.swept(10*time.Second, driver.Swept{})
	s.reports(noAnswer(p), driver.FinishApplied)
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "in time")
	s.counters(c.Job.ID, 1, 0, 0)
}

// pollAnswerWaited: no sweep runs after the worker of the poll step has died, so that the claim
// itself ends its lease, long after the timeout.
func pollAnswerWaited(s *scene) {
	for _, timeout := range []time.Duration{time.Minute, 20 * time.Second} {
		p := s.underPoll("k", sojourn.Timeout(timeout))
		s.became(s.respond("k"), sojourn.Early, p.Job.ID)
		s.advance(time.Hour)
		d := s.claim()
		same(s, "purpose", d.Purpose, sojourn.PurposeResume)
		same(s, "timeout left", d.Timeout, min(lease, timeout))
		s.swept(0, driver.Swept{})
		for range 2 {
			s.swept(20*time.Second, driver.Swept{})
			s.extends(d.Lease, true)
		}
		s.swept(min(lease, timeout)+lease-40*time.Second-time.Microsecond, driver.Swept{})
		s.swept(time.Microsecond, driver.Swept{TimedOut: 1})
		same(s, "reason", s.state(d.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
		s.counters(d.Job.ID, 1, 1, 1)
		s.cancel(d.Job.ID)
	}
}

func pollGates(s *scene) {
	c := s.running(sojourn.Key("k"))
	s.finish(polled(c, 0, every(10*time.Second)), sojourn.Awaiting)
	s.enqueue()
	s.advance(10 * time.Second)
	held := func(q sojourn.QueueSettings, why string) {
		s.Helper()
		s.must(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, q), "SetQueue")
		s.claimNone(why, polling)
	}
	held(sojourn.QueueSettings{Paused: true}, "the queue is paused")
	held(sojourn.QueueSettings{PausedKinds: []string{charge}}, "the kind is paused")
	night := sojourn.Windows{{Start: "01:00", End: "02:00"}} // it is morning
	s.must(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{Limit: 1, Windows: night, Rate: &sojourn.Rate{Count: 1, Per: time.Minute, Burst: 1}}), "SetQueue")
	p := s.claim(polling)
	same(s, "purpose", p.Purpose, sojourn.PurposePoll) // neither the full limit nor the window holds it back
	s.finish(released(p), sojourn.Awaiting)
	s.claimNone("the rate is used up", polling)
	s.advance(time.Minute)
	same(s, "purpose", s.claim(polling).Purpose, sojourn.PurposePoll)
	s.must(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{}), "SetQueue")
	s.must(s.store.HoldQueue(s.ctx, line, time.Hour, "told so"), "HoldQueue")
	s.sweep()
	s.advance(time.Minute)
	s.sweep() // the poll step was lost; it is due again
	s.advance(time.Minute)
	s.claimNone("the queue is held", polling)
}

func pollRoom(s *scene) {
	for _, key := range []string{"a", "b", "c"} {
		c := s.running(sojourn.Key(key), sojourn.Weight(9))
		s.finish(polled(c, 0, every(10*time.Second)), sojourn.Awaiting)
	}
	s.advance(10 * time.Second)
	s.claimNone("there is no room", polling, room(0))
	same(s, "polls with room for two", len(s.claimMany(polling, room(2), upTo(10))), 2)
	same(s, "polls with room for two", len(s.claimMany(polling, room(2), upTo(10))), 1)
}

func pollWakes(s *scene) {
	c := s.running(sojourn.Key("k"))
	done := s.block(s.ctx, polling, by("w2"))
	s.finish(polled(c, 0, every(10*time.Second)), sojourn.Awaiting)
	s.advance(10 * time.Second)
	p := s.answered(done, "a poll step that came due")
	same(s, "purpose", p.Purpose, sojourn.PurposePoll)
}

func pollRefused(s *scene) {
	c := s.running(sojourn.Key("k"))
	for _, b := range []sojourn.Backoff{{First: sojourn.MinPoll - 1}, {First: -1}, {First: time.Second, Limit: time.Millisecond}, {Limit: time.Hour}, {First: time.Second, Factor: 0.5}} {
		f := s.reports(polled(c, 0, b), driver.FinishRefused)
		s.refused(f.Err, sojourn.CodeInvalid, "a poll that comes too often")
	}
	o := polled(c, 0, every(time.Second))
	o.Wait.Polls = 30 // the store counts
	same(s, "polls", s.finish(o, sojourn.Awaiting).Awaits.Polls, 0)
}

func pollSetsKey(s *scene) {
	for _, key := range []string{"lost", "told"} {
		early := s.respond(key, body("early"))
		c := s.running(sojourn.MaxCrashes(9))
		s.finish(polled(c, 0, every(10*time.Second)), sojourn.Awaiting)
		s.advance(10 * time.Second)
		p := s.claim(polling)
		s.must(s.save(driver.Saved{Lease: p.Lease, Key: key}), "SetKey")
		if key == "lost" {
			s.swept(lease, driver.Swept{Lost: 1})
		} else {
			s.reports(noAnswer(p), driver.FinishApplied)
		}
		s.lies(early.Seq, sojourn.Applied)
		d := s.claim()
		same(s, "the answer", string(s.inHand(d).Body), "early")
		s.finish(completed(d), sojourn.Completed)
	}
}

func pollRepeated(s *scene) {
	p := s.underPoll("k")
	s.finish(answers(p, "x"), sojourn.Ready)
	f := s.reports(answers(p, "x"), driver.FinishRepeated)
	same(s, "state told", f.State, sojourn.Ready)
	s.reports(noAnswer(p), driver.FinishLost)
	same(s, "answers in the inbox", len(s.inbox(sojourn.InboxFilter{Job: p.Job.ID})), 1)
	s.reports(completed(s.claim()), driver.FinishApplied)
	q := s.underPoll("l")
	s.refused(s.reports(completed(q), driver.FinishRefused).Err, sojourn.CodeInvalid, "a completion of a poll step")
	s.state(q.Job.ID, sojourn.Running)
}
