package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var erroredTrials = []trial{
	{"errored: lost, timed out, answered with an error", "Where no handler code could decide, a kind with a retry handler waits for it, its attempt counted.",
		"tr:W1 tr:W4 tr:W5 tr:M2 spec:S3 inv:S5 rules:C1", erroredWays},
	{"claim an errored job", "Only a worker that has the kind's retry handler claims an errored job, just to decide, with the errors so far.",
		"tr:C4 spec:S3 rules:H1 rules:C1", erroredClaim},
	{"decide to retry", "A decision to retry schedules the job as the verdict says, or by the stored backoff.", "tr:D1 spec:R7 inv:S5", erroredRetry},
	{"decide to fail", "A decision that it is final fails the job.", "tr:D2 inv:S5 inv:U2", erroredFail},
	{"release a decision", "A released decision is errored again and counts nothing.", "tr:D3 inv:J2 rules:D2", erroredRelease},
	{"a lease lost while deciding", "A lease lost while deciding counts a crash; the budget ends it.", "tr:W2 rules:C1 inv:P2", erroredLost},
	{"rules:C1 nobody comes to decide", "An errored job rests for decide_within at most; then the stored backoff decides.", "tr:W7 rules:C1 inv:L1", erroredOverdue},
	{"errored only inside the budgets", "A job whose budget is used up fails at once, whoever has a retry handler.", "tr:W1 tr:W4 tr:M2 rules:C1 rules:E2", erroredBudget},
	{"the retry handler is the claimer's", "Whether a kind has a retry handler is what the worker of the last claim said.", "tr:W1 rules:C1", erroredStamp},
	{"cancel and deadline while deciding", "A deciding step is ended by a cancel at once, and by the deadline one lease later.", "tr:O1 tr:W6 rules:A5 rules:C3", erroredEnded},
	{"a response to an errored job", "A response to an errored job is kept, and taken once it is decided.", "tr:R5 tr:M3 tr:D1 rules:B1", erroredResponse},
	{"an answer in hand while deciding", "A deciding step is not given the answer in hand; the retry is.", "tr:C4 tr:D1 rules:B2 rules:H1", erroredHand},
}

func erroredWays(s *scene) {
	with := func(key string) driver.Claimed {
		s.Helper()
		id := s.enqueue(sojourn.Key(key), sojourn.Timeout(time.Minute), steady(time.Second))
		c := s.claim(deciding)
		same(s, "job", c.Job.ID, id)
		return c
	}
	check := func(c driver.Claimed, reason string, failures, crashes int32) {
		s.Helper()
		j := s.state(c.Job.ID, sojourn.Errored)
		same(s, "reason", j.Reason, reason)
		s.counters(c.Job.ID, 1, failures, crashes)
		s.inFlight(0, "while it is errored")
		s.claimNone("this worker has no retry handler")
		as := s.history(c.Job.ID)
		same(s, "state in the history", as[len(as)-1].State, sojourn.Errored)
		s.cancel(c.Job.ID)
	}
	c := with("lost")
	s.swept(lease, driver.Swept{Lost: 1})
	check(c, sojourn.ReasonLeaseLost, 0, 1)
	c = with("wait")
	s.finish(await(c, 0), sojourn.Awaiting)
	s.swept(time.Minute, driver.Swept{TimedOut: 1})
	check(c, sojourn.ReasonTimeout, 1, 0)
	c = with("run")
	for range 3 {
		s.advance(lease - 5*time.Second)
		s.extends(c.Lease, true)
	}
	s.swept(15*time.Second, driver.Swept{TimedOut: 1})
	check(c, sojourn.ReasonTimeout, 1, 0)
	c = with("answer")
	s.finish(await(c, 0), sojourn.Awaiting)
	s.respond("answer", failing("declined"))
	check(c, "declined", 1, 0)
	c = with("error") // here the worker has asked its retry handler
	s.finish(failure(c), sojourn.Scheduled)
}

func erroredClaim(s *scene) {
	id := s.errored(policy(sojourn.Policy{Timeout: time.Hour})).Job.ID
	s.claimNone("this worker has no retry handler", by("w2"))
	s.claimNone("not for this kind", kinds(charge, "refund"), func(r *driver.ClaimRequest) { r.Decidable = []string{"refund"} })
	c := s.claim(by("w2"), deciding, room(0)) // a decision weighs nothing
	same(s, "job", c.Job.ID, id)
	same(s, "purpose", c.Purpose, sojourn.PurposeDecide)
	same(s, "epoch", c.Lease.Epoch, 2)
	s.counters(id, 1, 0, 1)
	same(s, "reason told", c.Job.Reason, sojourn.ReasonLeaseLost)
	if len(c.History) != 1 || c.History[0].Reason != sojourn.ReasonLeaseLost {
		s.Fatalf("the history told is %+v, want the lost lease", c.History)
	}
	s.inFlight(0, "a decision holds no weight")
	j := s.state(id, sojourn.Running)
	same(s, "purpose of the row", j.Purpose, sojourn.PurposeDecide)
	s.advance(time.Second)
	s.extends(c.Lease, true)
	s.at("wake_at", s.get(id).WakeAt, s.now().Add(lease))
}

func erroredRetry(s *scene) {
	s.errored()
	c := s.claim(deciding)
	p := int32(3)
	j := s.finish(decided(c, sojourn.Verdict{Delay: 42 * time.Second, Priority: &p, Checkpoint: []byte("patched")}), sojourn.Scheduled)
	s.at("run_at", j.RunAt, s.now().Add(42*time.Second))
	same(s, "priority", j.Priority, 3)
	same(s, "checkpoint", string(j.Checkpoint), "patched")
	same(s, "the error is kept: reason", j.Reason, sojourn.ReasonLeaseLost)
	s.counters(c.Job.ID, 1, 0, 1)
	s.happened(c.Job.ID, "lost", "decided")
	s.cancel(c.Job.ID)

	s.errored()
	c = s.claim(deciding)
	j = s.finish(decided(c, sojourn.Verdict{}), sojourn.Scheduled) // the stored backoff
	s.at("run_at", j.RunAt, s.now().Add(10*time.Second))
	s.advance(10 * time.Second)
	d := s.claim()
	same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	s.counters(c.Job.ID, 2, 0, 1)
	s.cancel(c.Job.ID)

	s.errored()
	c = s.claim(deciding)
	s.report(decided(c, sojourn.Verdict{Delay: sojourn.Now}))
	same(s, "job", s.claim().Job.ID, c.Job.ID)
}

func erroredFail(s *scene) {
	s.errored(sojourn.Key("k"))
	c := s.claim(deciding)
	r := s.respond("k")
	o := decided(c, sojourn.Verdict{Final: true})
	o.Reason, o.Text = "gave_up", "the retry handler gave up"
	j := s.finish(o, sojourn.Failed)
	same(s, "reason", j.Reason, "gave_up")
	s.lies(r.Seq, sojourn.Late)
	s.counters(c.Job.ID, 1, 0, 1)
	s.happened(c.Job.ID, "lost", "decided")
	s.enqueue(sojourn.Key("k"))
}

func erroredRelease(s *scene) {
	s.errored()
	c := s.claim(deciding)
	s.finish(released(c), sojourn.Errored)
	s.counters(c.Job.ID, 1, 0, 1)
	d := s.claim(by("w2"), deciding)
	same(s, "purpose", d.Purpose, sojourn.PurposeDecide)
	same(s, "epoch", d.Lease.Epoch, 3)
	for _, o := range []sojourn.Outcome{completed(d), failure(d), await(d, 0), snooze(d, time.Second), abort(d)} {
		s.refused(s.reports(o, driver.FinishRefused).Err, sojourn.CodeInvalid, string(o.Type)+" of a decision")
	}
	s.finish(decided(d, sojourn.Verdict{Delay: time.Second}), sojourn.Scheduled)
	s.happened(c.Job.ID, "lost", "released", "decided")
}

func erroredLost(s *scene) {
	s.errored(sojourn.MaxCrashes(3))
	c := s.claim(deciding)
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(c.Job.ID, sojourn.Errored)
	s.counters(c.Job.ID, 1, 0, 2)
	s.claim(deciding)
	s.swept(lease, driver.Swept{Lost: 1})
	same(s, "reason", s.state(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonLeaseLost)
	s.counters(c.Job.ID, 1, 0, 3)
	s.happened(c.Job.ID, "lost", "lost", "lost")
}

func erroredOverdue(s *scene) {
	c := s.errored()
	s.swept(sojourn.DefaultDecideWithin-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{Decided: 1})
	j := s.state(c.Job.ID, sojourn.Scheduled)
	s.at("run_at", j.RunAt, s.now().Add(10*time.Second))
	s.counters(c.Job.ID, 1, 0, 1)
	s.happened(c.Job.ID, "lost", "decided")
	s.advance(10 * time.Second)
	same(s, "purpose", s.claim().Purpose, sojourn.PurposeStart)
	s.cancel(c.Job.ID)
	s.errored(policy(sojourn.Policy{DecideWithin: time.Hour}))
	s.swept(time.Hour-time.Second, driver.Swept{})
	s.swept(time.Second, driver.Swept{Decided: 1})
}

func erroredBudget(s *scene) {
	a := s.enqueue(sojourn.MaxCrashes(1))
	s.claim(deciding)
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(a, sojourn.Failed)
	b := s.enqueue(sojourn.MaxAttempts(1), sojourn.Key("b"))
	s.finish(await(s.claim(deciding), time.Minute), sojourn.Awaiting)
	s.swept(time.Minute, driver.Swept{TimedOut: 1})
	s.state(b, sojourn.Failed)
	c := s.enqueue(sojourn.MaxAttempts(1), sojourn.Key("c"))
	s.finish(await(s.claim(deciding), 0), sojourn.Awaiting)
	s.respond("c", failing("no"))
	s.state(c, sojourn.Failed)
	d := s.enqueue(policy(sojourn.Policy{OnLost: sojourn.Fail}))
	s.claim(deciding)
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(d, sojourn.Failed)
}

func erroredStamp(s *scene) {
	id := s.enqueue()
	s.finish(released(s.claim(deciding)), sojourn.Ready)
	s.claim() // a worker without the retry handler
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(id, sojourn.Ready)
}

func erroredEnded(s *scene) {
	s.errored()
	c := s.claim(deciding)
	s.cancel(c.Job.ID)
	same(s, "why the lease is lost", s.extends(c.Lease, false), driver.LostCancelled)
	same(s, "why the decision is lost", s.reports(decided(c, sojourn.Verdict{}), driver.FinishLost).Reason, driver.LostCancelled)
	s.errored(sojourn.Deadline(2 * lease)) // of which one lease has passed
	c = s.claim(deciding)
	same(s, "deadline left", c.Deadline, lease)
	s.outlive(c.Lease, driver.Swept{Deadlines: 1})
	same(s, "reason", s.state(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
}

func erroredResponse(s *scene) {
	c := s.errored(sojourn.Key("k"))
	s.became(s.respond("k", body("kept")), sojourn.Early, c.Job.ID)
	s.state(c.Job.ID, sojourn.Errored)
	d := s.claim(deciding)
	s.became(s.respond("k", body("kept too")), sojourn.Early, c.Job.ID)
	same(s, "response", d.Job.Response == nil, true)
	j := s.finish(decided(d, sojourn.Verdict{Delay: time.Hour}), sojourn.Ready) // taken by the waiting retry
	same(s, "resumed", j.Resumed, false)
	same(s, "kept", j.Kept, 1)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "kept")
	s.cancel(c.Job.ID)
	e := s.errored(sojourn.Key("l"))
	s.respond("l")
	s.swept(sojourn.DefaultDecideWithin, driver.Swept{Decided: 1})
	s.state(e.Job.ID, sojourn.Ready)
}

func erroredHand(s *scene) {
	for _, again := range []bool{false, true} {
		s.resumed("k")
		c := s.claim(deciding)
		s.swept(lease, driver.Swept{Lost: 1})
		d := s.claim(deciding)
		same(s, "purpose", d.Purpose, sojourn.PurposeDecide)
		same(s, "response told to a decision", d.Job.Response == nil, true)
		s.finish(decided(d, sojourn.Verdict{Delay: time.Second, Again: again}), sojourn.Scheduled)
		s.advance(time.Second)
		e := s.claim()
		same(s, "an answer in hand", e.Job.Response == nil, again)
		s.lies(s.inHand(c).Seq, sojourn.Applied)
		s.finish(completed(e), sojourn.Completed)
	}
}
