package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var awaitTrials = []trial{
	{"await and respond", "An awaiting job holds its weight and no worker; its answer makes it ready again for the same attempt.",
		"tr:F5 tr:M1 tr:C3 tr:R5 spec:H1 spec:H2 spec:S2 inv:U4 inv:S4", awaitRespond},
	{"await until the timeout", "A wait of 0 lasts until the attempt's timeout, and any wait ends then at the latest.",
		"tr:F5 tr:W4 spec:H3 rules:C4", awaitTimeout},
	{"await within", "A bounded wait that gets no answer ends the attempt with the reason timeout.", "tr:W4 spec:H3 spec:S7", awaitWithin},
	{"the last wait times out", "A timeout that uses up max_attempts fails the job.", "tr:W4 inv:P2 spec:J7", awaitTimeoutLast},
	{"an early answer is kept", "An answer that comes while the job is scheduled, ready or running waits for the Await, in order of arrival.",
		"tr:R5 tr:M1 tr:F5 spec:H4 rules:B1 inv:U4", awaitKept},
	{"rules:B9 an answer before its job", "An answer that comes before its job is enqueued waits in the inbox, and the Await finds it.",
		"tr:R2 tr:F5 tr:M1 rules:B9 spec:H4 inv:U4", awaitBeforeJob},
	{"an error response ends the attempt", "An error response ends the wait and the attempt, with its own reason and text.",
		"tr:M2 inv:S5 spec:H1 spec:R5", awaitErrorResponse},
	{"an error response that is kept", "An error response that came before the Await ends the attempt at the Await.", "tr:M2 tr:F5 rules:B6", awaitErrorKept},
	{"the last error response", "An error response that uses up max_attempts fails the job.", "tr:M2 inv:P2", awaitErrorLast},
	{"await again", "Awaiting again puts the answer in hand down; the next answer ends the next wait.", "tr:F5 rules:B2 tr:M1", awaitAgain},
	{"await without a key", "A job without a key is answered by its id or its token.", "tr:F5 tr:R5 spec:H1 rules:H4", awaitNoKey},
	{"a response that fails no one else", "An answer to one job of a batch reaches that job only.", "tr:R5 inv:U4 spec:B5", awaitBatch},
}

func awaitRespond(s *scene) {
	c := s.running(sojourn.Key("order-42"))
	s.advance(time.Second)
	j := s.finish(await(c, time.Hour), sojourn.Awaiting)
	s.inFlight(1, "while it awaits")
	same(s, "response", j.Response == nil, true)
	s.claimNone("it awaits")
	s.advance(10 * time.Minute)
	r := s.became(s.respond("order-42", body("approved")), sojourn.Applied, c.Job.ID)
	same(s, "the job it names", r.Job, c.Job.ID)
	j = s.state(c.Job.ID, sojourn.Ready)
	same(s, "resumed", j.Resumed, true)
	same(s, "kept", j.Kept, 0)
	same(s, "the answer in hand", string(j.Response.Body), "approved")
	s.inFlight(1, "while it is resumed")
	d := s.claim(by("w2"))
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	same(s, "the answer given", string(s.inHand(d).Body), "approved")
	same(s, "its message id", s.inHand(d).MessageID, "m1")
	same(s, "its source", s.inHand(d).Source, "test")
	same(s, "its content type", s.inHand(d).ContentType, "text/plain")
	s.counters(c.Job.ID, 1, 0, 0)
	s.finish(completed(d), sojourn.Completed)
	s.lies(r.Seq, sojourn.Applied)
	as := s.happened(c.Job.ID, "await", "responded", "completed")
	same(s, "epoch of the response's entry", as[1].Epoch, 0)
	same(s, "state after the response", as[1].State, sojourn.Ready)
	same(s, "attempt of the last entry", as[2].Attempt, 1)
	same(s, "purpose of the last entry", as[2].Purpose, sojourn.PurposeResume)
}

func awaitTimeout(s *scene) {
	c := s.running(sojourn.Timeout(time.Hour), steady(time.Minute))
	s.advance(15 * time.Second)
	s.finish(await(c, 0), sojourn.Awaiting)
	s.swept(time.Hour-15*time.Second-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{TimedOut: 1})
	same(s, "reason", s.state(c.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonTimeout)
	s.advance(time.Minute)
	c = s.claim()
	s.finish(await(c, 48*time.Hour), sojourn.Awaiting) // longer than the timeout
	s.swept(time.Hour, driver.Swept{TimedOut: 1})
	s.counters(c.Job.ID, 2, 2, 0)
	d := s.running()
	s.finish(await(d, 0), sojourn.Awaiting)
	s.swept(sojourn.DefaultTimeout-time.Second, driver.Swept{Due: 1}) // the other job's retry
	s.swept(time.Second, driver.Swept{TimedOut: 1})
}

func awaitWithin(s *scene) {
	c := s.running(sojourn.Key("k"), steady(time.Minute))
	s.finish(await(c, 10*time.Second), sojourn.Awaiting)
	s.swept(10*time.Second-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{TimedOut: 1})
	j := s.state(c.Job.ID, sojourn.Scheduled)
	same(s, "reason", j.Reason, sojourn.ReasonTimeout)
	s.at("run_at", j.RunAt, s.now().Add(time.Minute))
	s.counters(c.Job.ID, 1, 1, 0)
	s.inFlight(0, "after the timeout")
	as := s.happened(c.Job.ID, "await", "timed_out")
	same(s, "reason in the history", as[1].Reason, sojourn.ReasonTimeout)
	same(s, "state in the history", as[1].State, sojourn.Scheduled)
}

func awaitTimeoutLast(s *scene) {
	c := s.running(sojourn.Key("k"), sojourn.MaxAttempts(1))
	s.finish(await(c, 10*time.Second), sojourn.Awaiting)
	s.swept(10*time.Second, driver.Swept{TimedOut: 1})
	same(s, "reason", s.state(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonTimeout)
	s.counters(c.Job.ID, 1, 1, 0)
	s.became(s.respond("k"), sojourn.Late, c.Job.ID)
}

func awaitKept(s *scene) {
	s.open(options{InboxTTL: time.Minute})
	id := s.enqueue(sojourn.Key("k"), sojourn.Delay(time.Minute))
	first := s.respond("k", body("1"))
	s.became(first, sojourn.Early, id)
	same(s, "kept", s.state(id, sojourn.Scheduled).Kept, 1)
	s.advance(time.Minute)
	s.sweep()
	s.became(s.respond("k", body("2")), sojourn.Early, id)
	same(s, "kept", s.state(id, sojourn.Ready).Kept, 2) // never claimed: the handler has to send first
	c := s.claim()
	same(s, "response", c.Job.Response == nil, true)
	s.became(s.respond("k", body("3")), sojourn.Early, id)
	same(s, "kept", s.state(id, sojourn.Running).Kept, 3)
	s.advance(12 * time.Hour) // a kept response has no time to live while the job lives
	s.extends(c.Lease, true)
	s.sweep()
	for i, want := range []string{"1", "2", "3"} {
		j := s.finish(await(c, 0), sojourn.Ready)
		same(s, "resumed", j.Resumed, true)
		same(s, "kept", j.Kept, int32(2-i))
		same(s, "answers in hand", len(j.Responses), 1)
		c = s.claim()
		same(s, "the answer", string(s.inHand(c).Body), want)
	}
	s.lies(first.Seq, sojourn.Applied)
	s.finish(await(c, 0), sojourn.Awaiting)
}

func awaitBeforeJob(s *scene) {
	s.open(options{InboxTTL: time.Hour})
	r := s.respond("k", body("early bird"))
	lies := s.became(r, sojourn.Early, 0)
	s.at("expires_at", lies.ExpiresAt, s.now().Add(time.Hour))
	s.advance(30 * time.Minute)
	id := s.enqueue(sojourn.Key("k"), sojourn.Delay(72*time.Hour))
	s.advance(72 * time.Hour) // long past its time to live, but a live job has the key
	s.sweep()
	s.lies(r.Seq, sojourn.Early)
	c := s.claim()
	same(s, "response", c.Job.Response == nil, true)
	j := s.finish(await(c, 0), sojourn.Ready)
	same(s, "resumed", j.Resumed, true)
	same(s, "the job the response names", s.lies(r.Seq, sojourn.Applied).Job, id)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "early bird")
}

func awaitErrorResponse(s *scene) {
	c := s.awaiting(sojourn.Key("k"), steady(time.Minute))
	s.became(s.respond("k", failing("insufficient_funds")), sojourn.Applied, c.Job.ID)
	j := s.state(c.Job.ID, sojourn.Scheduled)
	same(s, "reason", j.Reason, "insufficient_funds")
	same(s, "error", j.Error, "the other side says insufficient_funds")
	s.at("run_at", j.RunAt, s.now().Add(time.Minute))
	s.counters(c.Job.ID, 1, 1, 0)
	s.inFlight(0, "after the error response")
	as := s.happened(c.Job.ID, "await", "responded")
	same(s, "reason in the history", as[1].Reason, "insufficient_funds")
	s.advance(time.Minute)
	d := s.claim()
	same(s, "response in the next attempt", d.Job.Response == nil, true) // it is used up
	s.counters(c.Job.ID, 2, 1, 0)
}

func awaitErrorKept(s *scene) {
	c := s.running(sojourn.Key("k"), steady(time.Minute))
	bad := s.respond("k", failing("declined"))
	good := s.respond("k", body("after all"))
	s.became(bad, sojourn.Early, c.Job.ID)
	f := s.report(await(c, 0))
	same(s, "status", f.Status, driver.FinishApplied)
	s.lies(bad.Seq, sojourn.Applied)
	// The attempt has ended, so its retry waits, and takes the good answer at once.
	s.lies(good.Seq, sojourn.Applied)
	j := s.state(c.Job.ID, sojourn.Ready)
	same(s, "state told", f.State, sojourn.Ready)
	same(s, "resumed", j.Resumed, false)
	s.counters(c.Job.ID, 1, 1, 0)
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "after all")
	s.counters(c.Job.ID, 2, 1, 0)
}

func awaitErrorLast(s *scene) {
	c := s.awaiting(sojourn.Key("k"), sojourn.MaxAttempts(1))
	s.became(s.respond("k", failing("declined")), sojourn.Applied, c.Job.ID)
	same(s, "reason", s.state(c.Job.ID, sojourn.Failed).Reason, "declined")
	s.inFlight(0, "after the end")
	s.became(s.respond("k"), sojourn.Late, c.Job.ID)
	d := s.running(sojourn.Key("l"), sojourn.MaxAttempts(1))
	bad, good := s.respond("l", failing("declined")), s.respond("l")
	s.finish(await(d, 0), sojourn.Failed)
	s.lies(bad.Seq, sojourn.Applied)
	s.lies(good.Seq, sojourn.Late)
}

func awaitAgain(s *scene) {
	s.resumed("k")
	c := s.claim()
	j := s.finish(await(c, 0), sojourn.Awaiting)
	same(s, "answers in hand", len(j.Responses), 0)
	s.respond("k", body("second"))
	d := s.claim()
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	same(s, "the answer", string(s.inHand(d).Body), "second")
	same(s, "answers", len(d.Job.Responses), 1)
	s.counters(c.Job.ID, 1, 0, 0)
}

func awaitNoKey(s *scene) {
	a, b := s.awaiting(), s.awaiting()
	s.became(s.respond("", toJob(a.Job.ID), body("by id")), sojourn.Applied, a.Job.ID)
	s.became(s.respond("", token(b.Job.Token), body("by token")), sojourn.Applied, b.Job.ID)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "by id")
	same(s, "the answer", string(s.inHand(s.claim()).Body), "by token")
}

func awaitBatch(s *scene) {
	var rs []sojourn.Response
	want := map[sojourn.ID]string{}
	for _, key := range []string{"a", "b", "c", "d"} {
		id := s.awaiting(sojourn.Key(key)).Job.ID
		want[id] = "for " + key
		rs = append([]sojourn.Response{s.answer(key, body("for "+key))}, rs...)
	}
	rs = append(rs, s.answer("nobody"), rs[0])
	as, err := s.store.Respond(s.ctx, rs)
	s.must(err, "Respond")
	same(s, "answers", len(as), 6)
	for i, a := range as[:4] {
		if a.Outcome != sojourn.Applied || want[a.Job] != string(rs[i].Body) {
			s.Fatalf("response %d (%s) was answered %+v", i, rs[i].Body, a)
		}
	}
	s.became(as[4], sojourn.Early, 0)
	same(s, "a duplicate inside the batch", as[5].Outcome, sojourn.Duplicate)
	same(s, "the first of the duplicate", as[5].Seq, as[0].Seq)
	for _, c := range s.claimMany(upTo(10)) {
		same(s, "the answer", string(s.inHand(c).Body), want[c.Job.ID])
	}
}
