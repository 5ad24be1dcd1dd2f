package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var leaseTrials = []trial{
	{"extend a lease", "Extend prolongs a lease to now + lease, and no sweep ends it before.", "tr:L1 spec:L2 spec:L3 inv:L2", extend},
	{"an extend never shortens", "A lease ends at the later of what it was and now + lease.", "tr:L1 spec:L3", extendNeverShortens},
	{"extend many", "One Extend prolongs what stands and names what does not.", "tr:L1 tr:L5 inv:P4 spec:L2", extendMany},
	{"why a lease is lost", "A lost lease is reported as ended, cancelled or taken.", "tr:L5 spec:L2 spec:P8 rules:A5 inv:C2", whyLost},
	{"an invented lease", "A lease that nobody has had is answered as that of a job that does not exist, whatever the job's state.", "tr:L5 inv:C2", inventedLease},
	{"rules:A4 a lease ends when somebody ends it", "A lease past its end that nobody has ended may still be extended, saved under and finished.",
		"rules:A4 tr:L1 tr:L2 tr:F1 inv:F3", pastItsEnd},
	{"a strict lease", "A kind with NoExtend runs for one lease at most.", "spec:L3 tr:L1 tr:W1", strictLease},
	{"a lost lease", "A lease that ended without a report counts a crash, closes the attempt and makes the job ready at once.",
		"tr:W1 spec:S7 spec:S8 spec:L4 rules:E2 inv:L2", lostLease},
	{"the budget of crashes", "The last lost lease of the budget fails the job, with the reason lease_lost; failures are counted apart.",
		"tr:W1 rules:E2 inv:P2 spec:J19", lostBudget},
	{"unlimited crashes", "With max_crashes -1 lost leases never fail a job.", "tr:W1 spec:J19", lostUnlimited},
	{"on_lost fail", "A kind that must run at most once fails with its first lost lease.", "tr:W1 spec:S8 spec:L7", lostAtMostOnce},
}

// extends sends one Extend and wants it to stand or not.
func (s *scene) extends(l sojourn.Lease, stands bool) string {
	s.Helper()
	e := s.extend(l)[0]
	switch {
	case stands:
		s.must(e.Err, "Extend")
		s.at("lease_until", e.Until, s.get(l.ID).LeaseUntil)
	case e.Reason == "" || !e.Until.IsZero():
		s.Fatalf("Extend of %+v answered %+v, want it lost", l, e)
	default:
		s.is(e.Err, sojourn.ErrLeaseLost, "Extend of a lost lease")
	}
	return e.Reason
}

// extend extends leases and wants one answer for each.
func (s *scene) extend(leases ...sojourn.Lease) []driver.Extended {
	s.Helper()
	answers, err := s.store.Extend(s.ctx, leases)
	s.must(err, "Extend")
	same(s, "answers of Extend", len(answers), len(leases))
	return answers
}

// outlive extends a lease beyond a timeout or deadline that ends with the lease's first length, and
// wants the sweep to act one lease later, while the lease itself is still valid.
func (s *scene) outlive(l sojourn.Lease, want driver.Swept) {
	s.Helper()
	for range 3 {
		s.advance(lease - 15*time.Second)
		s.extends(l, true)
	}
	s.swept(15*time.Second-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, want)
}

func extend(s *scene) {
	c := s.running()
	began := s.now()
	s.at("wake_at", s.get(c.Job.ID).WakeAt, began.Add(lease))
	s.at("started_at of a claim", c.Job.StartedAt, began)
	s.at("lease_until of a claim", c.Job.LeaseUntil, began.Add(lease))
	for range 4 {
		s.swept(20*time.Second, driver.Swept{})
		s.extends(c.Lease, true)
		s.at("started_at", s.get(c.Job.ID).StartedAt, began)
		s.at("lease_until", s.get(c.Job.ID).LeaseUntil, s.now().Add(lease))
		s.at("wake_at", s.get(c.Job.ID).WakeAt, s.now().Add(lease))
	}
	s.swept(lease-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{Lost: 1})
	s.at("started_at of a job that does not run", s.get(c.Job.ID).StartedAt, time.Time{})
	s.at("lease_until of a job that does not run", s.get(c.Job.ID).LeaseUntil, time.Time{})
	s.counters(c.Job.ID, 1, 0, 1)
}

func extendNeverShortens(s *scene) {
	id := s.enqueue()
	c := s.claim(leased(10 * time.Minute))
	same(s, "job", c.Job.ID, id)
	s.extends(c.Lease, true)
	s.at("wake_at", s.get(id).WakeAt, s.now().Add(10*time.Minute))
	s.advance(time.Minute)
	s.extends(c.Lease, true)
	if until := s.get(id).WakeAt; until.Before(s.now().Add(9 * time.Minute)) {
		s.Fatalf("an extend has shortened the lease to %v", until.Sub(s.now()))
	}
}

func extendMany(s *scene) {
	s.enqueueMany(5)
	cs := s.claimMany(upTo(5))
	s.finish(completed(cs[1]), sojourn.Completed)
	s.cancel(cs[3].Job.ID)
	s.advance(10 * time.Second)
	leases := []sojourn.Lease{{ID: 999_999_999, Epoch: 1, Worker: "w1"}}
	for _, c := range cs {
		leases = append(leases, c.Lease)
	}
	why := map[int]string{}
	for i, e := range s.extend(leases...) {
		if e.Err != nil {
			why[i] = e.Reason
			s.is(e.Err, sojourn.ErrLeaseLost, "a lost lease")
		} else {
			s.at("lease_until", e.Until, s.now().Add(lease))
		}
	}
	if len(why) != 3 || why[2] != driver.LostEnded || why[4] != driver.LostCancelled || why[0] == "" {
		s.Fatalf("Extend answered %+v, want the unknown, the finished and the cancelled one as lost", why)
	}
	for _, i := range []int{0, 2, 4} {
		s.at("wake_at", s.get(cs[i].Job.ID).WakeAt, s.now().Add(lease))
	}
}

func whyLost(s *scene) {
	c := s.running()
	s.swept(lease, driver.Swept{Lost: 1})
	same(s, "after the sweep", s.extends(c.Lease, false), driver.LostEnded)
	d := s.claim(by("w2"))
	same(s, "after another worker's claim", s.extends(c.Lease, false), driver.LostTaken)
	same(s, "a Finish after another worker's claim", s.reports(completed(c), driver.FinishLost).Reason, driver.LostTaken)
	s.extends(d.Lease, true)
	s.cancel(d.Job.ID)
	same(s, "after a cancel", s.extends(d.Lease, false), driver.LostCancelled)
	same(s, "a Finish after a cancel", s.reports(completed(d), driver.FinishLost).Reason, driver.LostCancelled)
	e := s.running()
	s.edited(e.Job.ID, sojourn.Edit{Action: sojourn.EditFail}, sojourn.Failed)
	same(s, "after an operator's fail", s.extends(e.Lease, false), driver.LostCancelled)
	f := s.running()
	s.finish(snooze(f, time.Hour), sojourn.Scheduled)
	same(s, "after its own Finish", s.extends(f.Lease, false), driver.LostEnded)
}

func inventedLease(s *scene) {
	invented := func(id sojourn.ID, epoch int64, worker string) (answers [4]string) {
		l := sojourn.Lease{ID: id, Epoch: epoch, Worker: worker}
		f, err := s.store.Finish(s.ctx, []sojourn.Outcome{{Lease: l, Type: sojourn.OutcomeCompleted}})
		s.must(err, "Finish")
		answers[0] = string(f[0].Status) + " " + f[0].State.String() + " " + f[0].Reason
		answers[1] = s.extends(l, false)
		errs, err := s.store.Save(s.ctx, []driver.Saved{{Lease: l, Checkpoint: []byte("x")}})
		s.must(err, "Save")
		answers[2], answers[3] = sojourn.ErrorCode(errs[0].Err), strings.ReplaceAll(errs[0].Err.Error(), fmt.Sprint(id), "n")
		return answers
	}
	running, ended, cancelled, waiting := s.running(), s.running(), s.running(), s.running()
	s.finish(completed(ended), sojourn.Completed)
	s.cancel(cancelled.Job.ID)
	s.finish(await(waiting, time.Hour), sojourn.Awaiting)
	nothing := invented(cancelled.Job.ID+1_000_000, 1, "w1")
	for what, id := range map[string]sojourn.ID{"a running job": running.Job.ID, "a completed job": ended.Job.ID, "a cancelled job": cancelled.Job.ID,
		"an awaiting job": waiting.Job.ID} {
		for _, epoch := range []int64{0, 1, 2} {
			same(s, fmt.Sprintf("the answer about %s at epoch %d", what, epoch), invented(id, epoch, "stranger"), nothing)
		}
	}
}

func pastItsEnd(s *scene) {
	c := s.running()
	s.advance(3 * lease)
	s.extends(c.Lease, true)
	s.swept(lease-time.Second, driver.Swept{})
	s.advance(2 * lease)
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("late")}), "Save")
	s.swept(lease-time.Second, driver.Swept{})
	s.advance(2 * lease)
	s.finish(completed(c), sojourn.Completed)
	s.counters(c.Job.ID, 1, 0, 0)
}

func strictLease(s *scene) {
	c := s.running(policy(sojourn.Policy{NoExtend: new(true)}))
	s.advance(20 * time.Second)
	s.extends(c.Lease, true) // it still stands, only no longer
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("c")}), "Save")
	s.swept(10*time.Second, driver.Swept{Lost: 1})
	s.counters(c.Job.ID, 1, 0, 1)
}

func lostLease(s *scene) {
	c := s.running()
	runAt := s.get(c.Job.ID).RunAt
	s.swept(lease-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{Lost: 1})
	j := s.state(c.Job.ID, sojourn.Ready)
	s.at("run_at", j.RunAt, runAt)
	same(s, "reason", j.Reason, sojourn.ReasonLeaseLost)
	s.counters(c.Job.ID, 1, 0, 1)
	s.inFlight(0, "after the loss")
	a := s.happened(c.Job.ID, "lost")[0]
	same(s, "reason in the history", a.Reason, sojourn.ReasonLeaseLost)
	same(s, "worker in the history", a.Worker, "w1")
	same(s, "state in the history", a.State, sojourn.Ready)
	d := s.claim(by("w2"))
	s.counters(c.Job.ID, 2, 0, 1)
	same(s, "epoch", d.Lease.Epoch, 2)
	same(s, "purpose", d.Purpose, sojourn.PurposeStart)
}

func lostBudget(s *scene) {
	c := s.running(steady(time.Second), sojourn.MaxAttempts(2), sojourn.MaxCrashes(3))
	id := c.Job.ID
	s.swept(lease, driver.Swept{Lost: 1})
	s.finish(failure(s.claim()), sojourn.Scheduled)
	s.counters(id, 2, 1, 1) // a failure uses up no crash, and the other way round
	s.advance(time.Second)
	s.claim()
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(id, sojourn.Scheduled)
	s.counters(id, 3, 1, 2)
	s.advance(time.Second)
	s.claim()
	s.swept(lease, driver.Swept{Lost: 1})
	j := s.state(id, sojourn.Failed)
	s.counters(id, 4, 1, 3)
	same(s, "reason", j.Reason, sojourn.ReasonLeaseLost)
	s.happened(id, "lost", "error", "lost", "lost")
}

func lostUnlimited(s *scene) {
	s.enqueue(policy(sojourn.Policy{MaxCrashes: sojourn.Unlimited, Backoff: sojourn.Backoff{First: -1}}))
	for range 12 {
		s.claim()
		s.advance(lease)
		same(s, "lost leases", s.sweep().Lost, 1)
	}
	same(s, "crashes", s.claim().Job.Crashes, 12)
}

func lostAtMostOnce(s *scene) {
	c := s.running(policy(sojourn.Policy{OnLost: sojourn.Fail}), sojourn.Key("k"))
	s.swept(lease, driver.Swept{Lost: 1})
	same(s, "reason", s.state(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonLeaseLost)
	s.counters(c.Job.ID, 1, 0, 1)
	s.claimNone("it may run at most once")
}
