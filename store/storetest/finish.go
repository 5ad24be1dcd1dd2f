package storetest

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var finishTrials = []trial{
	{"complete", "A completed job is final, has its result, holds no lease and no weight, and is in the history.",
		"tr:F1 spec:D1 spec:S5 spec:S9 spec:S11 spec:J14 spec:J16 inv:S1 inv:S2 inv:T2", complete},
	{"snooze", "A snoozed job runs again after its delay and counts neither an error nor an attempt.", "tr:F7 spec:R1 spec:J19 inv:P2", snoozed},
	{"abort", "An aborted job fails at once, whatever attempts remain.", "tr:F8 spec:S10 spec:R5", aborted},
	{"cancel from inside", "A step may end its job as cancelled.", "tr:F9 spec:S5", cancelledInside},
	{"release a start", "A release undoes the claim: the job is ready with its old run_at, and nothing is counted.",
		"tr:F11 rules:D2 inv:J2 spec:W11 inv:P2", releasedStart},
	{"release a resume", "A released resume is resumed again, with its answer and its weight.", "tr:F10 rules:D2 inv:J2 inv:T2", releasedResume},
	{"undecodable", "Args that do not decode fail the job with the reason undecodable and count no failure; the bytes stay.",
		"tr:F13 spec:R11 inv:P3 spec:R3", undecodable},
	{"rules:C7 an outcome that the store cannot take", "What cannot be stored is refused with a code, and the lease stands for the report of the error.",
		"tr:F15 rules:C7 inv:C3 inv:C6 inv:P4 inv:N3 spec:W10", refusedOutcome},
	{"finish many", "Each outcome of a call is answered for itself, in its place.", "tr:F1 tr:F12 tr:F15 tr:L5 inv:P4 spec:B5", finishMany},
	{"rules:D1 what is in flight", "A job is in flight from its claim until its attempt ends, is put back or snoozed.",
		"rules:D1 inv:T2 tr:C1 tr:F5 tr:M1 tr:C3 tr:F7 tr:F11 tr:F10", heldWeight},
	{"a final job never changes", "No report, response, enqueue or sweep changes a final job.", "inv:S2 spec:S5 spec:H5 spec:J14", finalNeverChanges},
}

func complete(s *scene) {
	c := s.running()
	s.advance(3 * time.Second)
	o := completed(c)
	o.Result, o.ResultType = []byte(`{"paid":true}`), "application/json"
	j := s.finish(o, sojourn.Completed)
	same(s, "result", string(j.Result), `{"paid":true}`)
	same(s, "result type", j.ResultType, "application/json")
	same(s, "error", j.Reason+j.Error, "")
	s.at("finished_at", j.FinishedAt, s.now())
	s.at("updated_at", j.UpdatedAt, s.now())
	s.counters(c.Job.ID, 1, 0, 0)
	s.inFlight(0, "after the end")
	a := s.happened(c.Job.ID, "completed")[0]
	s.at("began_at", a.BeganAt, s.now().Add(-3*time.Second))
	s.at("ended_at", a.EndedAt, s.now())
	a.BeganAt, a.EndedAt = time.Time{}, time.Time{}
	same(s, "the entry of the history", a, sojourn.Attempt{Seq: 1, Generation: 1, Attempt: 1, Epoch: 1, Purpose: sojourn.PurposeStart, Worker: "w1",
		Outcome: "completed", State: sojourn.Completed, By: a.By})
	s.claimNone("it is completed")
	s.advance(24 * time.Hour)
	s.sweep()
	s.claimNone("it is completed")
}

func snoozed(s *scene) {
	c := s.running(sojourn.MaxAttempts(1))
	for i := range 3 {
		j := s.finish(snooze(c, 5*time.Minute), sojourn.Scheduled)
		s.at("run_at", j.RunAt, s.now().Add(5*time.Minute))
		s.counters(c.Job.ID, 1, 0, 0)
		s.inFlight(0, "while it is snoozed")
		s.swept(5*time.Minute-time.Microsecond, driver.Swept{})
		s.swept(time.Microsecond, driver.Swept{Due: 1})
		c = s.claim()
		same(s, "epoch", c.Lease.Epoch, int64(i+2))
	}
	s.finish(completed(c), sojourn.Completed)
	s.happened(c.Job.ID, "snooze", "snooze", "snooze", "completed")
}

func aborted(s *scene) {
	c := s.running(sojourn.MaxAttempts(sojourn.Unlimited))
	j := s.finish(abort(c), sojourn.Failed)
	same(s, "reason", j.Reason, "declined")
	same(s, "error", j.Error, "the card was declined")
	s.inFlight(0, "after the abort")
	a := s.happened(c.Job.ID, "abort")[0]
	same(s, "reason in the history", a.Reason, "declined")
	same(s, "error in the history", a.Error, "the card was declined")
	same(s, "state in the history", a.State, sojourn.Failed)
}

func cancelledInside(s *scene) {
	c := s.final(sojourn.Cancelled)
	j := s.state(c.Job.ID, sojourn.Cancelled)
	same(s, "reason", j.Reason, "asked")
	s.counters(c.Job.ID, 1, 0, 0)
	s.inFlight(0, "after the cancel")
	s.happened(c.Job.ID, "cancel")
}

func releasedStart(s *scene) {
	c := s.running(sojourn.MaxAttempts(1), sojourn.MaxCrashes(1))
	runAt := s.get(c.Job.ID).RunAt
	for i := range 3 {
		s.advance(time.Second)
		j := s.finish(released(c), sojourn.Ready)
		same(s, "resumed", j.Resumed, false)
		s.at("run_at", j.RunAt, runAt)
		s.counters(c.Job.ID, 1, 0, 0)
		s.inFlight(0, "after the release")
		c = s.claim(by("w2"))
		same(s, "epoch", c.Lease.Epoch, int64(i+2))
	}
}

func releasedResume(s *scene) {
	s.resumed("k")
	c := s.claim()
	j := s.finish(released(c), sojourn.Ready)
	same(s, "resumed", j.Resumed, true)
	same(s, "answers", len(j.Responses), 1)
	s.inFlight(1, "after the release of a resume")
	d := s.claim(by("w2"))
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	same(s, "the answer", string(s.inHand(d).Body), string(s.inHand(c).Body))
	s.counters(c.Job.ID, 1, 0, 0)
	s.finish(completed(d), sojourn.Completed)
	s.inFlight(0, "after the end")
	s.happened(c.Job.ID, "await", "responded", "released", "completed")
}

func undecodable(s *scene) {
	c := s.running(args("{\"amount\": \xff\x00"), sojourn.Key("k"), sojourn.MaxAttempts(2))
	r := s.respond("k") // kept, never given
	j := s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeUndecodable, Text: "invalid character"}, sojourn.Failed)
	same(s, "reason", j.Reason, sojourn.ReasonUndecodable)
	same(s, "error", j.Error, "invalid character")
	same(s, "args", string(j.Args), "{\"amount\": \xff\x00")
	s.counters(c.Job.ID, 1, 0, 0)
	s.lies(r.Seq, sojourn.Late)
	s.happened(c.Job.ID, "undecodable")
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready) // with a repaired handler
	same(s, "args", string(s.claim().Job.Args), "{\"amount\": \xff\x00")

	s.resumed("l")
	d := s.claim()
	answer := s.inbox(sojourn.InboxFilter{Job: d.Job.ID})[0].Seq
	s.finish(sojourn.Outcome{Lease: d.Lease, Type: sojourn.OutcomeUndecodable, Text: "invalid character"}, sojourn.Failed)
	s.lies(answer, sojourn.Late) // taken, but no handler ran
}

func refusedOutcome(s *scene) {
	s.open(options{MaxBytes: 1000})
	c := s.running(steady(time.Minute))
	before := s.picture(c.Job.ID)
	tooLarge := completed(c)
	tooLarge.Result = make([]byte, 1001)
	checkpoint := failure(c)
	checkpoint.Verdict.Checkpoint = make([]byte, 1001)
	for what, o := range inOrder(map[string]sojourn.Outcome{"a result above the limit": tooLarge, "a checkpoint above the limit": checkpoint}) {
		s.refused(s.reports(o, driver.FinishRefused).Err, sojourn.CodeTooLarge, what)
		s.unchanged(c.Job.ID, before, "a refused outcome")
	}
	for what, o := range inOrder(map[string]sojourn.Outcome{
		"no type":                     {Lease: c.Lease},
		"an unknown type":             {Lease: c.Lease, Type: "exploded"},
		"a negative snooze":           snooze(c, -1),
		"a snooze of a thousand year": snooze(c, 1<<62),
		"a negative wait":             await(c, -1),
		"a bad key to await":          await(c, 0, "a\nb"),
		"a decision of a start":       decided(c, sojourn.Verdict{Final: true}),
		"a poll's answer of a start":  {Lease: c.Lease, Type: sojourn.OutcomeAnswer},
	}) {
		s.refused(s.reports(o, driver.FinishRefused).Err, sojourn.CodeInvalid, what)
		s.unchanged(c.Job.ID, before, "a refused outcome")
	}
	s.extends(c.Lease, true)
	o := failure(c)
	o.Reason = sojourn.CodeTooLarge
	same(s, "reason", s.finish(o, sojourn.Scheduled).Reason, sojourn.CodeTooLarge)
	s.advance(time.Minute)
	d := s.claim()
	exact := completed(d)
	exact.Result = make([]byte, 1000)
	same(s, "result", len(s.finish(exact, sojourn.Completed).Result), 1000)
}

func finishMany(s *scene) {
	s.open(options{MaxBytes: 1000})
	s.enqueueMany(7, steady(time.Minute))
	cs := s.claimMany(upTo(7))
	s.cancel(cs[1].Job.ID)
	done := completed(cs[2])
	s.finish(done, sojourn.Completed)
	big := completed(cs[3])
	big.Result = make([]byte, 1001)
	fs, err := s.store.Finish(s.ctx, []sojourn.Outcome{completed(cs[0]), completed(cs[1]), done, big, failure(cs[4]),
		{Lease: sojourn.Lease{ID: 999_999_999, Epoch: 1, Worker: "w1"}, Type: sojourn.OutcomeCompleted}, await(cs[5], 0), snooze(cs[6], time.Hour)})
	s.must(err, "Finish")
	var got []string
	for _, f := range fs {
		got = append(got, string(f.Status))
	}
	same(s, "the answers", strings.Join(got, " "), "applied lost repeated refused applied lost applied applied")
	for i, want := range []sojourn.State{sojourn.Completed, sojourn.Cancelled, sojourn.Completed, sojourn.Running, sojourn.Scheduled, sojourn.Awaiting, sojourn.Scheduled} {
		s.state(cs[i].Job.ID, want)
	}
}

func heldWeight(s *scene) {
	step := func(when string, want int64) { s.Helper(); s.inFlight(want, when) }
	c := s.running(sojourn.Key("k"), sojourn.Timeout(time.Hour), steady(time.Minute))
	step("start", 1)
	s.finish(snooze(c, time.Second), sojourn.Scheduled)
	step("snoozed", 0)
	s.advance(time.Second)
	c = s.claim()
	s.finish(released(c), sojourn.Ready)
	step("released", 0)
	c = s.claim()
	s.finish(await(c, 0), sojourn.Awaiting)
	step("awaiting", 1)
	s.respond("k")
	step("resumed", 1)
	same(s, "resumed jobs of the queue", s.queue(line).Resumed, 1)
	s.swept(time.Hour, driver.Swept{Resumed: 1})
	step("resumed too long", 0)
	c = s.claim()
	step("started again", 1)
	s.finish(failure(c), sojourn.Scheduled)
	step("retry waits", 0)
	s.advance(time.Minute)
	s.claim()
	s.swept(lease, driver.Swept{Lost: 1})
	step("lost", 0)
	c = s.claim()
	s.finish(completed(c), sojourn.Completed)
	step("completed", 0)
	s.running()
	s.awaiting()
	s.resumed("l")
	step("one running, one awaiting, one resumed", 3)
}

func finalNeverChanges(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Retention: sojourn.Retention{Age: -1, Count: -1}})
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		c := s.final(end, sojourn.Key("k"), sojourn.Deadline(time.Hour), sojourn.Timeout(time.Hour))
		before := text(s.get(c.Job.ID))
		s.advance(48 * time.Hour)
		s.sweep()
		r := s.respond("k")
		s.became(r, sojourn.Late, c.Job.ID)
		s.became(s.respond("", toJob(c.Job.ID)), sojourn.Late, c.Job.ID)
		s.report(completed(c))
		s.report(failure(c))
		s.report(abort(c))
		_ = s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("x")})
		s.extends(c.Lease, false)
		item := s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditFail, Reason: "late"})
		same(s, "changed by an operator's fail", item.Changed, false)
		s.finalPolicy(c.Job.ID)
		if after := text(s.get(c.Job.ID)); after != before {
			s.Fatalf("a final job has changed from\n%s\nto\n%s", before, after)
		}
	}
}

// finalPolicy wants every change of a final job to be refused.
func (s *scene) finalPolicy(id sojourn.ID) {
	s.Helper()
	p, d := int32(1), time.Hour
	for _, c := range []sojourn.Change{{Priority: &p}, {Delay: &d}, {Weight: &p}, {Policy: &sojourn.Policy{MaxAttempts: 9}}} {
		s.is(s.edit(id, sojourn.Edit{Action: sojourn.EditChange, Change: c}).Err, sojourn.ErrConflict, "a change of a final job")
	}
}
