package claims

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var leaseTrials = []kit.Trial{
	{Name: "extend a lease", Law: "Extend prolongs a lease to now + lease, and no sweep ends it before.", Covers: "tr:L1 spec:L2 spec:L3 inv:L2", Run: extend},
	{Name: "an extend never shortens", Law: "A lease ends at the later of what it was and now + lease.", Covers: "tr:L1 spec:L3", Run: extendNeverShortens},
	{Name: "extend many", Law: "One Extend prolongs what stands and names what does not.", Covers: "tr:L1 tr:L5 inv:P4 spec:L2", Run: extendMany},
	{Name: "why a lease is lost", Law: "A lost lease is reported as ended, cancelled or taken.", Covers: "tr:L5 spec:L2 spec:P8 rules:A5 inv:C2", Run: whyLost},
	{Name: "an invented lease", Law: "A lease that nobody has had is answered as that of a job that does not exist, whatever the job's state.",
		Covers: "tr:L5 inv:C2", Run: inventedLease},
	{Name: "rules:A4 a lease ends when somebody ends it", Law: "A lease past its end that nobody has ended may still be extended, saved under and finished.",
		Covers: "rules:A4 tr:L1 tr:L2 tr:F1 inv:F3", Run: pastItsEnd},
	{Name: "a strict lease", Law: "A kind with NoExtend runs for one lease at most.", Covers: "spec:L3 tr:L1 tr:W1", Run: strictLease},
	{Name: "a lost lease", Law: "A lease that ended without a report counts a crash, closes the attempt and makes the job ready at once.",
		Covers: "tr:W1 spec:S7 spec:S8 spec:L4 rules:E2 inv:L2", Run: lostLease},
	{Name: "the budget of crashes", Law: "The last lost lease of the budget fails the job, with the reason lease_lost; failures are counted apart.",
		Covers: "tr:W1 rules:E2 inv:P2 spec:J19", Run: lostBudget},
	{Name: "unlimited crashes", Law: "With max_crashes -1 lost leases never fail a job.", Covers: "tr:W1 spec:J19", Run: lostUnlimited},
	{Name: "on_lost fail", Law: "A kind that must run at most once fails with its first lost lease.", Covers: "tr:W1 spec:S8 spec:L7", Run: lostAtMostOnce},
}

func extend(s *kit.Scene) {
	c := s.Running()
	began := s.Now()
	s.At("wake_at", s.Get(c.Job.ID).WakeAt, began.Add(kit.LeaseTime))
	s.At("started_at of a claim", c.Job.StartedAt, began)
	s.At("lease_until of a claim", c.Job.LeaseUntil, began.Add(kit.LeaseTime))
	for range 4 {
		s.Swept(20*time.Second, driver.Swept{})
		s.Extends(c.Lease, true)
		s.At("started_at", s.Get(c.Job.ID).StartedAt, began)
		s.At("lease_until", s.Get(c.Job.ID).LeaseUntil, s.Now().Add(kit.LeaseTime))
		s.At("wake_at", s.Get(c.Job.ID).WakeAt, s.Now().Add(kit.LeaseTime))
	}
	s.Swept(kit.LeaseTime-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{Lost: 1})
	s.At("started_at of a job that does not run", s.Get(c.Job.ID).StartedAt, time.Time{})
	s.At("lease_until of a job that does not run", s.Get(c.Job.ID).LeaseUntil, time.Time{})
	s.Counters(c.Job.ID, 1, 0, 1)
}

func extendNeverShortens(s *kit.Scene) {
	id := s.Enqueue()
	c := s.Claim(kit.Leased(10 * time.Minute))
	kit.Same(s, "job", c.Job.ID, id)
	s.Extends(c.Lease, true)
	s.At("wake_at", s.Get(id).WakeAt, s.Now().Add(10*time.Minute))
	s.Advance(time.Minute)
	s.Extends(c.Lease, true)
	if until := s.Get(id).WakeAt; until.Before(s.Now().Add(9 * time.Minute)) {
		s.Fatalf("an extend has shortened the lease to %v", until.Sub(s.Now()))
	}
}

func extendMany(s *kit.Scene) {
	s.EnqueueMany(5)
	cs := s.ClaimMany(kit.UpTo(5))
	s.Finish(kit.Completed(cs[1]), sojourn.Completed)
	s.Cancel(cs[3].Job.ID)
	s.Advance(10 * time.Second)
	leases := []sojourn.Lease{{ID: 999_999_999, Epoch: 1, Worker: "w1"}}
	for _, c := range cs {
		leases = append(leases, c.Lease)
	}
	why := map[int]string{}
	for i, e := range s.Extend(leases...) {
		if e.Err != nil {
			why[i] = e.Reason
			s.Is(e.Err, sojourn.ErrLeaseLost, "a lost lease")
		} else {
			s.At("lease_until", e.Until, s.Now().Add(kit.LeaseTime))
		}
	}
	if len(why) != 3 || why[2] != driver.LostEnded || why[4] != driver.LostCancelled || why[0] == "" {
		s.Fatalf("Extend answered %+v, want the unknown, the finished and the cancelled one as lost", why)
	}
	for _, i := range []int{0, 2, 4} {
		s.At("wake_at", s.Get(cs[i].Job.ID).WakeAt, s.Now().Add(kit.LeaseTime))
	}
}

func whyLost(s *kit.Scene) {
	c := s.Running()
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	kit.Same(s, "after the sweep", s.Extends(c.Lease, false), driver.LostEnded)
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "after another worker's claim", s.Extends(c.Lease, false), driver.LostTaken)
	kit.Same(s, "a Finish after another worker's claim", s.Reports(kit.Completed(c), driver.FinishLost).Reason, driver.LostTaken)
	s.Extends(d.Lease, true)
	s.Cancel(d.Job.ID)
	kit.Same(s, "after a cancel", s.Extends(d.Lease, false), driver.LostCancelled)
	kit.Same(s, "a Finish after a cancel", s.Reports(kit.Completed(d), driver.FinishLost).Reason, driver.LostCancelled)
	e := s.Running()
	s.Edited(e.Job.ID, sojourn.Edit{Action: sojourn.EditFail}, sojourn.Failed)
	kit.Same(s, "after an operator's fail", s.Extends(e.Lease, false), driver.LostCancelled)
	f := s.Running()
	s.Finish(kit.Snooze(f, time.Hour), sojourn.Scheduled)
	kit.Same(s, "after its own Finish", s.Extends(f.Lease, false), driver.LostEnded)
}

func inventedLease(s *kit.Scene) {
	invented := func(id sojourn.ID, epoch int64, worker string) (answers [4]string) {
		l := sojourn.Lease{ID: id, Epoch: epoch, Worker: worker}
		f, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{{Lease: l, Type: sojourn.OutcomeCompleted}})
		s.Must(err, "Finish")
		answers[0] = string(f[0].Status) + " " + f[0].State.String() + " " + f[0].Reason
		answers[1] = s.Extends(l, false)
		errs, err := s.Store.Save(s.Ctx, []driver.Saved{{Lease: l, Checkpoint: []byte("x")}})
		s.Must(err, "Save")
		answers[2], answers[3] = sojourn.ErrorCode(errs[0].Err), strings.ReplaceAll(errs[0].Err.Error(), fmt.Sprint(id), "n")
		return answers
	}
	running, ended, cancelled, waiting := s.Running(), s.Running(), s.Running(), s.Running()
	s.Finish(kit.Completed(ended), sojourn.Completed)
	s.Cancel(cancelled.Job.ID)
	s.Finish(kit.Await(waiting, time.Hour), sojourn.Awaiting)
	nothing := invented(cancelled.Job.ID+1_000_000, 1, "w1")
	for what, id := range map[string]sojourn.ID{"a running job": running.Job.ID, "a completed job": ended.Job.ID, "a cancelled job": cancelled.Job.ID,
		"an awaiting job": waiting.Job.ID} {
		for _, epoch := range []int64{0, 1, 2} {
			kit.Same(s, fmt.Sprintf("the answer about %s at epoch %d", what, epoch), invented(id, epoch, "stranger"), nothing)
		}
	}
}

func pastItsEnd(s *kit.Scene) {
	c := s.Running()
	s.Advance(3 * kit.LeaseTime)
	s.Extends(c.Lease, true)
	s.Swept(kit.LeaseTime-time.Second, driver.Swept{})
	s.Advance(2 * kit.LeaseTime)
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("late")}), "Save")
	s.Swept(kit.LeaseTime-time.Second, driver.Swept{})
	s.Advance(2 * kit.LeaseTime)
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Counters(c.Job.ID, 1, 0, 0)
}

func strictLease(s *kit.Scene) {
	c := s.Running(kit.Policy(sojourn.Policy{NoExtend: new(true)}))
	s.Advance(20 * time.Second)
	s.Extends(c.Lease, true) // it still stands, only no longer
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("c")}), "Save")
	s.Swept(10*time.Second, driver.Swept{Lost: 1})
	s.Counters(c.Job.ID, 1, 0, 1)
}

func lostLease(s *kit.Scene) {
	c := s.Running()
	runAt := s.Get(c.Job.ID).RunAt
	s.Swept(kit.LeaseTime-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{Lost: 1})
	j := s.State(c.Job.ID, sojourn.Ready)
	s.At("run_at", j.RunAt, runAt)
	kit.Same(s, "reason", j.Reason, sojourn.ReasonLeaseLost)
	s.Counters(c.Job.ID, 1, 0, 1)
	s.InFlight(0, "after the loss")
	a := s.Happened(c.Job.ID, "lost")[0]
	kit.Same(s, "reason in the history", a.Reason, sojourn.ReasonLeaseLost)
	kit.Same(s, "worker in the history", a.Worker, "w1")
	kit.Same(s, "state in the history", a.State, sojourn.Ready)
	d := s.Claim(kit.By("w2"))
	s.Counters(c.Job.ID, 2, 0, 1)
	kit.Same(s, "epoch", d.Lease.Epoch, 2)
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeStart)
}

func lostBudget(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second), sojourn.MaxAttempts(2), sojourn.MaxCrashes(3))
	id := c.Job.ID
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.Finish(kit.Failure(s.Claim()), sojourn.Scheduled)
	s.Counters(id, 2, 1, 1) // a failure uses up no crash, and the other way round
	s.Advance(time.Second)
	s.Claim()
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(id, sojourn.Scheduled)
	s.Counters(id, 3, 1, 2)
	s.Advance(time.Second)
	s.Claim()
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	j := s.State(id, sojourn.Failed)
	s.Counters(id, 4, 1, 3)
	kit.Same(s, "reason", j.Reason, sojourn.ReasonLeaseLost)
	s.Happened(id, "lost", "error", "lost", "lost")
}

func lostUnlimited(s *kit.Scene) {
	s.Enqueue(kit.Policy(sojourn.Policy{MaxCrashes: sojourn.Unlimited, Backoff: sojourn.Backoff{First: -1}}))
	for range 12 {
		s.Claim()
		s.Advance(kit.LeaseTime)
		kit.Same(s, "lost leases", s.Sweep().Lost, 1)
	}
	kit.Same(s, "crashes", s.Claim().Job.Crashes, 12)
}

func lostAtMostOnce(s *kit.Scene) {
	c := s.Running(kit.Policy(sojourn.Policy{OnLost: sojourn.Fail}), sojourn.Key("k"))
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonLeaseLost)
	s.Counters(c.Job.ID, 1, 0, 1)
	s.ClaimNone("it may run at most once")
}
