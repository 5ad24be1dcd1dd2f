package jobs

import (
	"errors"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var releaseTrials = []kit.Trial{
	{Name: "an operator releases a running job", Law: "A release ends the lease; the job is ready in its place, its attempt goes on, and the history names the operator.",
		Covers: "tr:O10 inv:J2 inv:P2", Run: releaseRunning},
	{Name: "a worker after an operator's release", Law: "The worker learns the release at its next Extend, also if another worker has claimed the job, and nothing that it reports is stored.",
		Covers: "tr:O10 tr:L5 rules:A1", Run: releaseFences},
	{Name: "release of a job that does not run", Law: "Only a running job is released; any other one stays as it is, with a conflict.", Covers: "tr:O10", Run: releaseRefused},
	{Name: "release of a strict lease", Law: "A job whose lease is never extended is released too, and the next claim has a whole lease.", Covers: "tr:O10 spec:L3", Run: releaseStrict},
	{Name: "release of a resumed, decided and polled step", Law: "An operator's release does to each step what the worker's own release does.",
		Covers: "tr:O10 tr:F10 tr:D3 tr:P3 inv:T2", Run: releaseSteps},
	{Name: "release beside a finish", Law: "Of a release and a Finish at the same time one is executed, and the other one is refused.", Covers: "tr:O10 rules:A1", Run: releaseRaces},
}

var releaseEdit = sojourn.Edit{Action: sojourn.EditRelease, By: "ops", Reason: "stuck"}

func releaseRunning(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(1), sojourn.MaxCrashes(1), sojourn.Key("k"))
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte(`"half"`)}), "Save")
	before := s.Get(c.Job.ID)
	s.Advance(time.Second)
	j := s.Edited(c.Job.ID, releaseEdit, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, false)
	s.At("run_at", j.RunAt, before.RunAt)
	s.Counters(c.Job.ID, 1, 0, 0)
	s.InFlight(0, "after the release")
	a := s.Happened(c.Job.ID, "revoked")[0]
	kit.Same(s, "by", a.By, "ops")
	kit.Same(s, "reason", a.Reason, "stuck")
	kit.Same(s, "worker", a.Worker, "w1")
	kit.Same(s, "epoch", a.Epoch, int64(1))
	kit.Same(s, "state", a.State, sojourn.Ready)
	s.Swept(2*kit.LeaseTime, driver.Swept{})
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "epoch of the next claim", d.Lease.Epoch, int64(2))
	kit.Same(s, "checkpoint of the next claim", string(d.Job.Checkpoint), `"half"`)
	s.Counters(c.Job.ID, 1, 0, 0)
	s.Finish(kit.Completed(d), sojourn.Completed)
}

func releaseFences(s *kit.Scene) {
	c := s.Running()
	lost := func(when string) {
		kit.Same(s, "why the lease is lost "+when, s.Extends(c.Lease, false), driver.LostRevoked)
		s.Is(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("x")}), sojourn.ErrLeaseLost, "Save "+when)
		for _, o := range []sojourn.Outcome{kit.Completed(c), kit.Failure(c), kit.Released(c)} {
			kit.Same(s, "why the report is lost "+when, s.Reports(o, driver.FinishLost).Reason, driver.LostRevoked)
		}
	}
	s.Edited(c.Job.ID, releaseEdit, sojourn.Ready)
	lost("after the release")
	d := s.Claim(kit.By("w2"))
	lost("after the next claim")
	s.Extends(d.Lease, true)
	s.Finish(kit.Completed(d), sojourn.Completed)
	lost("after the end")
	s.Happened(c.Job.ID, "revoked", "completed")
}

func releaseRefused(s *kit.Scene) {
	ids := map[string]sojourn.ID{"errored": s.Errored().Job.ID, "awaiting": s.Awaiting().Job.ID}
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		ids[end.String()] = s.Final(end).Job.ID
	}
	c := s.Running()
	s.Edited(c.Job.ID, releaseEdit, sojourn.Ready)
	ids["released"], ids["scheduled"], ids["blocked"] = c.Job.ID, s.Enqueue(sojourn.Delay(time.Hour)), s.Enqueue(sojourn.DependsOn(c.Job.ID))
	for what, id := range kit.InOrder(ids) {
		before := s.Picture(id)
		item := s.Edit(id, releaseEdit)
		s.Is(item.Err, sojourn.ErrConflict, "release of a job that is "+what)
		kit.Same(s, "changed", item.Changed, false)
		s.Unchanged(id, before, "a refused release")
	}
}

func releaseStrict(s *kit.Scene) {
	strict := true
	c := s.Running(kit.Policy(sojourn.Policy{NoExtend: &strict}))
	s.Advance(20 * time.Second)
	s.Edited(c.Job.ID, releaseEdit, sojourn.Ready)
	kit.Same(s, "why the lease is lost", s.Extends(c.Lease, false), driver.LostRevoked)
	d := s.Claim(kit.By("w2"))
	s.Swept(20*time.Second, driver.Swept{})
	s.Finish(kit.Completed(d), sojourn.Completed)
	s.Counters(c.Job.ID, 1, 0, 0)
}

func releaseSteps(s *kit.Scene) {
	s.Resumed("k")
	c := s.Claim()
	j := s.Edited(c.Job.ID, releaseEdit, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, true)
	s.InFlight(1, "after the release of a resume")
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), string(s.ClaimedResponse(c).Body))
	s.Finish(kit.Completed(d), sojourn.Completed)

	p := s.UnderPoll("p")
	s.Edited(p.Job.ID, releaseEdit, sojourn.Awaiting)
	kit.Same(s, "why the poll is lost", s.Extends(p.Lease, false), driver.LostRevoked)
	p = s.Claim(kit.Polling, kit.By("w2"))
	kit.Same(s, "purpose", p.Purpose, sojourn.PurposePoll)
	s.Edited(p.Job.ID, sojourn.Edit{Action: sojourn.EditCancel}, sojourn.Cancelled)

	s.Errored()
	e := s.Claim(kit.Deciding)
	kit.Same(s, "purpose", e.Purpose, sojourn.PurposeDecide)
	s.Edited(e.Job.ID, releaseEdit, sojourn.Errored)
	kit.Same(s, "why the decision is lost", s.Reports(kit.Decided(e, sojourn.Verdict{}), driver.FinishLost).Reason, driver.LostRevoked)
}

func releaseRaces(s *kit.Scene) {
	released := 0
	for range 30 {
		c := s.Running()
		var edited sojourn.Page[sojourn.Edited]
		var finished []driver.Finished
		var editErr, finishErr error
		var wg sync.WaitGroup
		wg.Go(func() {
			edited, editErr = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, releaseEdit)
		})
		wg.Go(func() { finished, finishErr = s.Store.Finish(s.Ctx, []sojourn.Outcome{kit.Completed(c)}) })
		wg.Wait()
		s.Must(errors.Join(editErr, finishErr), "Edit and Finish")
		// The edit has no item of a job that a Finish ends between the filter's read and its locks.
		changed := len(edited.Items) == 1 && edited.Items[0].Changed
		switch applied := finished[0].Status == driver.FinishApplied; {
		case changed == applied:
			s.Fatalf("job %d: the release answered %+v and the Finish %+v", c.Job.ID, edited, finished)
		case applied:
			s.State(c.Job.ID, sojourn.Completed)
			s.Happened(c.Job.ID, "completed")
		default:
			released++
			kit.Same(s, "why the report is lost", finished[0].Reason, driver.LostRevoked)
			s.State(c.Job.ID, sojourn.Ready)
			s.Finish(kit.Completed(s.Claim(kit.By("w2"))), sojourn.Completed)
			s.Happened(c.Job.ID, "revoked", "completed")
		}
	}
	s.InFlight(0, "after all")
	s.Logf("%d of 30 releases came first", released)
}
