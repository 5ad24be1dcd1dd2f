package storetest

import (
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var paceTrials = []trial{
	{"rate", "A queue starts its burst at once and then one job an interval, whoever claims and however many at a time.", "spec:K8", rateHolds},
	{"rate of groups", "Each group has its own bucket, and an empty one does not hide the next group.", "spec:K8 spec:K4", rateGroups},
	{"rate and a claim that waits", "A claim that waits is answered when the bucket has a start again.", "spec:K8", rateWakes},
	{"rate counts what starts", "A job that a claim passes over, and one that is resumed, costs the bucket nothing.", "spec:K8 rules:B11", rateCounts},
	{"rate and jobs outside their windows", "A job that a claim puts off to its windows' next opening has not started: it costs neither a start nor a probe.",
		"spec:K8 spec:T4 tr:S2", ratePutOff},
	{"weight of a poll step", "A poll of a waiting job needs no weight and no window, for its job is in flight; but it is a start of the rate, and a hold stops it.",
		"spec:K8 rules:B11 tr:C5", pollWeight},
	{"hold by a handler", "A handler's hold closes the queue for everybody, costs neither attempt nor failure, and the job keeps its place.",
		"spec:K8 tr:F14", holdByHandler},
	{"hold of another queue", "A handler may hold another queue: its own job comes back after the hold, and its own queue goes on.", "spec:K8 tr:F14", holdOther},
	{"hold by a poll function", "A poll step may hold its queue or another: its job goes on waiting, and no start and no poll comes before the end of the hold.",
		"spec:K8 rules:B11 tr:P1 tr:C5", holdByPoll},
	{"hold leaks out on a ramp", "After a hold one job starts in the first second, twice as many in each following one, and after ten all.", "spec:K8", holdRamp},
	{"hold by an operator", "An operator holds a queue for a time, shortens that, and ends it at once.", "spec:K8 spec:O4", holdByOperator},
	{"hold leaves what goes on", "A hold stops starts; answers are handed out, and decisions made.", "spec:K8 rules:B11", holdGoesOn},
	{"breaker", "So many failures within a time close the queue; probes that succeed open it again, one that fails does not.", "spec:K8", breakerOpens},
	{"breaker and reasons", "Only failures with the reasons of the setting count, and timeouts and error responses do as well.", "spec:K8", breakerReasons},
	{"breaker whose probe is lost", "A probe that nobody answers for is replaced by another.", "spec:K8", breakerLostProbe},
}

func pollWeight(s *scene) {
	settings := sojourn.QueueSettings{Limit: 3, GroupLimit: 1, Rate: &sojourn.Rate{Count: 2, Per: time.Hour, Burst: 2}}
	s.setQueue(line, settings)
	id := s.enqueue(sojourn.Group("g"), sojourn.Weight(3), sojourn.Key("k"))
	o := await(s.claim(), 24*time.Hour)
	o.Wait.Poll = sojourn.Backoff{First: time.Second, Factor: 1, Limit: time.Second}
	s.finish(o, sojourn.Awaiting)
	s.enqueue(sojourn.Group("g"))
	poll := func(r *driver.ClaimRequest) { r.Pollable = r.Kinds }
	settings.Windows = sojourn.Windows{evening}
	s.setQueue(line, settings)
	s.advance(2 * time.Second)
	s.must(s.hold(line, time.Minute, ""), "HoldQueue")
	s.claimNone("the queue is on hold", poll)
	s.must(s.hold(line, 0, ""), "HoldQueue")
	c := s.claim(poll)
	if c.Job.ID != id || c.Purpose != sojourn.PurposePoll {
		s.Fatalf("claimed job %d, purpose %v", c.Job.ID, c.Purpose)
	}
	s.inFlight(3, "the weight of the job that is polled, once")
	s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeNoAnswer}, sojourn.Awaiting)
	s.inFlight(3, "after the poll")
	s.advance(2 * time.Second)
	s.claimNone("both starts are used", poll)
	s.advance(30 * time.Minute)
	same(s, "the next poll", s.claim(poll).Purpose, sojourn.PurposePoll)
}

func ratePutOff(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 1, Per: 24 * time.Hour}, GroupRate: &sojourn.Rate{Count: 1, Per: 24 * time.Hour}})
	for range 3 {
		s.enqueue(sojourn.In(office), sojourn.Group("g"))
	}
	open := s.enqueue(sojourn.Priority(200), sojourn.Group("g"))
	s.advance(8 * time.Hour) // the windows have closed
	same(s, "the job that may start", s.claim(upTo(2)).Job.ID, open)
	s.claimNone("the start is used")
}

func holds(c driver.Claimed, queue string, d time.Duration) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeHold, Queue: queue, Delay: d}
}

func fails(c driver.Claimed, reason string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeError, Reason: reason, Text: "it did"}
}

func rateHolds(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 10, Per: time.Second, Burst: 3}})
	s.enqueueMany(40)
	same(s, "jobs of the burst", len(s.claimMany(upTo(2)))+len(s.claimMany(upTo(100), by("w2"))), 3)
	s.claimNone("the bucket is empty")
	s.advance(99 * time.Millisecond)
	s.claimNone("the next start is due in a millisecond")
	s.advance(time.Millisecond)
	s.claim()
	s.claimNone("the bucket is empty again")
	s.advance(250 * time.Millisecond)
	same(s, "jobs after two and a half intervals", len(s.claimMany(upTo(100))), 2)
	s.advance(10 * time.Second)
	same(s, "jobs after ten seconds", len(s.claimMany(upTo(100))), 3)
	s.setQueue(line, sojourn.QueueSettings{})
	same(s, "jobs without a rate", len(s.claimMany(upTo(100))), 31)
}

func rateGroups(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{GroupRate: &sojourn.Rate{Count: 1, Per: time.Second, Burst: 2}})
	s.enqueueMany(50, sojourn.Group("giant"))
	s.enqueueMany(3, sojourn.Group("small"))
	s.enqueueMany(3)
	by := map[string]int{}
	for range 5 {
		for _, c := range s.claimMany(upTo(4)) {
			by[c.Job.Group]++
		}
	}
	if by["giant"] != 2 || by["small"] != 2 || by[""] != 3 {
		s.Fatalf("%v started, want 2 of each group and all without one", by)
	}
	s.advance(time.Second)
	same(s, "jobs after a second", len(s.claimMany(upTo(100))), 2)
	s.advance(10 * time.Second)
	same(s, "jobs after ten seconds", len(s.claimMany(upTo(100))), 2)
}

func rateWakes(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 1, Per: time.Minute}})
	s.enqueueMany(2)
	s.claim()
	got := s.block(s.ctx, by("w2"))
	s.advance(59 * time.Second)
	s.stays(got)
	s.advance(time.Second)
	s.answered(got, "the bucket has a start")
}

func rateCounts(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 1, Per: time.Minute, Burst: 2}})
	s.enqueueMany(3, sojourn.Weight(5))
	key := "order-1"
	s.enqueue(sojourn.Weight(1), sojourn.Key(key), sojourn.Priority(200))
	same(s, "jobs that fit", len(s.claimMany(upTo(100), room(5))), 1)
	same(s, "jobs that fit another worker", len(s.claimMany(upTo(100), room(4), by("w2"))), 1)
	s.claimNone("both starts are taken")
	s.advance(time.Minute)
	c := s.claim()
	s.finish(await(c, time.Hour), sojourn.Awaiting)
	s.claimNone("the bucket is empty")
	s.send(s.answer("", toJob(c.Job.ID)))
	same(s, "the resumed job", s.claim().Job.ID, c.Job.ID)
}

func holdByHandler(s *scene) {
	ids := s.enqueueMany(3, sojourn.MaxAttempts(1))
	c := s.claim()
	j := s.finish(holds(c, line, time.Minute), sojourn.Ready)
	s.counters(j.ID, 1, 0, 0)
	s.inFlight(0, "after the hold")
	s.claimNone("the queue is on hold", by("w2"))
	s.enqueue(sojourn.Priority(1))
	s.setQueue("other", sojourn.QueueSettings{})
	s.enqueue(sojourn.Queue("other"))
	s.claim(from("other"))
	s.advance(time.Minute - time.Millisecond)
	s.claimNone("the queue is on hold still")
	got := s.block(s.ctx, by("w2"))
	s.stays(got)
	s.advance(time.Millisecond)
	same(s, "the priority of the first job", s.answered(got, "the end of the hold").Job.Priority, 1)
	s.advance(15 * time.Second)
	next := s.claim()
	same(s, "the next job", next.Job.ID, ids[0])
	same(s, "its attempt", next.Job.Attempt, 1)
	h, err := s.store.History(s.ctx, ids[0], 0, 0)
	s.must(err, "History")
	if len(h) != 1 || h[0].Outcome != "hold" {
		s.Fatalf("the history is %+v, want one hold", h)
	}
	if f := s.report(holds(c, line, time.Minute)); f.Status != driver.FinishRepeated {
		s.Fatalf("the same hold again is %+v", f)
	}
}

func holdOther(s *scene) {
	s.enqueue(sojourn.Queue("psp"))
	s.enqueueMany(2)
	c := s.claim()
	s.finish(holds(c, "psp", 20*time.Second), sojourn.Scheduled)
	s.claimNone("the other queue is on hold", from("psp"))
	s.claim()
	s.claimNone("the job that has held waits as long")
	s.advance(20 * time.Second)
	same(s, "the job that has held", s.claim().Job.ID, c.Job.ID)
	s.claim(from("psp"))
	s.finish(holds(s.running(), "nobody", time.Minute), sojourn.Scheduled) // a queue that is not there remembers nothing
}

func holdByPoll(s *scene) {
	p := s.underPoll("k")
	o := noAnswer(p)
	o.Reason, o.Delay = "hold", time.Minute
	s.finish(o, sojourn.Awaiting)
	s.counters(p.Job.ID, 1, 0, 0)
	s.enqueue()
	s.claimNone("the queue is on hold", polling)
	s.advance(time.Minute - time.Millisecond)
	s.claimNone("the queue is on hold still", polling)
	s.advance(time.Millisecond)
	same(s, "the first step after the hold", s.claim(polling).Purpose, sojourn.PurposePoll)
	s.setQueue("psp", sojourn.QueueSettings{})
	s.advance(sojourn.HoldRamp)
	s.claim()
	o = noAnswer(s.underPoll("l"))
	o.Queue, o.Delay = "psp", time.Minute
	s.finish(o, sojourn.Awaiting)
	s.enqueue(sojourn.Queue("psp"))
	s.claimNone("the other queue is on hold", from("psp"))
	s.enqueue()
	s.claim() // its own continues
}

func holdRamp(s *scene) {
	s.enqueueMany(300)
	s.finish(holds(s.claim(), "", time.Minute), sojourn.Ready)
	s.advance(time.Minute)
	for _, want := range []int{1, 2, 4, 8, 16} {
		same(s, "jobs in the next second of the ramp", len(s.claimMany(upTo(10)))+len(s.claimMany(upTo(100))), want)
		s.claimNone("this second's jobs have started")
		s.advance(time.Second)
	}
	s.advance(5 * time.Second)
	same(s, "jobs after the ramp", len(s.claimMany(upTo(1000))), 269)
}

func (s *scene) hold(queue string, d time.Duration, reason string) error {
	return s.store.HoldQueue(s.ctx, queue, d, reason)
}

func holdByOperator(s *scene) {
	s.enqueueMany(3)
	s.must(s.hold(line, time.Hour, "maintenance"), "HoldQueue")
	s.claimNone("the queue is on hold")
	s.must(s.hold(line, time.Minute, "sooner"), "HoldQueue")
	s.advance(time.Minute)
	same(s, "jobs after the shorter hold", len(s.claimMany(upTo(10))), 1)
	s.must(s.hold(line, time.Hour, "again"), "HoldQueue")
	got := s.block(s.ctx, by("w2"))
	s.stays(got)
	s.must(s.hold(line, 0, ""), "HoldQueue")
	s.answered(got, "the end of the hold")
	s.claim()
	if err := s.hold("nobody", time.Minute, ""); !errors.Is(err, sojourn.ErrNotFound) {
		s.Fatalf("a queue that is not there: %v", err)
	}
	s.refused(s.hold(line, -1, ""), sojourn.CodeInvalid, "a negative hold")
	s.refused(s.hold(line, sojourn.MaxHold+1, ""), sojourn.CodeInvalid, "a hold of more than a day")
}

func holdGoesOn(s *scene) {
	c := s.awaiting(sojourn.Key("order-1"))
	e := s.errored()
	s.enqueue()
	s.must(s.hold(line, time.Hour, ""), "HoldQueue")
	s.respond("order-1")
	same(s, "the resumed job", s.claim().Job.ID, c.Job.ID)
	d := s.claim(deciding)
	if d.Job.ID != e.Job.ID || d.Purpose != sojourn.PurposeDecide {
		s.Fatalf("got job %d to %s, want %d to decide", d.Job.ID, d.Purpose, e.Job.ID)
	}
	s.claimNone("the queue is on hold")
}

func breakerOpens(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 3, Within: time.Minute, Open: 30 * time.Second, Probes: 2}})
	s.enqueueMany(60, steady(time.Hour))
	cs := s.claimMany(upTo(10))
	s.finish(fails(cs[0], "http_503"), sojourn.Scheduled)
	s.finish(fails(cs[1], "http_503"), sojourn.Scheduled)
	s.advance(time.Minute)
	s.must(s.extendAll(cs[2:]), "Extend")
	s.finish(fails(cs[2], "http_503"), sojourn.Scheduled)
	s.finish(completed(cs[3]), sojourn.Completed)
	s.finish(fails(cs[4], "http_503"), sojourn.Scheduled)
	s.claim() // the first two are too long ago
	s.finish(fails(cs[5], "http_503"), sojourn.Scheduled)
	s.claimNone("the breaker is open")
	got := s.block(s.ctx, by("w2"), upTo(1))
	s.finish(completed(cs[6]), sojourn.Completed)
	s.stays(got)
	s.advance(30 * time.Second)
	first := s.answered(got, "the time of the first probe")
	second := s.claimMany(upTo(10))
	same(s, "further probes", len(second), 1)
	s.claimNone("the probes are on their way")
	s.finish(completed(first), sojourn.Completed)
	s.claimNone("one probe has not answered")
	s.finish(fails(second[0], "http_503"), sojourn.Scheduled)
	s.claimNone("a probe has failed")
	s.advance(30 * time.Second)
	probes := s.claimMany(upTo(10))
	same(s, "new probes", len(probes), 2)
	s.finish(await(probes[0], time.Hour), sojourn.Awaiting)
	s.finish(completed(probes[1]), sojourn.Completed)
	same(s, "the first job of the ramp", len(s.claimMany(upTo(10))), 1)
	s.advance(10 * time.Second)
	same(s, "jobs after the ramp", len(s.claimMany(upTo(10))), 10)
}

func (s *scene) extendAll(cs []driver.Claimed) error {
	leases := make([]sojourn.Lease, len(cs))
	for i, c := range cs {
		leases[i] = c.Lease
	}
	_, err := s.store.Extend(s.ctx, leases)
	return err
}

func breakerReasons(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 2, Reasons: []string{"http_5*", sojourn.ReasonTimeout, "declined"}}})
	s.enqueueMany(6, steady(time.Hour))
	for _, c := range s.claimMany(upTo(3)) {
		s.finish(fails(c, "not_ours"), sojourn.Scheduled)
	}
	waits := s.claim()
	s.finish(await(waits, time.Second), sojourn.Awaiting)
	s.swept(time.Second, driver.Swept{TimedOut: 1})
	asked := s.claim()
	s.finish(await(asked, time.Hour), sojourn.Awaiting)
	r := s.answer("", toJob(asked.Job.ID), failing("declined"))
	s.send(r)
	s.state(asked.Job.ID, sojourn.Scheduled)
	s.claimNone("a timeout and an error response have opened the breaker")
}

func breakerLostProbe(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 1, Open: time.Minute}})
	s.enqueueMany(3, steady(time.Hour))
	s.finish(fails(s.claim(), "down"), sojourn.Scheduled)
	s.advance(time.Minute)
	s.claim(leased(time.Hour))
	s.claimNone("the probe is on its way")
	s.advance(time.Minute)
	probe := s.claim()
	s.finish(completed(probe), sojourn.Completed)
}
