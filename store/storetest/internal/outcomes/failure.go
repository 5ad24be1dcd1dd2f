package outcomes

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var errorTrials = []kit.Trial{
	{Name: "the error while the next attempt runs", Law: "Reason and Error are those of the newest attempt that has ended, also while the next one runs; a completed job has none.",
		Covers: "spec:J8 spec:J9", Run: errorWhileRunning},
	{Name: "an error is retried", Law: "An error closes the attempt, keeps its reason and text, and runs again after the stored backoff of the store's clock.",
		Covers: "tr:F2 spec:S3 spec:S4 spec:J8 spec:R8 spec:R13 inv:S5", Run: errorRetried},
	{Name: "the stored backoff", Law: "The delay is the policy's own formula at the number of failures, the same every time.",
		Covers: "tr:F2 spec:J24 spec:R8 inv:N1", Run: errorBackoff},
	{Name: "the last error", Law: "The error that uses up max_attempts fails the job.", Covers: "tr:F3 spec:J19 spec:P5 spec:R1 spec:S5 spec:R3", Run: errorLast},
	{Name: "max_attempts 1 and unlimited", Law: "With 1 the first error is the last; with -1 no error is.", Covers: "tr:F3 spec:J19", Run: errorBudgets},
	{Name: "a verdict", Law: "The verdict of a retry policy sets the delay, the time, the priority and the checkpoint, or ends the job.",
		Covers: "tr:F2 tr:F3 spec:R7 rules:E3 inv:K2", Run: verdicts},
	{Name: "a verdict stays inside the budget", Law: "No verdict retries a job whose max_attempts are used up.", Covers: "tr:F3 rules:E2 spec:R7", Run: verdictBudget},
	{Name: "retry at once", Law: "A verdict of Now runs the job again without any delay.", Covers: "tr:F2 spec:R2 spec:R7", Run: verdictNow},
	{Name: "error texts are cut", Law: "A reason or error text above its limit is cut, never refused.", Covers: "inv:C3 inv:C6 spec:J8 spec:R5 tr:F2", Run: errorCut},
	{Name: "rules:E1 attempts, failures and crashes", Law: "Attempts count openings, failures count errors and timeouts, crashes count lost leases; nothing is taken back.",
		Covers: "rules:E1 rules:E2 spec:J9 spec:J19 inv:P2 inv:S3", Run: countersApart},
}

func errorRetried(s *kit.Scene) {
	c := s.Running(kit.Steady(10 * time.Second))
	s.Advance(time.Second)
	j := s.Finish(kit.Failure(c), sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, "gateway")
	kit.Same(s, "error", j.Error, "the gateway said no")
	s.At("run_at", j.RunAt, s.Now().Add(10*time.Second))
	s.Counters(c.Job.ID, 1, 1, 0)
	s.InFlight(0, "while the retry waits")
	a := s.Happened(c.Job.ID, "error")[0]
	kit.Same(s, "reason in the history", a.Reason, "gateway")
	kit.Same(s, "error in the history", a.Error, "the gateway said no")
	kit.Same(s, "state in the history", a.State, sojourn.Scheduled)
	s.Advance(10*time.Second - time.Microsecond)
	s.ClaimNone("the retry is not due")
	s.Advance(time.Microsecond)
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	s.Counters(c.Job.ID, 2, 1, 0)
	j = s.Finish(kit.Completed(d), sojourn.Completed)
	s.Counters(c.Job.ID, 2, 1, 0)
	s.Happened(c.Job.ID, "error", "completed")
}

func errorBackoff(s *kit.Scene) {
	b := sojourn.Backoff{First: 2 * time.Second, Factor: 3, Limit: time.Minute, Jitter: 0.5}
	id := s.Enqueue(sojourn.RetryBackoff(b), sojourn.MaxAttempts(sojourn.Unlimited))
	for n := int32(1); n <= 8; n++ {
		c := s.Claim()
		j := s.Finish(kit.Failure(c), sojourn.Scheduled)
		want := b.Delay(id, n)
		if got := j.RunAt.Sub(s.Now()); got != want.Truncate(time.Microsecond) && got != want.Round(time.Microsecond) {
			s.Fatalf("after failure %d the delay is %v, want %v", n, got, want)
		}
		s.Advance((want + time.Microsecond).Truncate(time.Microsecond)) // the clock stays on whole microseconds
	}
}

func errorLast(s *kit.Scene) {
	id := s.Enqueue(kit.Steady(time.Second), sojourn.MaxAttempts(3), sojourn.Key("k"))
	for range 2 {
		s.Finish(kit.Failure(s.Claim()), sojourn.Scheduled)
		s.Advance(time.Second)
	}
	c := s.Claim()
	r := s.Respond("k")
	j := s.Finish(kit.Failure(c), sojourn.Failed)
	kit.Same(s, "reason", j.Reason, "gateway")
	kit.Same(s, "error", j.Error, "the gateway said no")
	s.Counters(id, 3, 3, 0)
	s.Stored(r.Seq, sojourn.Late)
	s.Happened(id, "error", "error", "error")
	s.Advance(time.Hour)
	s.ClaimNone("it has failed")
}

func errorBudgets(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(1))
	s.Finish(kit.Failure(c), sojourn.Failed)
	id := s.Enqueue(kit.Policy(sojourn.Policy{MaxAttempts: sojourn.Unlimited, Backoff: sojourn.Backoff{First: -1}}))
	for range 20 {
		s.Report(kit.Failure(s.Claim()))
	}
	s.Counters(id, 20, 20, 0)
}

func verdicts(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Hour))
	o := kit.Failure(c)
	p := int32(7)
	o.Verdict = sojourn.Verdict{Delay: 90 * time.Second, Priority: &p, Checkpoint: []byte("patched")}
	j := s.Finish(o, sojourn.Scheduled)
	s.At("run_at", j.RunAt, s.Now().Add(90*time.Second))
	kit.Same(s, "priority", j.Priority, 7)
	kit.Same(s, "checkpoint", string(j.Checkpoint), "patched")
	s.Advance(90 * time.Second)
	c = s.Claim()
	o = kit.Failure(c)
	when := s.Now().Add(25 * time.Minute)
	o.Verdict = sojourn.Verdict{RunAt: when, Delay: time.Second}
	j = s.Finish(o, sojourn.Scheduled)
	s.At("run_at wins over the delay", j.RunAt, when)
	kit.Same(s, "priority", j.Priority, 7)
	s.Advance(25 * time.Minute)
	c = s.Claim()
	o = kit.Failure(c)
	o.Verdict = sojourn.Verdict{Final: true}
	j = s.Finish(o, sojourn.Failed)
	kit.Same(s, "reason", j.Reason, "gateway")
	s.Counters(c.Job.ID, 3, 3, 0)
}

func verdictBudget(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(1))
	o := kit.Failure(c)
	o.Verdict = sojourn.Verdict{Delay: time.Second, RunAt: s.Now().Add(time.Minute)}
	s.Finish(o, sojourn.Failed)
}

func verdictNow(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Hour))
	o := kit.Failure(c)
	o.Verdict = sojourn.Verdict{Delay: sojourn.Now}
	s.Report(o)
	s.At("run_at", s.Get(c.Job.ID).RunAt, s.Now())
	kit.Same(s, "attempt", s.Claim().Job.Attempt, 2)
}

func errorCut(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Hour))
	o := kit.Failure(c)
	o.Reason, o.Text = strings.Repeat("r", 4*sojourn.MaxReason), strings.Repeat("ü", 5<<20)
	j := s.Finish(o, sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, sojourn.Cut(o.Reason, sojourn.MaxReason))
	kit.Same(s, "error", j.Error, sojourn.Cut(o.Text, sojourn.MaxError))
	a := s.Happened(c.Job.ID, "error")[0]
	if len(a.Error) > sojourn.MaxError || len(a.Reason) > sojourn.MaxReason || a.Error == "" {
		s.Fatalf("the history has an error of %d and a reason of %d bytes", len(a.Error), len(a.Reason))
	}
	d := s.Running()
	x := kit.Abort(d)
	x.Reason, x.Text = o.Reason, o.Text
	kit.Same(s, "error of an abort", s.Finish(x, sojourn.Failed).Error, sojourn.Cut(o.Text, sojourn.MaxError))
}

func countersApart(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("k"), kit.Policy(sojourn.Policy{MaxCrashes: 9, MaxAttempts: 9, Timeout: time.Hour}), kit.Steady(time.Second))
	c := s.Claim()
	s.Counters(id, 1, 0, 0)
	s.Finish(kit.Snooze(c, time.Second), sojourn.Scheduled)
	s.Advance(time.Second)
	c = s.Claim()
	s.Finish(kit.Released(c), sojourn.Ready)
	c = s.Claim()
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Respond("k")
	c = s.Claim()
	s.Finish(kit.Released(c), sojourn.Ready)
	c = s.Claim()
	s.Finish(kit.Await(c, time.Minute), sojourn.Awaiting)
	s.Counters(id, 1, 0, 0)
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.Counters(id, 1, 1, 0)
	s.Advance(time.Second)
	s.Claim()
	s.Counters(id, 2, 1, 0)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.Counters(id, 2, 1, 1)
	c = s.Claim()
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Counters(id, 3, 2, 1)
	kit.Same(s, "epoch", s.Get(id).Epoch, 7)
}

func errorWhileRunning(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second), sojourn.MaxAttempts(9))
	kit.Same(s, "error of the first attempt while it runs", s.Get(c.Job.ID).Error, "")
	for attempt := range 3 {
		o := kit.Failure(c)
		o.Reason, o.Text = fmt.Sprint("reason ", attempt), fmt.Sprint("error ", attempt)
		s.Finish(o, sojourn.Scheduled)
		s.Advance(time.Second)
		c = s.Claim()
		for what, j := range kit.InOrder(map[string]sojourn.Job{"found": s.State(c.Job.ID, sojourn.Running), "claimed": c.Job}) {
			kit.Same(s, what, j.Reason+": "+j.Error, fmt.Sprintf("reason %d: error %d", attempt, attempt))
		}
	}
	j := s.Finish(kit.Completed(c), sojourn.Completed)
	kit.Same(s, "of the completed job", j.Reason+j.Error, "")
}
