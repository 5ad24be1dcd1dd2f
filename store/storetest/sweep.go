package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var sweepTrials = []trial{
	{"sweep what is due", "A sweep makes due jobs ready, at their time and not before.", "tr:S1 spec:O7 spec:P3 inv:L1", sweepDue},
	{"sweep in bounded steps", "A sweep handles at most limit things of each sort, and further sweeps the rest.", "tr:S1 tr:W1 inv:L4 spec:L4 spec:S7", sweepBounded},
	{"sweep everything at once", "Whatever is overdue after a long standstill is handled, each thing by its own rule.",
		"tr:S1 tr:W1 tr:W4 tr:W6 tr:W7 tr:W8 tr:W9 inv:L1 inv:L7 spec:S7", sweepAll},
	{"an unmatched response", "An early response with no job becomes unmatched when its time to live ends.", "tr:W9 spec:H4 inv:U4 rules:H3", sweepUnmatched},
	{"rules:B9 no time to live beside a live job", "An early response stays early while a live job has its key, even if it came before the job.",
		"tr:W9 rules:B9", sweepUnmatchedLive},
	{"a sweep of nothing", "A sweep of a store where nothing is overdue handles nothing and changes nothing.", "inv:L1", sweepNothing},
}

var clockTrials = []trial{
	{"rules:C5 every wake-up", "A job that is neither final nor ready is looked at again at the earliest of its clocks.", "rules:C5 inv:L1 spec:J7", wakeUps},
	{"the timeout of a running attempt", "A step that outlives its attempt's timeout is ended one lease later, as an error.",
		"tr:W5 rules:C5 spec:J7 spec:S7 inv:L2", clockTimeout},
	{"rules:C3 the deadline", "The deadline fails a job from any live state, without retry handler or backoff.", "tr:W6 rules:C3 inv:L3 spec:J7", clockDeadline},
	{"the deadline of a running job", "A running job meets its deadline one lease later.", "tr:W6 rules:C5 inv:L3", clockDeadlineRunning},
	{"a step that begins after the deadline", "A step that begins although the deadline is over has one lease before the sweep ends it.", "tr:W6 rules:C5 inv:F1 inv:L3", clockDeadlineLate},
	{"the deadline starts anew", "The deadline is a duration and starts anew at a redrive.", "tr:W6 tr:O3 rules:C3", clockDeadlineRedrive},
	{"rules:C4 a wait has an end", "A wait ends at the earliest of within, timeout and deadline.", "rules:C4 tr:W4 tr:W6 spec:H3", clockWaitEnds},
	{"no clock runs while a job waits to start", "A scheduled or ready job is not timed out, only its deadline ends it.", "inv:S4 spec:J7", clockWaiting},
}

func sweepDue(s *scene) {
	a := s.enqueue(sojourn.Delay(time.Minute))
	b := s.enqueue(sojourn.Delay(time.Minute + time.Microsecond))
	s.swept(time.Minute-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{Due: 1})
	j := s.state(a, sojourn.Ready)
	s.at("run_at", j.RunAt, s.now())
	s.state(b, sojourn.Scheduled)
	s.swept(time.Microsecond, driver.Swept{Due: 1})
	s.happened(a)
	s.counters(a, 0, 0, 0)
}

func sweepBounded(s *scene) {
	s.enqueueMany(10)
	same(s, "claimed", len(s.claimMany(upTo(10))), 10)
	due := s.enqueueMany(10, sojourn.Delay(time.Second))
	s.advance(lease)
	var dues, losts int
	for range 20 {
		w, err := s.store.Sweep(s.ctx, 3)
		s.must(err, "Sweep")
		if w.Due > 3 || w.Lost > 3 {
			s.Fatalf("a sweep with limit 3 handled %+v", w)
		}
		dues, losts = dues+w.Due, losts+w.Lost
		if w.Total() == 0 {
			break
		}
	}
	same(s, "due jobs", dues, 10)
	same(s, "lost leases", losts, 10)
	for _, id := range due {
		s.state(id, sojourn.Ready)
	}
}

func sweepAll(s *scene) {
	s.open(options{InboxTTL: time.Hour})
	p := steady(365 * 24 * time.Hour)
	errored := s.errored(p, policy(sojourn.Policy{DecideWithin: time.Hour})).Job.ID
	resumed := s.resumed("resumed", p, sojourn.Timeout(2*time.Hour)).Job.ID
	lost := s.running(ofKind("a"), p).Job.ID
	timed := s.awaiting(ofKind("b"), p, sojourn.Timeout(3*time.Hour)).Job.ID
	dead := s.awaiting(ofKind("c"), p, sojourn.Deadline(3*time.Hour)).Job.ID
	due := s.enqueue(sojourn.Delay(time.Hour))
	s.respond("nobody")
	s.swept(12*time.Hour, driver.Swept{Due: 1, Lost: 1, TimedOut: 1, Deadlines: 1, Decided: 1, Unmatched: 1, Resumed: 1})
	for id, want := range map[sojourn.ID]sojourn.State{resumed: sojourn.Ready, errored: sojourn.Scheduled, lost: sojourn.Ready,
		timed: sojourn.Scheduled, dead: sojourn.Failed, due: sojourn.Ready} {
		s.state(id, want)
	}
}

func sweepUnmatched(s *scene) {
	s.open(options{InboxTTL: time.Hour})
	r := s.respond("k")
	s.swept(time.Hour-time.Second, driver.Swept{})
	s.lies(r.Seq, sojourn.Early)
	s.swept(2*time.Second, driver.Swept{Unmatched: 1})
	s.lies(r.Seq, sojourn.Unmatched)
	c := s.running(sojourn.Key("k")) // by itself it is never matched again
	s.finish(await(c, 0), sojourn.Awaiting)
	same(s, "a repeat of its message", s.respond("k", message("test", "m1"), body("answer 1")).Outcome, sojourn.Duplicate)
	s.state(c.Job.ID, sojourn.Awaiting)
}

func sweepUnmatchedLive(s *scene) {
	s.open(options{InboxTTL: time.Hour})
	before := s.respond("k")
	id := s.enqueue(sojourn.Key("k"))
	s.became(s.respond("k"), sojourn.Early, id)
	s.swept(48*time.Hour, driver.Swept{})
	s.lies(before.Seq, sojourn.Early)
	c := s.claim()
	same(s, "resumed", s.finish(await(c, 0), sojourn.Ready).Resumed, true)
}

func sweepNothing(s *scene) {
	same(s, "an empty store", s.sweep(), driver.Swept{})
	c := s.running()
	s.awaiting(sojourn.Key("k"))
	s.enqueue(sojourn.Delay(time.Hour))
	before := s.picture(c.Job.ID)
	s.swept(time.Second, driver.Swept{})
	s.unchanged(c.Job.ID, before, "a sweep with nothing to do")
}

func wakeUps(s *scene) {
	p := policy(sojourn.Policy{Timeout: time.Hour, Deadline: 5 * time.Hour})
	t0 := s.now()
	wake := func(what string, id sojourn.ID, want time.Duration) {
		s.Helper()
		s.at("wake_at of a job that is "+what, s.get(id).WakeAt, t0.Add(want))
	}
	scheduled := s.enqueue(sojourn.Delay(2*time.Hour), p)
	wake("scheduled", scheduled, 2*time.Hour)
	far := s.enqueue(sojourn.Delay(9*time.Hour), p)
	wake("scheduled after its deadline", far, 5*time.Hour)
	c := s.running(p, sojourn.Key("k"))
	wake("running", c.Job.ID, lease)
	s.finish(await(c, 10*time.Minute), sojourn.Awaiting)
	wake("awaiting within", c.Job.ID, 10*time.Minute)
	s.respond("k")
	wake("resumed", c.Job.ID, time.Hour)
	c = s.claim()
	s.finish(await(c, 0), sojourn.Awaiting)
	wake("awaiting", c.Job.ID, time.Hour)
	ready := s.enqueue(p)
	wake("ready with a deadline", ready, 5*time.Hour)
	long := s.claim(leased(time.Hour))
	s.extends(long.Lease, true)
	wake("running with a long lease", long.Job.ID, time.Hour)
	s.cancel(long.Job.ID)
	e := s.enqueue(policy(sojourn.Policy{Deadline: 5 * time.Hour}))
	same(s, "job", s.claim(deciding).Job.ID, e)
	s.swept(lease, driver.Swept{Lost: 1})
	wake("errored", e, lease+sojourn.DefaultDecideWithin)
	short := s.enqueue(policy(sojourn.Policy{Timeout: 20 * time.Second}))
	d := s.claim()
	same(s, "job", d.Job.ID, short)
	s.advance(20 * time.Second)
	s.extends(d.Lease, true)
	s.advance(10 * time.Second)
	s.extends(d.Lease, true)
	wake("running beyond its timeout", short, lease+20*time.Second+lease)
}

func clockTimeout(s *scene) {
	c := s.running(sojourn.Timeout(lease), steady(time.Minute), sojourn.Key("k"))
	s.outlive(c.Lease, driver.Swept{TimedOut: 1})
	j := s.state(c.Job.ID, sojourn.Scheduled)
	same(s, "reason", j.Reason, sojourn.ReasonTimeout)
	s.at("run_at", j.RunAt, s.now().Add(time.Minute))
	s.counters(c.Job.ID, 1, 1, 0)
	s.inFlight(0, "after the timeout")
	a := s.happened(c.Job.ID, "timed_out")[0]
	same(s, "epoch in the history", a.Epoch, 1)
	same(s, "worker in the history", a.Worker, "w1")
	s.extends(c.Lease, false)
	s.cancel(c.Job.ID)
	d := s.running(sojourn.Timeout(lease), sojourn.MaxAttempts(1))
	s.outlive(d.Lease, driver.Swept{TimedOut: 1})
	same(s, "reason", s.state(d.Job.ID, sojourn.Failed).Reason, sojourn.ReasonTimeout)
}

func clockDeadline(s *scene) {
	p := []sojourn.Option{sojourn.Deadline(time.Hour), steady(2 * time.Hour)}
	with := func(o ...sojourn.Option) []sojourn.Option { return append(o, p...) }
	errored := s.errored(with(policy(sojourn.Policy{DecideWithin: 24 * time.Hour}))...)
	retrying := s.retrying(append([]sojourn.Option{sojourn.Key("retry")}, p...)...)
	ids := []sojourn.ID{
		errored.Job.ID, retrying.Job.ID,
		s.awaiting(with(sojourn.Key("a"))...).Job.ID,
		s.resumed("r", with(sojourn.Timeout(24*time.Hour))...).Job.ID,
		s.enqueue(with(sojourn.Delay(3 * time.Hour))...),
		s.enqueue(with(sojourn.Key("ready"))...),
	}
	kept := s.respond("ready")
	s.swept(time.Hour-lease-time.Microsecond, driver.Swept{}) // errored took one lease
	s.swept(lease+time.Microsecond, driver.Swept{Deadlines: len(ids)})
	for _, id := range ids {
		j := s.state(id, sojourn.Failed)
		same(s, "reason", j.Reason, sojourn.ReasonDeadline)
		as := s.history(id)
		same(s, "the last entry", as[len(as)-1].Outcome, "deadline")
	}
	s.lies(kept.Seq, sojourn.Late)
	s.inFlight(0, "after the deadlines")
	s.claimNone("all have failed")
	s.enqueue(sojourn.Key("a"))
}

func clockDeadlineRunning(s *scene) {
	c := s.running(sojourn.Deadline(lease), sojourn.Key("k"))
	r := s.respond("k")
	s.outlive(c.Lease, driver.Swept{Deadlines: 1})
	same(s, "reason", s.state(c.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
	s.lies(r.Seq, sojourn.Late)
	s.inFlight(0, "after the deadline")
	a := s.happened(c.Job.ID, "deadline")[0]
	same(s, "epoch in the history", a.Epoch, 1)
	s.extends(c.Lease, false)
}

// clockDeadlineLate: more jobs came due before the deadline than a claim handles on its way.
func clockDeadlineLate(s *scene) {
	s.enqueueMany(200, sojourn.Delay(time.Minute))
	id := s.enqueue(sojourn.Deadline(2*time.Minute), sojourn.Priority(1))
	s.advance(time.Hour)
	c := s.claim()
	same(s, "the claimed job", c.Job.ID, id)
	if c.Deadline <= 0 || c.Deadline > time.Microsecond {
		s.Fatalf("%v are left of a deadline that is over, want next to nothing", c.Deadline)
	}
	s.sweep()
	s.state(id, sojourn.Running)
	s.advance(lease - time.Second)
	s.extends(c.Lease, true)
	s.swept(time.Second-time.Microsecond, driver.Swept{})
	s.swept(time.Microsecond, driver.Swept{Deadlines: 1})
	same(s, "reason", s.state(id, sojourn.Failed).Reason, sojourn.ReasonDeadline)
}

func clockDeadlineRedrive(s *scene) {
	id := s.enqueue(sojourn.Deadline(time.Hour), sojourn.Delay(2*time.Hour))
	s.swept(time.Hour, driver.Swept{Deadlines: 1})
	s.edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.advance(30 * time.Minute)
	c := s.claim()
	same(s, "deadline left", c.Deadline, 30*time.Minute)
	s.finish(await(c, 0), sojourn.Awaiting)
	s.swept(30*time.Minute-time.Second, driver.Swept{})
	s.swept(time.Second, driver.Swept{Deadlines: 1})
	same(s, "reason", s.state(id, sojourn.Failed).Reason, sojourn.ReasonDeadline)
}

func clockWaitEnds(s *scene) {
	c := s.running(ofKind("a"), sojourn.Timeout(time.Hour), sojourn.Deadline(2*time.Hour), steady(24*time.Hour))
	s.finish(await(c, 3*time.Hour), sojourn.Awaiting)
	d := s.running(ofKind("b"), sojourn.Timeout(3*time.Hour), sojourn.Deadline(2*time.Hour))
	s.finish(await(d, 0), sojourn.Awaiting)
	s.swept(time.Hour-time.Second, driver.Swept{})
	s.swept(time.Second, driver.Swept{TimedOut: 1})
	s.state(c.Job.ID, sojourn.Scheduled)
	s.swept(time.Hour, driver.Swept{Deadlines: 2})
	s.state(d.Job.ID, sojourn.Failed)
}

func clockWaiting(s *scene) {
	ready := s.enqueue(sojourn.Timeout(time.Minute))
	scheduled := s.enqueue(sojourn.Timeout(time.Minute), sojourn.Delay(24*time.Hour))
	retry := s.retrying(sojourn.Timeout(time.Minute), steady(24*time.Hour), sojourn.Priority(1)).Job.ID
	s.swept(12*time.Hour, driver.Swept{})
	s.state(ready, sojourn.Ready)
	s.state(scheduled, sojourn.Scheduled)
	s.state(retry, sojourn.Scheduled)
}
