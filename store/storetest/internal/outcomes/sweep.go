package outcomes

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var sweepTrials = []kit.Trial{
	{Name: "sweep what is due", Law: "A sweep makes due jobs ready, at their time and not before.", Covers: "tr:S1 spec:O7 spec:P3 inv:L1", Run: sweepDue},
	{Name: "sweep in bounded steps", Law: "A sweep handles at most limit things of each sort, and further sweeps the rest.",
		Covers: "tr:S1 tr:W1 inv:L4 spec:L4 spec:S7", Run: sweepBounded},
	{Name: "sweep everything at once", Law: "Whatever is overdue after a long standstill is handled, each thing by its own rule.",
		Covers: "tr:S1 tr:W1 tr:W4 tr:W6 tr:W7 tr:W8 tr:W9 inv:L1 inv:L7 spec:S7", Run: sweepAll},
	{Name: "an unmatched response", Law: "An early response with no job becomes unmatched when its time to live ends.",
		Covers: "tr:W9 spec:H4 inv:U4 rules:H3", Run: sweepUnmatched},
	{Name: "rules:B9 no time to live beside a live job", Law: "An early response stays early while a live job has its key, even if it came before the job.",
		Covers: "tr:W9 rules:B9", Run: sweepUnmatchedLive},
	{Name: "a sweep of nothing", Law: "A sweep of a store where nothing is overdue handles nothing and changes nothing.", Covers: "inv:L1", Run: sweepNothing},
}

var clockTrials = []kit.Trial{
	{Name: "rules:C5 every wake-up", Law: "A job that is neither final nor ready is looked at again at the earliest of its clocks.",
		Covers: "rules:C5 inv:L1 spec:J7", Run: wakeUps},
	{Name: "the timeout of a running attempt", Law: "A step that outlives its attempt's timeout is ended one lease later, as an error.",
		Covers: "tr:W5 rules:C5 spec:J7 spec:S7 inv:L2", Run: clockTimeout},
	{Name: "rules:C3 the deadline", Law: "The deadline fails a job from any live state, without retry handler or backoff.",
		Covers: "tr:W6 rules:C3 inv:L3 spec:J7", Run: clockDeadline},
	{Name: "the deadline of a running job", Law: "A running job meets its deadline one lease later.", Covers: "tr:W6 rules:C5 inv:L3", Run: clockDeadlineRunning},
	{Name: "a step that begins after the deadline", Law: "A step that begins although the deadline is over has one lease before the sweep ends it.",
		Covers: "tr:W6 rules:C5 inv:F1 inv:L3", Run: clockDeadlineLate},
	{Name: "the deadline starts anew", Law: "The deadline is a duration and starts anew at a redrive.", Covers: "tr:W6 tr:O3 rules:C3", Run: clockDeadlineRedrive},
	{Name: "rules:C4 a wait has an end", Law: "A wait ends at the earliest of within, timeout and deadline.", Covers: "rules:C4 tr:W4 tr:W6 spec:H3", Run: clockWaitEnds},
	{Name: "no clock runs while a job waits to start", Law: "A scheduled or ready job is not timed out, only its deadline ends it.",
		Covers: "inv:S4 spec:J7", Run: clockWaiting},
}

func sweepDue(s *kit.Scene) {
	a := s.Enqueue(sojourn.Delay(time.Minute))
	b := s.Enqueue(sojourn.Delay(time.Minute + time.Microsecond))
	s.Swept(time.Minute-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{Due: 1})
	j := s.State(a, sojourn.Ready)
	s.At("run_at", j.RunAt, s.Now())
	s.State(b, sojourn.Scheduled)
	s.Swept(time.Microsecond, driver.Swept{Due: 1})
	s.Happened(a)
	s.Counters(a, 0, 0, 0)
}

func sweepBounded(s *kit.Scene) {
	s.EnqueueMany(10)
	kit.Same(s, "claimed", len(s.ClaimMany(kit.UpTo(10))), 10)
	due := s.EnqueueMany(10, sojourn.Delay(time.Second))
	s.Advance(kit.LeaseTime)
	var dues, losts int
	for range 20 {
		w, err := s.Store.Sweep(s.Ctx, 3)
		s.Must(err, "Sweep")
		if w.Due > 3 || w.Lost > 3 {
			s.Fatalf("a sweep with limit 3 handled %+v", w)
		}
		dues, losts = dues+w.Due, losts+w.Lost
		if w.Total() == 0 {
			break
		}
	}
	kit.Same(s, "due jobs", dues, 10)
	kit.Same(s, "lost leases", losts, 10)
	for _, id := range due {
		s.State(id, sojourn.Ready)
	}
}

func sweepAll(s *kit.Scene) {
	s.Open(kit.Options{InboxTTL: time.Hour})
	p := kit.Steady(365 * 24 * time.Hour)
	errored := s.Errored(p, kit.Policy(sojourn.Policy{DecideWithin: time.Hour})).Job.ID
	resumed := s.Resumed("resumed", p, sojourn.Timeout(2*time.Hour)).Job.ID
	lost := s.Running(kit.OfKind("a"), p).Job.ID
	timed := s.Awaiting(kit.OfKind("b"), p, sojourn.Timeout(3*time.Hour)).Job.ID
	dead := s.Awaiting(kit.OfKind("c"), p, sojourn.Deadline(3*time.Hour)).Job.ID
	due := s.Enqueue(sojourn.Delay(time.Hour))
	s.Respond("nobody")
	s.Swept(12*time.Hour, driver.Swept{Due: 1, Lost: 1, TimedOut: 1, Deadlines: 1, Decided: 1, Unmatched: 1, Resumed: 1})
	for id, want := range map[sojourn.ID]sojourn.State{resumed: sojourn.Ready, errored: sojourn.Scheduled, lost: sojourn.Ready,
		timed: sojourn.Scheduled, dead: sojourn.Failed, due: sojourn.Ready} {
		s.State(id, want)
	}
}

func sweepUnmatched(s *kit.Scene) {
	s.Open(kit.Options{InboxTTL: time.Hour})
	r := s.Respond("k")
	s.Swept(time.Hour-time.Second, driver.Swept{})
	s.Stored(r.Seq, sojourn.Early)
	s.Swept(2*time.Second, driver.Swept{Unmatched: 1})
	s.Stored(r.Seq, sojourn.Unmatched)
	c := s.Running(sojourn.Key("k")) // by itself it is never matched again
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	kit.Same(s, "a repeat of its message", s.Respond("k", kit.Message("test", "m1"), kit.Body("answer 1")).Outcome, sojourn.Duplicate)
	s.State(c.Job.ID, sojourn.Awaiting)
}

func sweepUnmatchedLive(s *kit.Scene) {
	s.Open(kit.Options{InboxTTL: time.Hour})
	before := s.Respond("k")
	id := s.Enqueue(sojourn.Key("k"))
	s.Became(s.Respond("k"), sojourn.Early, id)
	s.Swept(48*time.Hour, driver.Swept{})
	s.Stored(before.Seq, sojourn.Early)
	c := s.Claim()
	kit.Same(s, "resumed", s.Finish(kit.Await(c, 0), sojourn.Ready).Resumed, true)
}

func sweepNothing(s *kit.Scene) {
	kit.Same(s, "an empty store", s.Sweep(), driver.Swept{})
	c := s.Running()
	s.Awaiting(sojourn.Key("k"))
	s.Enqueue(sojourn.Delay(time.Hour))
	before := s.Picture(c.Job.ID)
	s.Swept(time.Second, driver.Swept{})
	s.Unchanged(c.Job.ID, before, "a sweep with nothing to do")
}

func wakeUps(s *kit.Scene) {
	p := kit.Policy(sojourn.Policy{Timeout: time.Hour, Deadline: 5 * time.Hour})
	t0 := s.Now()
	wake := func(what string, id sojourn.ID, want time.Duration) {
		s.Helper()
		s.At("wake_at of a job that is "+what, s.Get(id).WakeAt, t0.Add(want))
	}
	scheduled := s.Enqueue(sojourn.Delay(2*time.Hour), p)
	wake("scheduled", scheduled, 2*time.Hour)
	far := s.Enqueue(sojourn.Delay(9*time.Hour), p)
	wake("scheduled after its deadline", far, 5*time.Hour)
	c := s.Running(p, sojourn.Key("k"))
	wake("running", c.Job.ID, kit.LeaseTime)
	s.Finish(kit.Await(c, 10*time.Minute), sojourn.Awaiting)
	wake("awaiting within", c.Job.ID, 10*time.Minute)
	s.Respond("k")
	wake("resumed", c.Job.ID, time.Hour)
	c = s.Claim()
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	wake("awaiting", c.Job.ID, time.Hour)
	ready := s.Enqueue(p)
	wake("ready with a deadline", ready, 5*time.Hour)
	long := s.Claim(kit.Leased(time.Hour))
	s.Extends(long.Lease, true)
	wake("running with a long lease", long.Job.ID, time.Hour)
	s.Cancel(long.Job.ID)
	e := s.Enqueue(kit.Policy(sojourn.Policy{Deadline: 5 * time.Hour}))
	kit.Same(s, "job", s.Claim(kit.Deciding).Job.ID, e)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	wake("errored", e, kit.LeaseTime+sojourn.DefaultDecideWithin)
	short := s.Enqueue(kit.Policy(sojourn.Policy{Timeout: 20 * time.Second}))
	d := s.Claim()
	kit.Same(s, "job", d.Job.ID, short)
	s.Advance(20 * time.Second)
	s.Extends(d.Lease, true)
	s.Advance(10 * time.Second)
	s.Extends(d.Lease, true)
	wake("running beyond its timeout", short, kit.LeaseTime+20*time.Second+kit.LeaseTime)
}

func clockTimeout(s *kit.Scene) {
	c := s.Running(sojourn.Timeout(kit.LeaseTime), kit.Steady(time.Minute), sojourn.Key("k"))
	s.Outlive(c.Lease, driver.Swept{TimedOut: 1})
	j := s.State(c.Job.ID, sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, sojourn.ReasonTimeout)
	s.At("run_at", j.RunAt, s.Now().Add(time.Minute))
	s.Counters(c.Job.ID, 1, 1, 0)
	s.InFlight(0, "after the timeout")
	a := s.Happened(c.Job.ID, "timed_out")[0]
	kit.Same(s, "epoch in the history", a.Epoch, 1)
	kit.Same(s, "worker in the history", a.Worker, "w1")
	s.Extends(c.Lease, false)
	s.Cancel(c.Job.ID)
	d := s.Running(sojourn.Timeout(kit.LeaseTime), sojourn.MaxAttempts(1))
	s.Outlive(d.Lease, driver.Swept{TimedOut: 1})
	kit.Same(s, "reason", s.State(d.Job.ID, sojourn.Failed).Reason, sojourn.ReasonTimeout)
}

func clockDeadline(s *kit.Scene) {
	p := []sojourn.Option{sojourn.Deadline(time.Hour), kit.Steady(2 * time.Hour)}
	with := func(o ...sojourn.Option) []sojourn.Option { return append(o, p...) }
	errored := s.Errored(with(kit.Policy(sojourn.Policy{DecideWithin: 24 * time.Hour}))...)
	retrying := s.Retrying(append([]sojourn.Option{sojourn.Key("retry")}, p...)...)
	ids := []sojourn.ID{
		errored.Job.ID, retrying.Job.ID,
		s.Awaiting(with(sojourn.Key("a"))...).Job.ID,
		s.Resumed("r", with(sojourn.Timeout(24*time.Hour))...).Job.ID,
		s.Enqueue(with(sojourn.Delay(3 * time.Hour))...),
		s.Enqueue(with(sojourn.Key("ready"))...),
	}
	kept := s.Respond("ready")
	s.Swept(time.Hour-kit.LeaseTime-time.Microsecond, driver.Swept{}) // errored took one lease
	s.Swept(kit.LeaseTime+time.Microsecond, driver.Swept{Deadlines: len(ids)})
	for _, id := range ids {
		j := s.State(id, sojourn.Failed)
		kit.Same(s, "reason", j.Reason, sojourn.ReasonDeadline)
		as := s.History(id)
		kit.Same(s, "the last entry", as[len(as)-1].Outcome, "deadline")
	}
	s.Stored(kept.Seq, sojourn.Late)
	s.InFlight(0, "after the deadlines")
	s.ClaimNone("all have failed")
	s.Enqueue(sojourn.Key("a"))
}

func clockDeadlineRunning(s *kit.Scene) {
	c := s.Running(sojourn.Deadline(kit.LeaseTime), sojourn.Key("k"))
	r := s.Respond("k")
	s.Outlive(c.Lease, driver.Swept{Deadlines: 1})
	kit.Same(s, "reason", s.State(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
	s.Stored(r.Seq, sojourn.Late)
	s.InFlight(0, "after the deadline")
	a := s.Happened(c.Job.ID, "deadline")[0]
	kit.Same(s, "epoch in the history", a.Epoch, 1)
	s.Extends(c.Lease, false)
}

// clockDeadlineLate: more jobs came due before the deadline than a claim handles on its way.
func clockDeadlineLate(s *kit.Scene) {
	s.EnqueueMany(200, sojourn.Delay(time.Minute))
	id := s.Enqueue(sojourn.Deadline(2*time.Minute), sojourn.Priority(1))
	s.Advance(time.Hour)
	c := s.Claim()
	kit.Same(s, "the claimed job", c.Job.ID, id)
	if c.Deadline <= 0 || c.Deadline > time.Microsecond {
		s.Fatalf("%v are left of a deadline that is over, want next to nothing", c.Deadline)
	}
	s.Sweep()
	s.State(id, sojourn.Running)
	s.Advance(kit.LeaseTime - time.Second)
	s.Extends(c.Lease, true)
	s.Swept(time.Second-time.Microsecond, driver.Swept{})
	s.Swept(time.Microsecond, driver.Swept{Deadlines: 1})
	kit.Same(s, "reason", s.State(id, sojourn.Failed).Reason, sojourn.ReasonDeadline)
}

func clockDeadlineRedrive(s *kit.Scene) {
	id := s.Enqueue(sojourn.Deadline(time.Hour), sojourn.Delay(2*time.Hour))
	s.Swept(time.Hour, driver.Swept{Deadlines: 1})
	s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Advance(30 * time.Minute)
	c := s.Claim()
	kit.Same(s, "deadline left", c.Deadline, 30*time.Minute)
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Swept(30*time.Minute-time.Second, driver.Swept{})
	s.Swept(time.Second, driver.Swept{Deadlines: 1})
	kit.Same(s, "reason", s.State(id, sojourn.Failed).Reason, sojourn.ReasonDeadline)
}

func clockWaitEnds(s *kit.Scene) {
	c := s.Running(kit.OfKind("a"), sojourn.Timeout(time.Hour), sojourn.Deadline(2*time.Hour), kit.Steady(24*time.Hour))
	s.Finish(kit.Await(c, 3*time.Hour), sojourn.Awaiting)
	d := s.Running(kit.OfKind("b"), sojourn.Timeout(3*time.Hour), sojourn.Deadline(2*time.Hour))
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Swept(time.Hour-time.Second, driver.Swept{})
	s.Swept(time.Second, driver.Swept{TimedOut: 1})
	s.State(c.Job.ID, sojourn.Scheduled)
	s.Swept(time.Hour, driver.Swept{Deadlines: 2})
	s.State(d.Job.ID, sojourn.Failed)
}

func clockWaiting(s *kit.Scene) {
	ready := s.Enqueue(sojourn.Timeout(time.Minute))
	scheduled := s.Enqueue(sojourn.Timeout(time.Minute), sojourn.Delay(24*time.Hour))
	retry := s.Retrying(sojourn.Timeout(time.Minute), kit.Steady(24*time.Hour), sojourn.Priority(1)).Job.ID
	s.Swept(12*time.Hour, driver.Swept{})
	s.State(ready, sojourn.Ready)
	s.State(scheduled, sojourn.Scheduled)
	s.State(retry, sojourn.Scheduled)
}
