package outcomes

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var erroredTrials = []kit.Trial{
	{Name: "errored: lost, timed out, answered with an error", Law: "Where no handler code could decide, a kind with a retry handler waits for it, its attempt counted.",
		Covers: "tr:W1 tr:W4 tr:W5 tr:M2 spec:S3 inv:S5 rules:C1", Run: erroredWays},
	{Name: "claim an errored job", Law: "Only a worker that has the kind's retry handler claims an errored job, just to decide, with the errors so far.",
		Covers: "tr:C4 spec:S3 rules:H1 rules:C1", Run: erroredClaim},
	{Name: "decide to retry", Law: "A decision to retry schedules the job as the verdict says, or by the stored backoff.",
		Covers: "tr:D1 spec:R7 inv:S5", Run: erroredRetry},
	{Name: "decide to fail", Law: "A decision that it is final fails the job.", Covers: "tr:D2 inv:S5 inv:U2", Run: erroredFail},
	{Name: "release a decision", Law: "A released decision is errored again and counts nothing.", Covers: "tr:D3 inv:J2 rules:D2", Run: erroredRelease},
	{Name: "a lease lost while deciding", Law: "A lease lost while deciding counts a crash; the budget ends it.", Covers: "tr:W2 rules:C1 inv:P2", Run: erroredLost},
	{Name: "rules:C1 nobody comes to decide", Law: "An errored job rests for decide_within at most; then the stored backoff decides.",
		Covers: "tr:W7 rules:C1 inv:L1", Run: erroredOverdue},
	{Name: "errored only inside the budgets", Law: "A job whose budget is used up fails at once, whoever has a retry handler.",
		Covers: "tr:W1 tr:W4 tr:M2 rules:C1 rules:E2", Run: erroredBudget},
	{Name: "the retry handler is the claimer's", Law: "Whether a kind has a retry handler is what the worker of the last claim said.",
		Covers: "tr:W1 rules:C1", Run: erroredStamp},
	{Name: "cancel and deadline while deciding", Law: "A deciding step is ended by a cancel at once, and by the deadline one lease later.",
		Covers: "tr:O1 tr:W6 rules:A5 rules:C3", Run: erroredEnded},
	{Name: "a response to an errored job", Law: "A response to an errored job is kept, and taken once it is decided.",
		Covers: "tr:R5 tr:M3 tr:D1 rules:B1", Run: erroredResponse},
	{Name: "an answer in hand while deciding", Law: "A deciding step is not given the answer in hand; the retry is.",
		Covers: "tr:C4 tr:D1 rules:B2 rules:H1", Run: erroredHand},
}

func erroredWays(s *kit.Scene) {
	with := func(key string) driver.Claimed {
		s.Helper()
		id := s.Enqueue(sojourn.Key(key), sojourn.Timeout(time.Minute), kit.Steady(time.Second))
		c := s.Claim(kit.Deciding)
		kit.Same(s, "job", c.Job.ID, id)
		return c
	}
	check := func(c driver.Claimed, reason string, failures, crashes int32) {
		s.Helper()
		j := s.State(c.Job.ID, sojourn.Errored)
		kit.Same(s, "reason", j.Reason, reason)
		s.Counters(c.Job.ID, 1, failures, crashes)
		s.InFlight(0, "while it is errored")
		s.ClaimNone("this worker has no retry handler")
		as := s.History(c.Job.ID)
		kit.Same(s, "state in the history", as[len(as)-1].State, sojourn.Errored)
		s.Cancel(c.Job.ID)
	}
	c := with("lost")
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	check(c, sojourn.ReasonLeaseLost, 0, 1)
	c = with("wait")
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	check(c, sojourn.ReasonTimeout, 1, 0)
	c = with("run")
	for range 3 {
		s.Advance(kit.LeaseTime - 5*time.Second)
		s.Extends(c.Lease, true)
	}
	s.Swept(15*time.Second, driver.Swept{TimedOut: 1})
	check(c, sojourn.ReasonTimeout, 1, 0)
	c = with("answer")
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Respond("answer", kit.Failing("declined"))
	check(c, "declined", 1, 0)
	c = with("error") // here the worker has asked its retry handler
	s.Finish(kit.Failure(c), sojourn.Scheduled)
}

func erroredClaim(s *kit.Scene) {
	id := s.Errored(kit.Policy(sojourn.Policy{Timeout: time.Hour})).Job.ID
	s.ClaimNone("this worker has no retry handler", kit.By("w2"))
	s.ClaimNone("not for this kind", kit.Kinds(kit.Kind, "refund"), func(r *driver.ClaimRequest) { r.Decidable = []string{"refund"} })
	c := s.Claim(kit.By("w2"), kit.Deciding, kit.Room(0)) // a decision weighs nothing
	kit.Same(s, "job", c.Job.ID, id)
	kit.Same(s, "purpose", c.Purpose, sojourn.PurposeDecide)
	kit.Same(s, "epoch", c.Lease.Epoch, 2)
	s.Counters(id, 1, 0, 1)
	kit.Same(s, "reason told", c.Job.Reason, sojourn.ReasonLeaseLost)
	if len(c.History) != 1 || c.History[0].Reason != sojourn.ReasonLeaseLost {
		s.Fatalf("the history told is %+v, want the lost lease", c.History)
	}
	s.InFlight(0, "a decision holds no weight")
	j := s.State(id, sojourn.Running)
	kit.Same(s, "purpose of the row", j.Purpose, sojourn.PurposeDecide)
	s.Advance(time.Second)
	s.Extends(c.Lease, true)
	s.At("wake_at", s.Get(id).WakeAt, s.Now().Add(kit.LeaseTime))
}

func erroredRetry(s *kit.Scene) {
	s.Errored()
	c := s.Claim(kit.Deciding)
	p := int32(3)
	j := s.Finish(kit.Decided(c, sojourn.Verdict{Delay: 42 * time.Second, Priority: &p, Checkpoint: []byte("patched")}), sojourn.Scheduled)
	s.At("run_at", j.RunAt, s.Now().Add(42*time.Second))
	kit.Same(s, "priority", j.Priority, 3)
	kit.Same(s, "checkpoint", string(j.Checkpoint), "patched")
	kit.Same(s, "the error is kept: reason", j.Reason, sojourn.ReasonLeaseLost)
	s.Counters(c.Job.ID, 1, 0, 1)
	s.Happened(c.Job.ID, "lost", "decided")
	s.Cancel(c.Job.ID)

	s.Errored()
	c = s.Claim(kit.Deciding)
	j = s.Finish(kit.Decided(c, sojourn.Verdict{}), sojourn.Scheduled) // the stored backoff
	s.At("run_at", j.RunAt, s.Now().Add(10*time.Second))
	s.Advance(10 * time.Second)
	d := s.Claim()
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	s.Counters(c.Job.ID, 2, 0, 1)
	s.Cancel(c.Job.ID)

	s.Errored()
	c = s.Claim(kit.Deciding)
	s.Report(kit.Decided(c, sojourn.Verdict{Delay: sojourn.Now}))
	kit.Same(s, "job", s.Claim().Job.ID, c.Job.ID)
}

func erroredFail(s *kit.Scene) {
	s.Errored(sojourn.Key("k"))
	c := s.Claim(kit.Deciding)
	r := s.Respond("k")
	o := kit.Decided(c, sojourn.Verdict{Final: true})
	o.Reason, o.Text = "gave_up", "the retry handler gave up"
	j := s.Finish(o, sojourn.Failed)
	kit.Same(s, "reason", j.Reason, "gave_up")
	s.Stored(r.Seq, sojourn.Late)
	s.Counters(c.Job.ID, 1, 0, 1)
	s.Happened(c.Job.ID, "lost", "decided")
	s.Enqueue(sojourn.Key("k"))
}

func erroredRelease(s *kit.Scene) {
	s.Errored()
	c := s.Claim(kit.Deciding)
	s.Finish(kit.Released(c), sojourn.Errored)
	s.Counters(c.Job.ID, 1, 0, 1)
	d := s.Claim(kit.By("w2"), kit.Deciding)
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeDecide)
	kit.Same(s, "epoch", d.Lease.Epoch, 3)
	for _, o := range []sojourn.Outcome{kit.Completed(d), kit.Failure(d), kit.Await(d, 0), kit.Snooze(d, time.Second), kit.Abort(d)} {
		s.Refused(s.Reports(o, driver.FinishRefused).Err, sojourn.CodeInvalid, string(o.Type)+" of a decision")
	}
	s.Finish(kit.Decided(d, sojourn.Verdict{Delay: time.Second}), sojourn.Scheduled)
	s.Happened(c.Job.ID, "lost", "released", "decided")
}

func erroredLost(s *kit.Scene) {
	s.Errored(sojourn.MaxCrashes(3))
	c := s.Claim(kit.Deciding)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(c.Job.ID, sojourn.Errored)
	s.Counters(c.Job.ID, 1, 0, 2)
	s.Claim(kit.Deciding)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonLeaseLost)
	s.Counters(c.Job.ID, 1, 0, 3)
	s.Happened(c.Job.ID, "lost", "lost", "lost")
}

func erroredOverdue(s *kit.Scene) {
	c := s.Errored()
	s.Swept(sojourn.DefaultDecideWithin-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{Decided: 1})
	j := s.State(c.Job.ID, sojourn.Scheduled)
	s.At("run_at", j.RunAt, s.Now().Add(10*time.Second))
	s.Counters(c.Job.ID, 1, 0, 1)
	s.Happened(c.Job.ID, "lost", "decided")
	s.Advance(10 * time.Second)
	kit.Same(s, "purpose", s.Claim().Purpose, sojourn.PurposeStart)
	s.Cancel(c.Job.ID)
	s.Errored(kit.Policy(sojourn.Policy{DecideWithin: time.Hour}))
	s.Swept(time.Hour-time.Second, driver.Swept{})
	s.Swept(time.Second, driver.Swept{Decided: 1})
}

func erroredBudget(s *kit.Scene) {
	a := s.Enqueue(sojourn.MaxCrashes(1))
	s.Claim(kit.Deciding)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(a, sojourn.Failed)
	b := s.Enqueue(sojourn.MaxAttempts(1), sojourn.Key("b"))
	s.Finish(kit.Await(s.Claim(kit.Deciding), time.Minute), sojourn.Awaiting)
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.State(b, sojourn.Failed)
	c := s.Enqueue(sojourn.MaxAttempts(1), sojourn.Key("c"))
	s.Finish(kit.Await(s.Claim(kit.Deciding), 0), sojourn.Awaiting)
	s.Respond("c", kit.Failing("no"))
	s.State(c, sojourn.Failed)
	d := s.Enqueue(kit.Policy(sojourn.Policy{OnLost: sojourn.Fail}))
	s.Claim(kit.Deciding)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(d, sojourn.Failed)
}

func erroredStamp(s *kit.Scene) {
	id := s.Enqueue()
	s.Finish(kit.Released(s.Claim(kit.Deciding)), sojourn.Ready)
	s.Claim() // a worker without the retry handler
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(id, sojourn.Ready)
}

func erroredEnded(s *kit.Scene) {
	s.Errored()
	c := s.Claim(kit.Deciding)
	s.Cancel(c.Job.ID)
	kit.Same(s, "why the lease is lost", s.Extends(c.Lease, false), driver.LostCancelled)
	kit.Same(s, "why the decision is lost", s.Reports(kit.Decided(c, sojourn.Verdict{}), driver.FinishLost).Reason, driver.LostCancelled)
	s.Errored(sojourn.Deadline(2 * kit.LeaseTime)) // of which one lease has passed
	c = s.Claim(kit.Deciding)
	kit.Same(s, "deadline left", c.Deadline, kit.LeaseTime)
	s.Outlive(c.Lease, driver.Swept{Deadlines: 1})
	kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
}

func erroredResponse(s *kit.Scene) {
	c := s.Errored(sojourn.Key("k"))
	s.Became(s.Respond("k", kit.Body("kept")), sojourn.Early, c.Job.ID)
	s.State(c.Job.ID, sojourn.Errored)
	d := s.Claim(kit.Deciding)
	s.Became(s.Respond("k", kit.Body("kept too")), sojourn.Early, c.Job.ID)
	kit.Same(s, "response", d.Job.Response == nil, true)
	j := s.Finish(kit.Decided(d, sojourn.Verdict{Delay: time.Hour}), sojourn.Ready) // taken by the waiting retry
	kit.Same(s, "resumed", j.Resumed, false)
	kit.Same(s, "kept", j.Kept, 1)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "kept")
	s.Cancel(c.Job.ID)
	e := s.Errored(sojourn.Key("l"))
	s.Respond("l")
	s.Swept(sojourn.DefaultDecideWithin, driver.Swept{Decided: 1})
	s.State(e.Job.ID, sojourn.Ready)
}

func erroredHand(s *kit.Scene) {
	for _, again := range []bool{false, true} {
		s.Resumed("k")
		c := s.Claim(kit.Deciding)
		s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
		d := s.Claim(kit.Deciding)
		kit.Same(s, "purpose", d.Purpose, sojourn.PurposeDecide)
		kit.Same(s, "response told to a decision", d.Job.Response == nil, true)
		s.Finish(kit.Decided(d, sojourn.Verdict{Delay: time.Second, Again: again}), sojourn.Scheduled)
		s.Advance(time.Second)
		e := s.Claim()
		kit.Same(s, "an answer in hand", e.Job.Response == nil, again)
		s.Stored(s.ClaimedResponse(c).Seq, sojourn.Applied)
		s.Finish(kit.Completed(e), sojourn.Completed)
	}
}
