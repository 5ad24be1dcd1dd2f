package outcomes

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var awaitTrials = []kit.Trial{
	{Name: "await and respond", Law: "An awaiting job holds its weight and no worker; its answer makes it ready again for the same attempt.",
		Covers: "tr:F5 tr:M1 tr:C3 tr:R5 spec:H1 spec:H2 spec:S2 inv:U4 inv:S4", Run: awaitRespond},
	{Name: "await until the timeout", Law: "A wait of 0 lasts until the attempt's timeout, and any wait ends then at the latest.",
		Covers: "tr:F5 tr:W4 spec:H3 rules:C4", Run: awaitTimeout},
	{Name: "await within", Law: "A bounded wait that gets no answer ends the attempt with the reason timeout.", Covers: "tr:W4 spec:H3 spec:S7", Run: awaitWithin},
	{Name: "the last wait times out", Law: "A timeout that uses up max_attempts fails the job.", Covers: "tr:W4 inv:P2 spec:J7", Run: awaitTimeoutLast},
	{Name: "an early answer is kept", Law: "An answer that comes while the job is scheduled, ready or running waits for the Await, in order of arrival.",
		Covers: "tr:R5 tr:M1 tr:F5 spec:H4 rules:B1 inv:U4", Run: awaitKept},
	{Name: "rules:B9 an answer before its job", Law: "An answer that comes before its job is enqueued waits in the inbox, and the Await finds it.",
		Covers: "tr:R2 tr:F5 tr:M1 rules:B9 spec:H4 inv:U4", Run: awaitBeforeJob},
	{Name: "an error response ends the attempt", Law: "An error response ends the wait and the attempt, with its own reason and text.",
		Covers: "tr:M2 inv:S5 spec:H1 spec:R5", Run: awaitErrorResponse},
	{Name: "an error response that is kept", Law: "An error response that came before the Await ends the attempt at the Await.",
		Covers: "tr:M2 tr:F5 rules:B6", Run: awaitErrorKept},
	{Name: "the last error response", Law: "An error response that uses up max_attempts fails the job.", Covers: "tr:M2 inv:P2", Run: awaitErrorLast},
	{Name: "await again", Law: "Awaiting again puts the answer in hand down; the next answer ends the next wait.", Covers: "tr:F5 rules:B2 tr:M1", Run: awaitAgain},
	{Name: "await without a key", Law: "A job without a key is answered by its id or its token.", Covers: "tr:F5 tr:R5 spec:H1 rules:H4", Run: awaitNoKey},
	{Name: "a response that fails no one else", Law: "An answer to one job of a batch reaches that job only.", Covers: "tr:R5 inv:U4 spec:B5", Run: awaitBatch},
}

func awaitRespond(s *kit.Scene) {
	c := s.Running(sojourn.Key("order-42"))
	s.Advance(time.Second)
	j := s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
	s.InFlight(1, "while it awaits")
	kit.Same(s, "response", j.Response == nil, true)
	s.ClaimNone("it awaits")
	s.Advance(10 * time.Minute)
	r := s.Became(s.Respond("order-42", kit.Body("approved")), sojourn.Applied, c.Job.ID)
	kit.Same(s, "the job it names", r.Job, c.Job.ID)
	j = s.State(c.Job.ID, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, true)
	kit.Same(s, "kept", j.Kept, 0)
	kit.Same(s, "the answer in hand", string(j.Response.Body), "approved")
	s.InFlight(1, "while it is resumed")
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	kit.Same(s, "the answer given", string(s.ClaimedResponse(d).Body), "approved")
	kit.Same(s, "its message id", s.ClaimedResponse(d).MessageID, "m1")
	kit.Same(s, "its source", s.ClaimedResponse(d).Source, "test")
	kit.Same(s, "its content type", s.ClaimedResponse(d).ContentType, "text/plain")
	s.Counters(c.Job.ID, 1, 0, 0)
	s.Finish(kit.Completed(d), sojourn.Completed)
	s.Stored(r.Seq, sojourn.Applied)
	as := s.Happened(c.Job.ID, "await", "responded", "completed")
	kit.Same(s, "epoch of the response's entry", as[1].Epoch, 0)
	kit.Same(s, "state after the response", as[1].State, sojourn.Ready)
	kit.Same(s, "attempt of the last entry", as[2].Attempt, 1)
	kit.Same(s, "purpose of the last entry", as[2].Purpose, sojourn.PurposeResume)
}

func awaitTimeout(s *kit.Scene) {
	c := s.Running(sojourn.Timeout(time.Hour), kit.Steady(time.Minute))
	s.Advance(15 * time.Second)
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Swept(time.Hour-15*time.Second-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{TimedOut: 1})
	kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
	s.Advance(time.Minute)
	c = s.Claim()
	s.Finish(kit.Await(c, 48*time.Hour), sojourn.Awaiting) // longer than the timeout
	s.Swept(time.Hour, driver.Swept{TimedOut: 1})
	s.Counters(c.Job.ID, 2, 2, 0)
	d := s.Running()
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Swept(sojourn.DefaultTimeout-time.Second, driver.Swept{Due: 1}) // the other job's retry
	s.Swept(time.Second, driver.Swept{TimedOut: 1})
}

func awaitWithin(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), kit.Steady(time.Minute))
	s.Finish(kit.Await(c, 10*time.Second), sojourn.Awaiting)
	s.Swept(10*time.Second-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{TimedOut: 1})
	j := s.State(c.Job.ID, sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, sojourn.ReasonTimeout)
	s.At("run_at", j.RunAt, s.Now().Add(time.Minute))
	s.Counters(c.Job.ID, 1, 1, 0)
	s.InFlight(0, "after the timeout")
	as := s.Happened(c.Job.ID, "await", "timed_out")
	kit.Same(s, "reason in the history", as[1].Reason, sojourn.ReasonTimeout)
	kit.Same(s, "state in the history", as[1].State, sojourn.Scheduled)
}

func awaitTimeoutLast(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), sojourn.MaxAttempts(1))
	s.Finish(kit.Await(c, 10*time.Second), sojourn.Awaiting)
	s.Swept(10*time.Second, driver.Swept{TimedOut: 1})
	kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonTimeout)
	s.Counters(c.Job.ID, 1, 1, 0)
	s.Became(s.Respond("k"), sojourn.Late, c.Job.ID)
}

func awaitKept(s *kit.Scene) {
	s.Open(kit.Options{InboxTTL: time.Minute})
	id := s.Enqueue(sojourn.Key("k"), sojourn.Delay(time.Minute))
	first := s.Respond("k", kit.Body("1"))
	s.Became(first, sojourn.Early, id)
	kit.Same(s, "kept", s.State(id, sojourn.Scheduled).Kept, 1)
	s.Advance(time.Minute)
	s.Sweep()
	s.Became(s.Respond("k", kit.Body("2")), sojourn.Early, id)
	kit.Same(s, "kept", s.State(id, sojourn.Ready).Kept, 2) // never claimed: the handler has to send first
	c := s.Claim()
	kit.Same(s, "response", c.Job.Response == nil, true)
	s.Became(s.Respond("k", kit.Body("3")), sojourn.Early, id)
	kit.Same(s, "kept", s.State(id, sojourn.Running).Kept, 3)
	s.Advance(12 * time.Hour) // a kept response has no time to live while the job lives
	s.Extends(c.Lease, true)
	s.Sweep()
	for i, want := range []string{"1", "2", "3"} {
		j := s.Finish(kit.Await(c, 0), sojourn.Ready)
		kit.Same(s, "resumed", j.Resumed, true)
		kit.Same(s, "kept", j.Kept, int32(2-i))
		kit.Same(s, "answers in hand", len(j.Responses), 1)
		c = s.Claim()
		kit.Same(s, "the answer", string(s.ClaimedResponse(c).Body), want)
	}
	s.Stored(first.Seq, sojourn.Applied)
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
}

func awaitBeforeJob(s *kit.Scene) {
	s.Open(kit.Options{InboxTTL: time.Hour})
	r := s.Respond("k", kit.Body("early bird"))
	lies := s.Became(r, sojourn.Early, 0)
	s.At("expires_at", lies.ExpiresAt, s.Now().Add(time.Hour))
	s.Advance(30 * time.Minute)
	id := s.Enqueue(sojourn.Key("k"), sojourn.Delay(72*time.Hour))
	s.Advance(72 * time.Hour) // long past its time to live, but a live job has the key
	s.Sweep()
	s.Stored(r.Seq, sojourn.Early)
	c := s.Claim()
	kit.Same(s, "response", c.Job.Response == nil, true)
	j := s.Finish(kit.Await(c, 0), sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, true)
	kit.Same(s, "the job the response names", s.Stored(r.Seq, sojourn.Applied).Job, id)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "early bird")
}

func awaitErrorResponse(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"), kit.Steady(time.Minute))
	s.Became(s.Respond("k", kit.Failing("insufficient_funds")), sojourn.Applied, c.Job.ID)
	j := s.State(c.Job.ID, sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, "insufficient_funds")
	kit.Same(s, "error", j.Error, "the other side says insufficient_funds")
	s.At("run_at", j.RunAt, s.Now().Add(time.Minute))
	s.Counters(c.Job.ID, 1, 1, 0)
	s.InFlight(0, "after the error response")
	as := s.Happened(c.Job.ID, "await", "responded")
	kit.Same(s, "reason in the history", as[1].Reason, "insufficient_funds")
	s.Advance(time.Minute)
	d := s.Claim()
	kit.Same(s, "response in the next attempt", d.Job.Response == nil, true) // it is used up
	s.Counters(c.Job.ID, 2, 1, 0)
}

func awaitErrorKept(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), kit.Steady(time.Minute))
	bad := s.Respond("k", kit.Failing("declined"))
	good := s.Respond("k", kit.Body("after all"))
	s.Became(bad, sojourn.Early, c.Job.ID)
	f := s.Report(kit.Await(c, 0))
	kit.Same(s, "status", f.Status, driver.FinishApplied)
	s.Stored(bad.Seq, sojourn.Applied)
	// The attempt has ended, so its retry waits, and takes the good answer at once.
	s.Stored(good.Seq, sojourn.Applied)
	j := s.State(c.Job.ID, sojourn.Ready)
	kit.Same(s, "state told", f.State, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, false)
	s.Counters(c.Job.ID, 1, 1, 0)
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "after all")
	s.Counters(c.Job.ID, 2, 1, 0)
}

func awaitErrorLast(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"), sojourn.MaxAttempts(1))
	s.Became(s.Respond("k", kit.Failing("declined")), sojourn.Applied, c.Job.ID)
	kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Failed).Reason, "declined")
	s.InFlight(0, "after the end")
	s.Became(s.Respond("k"), sojourn.Late, c.Job.ID)
	d := s.Running(sojourn.Key("l"), sojourn.MaxAttempts(1))
	bad, good := s.Respond("l", kit.Failing("declined")), s.Respond("l")
	s.Finish(kit.Await(d, 0), sojourn.Failed)
	s.Stored(bad.Seq, sojourn.Applied)
	s.Stored(good.Seq, sojourn.Late)
}

func awaitAgain(s *kit.Scene) {
	s.Resumed("k")
	c := s.Claim()
	j := s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	kit.Same(s, "answers in hand", len(j.Responses), 0)
	s.Respond("k", kit.Body("second"))
	d := s.Claim()
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "second")
	kit.Same(s, "answers", len(d.Job.Responses), 1)
	s.Counters(c.Job.ID, 1, 0, 0)
}

func awaitNoKey(s *kit.Scene) {
	a, b := s.Awaiting(), s.Awaiting()
	s.Became(s.Respond("", kit.ToJob(a.Job.ID), kit.Body("by id")), sojourn.Applied, a.Job.ID)
	s.Became(s.Respond("", kit.Token(b.Job.Token), kit.Body("by token")), sojourn.Applied, b.Job.ID)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "by id")
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "by token")
}

func awaitBatch(s *kit.Scene) {
	var rs []sojourn.Response
	want := map[sojourn.ID]string{}
	for _, key := range []string{"a", "b", "c", "d"} {
		id := s.Awaiting(sojourn.Key(key)).Job.ID
		want[id] = "for " + key
		rs = append([]sojourn.Response{s.Answer(key, kit.Body("for "+key))}, rs...)
	}
	rs = append(rs, s.Answer("nobody"), rs[0])
	as, err := s.Store.Respond(s.Ctx, rs)
	s.Must(err, "Respond")
	kit.Same(s, "answers", len(as), 6)
	for i, a := range as[:4] {
		if a.Outcome != sojourn.Applied || want[a.Job] != string(rs[i].Body) {
			s.Fatalf("response %d (%s) was answered %+v", i, rs[i].Body, a)
		}
	}
	s.Became(as[4], sojourn.Early, 0)
	kit.Same(s, "a duplicate inside the batch", as[5].Outcome, sojourn.Duplicate)
	kit.Same(s, "the first of the duplicate", as[5].Seq, as[0].Seq)
	for _, c := range s.ClaimMany(kit.UpTo(10)) {
		kit.Same(s, "the answer", string(s.ClaimedResponse(c).Body), want[c.Job.ID])
	}
}
