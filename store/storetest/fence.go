package storetest

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var fenceTrials = []trial{
	{"fence: an older epoch", "A write under an earlier lease of a job that runs again is lost and changes nothing.",
		"tr:L5 inv:F2 rules:A1 spec:L1 spec:L2", fenceOldEpoch},
	{"fence: a wrong epoch", "A write with an epoch that is not the row's is lost, even from the right worker.", "tr:L5 inv:F2 rules:A1 spec:L1", fenceWrongEpoch},
	{"fence: a wrong worker", "A write with the right epoch from another worker is lost and changes nothing.", "tr:L5 inv:F2 rules:A1", fenceWrongWorker},
	{"rules:A1 fence: a lease that was lost", "The epoch does not change when a lease ends, so the state fences too.",
		"tr:L5 inv:F2 rules:A1 spec:S9", fenceSwept},
	{"fence: a lease that was lost, errored", "A job that waits for its retry handler accepts nothing from its last step.", "tr:L5 inv:F2 rules:A1", fenceErrored},
	{"fence: a timed out attempt", "A step whose attempt was timed out changes nothing any more.", "tr:L5 tr:W5 inv:F2 rules:A1", fenceTimedOut},
	{"rules:A5 fence: a cancelled job", "Whatever the step of a cancelled job reports is lost.", "tr:L5 tr:O1 inv:F2 rules:A5 inv:S2 spec:P8", fenceCancelled},
	{"fence: after its own Finish", "A lease that its own Finish has ended accepts no other write.", "tr:L5 tr:F12 inv:F2 rules:A1 inv:F8", fenceFinished},
	{"fence: a deciding step", "The lease of a deciding step is fenced like any other.", "tr:L5 inv:F2 rules:C1", fenceDeciding},
	{"rules:A6 fence: an earlier life", "After a redrive the steps of the finished generation change nothing.", "tr:L5 tr:O3 inv:F2 inv:S2 rules:A6", fenceGeneration},
}

// nothingPasses sends every write of a step under an invalid lease, and wants each to be lost and
// nothing to change. The clock moves first, so that an extension of the lease would be seen. own
// are the reports of the step itself, which would be answered as repeated.
func (s *scene) nothingPasses(l sojourn.Lease, own ...sojourn.OutcomeType) {
	s.Helper()
	s.advance(time.Second)
	before := s.picture(l.ID)
	check := func(what string) {
		s.Helper()
		s.unchanged(l.ID, before, what+" under a lease that does not stand")
	}
	s.extends(l, false)
	check("Extend")
	note := "zombie"
	for what, item := range inOrder(map[string]driver.Saved{
		"Save of a checkpoint": {Lease: l, Checkpoint: []byte("zombie")},
		"Save of progress":     {Lease: l, Progress: &note},
		"SetKey":               {Lease: l, Key: "zombie"},
		"Save of a log line":   {Lease: l, Log: []sojourn.LogLine{{Level: "INFO", Text: note}}},
		"Save of nothing":      {Lease: l},
	}) {
		s.is(s.save(item), sojourn.ErrLeaseLost, what)
		check(what)
	}
	if e := s.put(s.job(sojourn.Key("zombie"))); e.Duplicate {
		s.Fatalf("a lost SetKey has taken the key for job %d", e.ID)
	} else {
		s.cancel(e.ID)
	}
	before = s.picture(l.ID) // the counts of the queue include the job that has just tried the key
	zombie := driver.Claimed{Lease: l}
	outcomes := []sojourn.Outcome{
		{Lease: l, Type: sojourn.OutcomeCompleted, Result: []byte("zombie")},
		{Lease: l, Type: sojourn.OutcomeError, Reason: "zombie", Text: "zombie", Verdict: sojourn.Verdict{Checkpoint: []byte("zombie")}},
		{Lease: l, Type: sojourn.OutcomeAbort, Reason: "zombie"},
		{Lease: l, Type: sojourn.OutcomeCancelled, Reason: "zombie"},
		{Lease: l, Type: sojourn.OutcomeUndecodable, Text: "zombie"},
		await(zombie, 17*time.Minute, "zombie-answer"),
		snooze(zombie, 17*time.Minute),
	}
	for _, o := range outcomes {
		if slices.Contains(own, o.Type) {
			continue
		}
		if f := s.reports(o, driver.FinishLost); f.Reason == "" {
			s.Fatalf("Finish(%s) was lost without a reason", o.Type)
		}
		check("Finish(" + string(o.Type) + ")")
	}
}

func fenceOldEpoch(s *scene) {
	old := s.running()
	s.finish(released(old), sojourn.Ready)
	now := s.claim() // the same worker again
	s.nothingPasses(old.Lease)
	s.finish(completed(now), sojourn.Completed)

	old = s.running()
	s.swept(lease, driver.Swept{Lost: 1})
	now = s.claim(by("w2"))
	s.nothingPasses(old.Lease)
	s.finish(completed(now), sojourn.Completed)
}

func fenceWrongEpoch(s *scene) {
	c := s.running()
	s.finish(released(c), sojourn.Ready)
	c = s.claim()
	for _, epoch := range []int64{0, 1, 3, -1, 1 << 40} {
		s.nothingPasses(sojourn.Lease{ID: c.Job.ID, Epoch: epoch, Worker: "w1"})
	}
	s.finish(completed(c), sojourn.Completed)
}

func fenceWrongWorker(s *scene) {
	c := s.running(sojourn.Key("k"))
	for _, worker := range []string{"w2", "", "W1", "w1 ", "w"} {
		s.nothingPasses(sojourn.Lease{ID: c.Job.ID, Epoch: c.Lease.Epoch, Worker: worker})
	}
	s.finish(completed(c), sojourn.Completed)
}

func fenceSwept(s *scene) {
	c := s.running(steady(time.Hour)) // its first loss: ready
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(c.Job.ID, sojourn.Ready)
	s.nothingPasses(c.Lease)
	d := s.claim(by("w2")) // the second: scheduled, at once
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(c.Job.ID, sojourn.Scheduled)
	s.nothingPasses(d.Lease)
	s.nothingPasses(c.Lease)
	e := s.running(policy(sojourn.Policy{OnLost: sojourn.Fail})) // failed
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(e.Job.ID, sojourn.Failed)
	s.nothingPasses(e.Lease)
}

func fenceErrored(s *scene) {
	c := s.errored()
	s.nothingPasses(c.Lease)
	s.state(c.Job.ID, sojourn.Errored)
}

func fenceTimedOut(s *scene) {
	c := s.running(sojourn.Timeout(lease), steady(time.Hour))
	s.outlive(c.Lease, driver.Swept{TimedOut: 1})
	s.state(c.Job.ID, sojourn.Scheduled)
	s.nothingPasses(c.Lease)
}

func fenceCancelled(s *scene) {
	c := s.running()
	s.cancel(c.Job.ID)
	s.nothingPasses(c.Lease)
	d := s.running()
	s.edited(d.Job.ID, sojourn.Edit{Action: sojourn.EditFail, Reason: "broken"}, sojourn.Failed)
	s.nothingPasses(d.Lease)
	e := s.running(sojourn.Deadline(lease))
	s.outlive(e.Lease, driver.Swept{Deadlines: 1})
	s.nothingPasses(e.Lease)
}

func fenceFinished(s *scene) {
	after := func(o sojourn.Outcome, want sojourn.State) {
		s.Helper()
		s.finish(o, want)
		s.nothingPasses(o.Lease, o.Type)
		if !want.Final() {
			s.cancel(o.Lease.ID)
		}
	}
	after(completed(s.running()), sojourn.Completed)
	after(failure(s.running(steady(time.Hour))), sojourn.Scheduled)
	after(abort(s.running()), sojourn.Failed)
	after(snooze(s.running(), time.Hour), sojourn.Scheduled)
	after(await(s.running(), 0), sojourn.Awaiting)
	after(released(s.running()), sojourn.Ready)
	answered := s.resumed("k")
	s.nothingPasses(answered.Lease, sojourn.OutcomeAwait)
	resumed := s.claim()
	after(released(resumed), sojourn.Ready)
}

func fenceDeciding(s *scene) {
	s.errored()
	c := s.claim(deciding)
	same(s, "purpose", c.Purpose, sojourn.PurposeDecide)
	s.nothingPasses(sojourn.Lease{ID: c.Job.ID, Epoch: c.Lease.Epoch, Worker: "w2"})
	s.nothingPasses(sojourn.Lease{ID: c.Job.ID, Epoch: c.Lease.Epoch - 1, Worker: "w1"})
	other := decided(c, sojourn.Verdict{Final: true})
	other.Lease.Worker = "w2"
	s.reports(other, driver.FinishLost)
	s.finish(released(c), sojourn.Errored)
	before := s.picture(c.Job.ID)
	s.reports(decided(c, sojourn.Verdict{Final: true}), driver.FinishLost)
	s.unchanged(c.Job.ID, before, "a decision after the release")
	s.nothingPasses(c.Lease)
}

func fenceGeneration(s *scene) {
	c := s.running()
	s.cancel(c.Job.ID)
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.nothingPasses(c.Lease)
	d := s.claim()
	s.nothingPasses(c.Lease)
	s.finish(completed(d), sojourn.Completed)
	s.nothingPasses(c.Lease)
}
