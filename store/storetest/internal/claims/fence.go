package claims

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var fenceTrials = []kit.Trial{
	{Name: "fence: an older epoch", Law: "A write under an earlier lease of a job that runs again is lost and changes nothing.",
		Covers: "tr:L5 inv:F2 rules:A1 spec:L1 spec:L2", Run: fenceOldEpoch},
	{Name: "fence: a wrong epoch", Law: "A write with an epoch that is not the row's is lost, even from the right worker.",
		Covers: "tr:L5 inv:F2 rules:A1 spec:L1", Run: fenceWrongEpoch},
	{Name: "fence: a wrong worker", Law: "A write with the right epoch from another worker is lost and changes nothing.",
		Covers: "tr:L5 inv:F2 rules:A1", Run: fenceWrongWorker},
	{Name: "rules:A1 fence: a lease that was lost", Law: "The epoch does not change when a lease ends, so the state fences too.",
		Covers: "tr:L5 inv:F2 rules:A1 spec:S9", Run: fenceSwept},
	{Name: "fence: a lease that was lost, errored", Law: "A job that waits for its retry handler accepts nothing from its last step.",
		Covers: "tr:L5 inv:F2 rules:A1", Run: fenceErrored},
	{Name: "fence: a timed out attempt", Law: "A step whose attempt was timed out changes nothing any more.", Covers: "tr:L5 tr:W5 inv:F2 rules:A1", Run: fenceTimedOut},
	{Name: "rules:A5 fence: a cancelled job", Law: "Whatever the step of a cancelled job reports is lost.",
		Covers: "tr:L5 tr:O1 inv:F2 rules:A5 inv:S2 spec:P8", Run: fenceCancelled},
	{Name: "fence: after its own Finish", Law: "A lease that its own Finish has ended accepts no other write.",
		Covers: "tr:L5 tr:F12 inv:F2 rules:A1 inv:F8", Run: fenceFinished},
	{Name: "fence: a deciding step", Law: "The lease of a deciding step is fenced like any other.", Covers: "tr:L5 inv:F2 rules:C1", Run: fenceDeciding},
	{Name: "rules:A6 fence: an earlier life", Law: "After a redrive the steps of the finished generation change nothing.",
		Covers: "tr:L5 tr:O3 inv:F2 inv:S2 rules:A6", Run: fenceGeneration},
}

// nothingPasses sends every write of a step under an invalid lease, and wants each to be lost and
// nothing to change. The clock moves first, so that an extension of the lease would be seen. own
// are the reports of the step itself, which would be answered as repeated.
func nothingPasses(s *kit.Scene, l sojourn.Lease, own ...sojourn.OutcomeType) {
	s.Helper()
	s.Advance(time.Second)
	before := s.Picture(l.ID)
	check := func(what string) {
		s.Helper()
		s.Unchanged(l.ID, before, what+" under a lease that does not stand")
	}
	s.Extends(l, false)
	check("Extend")
	note := "zombie"
	for what, item := range kit.InOrder(map[string]driver.Saved{
		"Save of a checkpoint": {Lease: l, Checkpoint: []byte("zombie")},
		"Save of progress":     {Lease: l, Progress: &note},
		"SetKey":               {Lease: l, Key: "zombie"},
		"Save of a log line":   {Lease: l, Log: []sojourn.LogLine{{Level: "INFO", Text: note}}},
		"Save of nothing":      {Lease: l},
	}) {
		s.Is(s.Save(item), sojourn.ErrLeaseLost, what)
		check(what)
	}
	if e := s.Put(s.Job(sojourn.Key("zombie"))); e.Duplicate {
		s.Fatalf("a lost SetKey has taken the key for job %d", e.ID)
	} else {
		s.Cancel(e.ID)
	}
	before = s.Picture(l.ID) // the counts of the queue include the job that has just tried the key
	zombie := driver.Claimed{Lease: l}
	outcomes := []sojourn.Outcome{
		{Lease: l, Type: sojourn.OutcomeCompleted, Result: []byte("zombie")},
		{Lease: l, Type: sojourn.OutcomeError, Reason: "zombie", Text: "zombie", Verdict: sojourn.Verdict{Checkpoint: []byte("zombie")}},
		{Lease: l, Type: sojourn.OutcomeAbort, Reason: "zombie"},
		{Lease: l, Type: sojourn.OutcomeCancelled, Reason: "zombie"},
		{Lease: l, Type: sojourn.OutcomeUndecodable, Text: "zombie"},
		kit.Await(zombie, 17*time.Minute, "zombie-answer"),
		kit.Snooze(zombie, 17*time.Minute),
	}
	for _, o := range outcomes {
		if slices.Contains(own, o.Type) {
			continue
		}
		if f := s.Reports(o, driver.FinishLost); f.Reason == "" {
			s.Fatalf("Finish(%s) was lost without a reason", o.Type)
		}
		check("Finish(" + string(o.Type) + ")")
	}
}

func fenceOldEpoch(s *kit.Scene) {
	old := s.Running()
	s.Finish(kit.Released(old), sojourn.Ready)
	now := s.Claim() // the same worker again
	nothingPasses(s, old.Lease)
	s.Finish(kit.Completed(now), sojourn.Completed)

	old = s.Running()
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	now = s.Claim(kit.By("w2"))
	nothingPasses(s, old.Lease)
	s.Finish(kit.Completed(now), sojourn.Completed)
}

func fenceWrongEpoch(s *kit.Scene) {
	c := s.Running()
	s.Finish(kit.Released(c), sojourn.Ready)
	c = s.Claim()
	for _, epoch := range []int64{0, 1, 3, -1, 1 << 40} {
		nothingPasses(s, sojourn.Lease{ID: c.Job.ID, Epoch: epoch, Worker: "w1"})
	}
	s.Finish(kit.Completed(c), sojourn.Completed)
}

func fenceWrongWorker(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	for _, worker := range []string{"w2", "", "W1", "w1 ", "w"} {
		nothingPasses(s, sojourn.Lease{ID: c.Job.ID, Epoch: c.Lease.Epoch, Worker: worker})
	}
	s.Finish(kit.Completed(c), sojourn.Completed)
}

func fenceSwept(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Hour)) // its first loss: ready
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(c.Job.ID, sojourn.Ready)
	nothingPasses(s, c.Lease)
	d := s.Claim(kit.By("w2")) // the second: scheduled, at once
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(c.Job.ID, sojourn.Scheduled)
	nothingPasses(s, d.Lease)
	nothingPasses(s, c.Lease)
	e := s.Running(kit.Policy(sojourn.Policy{OnLost: sojourn.Fail})) // failed
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(e.Job.ID, sojourn.Failed)
	nothingPasses(s, e.Lease)
}

func fenceErrored(s *kit.Scene) {
	c := s.Errored()
	nothingPasses(s, c.Lease)
	s.State(c.Job.ID, sojourn.Errored)
}

func fenceTimedOut(s *kit.Scene) {
	c := s.Running(sojourn.Timeout(kit.LeaseTime), kit.Steady(time.Hour))
	s.Outlive(c.Lease, driver.Swept{TimedOut: 1})
	s.State(c.Job.ID, sojourn.Scheduled)
	nothingPasses(s, c.Lease)
}

func fenceCancelled(s *kit.Scene) {
	c := s.Running()
	s.Cancel(c.Job.ID)
	nothingPasses(s, c.Lease)
	d := s.Running()
	s.Edited(d.Job.ID, sojourn.Edit{Action: sojourn.EditFail, Reason: "broken"}, sojourn.Failed)
	nothingPasses(s, d.Lease)
	e := s.Running(sojourn.Deadline(kit.LeaseTime))
	s.Outlive(e.Lease, driver.Swept{Deadlines: 1})
	nothingPasses(s, e.Lease)
}

func fenceFinished(s *kit.Scene) {
	after := func(o sojourn.Outcome, want sojourn.State) {
		s.Helper()
		s.Finish(o, want)
		nothingPasses(s, o.Lease, o.Type)
		if !want.Final() {
			s.Cancel(o.Lease.ID)
		}
	}
	after(kit.Completed(s.Running()), sojourn.Completed)
	after(kit.Failure(s.Running(kit.Steady(time.Hour))), sojourn.Scheduled)
	after(kit.Abort(s.Running()), sojourn.Failed)
	after(kit.Snooze(s.Running(), time.Hour), sojourn.Scheduled)
	after(kit.Await(s.Running(), 0), sojourn.Awaiting)
	after(kit.Released(s.Running()), sojourn.Ready)
	answered := s.Resumed("k")
	nothingPasses(s, answered.Lease, sojourn.OutcomeAwait)
	resumed := s.Claim()
	after(kit.Released(resumed), sojourn.Ready)
}

func fenceDeciding(s *kit.Scene) {
	s.Errored()
	c := s.Claim(kit.Deciding)
	kit.Same(s, "purpose", c.Purpose, sojourn.PurposeDecide)
	nothingPasses(s, sojourn.Lease{ID: c.Job.ID, Epoch: c.Lease.Epoch, Worker: "w2"})
	nothingPasses(s, sojourn.Lease{ID: c.Job.ID, Epoch: c.Lease.Epoch - 1, Worker: "w1"})
	other := kit.Decided(c, sojourn.Verdict{Final: true})
	other.Lease.Worker = "w2"
	s.Reports(other, driver.FinishLost)
	s.Finish(kit.Released(c), sojourn.Errored)
	before := s.Picture(c.Job.ID)
	s.Reports(kit.Decided(c, sojourn.Verdict{Final: true}), driver.FinishLost)
	s.Unchanged(c.Job.ID, before, "a decision after the release")
	nothingPasses(s, c.Lease)
}

func fenceGeneration(s *kit.Scene) {
	c := s.Running()
	s.Cancel(c.Job.ID)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	nothingPasses(s, c.Lease)
	d := s.Claim()
	nothingPasses(s, c.Lease)
	s.Finish(kit.Completed(d), sojourn.Completed)
	nothingPasses(s, c.Lease)
}
