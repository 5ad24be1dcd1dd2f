package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var errorTrials = []trial{
	{"the error while the next attempt runs", "Reason and Error are those of the newest attempt that has ended, also while the next one runs; a completed job has none.",
		"spec:J8 spec:J9", errorWhileRunning},
	{"an error is retried", "An error closes the attempt, keeps its reason and text, and runs again after the stored backoff of the store's clock.",
		"tr:F2 spec:S3 spec:S4 spec:J8 spec:R8 spec:R13 inv:S5", errorRetried},
	{"the stored backoff", "The delay is the policy's own formula at the number of failures, the same every time.", "tr:F2 spec:J24 spec:R8 inv:N1", errorBackoff},
	{"the last error", "The error that uses up max_attempts fails the job.", "tr:F3 spec:J19 spec:P5 spec:R1 spec:S5 spec:R3", errorLast},
	{"max_attempts 1 and unlimited", "With 1 the first error is the last; with -1 no error is.", "tr:F3 spec:J19", errorBudgets},
	{"a verdict", "The verdict of a retry policy sets the delay, the time, the priority and the checkpoint, or ends the job.",
		"tr:F2 tr:F3 spec:R7 rules:E3 inv:K2", verdicts},
	{"a verdict stays inside the budget", "No verdict retries a job whose max_attempts are used up.", "tr:F3 rules:E2 spec:R7", verdictBudget},
	{"retry at once", "A verdict of Now runs the job again without any delay.", "tr:F2 spec:R2 spec:R7", verdictNow},
	{"error texts are cut", "A reason or error text above its limit is cut, never refused.", "inv:C3 inv:C6 spec:J8 spec:R5 tr:F2", errorCut},
	{"rules:E1 attempts, failures and crashes", "Attempts count openings, failures count errors and timeouts, crashes count lost leases; nothing is taken back.",
		"rules:E1 rules:E2 spec:J9 spec:J19 inv:P2 inv:S3", countersApart},
}

func errorRetried(s *scene) {
	c := s.running(steady(10 * time.Second))
	s.advance(time.Second)
	j := s.finish(failure(c), sojourn.Scheduled)
	same(s, "reason", j.Reason, "gateway")
	same(s, "error", j.Error, "the gateway said no")
	s.at("run_at", j.RunAt, s.now().Add(10*time.Second))
	s.counters(c.Job.ID, 1, 1, 0)
	s.inFlight(0, "while the retry waits")
	a := s.happened(c.Job.ID, "error")[0]
	same(s, "reason in the history", a.Reason, "gateway")
	same(s, "error in the history", a.Error, "the gateway said no")
	same(s, "state in the history", a.State, sojourn.Scheduled)
	s.advance(10*time.Second - time.Microsecond)
	s.claimNone("the retry is not due")
	s.advance(time.Microsecond)
	d := s.claim(by("w2"))
	same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	s.counters(c.Job.ID, 2, 1, 0)
	j = s.finish(completed(d), sojourn.Completed)
	s.counters(c.Job.ID, 2, 1, 0)
	s.happened(c.Job.ID, "error", "completed")
}

func errorBackoff(s *scene) {
	b := sojourn.Backoff{First: 2 * time.Second, Factor: 3, Limit: time.Minute, Jitter: 0.5}
	id := s.enqueue(sojourn.RetryBackoff(b), sojourn.MaxAttempts(sojourn.Unlimited))
	for n := int32(1); n <= 8; n++ {
		c := s.claim()
		j := s.finish(failure(c), sojourn.Scheduled)
		want := b.Delay(id, n)
		if got := j.RunAt.Sub(s.now()); got != want.Truncate(time.Microsecond) && got != want.Round(time.Microsecond) {
			s.Fatalf("after failure %d the delay is %v, want %v", n, got, want)
		}
		s.advance((want + time.Microsecond).Truncate(time.Microsecond)) // the clock stays on whole microseconds
	}
}

func errorLast(s *scene) {
	id := s.enqueue(steady(time.Second), sojourn.MaxAttempts(3), sojourn.Key("k"))
	for range 2 {
		s.finish(failure(s.claim()), sojourn.Scheduled)
		s.advance(time.Second)
	}
	c := s.claim()
	r := s.respond("k")
	j := s.finish(failure(c), sojourn.Failed)
	same(s, "reason", j.Reason, "gateway")
	same(s, "error", j.Error, "the gateway said no")
	s.counters(id, 3, 3, 0)
	s.lies(r.Seq, sojourn.Late)
	s.happened(id, "error", "error", "error")
	s.advance(time.Hour)
	s.claimNone("it has failed")
}

func errorBudgets(s *scene) {
	c := s.running(sojourn.MaxAttempts(1))
	s.finish(failure(c), sojourn.Failed)
	id := s.enqueue(policy(sojourn.Policy{MaxAttempts: sojourn.Unlimited, Backoff: sojourn.Backoff{First: -1}}))
	for range 20 {
		s.report(failure(s.claim()))
	}
	s.counters(id, 20, 20, 0)
}

func verdicts(s *scene) {
	c := s.running(steady(time.Hour))
	o := failure(c)
	p := int32(7)
	o.Verdict = sojourn.Verdict{Delay: 90 * time.Second, Priority: &p, Checkpoint: []byte("patched")}
	j := s.finish(o, sojourn.Scheduled)
	s.at("run_at", j.RunAt, s.now().Add(90*time.Second))
	same(s, "priority", j.Priority, 7)
	same(s, "checkpoint", string(j.Checkpoint), "patched")
	s.advance(90 * time.Second)
	c = s.claim()
	o = failure(c)
	when := s.now().Add(25 * time.Minute)
	o.Verdict = sojourn.Verdict{RunAt: when, Delay: time.Second}
	j = s.finish(o, sojourn.Scheduled)
	s.at("run_at wins over the delay", j.RunAt, when)
	same(s, "priority", j.Priority, 7)
	s.advance(25 * time.Minute)
	c = s.claim()
	o = failure(c)
	o.Verdict = sojourn.Verdict{Final: true}
	j = s.finish(o, sojourn.Failed)
	same(s, "reason", j.Reason, "gateway")
	s.counters(c.Job.ID, 3, 3, 0)
}

func verdictBudget(s *scene) {
	c := s.running(sojourn.MaxAttempts(1))
	o := failure(c)
	o.Verdict = sojourn.Verdict{Delay: time.Second, RunAt: s.now().Add(time.Minute)}
	s.finish(o, sojourn.Failed)
}

func verdictNow(s *scene) {
	c := s.running(steady(time.Hour))
	o := failure(c)
	o.Verdict = sojourn.Verdict{Delay: sojourn.Now}
	s.report(o)
	s.at("run_at", s.get(c.Job.ID).RunAt, s.now())
	same(s, "attempt", s.claim().Job.Attempt, 2)
}

func errorCut(s *scene) {
	c := s.running(steady(time.Hour))
	o := failure(c)
	o.Reason, o.Text = strings.Repeat("r", 4*sojourn.MaxReason), strings.Repeat("ü", 5<<20)
	j := s.finish(o, sojourn.Scheduled)
	same(s, "reason", j.Reason, sojourn.Cut(o.Reason, sojourn.MaxReason))
	same(s, "error", j.Error, sojourn.Cut(o.Text, sojourn.MaxError))
	a := s.happened(c.Job.ID, "error")[0]
	if len(a.Error) > sojourn.MaxError || len(a.Reason) > sojourn.MaxReason || a.Error == "" {
		s.Fatalf("the history has an error of %d and a reason of %d bytes", len(a.Error), len(a.Reason))
	}
	d := s.running()
	x := abort(d)
	x.Reason, x.Text = o.Reason, o.Text
	same(s, "error of an abort", s.finish(x, sojourn.Failed).Error, sojourn.Cut(o.Text, sojourn.MaxError))
}

func countersApart(s *scene) {
	id := s.enqueue(sojourn.Key("k"), policy(sojourn.Policy{MaxCrashes: 9, MaxAttempts: 9, Timeout: time.Hour}), steady(time.Second))
	c := s.claim()
	s.counters(id, 1, 0, 0)
	s.finish(snooze(c, time.Second), sojourn.Scheduled)
	s.advance(time.Second)
	c = s.claim()
	s.finish(released(c), sojourn.Ready)
	c = s.claim()
	s.finish(await(c, 0), sojourn.Awaiting)
	s.respond("k")
	c = s.claim()
	s.finish(released(c), sojourn.Ready)
	c = s.claim()
	s.finish(await(c, time.Minute), sojourn.Awaiting)
	s.counters(id, 1, 0, 0)
	s.swept(time.Minute, driver.Swept{TimedOut: 1})
	s.counters(id, 1, 1, 0)
	s.advance(time.Second)
	s.claim()
	s.counters(id, 2, 1, 0)
	s.swept(lease, driver.Swept{Lost: 1})
	s.counters(id, 2, 1, 1)
	c = s.claim()
	s.finish(failure(c), sojourn.Scheduled)
	s.counters(id, 3, 2, 1)
	same(s, "epoch", s.get(id).Epoch, 7)
}

func errorWhileRunning(s *scene) {
	c := s.running(steady(time.Second), sojourn.MaxAttempts(9))
	same(s, "error of the first attempt while it runs", s.get(c.Job.ID).Error, "")
	for attempt := range 3 {
		o := failure(c)
		o.Reason, o.Text = fmt.Sprint("reason ", attempt), fmt.Sprint("error ", attempt)
		s.finish(o, sojourn.Scheduled)
		s.advance(time.Second)
		c = s.claim()
		for what, j := range inOrder(map[string]sojourn.Job{"found": s.state(c.Job.ID, sojourn.Running), "claimed": c.Job}) {
			same(s, what, j.Reason+": "+j.Error, fmt.Sprintf("reason %d: error %d", attempt, attempt))
		}
	}
	j := s.finish(completed(c), sojourn.Completed)
	same(s, "of the completed job", j.Reason+j.Error, "")
}
