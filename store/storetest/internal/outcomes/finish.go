package outcomes

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var finishTrials = []kit.Trial{
	{Name: "complete", Law: "A completed job is final, has its result, holds no lease and no weight, and is in the history.",
		Covers: "tr:F1 spec:D1 spec:S5 spec:S9 spec:S11 spec:J14 spec:J16 inv:S1 inv:S2 inv:T2", Run: complete},
	{Name: "snooze", Law: "A snoozed job runs again after its delay and counts neither an error nor an attempt.", Covers: "tr:F7 spec:R1 spec:J19 inv:P2", Run: snoozed},
	{Name: "abort", Law: "An aborted job fails at once, whatever attempts remain.", Covers: "tr:F8 spec:S10 spec:R5", Run: aborted},
	{Name: "cancel from inside", Law: "A step may end its job as cancelled.", Covers: "tr:F9 spec:S5", Run: cancelledInside},
	{Name: "release a start", Law: "A release undoes the claim: the job is ready with its old run_at, and nothing is counted.",
		Covers: "tr:F11 rules:D2 inv:J2 spec:W11 inv:P2", Run: releasedStart},
	{Name: "release a resume", Law: "A released resume is resumed again, with its answer and its weight.", Covers: "tr:F10 rules:D2 inv:J2 inv:T2", Run: releasedResume},
	{Name: "undecodable", Law: "Args that do not decode fail the job with the reason undecodable and count no failure; the bytes stay.",
		Covers: "tr:F13 spec:R11 inv:P3 spec:R3", Run: undecodable},
	{Name: "rules:C7 an outcome that the store cannot take", Law: "What cannot be stored is refused with a code, and the lease stands for the report of the error.",
		Covers: "tr:F15 rules:C7 inv:C3 inv:C6 inv:P4 inv:N3 spec:W10", Run: refusedOutcome},
	{Name: "finish many", Law: "Each outcome of a call is answered for itself, in its place.", Covers: "tr:F1 tr:F12 tr:F15 tr:L5 inv:P4 spec:B5", Run: finishMany},
	{Name: "rules:D1 what is in flight", Law: "A job is in flight from its claim until its attempt ends, is put back or snoozed.",
		Covers: "rules:D1 inv:T2 tr:C1 tr:F5 tr:M1 tr:C3 tr:F7 tr:F11 tr:F10", Run: heldWeight},
	{Name: "a final job never changes", Law: "No report, response, enqueue or sweep changes a final job.",
		Covers: "inv:S2 spec:S5 spec:H5 spec:J14", Run: finalNeverChanges},
}

func complete(s *kit.Scene) {
	c := s.Running()
	s.Advance(3 * time.Second)
	o := kit.Completed(c)
	o.Result, o.ResultType = []byte(`{"paid":true}`), "application/json"
	j := s.Finish(o, sojourn.Completed)
	kit.Same(s, "result", string(j.Result), `{"paid":true}`)
	kit.Same(s, "result type", j.ResultType, "application/json")
	kit.Same(s, "error", j.Reason+j.Error, "")
	s.At("finished_at", j.FinishedAt, s.Now())
	s.At("updated_at", j.UpdatedAt, s.Now())
	s.Counters(c.Job.ID, 1, 0, 0)
	s.InFlight(0, "after the end")
	a := s.Happened(c.Job.ID, "completed")[0]
	s.At("began_at", a.BeganAt, s.Now().Add(-3*time.Second))
	s.At("ended_at", a.EndedAt, s.Now())
	a.BeganAt, a.EndedAt = time.Time{}, time.Time{}
	kit.Same(s, "the entry of the history", kit.Text(a), kit.Text(sojourn.HistoryEntry{Seq: 1, Generation: 1, Attempt: 1, Epoch: 1, Purpose: sojourn.PurposeStart, Worker: "w1",
		Outcome: "completed", State: sojourn.Completed, By: a.By}))
	s.ClaimNone("it is completed")
	s.Advance(24 * time.Hour)
	s.Sweep()
	s.ClaimNone("it is completed")
}

func snoozed(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(1))
	for i := range 3 {
		j := s.Finish(kit.Snooze(c, 5*time.Minute), sojourn.Scheduled)
		s.At("run_at", j.RunAt, s.Now().Add(5*time.Minute))
		s.Counters(c.Job.ID, 1, 0, 0)
		s.InFlight(0, "while it is snoozed")
		s.Swept(5*time.Minute-time.Microsecond, driver.Swept{})
		s.Swept(time.Microsecond, driver.Swept{Due: 1})
		c = s.Claim()
		kit.Same(s, "epoch", c.Lease.Epoch, int64(i+2))
	}
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Happened(c.Job.ID, "snooze", "snooze", "snooze", "completed")
}

func aborted(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(sojourn.Unlimited))
	j := s.Finish(kit.Abort(c), sojourn.Failed)
	kit.Same(s, "reason", j.Reason, "declined")
	kit.Same(s, "error", j.Error, "the card was declined")
	s.InFlight(0, "after the abort")
	a := s.Happened(c.Job.ID, "abort")[0]
	kit.Same(s, "reason in the history", a.Reason, "declined")
	kit.Same(s, "error in the history", a.Error, "the card was declined")
	kit.Same(s, "state in the history", a.State, sojourn.Failed)
}

func cancelledInside(s *kit.Scene) {
	c := s.Final(sojourn.Cancelled)
	j := s.State(c.Job.ID, sojourn.Cancelled)
	kit.Same(s, "reason", j.Reason, "asked")
	s.Counters(c.Job.ID, 1, 0, 0)
	s.InFlight(0, "after the cancel")
	s.Happened(c.Job.ID, "cancel")
}

func releasedStart(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(1), sojourn.MaxCrashes(1))
	runAt := s.Get(c.Job.ID).RunAt
	for i := range 3 {
		s.Advance(time.Second)
		j := s.Finish(kit.Released(c), sojourn.Ready)
		kit.Same(s, "resumed", j.Resumed, false)
		s.At("run_at", j.RunAt, runAt)
		s.Counters(c.Job.ID, 1, 0, 0)
		s.InFlight(0, "after the release")
		c = s.Claim(kit.By("w2"))
		kit.Same(s, "epoch", c.Lease.Epoch, int64(i+2))
	}
}

func releasedResume(s *kit.Scene) {
	s.Resumed("k")
	c := s.Claim()
	j := s.Finish(kit.Released(c), sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, true)
	kit.Same(s, "answers", len(j.Responses), 1)
	s.InFlight(1, "after the release of a resume")
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), string(s.ClaimedResponse(c).Body))
	s.Counters(c.Job.ID, 1, 0, 0)
	s.Finish(kit.Completed(d), sojourn.Completed)
	s.InFlight(0, "after the end")
	s.Happened(c.Job.ID, "await", "responded", "released", "completed")
}

func undecodable(s *kit.Scene) {
	c := s.Running(kit.Args("{\"amount\": \xff\x00"), sojourn.Key("k"), sojourn.MaxAttempts(2))
	r := s.Respond("k") // kept, never given
	j := s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeUndecodable, Text: "invalid character"}, sojourn.Failed)
	kit.Same(s, "reason", j.Reason, sojourn.ReasonUndecodable)
	kit.Same(s, "error", j.Error, "invalid character")
	kit.Same(s, "args", string(j.Args), "{\"amount\": \xff\x00")
	s.Counters(c.Job.ID, 1, 0, 0)
	s.Stored(r.Seq, sojourn.Late)
	s.Happened(c.Job.ID, "undecodable")
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready) // with a repaired handler
	kit.Same(s, "args", string(s.Claim().Job.Args), "{\"amount\": \xff\x00")

	s.Resumed("l")
	d := s.Claim()
	answer := s.Inbox(sojourn.InboxFilter{Job: d.Job.ID})[0].Seq
	s.Finish(sojourn.Outcome{Lease: d.Lease, Type: sojourn.OutcomeUndecodable, Text: "invalid character"}, sojourn.Failed)
	s.Stored(answer, sojourn.Late) // taken, but no handler ran
}

func refusedOutcome(s *kit.Scene) {
	s.Open(kit.Options{MaxBytes: 1000})
	c := s.Running(kit.Steady(time.Minute))
	before := s.Picture(c.Job.ID)
	tooLarge := kit.Completed(c)
	tooLarge.Result = make([]byte, 1001)
	checkpoint := kit.Failure(c)
	checkpoint.Verdict.Checkpoint = make([]byte, 1001)
	for what, o := range kit.InOrder(map[string]sojourn.Outcome{"a result above the limit": tooLarge, "a checkpoint above the limit": checkpoint}) {
		s.Refused(s.Reports(o, driver.FinishRefused).Err, sojourn.CodeTooLarge, what)
		s.Unchanged(c.Job.ID, before, "a refused outcome")
	}
	for what, o := range kit.InOrder(map[string]sojourn.Outcome{
		"no type":                     {Lease: c.Lease},
		"an unknown type":             {Lease: c.Lease, Type: "exploded"},
		"a negative snooze":           kit.Snooze(c, -1),
		"a snooze of a thousand year": kit.Snooze(c, 1<<62),
		"a negative wait":             kit.Await(c, -1),
		"a bad key to await":          kit.Await(c, 0, "a\nb"),
		"a decision of a start":       kit.Decided(c, sojourn.Verdict{Final: true}),
		"a poll's answer of a start":  {Lease: c.Lease, Type: sojourn.OutcomeAnswer},
	}) {
		s.Refused(s.Reports(o, driver.FinishRefused).Err, sojourn.CodeInvalid, what)
		s.Unchanged(c.Job.ID, before, "a refused outcome")
	}
	s.Extends(c.Lease, true)
	o := kit.Failure(c)
	o.Reason = sojourn.CodeTooLarge
	kit.Same(s, "reason", s.Finish(o, sojourn.Scheduled).Reason, sojourn.CodeTooLarge)
	s.Advance(time.Minute)
	d := s.Claim()
	exact := kit.Completed(d)
	exact.Result = make([]byte, 1000)
	kit.Same(s, "result", len(s.Finish(exact, sojourn.Completed).Result), 1000)
}

func finishMany(s *kit.Scene) {
	s.Open(kit.Options{MaxBytes: 1000})
	s.EnqueueMany(7, kit.Steady(time.Minute))
	cs := s.ClaimMany(kit.UpTo(7))
	s.Cancel(cs[1].Job.ID)
	done := kit.Completed(cs[2])
	s.Finish(done, sojourn.Completed)
	big := kit.Completed(cs[3])
	big.Result = make([]byte, 1001)
	fs, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{kit.Completed(cs[0]), kit.Completed(cs[1]), done, big, kit.Failure(cs[4]),
		{Lease: sojourn.Lease{ID: 999_999_999, Epoch: 1, Worker: "w1"}, Type: sojourn.OutcomeCompleted}, kit.Await(cs[5], 0), kit.Snooze(cs[6], time.Hour)})
	s.Must(err, "Finish")
	var got []string
	for _, f := range fs {
		got = append(got, string(f.Status))
	}
	kit.Same(s, "the answers", strings.Join(got, " "), "applied lost repeated refused applied lost applied applied")
	for i, want := range []sojourn.State{sojourn.Completed, sojourn.Cancelled, sojourn.Completed, sojourn.Running, sojourn.Scheduled, sojourn.Awaiting, sojourn.Scheduled} {
		s.State(cs[i].Job.ID, want)
	}
}

func heldWeight(s *kit.Scene) {
	step := func(when string, want int64) { s.Helper(); s.InFlight(want, when) }
	c := s.Running(sojourn.Key("k"), sojourn.Timeout(time.Hour), kit.Steady(time.Minute))
	step("start", 1)
	s.Finish(kit.Snooze(c, time.Second), sojourn.Scheduled)
	step("snoozed", 0)
	s.Advance(time.Second)
	c = s.Claim()
	s.Finish(kit.Released(c), sojourn.Ready)
	step("released", 0)
	c = s.Claim()
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	step("awaiting", 1)
	s.Respond("k")
	step("resumed", 1)
	kit.Same(s, "resumed jobs of the queue", s.Queue(kit.Queue).Resumed, 1)
	s.Swept(time.Hour, driver.Swept{Resumed: 1})
	step("resumed too long", 0)
	c = s.Claim()
	step("started again", 1)
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	step("retry waits", 0)
	s.Advance(time.Minute)
	s.Claim()
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	step("lost", 0)
	c = s.Claim()
	s.Finish(kit.Completed(c), sojourn.Completed)
	step("completed", 0)
	s.Running()
	s.Awaiting()
	s.Resumed("l")
	step("one running, one awaiting, one resumed", 3)
}

func finalNeverChanges(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Retention: sojourn.Retention{Age: -1, Count: -1}})
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		c := s.Final(end, sojourn.Key("k"), sojourn.Deadline(time.Hour), sojourn.Timeout(time.Hour))
		before := kit.Text(s.Get(c.Job.ID))
		s.Advance(48 * time.Hour)
		s.Sweep()
		r := s.Respond("k")
		s.Became(r, sojourn.Late, c.Job.ID)
		s.Became(s.Respond("", kit.ToJob(c.Job.ID)), sojourn.Late, c.Job.ID)
		s.Report(kit.Completed(c))
		s.Report(kit.Failure(c))
		s.Report(kit.Abort(c))
		_ = s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("x")})
		s.Extends(c.Lease, false)
		item := s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditFail, Reason: "late"})
		kit.Same(s, "changed by an operator's fail", item.Changed, false)
		finalPolicy(s, c.Job.ID)
		if after := kit.Text(s.Get(c.Job.ID)); after != before {
			s.Fatalf("a final job has changed from\n%s\nto\n%s", before, after)
		}
	}
}

// finalPolicy wants every change of a final job to be refused.
func finalPolicy(s *kit.Scene, id sojourn.ID) {
	s.Helper()
	p, d := int32(1), time.Hour
	for _, c := range []sojourn.Edit{{Priority: &p}, {Delay: &d}, {Weight: &p}, {Policy: &sojourn.Policy{MaxAttempts: 9}}} {
		c.Action = sojourn.EditChange
		s.Is(s.Edit(id, c).Err, sojourn.ErrConflict, "a change of a final job")
	}
}
