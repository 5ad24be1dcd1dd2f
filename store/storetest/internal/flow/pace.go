package flow

import (
	"errors"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var paceTrials = []kit.Trial{
	{Name: "rate", Law: "A queue starts its burst at once and then one job an interval, whoever claims and however many at a time.", Covers: "spec:K8", Run: rateHolds},
	{Name: "rate of groups", Law: "Each group has its own bucket, and an empty one does not hide the next group.", Covers: "spec:K8 spec:K4", Run: rateGroups},
	{Name: "rate and a claim that waits", Law: "A claim that waits is answered when the bucket has a start again.", Covers: "spec:K8", Run: rateWakes},
	{Name: "rate counts what starts", Law: "A job that a claim passes over, and one that is resumed, costs the bucket nothing.",
		Covers: "spec:K8 rules:B11", Run: rateCounts},
	{Name: "rate and jobs outside their windows", Law: "A job that a claim puts off to its windows' next opening has not started: it costs neither a start nor a probe.",
		Covers: "spec:K8 spec:T4 tr:S2", Run: ratePutOff},
	{Name: "weight of a poll step", Law: "A poll of a waiting job needs no weight and no window, for its job is in flight; but it is a start of the rate, and a hold stops it.",
		Covers: "spec:K8 rules:B11 tr:C5", Run: pollWeight},
	{Name: "hold by a handler", Law: "A handler's hold closes the queue for everybody, costs neither attempt nor failure, and the job keeps its place.",
		Covers: "spec:K8 tr:F14", Run: holdByHandler},
	{Name: "hold of another queue", Law: "A handler may hold another queue: its own job comes back after the hold, and its own queue goes on.",
		Covers: "spec:K8 tr:F14", Run: holdOther},
	{Name: "hold by a poll function", Law: "A poll step may hold its queue or another: its job goes on waiting, and no start and no poll comes before the end of the hold.",
		Covers: "spec:K8 rules:B11 tr:P1 tr:C5", Run: holdByPoll},
	{Name: "hold leaks out on a ramp", Law: "After a hold one job starts in the first second, twice as many in each following one, and after ten all.",
		Covers: "spec:K8", Run: holdRamp},
	{Name: "hold by an operator", Law: "An operator holds a queue for a time, shortens that, and ends it at once.", Covers: "spec:K8 spec:O4", Run: holdByOperator},
	{Name: "hold leaves what goes on", Law: "A hold stops starts; answers are handed out, and decisions made.", Covers: "spec:K8 rules:B11", Run: holdGoesOn},
	{Name: "breaker", Law: "So many failures within a time close the queue; probes that succeed open it again, one that fails does not.",
		Covers: "spec:K8", Run: breakerOpens},
	{Name: "breaker and reasons", Law: "Only failures with the reasons of the setting count, and timeouts and error responses do as well.",
		Covers: "spec:K8", Run: breakerReasons},
	{Name: "breaker whose probe is lost", Law: "A probe that nobody answers for is replaced by another.", Covers: "spec:K8", Run: breakerLostProbe},
}

func pollWeight(s *kit.Scene) {
	settings := sojourn.QueueSettings{Limit: 3, GroupLimit: 1, Rate: &sojourn.Rate{Count: 2, Per: time.Hour, Burst: 2}}
	s.SetQueue(kit.Queue, settings)
	id := s.Enqueue(sojourn.Group("g"), sojourn.Weight(3), sojourn.Key("k"))
	o := kit.Await(s.Claim(), 24*time.Hour)
	o.Wait.Poll = sojourn.Backoff{First: time.Second, Factor: 1, Limit: time.Second}
	s.Finish(o, sojourn.Awaiting)
	s.Enqueue(sojourn.Group("g"))
	poll := func(r *driver.ClaimRequest) { r.Pollable = r.Kinds }
	settings.Windows = sojourn.Windows{kit.Evening}
	s.SetQueue(kit.Queue, settings)
	s.Advance(2 * time.Second)
	s.Must(hold(s, kit.Queue, time.Minute, ""), "HoldQueue")
	s.ClaimNone("the queue is on hold", poll)
	s.Must(hold(s, kit.Queue, 0, ""), "HoldQueue")
	c := s.Claim(poll)
	if c.Job.ID != id || c.Purpose != sojourn.PurposePoll {
		s.Fatalf("claimed job %d, purpose %v", c.Job.ID, c.Purpose)
	}
	s.InFlight(3, "the weight of the job that is polled, once")
	s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeNoAnswer}, sojourn.Awaiting)
	s.InFlight(3, "after the poll")
	s.Advance(2 * time.Second)
	s.ClaimNone("both starts are used", poll)
	s.Advance(30 * time.Minute)
	kit.Same(s, "the next poll", s.Claim(poll).Purpose, sojourn.PurposePoll)
}

func ratePutOff(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 1, Per: 24 * time.Hour}, GroupRate: &sojourn.Rate{Count: 1, Per: 24 * time.Hour}})
	for range 3 {
		s.Enqueue(sojourn.In(kit.Office), sojourn.Group("g"))
	}
	open := s.Enqueue(sojourn.Priority(200), sojourn.Group("g"))
	s.Advance(8 * time.Hour) // the windows have closed
	kit.Same(s, "the job that may start", s.Claim(kit.UpTo(2)).Job.ID, open)
	s.ClaimNone("the start is used")
}

func holds(c driver.Claimed, queue string, d time.Duration) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeHold, Queue: queue, Delay: d}
}

func fails(c driver.Claimed, reason string) sojourn.Outcome {
	return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeError, Reason: reason, Text: "it did"}
}

func rateHolds(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 10, Per: time.Second, Burst: 3}})
	s.EnqueueMany(40)
	kit.Same(s, "jobs of the burst", len(s.ClaimMany(kit.UpTo(2)))+len(s.ClaimMany(kit.UpTo(100), kit.By("w2"))), 3)
	s.ClaimNone("the bucket is empty")
	s.Advance(99 * time.Millisecond)
	s.ClaimNone("the next start is due in a millisecond")
	s.Advance(time.Millisecond)
	s.Claim()
	s.ClaimNone("the bucket is empty again")
	s.Advance(250 * time.Millisecond)
	kit.Same(s, "jobs after two and a half intervals", len(s.ClaimMany(kit.UpTo(100))), 2)
	s.Advance(10 * time.Second)
	kit.Same(s, "jobs after ten seconds", len(s.ClaimMany(kit.UpTo(100))), 3)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	kit.Same(s, "jobs without a rate", len(s.ClaimMany(kit.UpTo(100))), 31)
}

func rateGroups(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{GroupRate: &sojourn.Rate{Count: 1, Per: time.Second, Burst: 2}})
	s.EnqueueMany(50, sojourn.Group("giant"))
	s.EnqueueMany(3, sojourn.Group("small"))
	s.EnqueueMany(3)
	by := map[string]int{}
	for range 5 {
		for _, c := range s.ClaimMany(kit.UpTo(4)) {
			by[c.Job.Group]++
		}
	}
	if by["giant"] != 2 || by["small"] != 2 || by[""] != 3 {
		s.Fatalf("%v started, want 2 of each group and all without one", by)
	}
	s.Advance(time.Second)
	kit.Same(s, "jobs after a second", len(s.ClaimMany(kit.UpTo(100))), 2)
	s.Advance(10 * time.Second)
	kit.Same(s, "jobs after ten seconds", len(s.ClaimMany(kit.UpTo(100))), 2)
}

func rateWakes(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 1, Per: time.Minute}})
	s.EnqueueMany(2)
	s.Claim()
	got := s.Block(s.Ctx, kit.By("w2"))
	s.Advance(59 * time.Second)
	s.Stays(got)
	s.Advance(time.Second)
	s.Answered(got, "the bucket has a start")
}

func rateCounts(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Rate: &sojourn.Rate{Count: 1, Per: time.Minute, Burst: 2}})
	s.EnqueueMany(3, sojourn.Weight(5))
	key := "order-1"
	s.Enqueue(sojourn.Weight(1), sojourn.Key(key), sojourn.Priority(200))
	kit.Same(s, "jobs that fit", len(s.ClaimMany(kit.UpTo(100), kit.Room(5))), 1)
	kit.Same(s, "jobs that fit another worker", len(s.ClaimMany(kit.UpTo(100), kit.Room(4), kit.By("w2"))), 1)
	s.ClaimNone("both starts are taken")
	s.Advance(time.Minute)
	c := s.Claim()
	s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
	s.ClaimNone("the bucket is empty")
	s.Send(s.Answer("", kit.ToJob(c.Job.ID)))
	kit.Same(s, "the resumed job", s.Claim().Job.ID, c.Job.ID)
}

func holdByHandler(s *kit.Scene) {
	ids := s.EnqueueMany(3, sojourn.MaxAttempts(1))
	c := s.Claim()
	j := s.Finish(holds(c, kit.Queue, time.Minute), sojourn.Ready)
	s.Counters(j.ID, 1, 0, 0)
	s.InFlight(0, "after the hold")
	s.ClaimNone("the queue is on hold", kit.By("w2"))
	s.Enqueue(sojourn.Priority(1))
	s.SetQueue("other", sojourn.QueueSettings{})
	s.Enqueue(sojourn.Queue("other"))
	s.Claim(kit.From("other"))
	s.Advance(time.Minute - time.Millisecond)
	s.ClaimNone("the queue is on hold still")
	got := s.Block(s.Ctx, kit.By("w2"))
	s.Stays(got)
	s.Advance(time.Millisecond)
	kit.Same(s, "the priority of the first job", s.Answered(got, "the end of the hold").Job.Priority, 1)
	s.Advance(15 * time.Second)
	next := s.Claim()
	kit.Same(s, "the next job", next.Job.ID, ids[0])
	kit.Same(s, "its attempt", next.Job.Attempt, 1)
	h, err := s.Store.History(s.Ctx, ids[0], 0, 0)
	s.Must(err, "History")
	if len(h) != 1 || h[0].Outcome != "hold" {
		s.Fatalf("the history is %+v, want one hold", h)
	}
	if f := s.Report(holds(c, kit.Queue, time.Minute)); f.Status != driver.FinishRepeated {
		s.Fatalf("the same hold again is %+v", f)
	}
}

func holdOther(s *kit.Scene) {
	s.Enqueue(sojourn.Queue("psp"))
	s.EnqueueMany(2)
	c := s.Claim()
	s.Finish(holds(c, "psp", 20*time.Second), sojourn.Scheduled)
	s.ClaimNone("the other queue is on hold", kit.From("psp"))
	s.Claim()
	s.ClaimNone("the job that has held waits as long")
	s.Advance(20 * time.Second)
	kit.Same(s, "the job that has held", s.Claim().Job.ID, c.Job.ID)
	s.Claim(kit.From("psp"))
	s.Finish(holds(s.Running(), "nobody", time.Minute), sojourn.Scheduled) // a queue that is not there remembers nothing
}

func holdByPoll(s *kit.Scene) {
	p := s.UnderPoll("k")
	o := kit.NoAnswer(p)
	o.Reason, o.Delay = "hold", time.Minute
	s.Finish(o, sojourn.Awaiting)
	s.Counters(p.Job.ID, 1, 0, 0)
	s.Enqueue()
	s.ClaimNone("the queue is on hold", kit.Polling)
	s.Advance(time.Minute - time.Millisecond)
	s.ClaimNone("the queue is on hold still", kit.Polling)
	s.Advance(time.Millisecond)
	kit.Same(s, "the first step after the hold", s.Claim(kit.Polling).Purpose, sojourn.PurposePoll)
	s.SetQueue("psp", sojourn.QueueSettings{})
	s.Advance(sojourn.HoldRamp)
	s.Claim()
	o = kit.NoAnswer(s.UnderPoll("l"))
	o.Queue, o.Delay = "psp", time.Minute
	s.Finish(o, sojourn.Awaiting)
	s.Enqueue(sojourn.Queue("psp"))
	s.ClaimNone("the other queue is on hold", kit.From("psp"))
	s.Enqueue()
	s.Claim() // its own continues
}

func holdRamp(s *kit.Scene) {
	s.EnqueueMany(300)
	s.Finish(holds(s.Claim(), "", time.Minute), sojourn.Ready)
	s.Advance(time.Minute)
	for _, want := range []int{1, 2, 4, 8, 16} {
		kit.Same(s, "jobs in the next second of the ramp", len(s.ClaimMany(kit.UpTo(10)))+len(s.ClaimMany(kit.UpTo(100))), want)
		s.ClaimNone("this second's jobs have started")
		s.Advance(time.Second)
	}
	s.Advance(5 * time.Second)
	kit.Same(s, "jobs after the ramp", len(s.ClaimMany(kit.UpTo(1000))), 269)
}

func hold(s *kit.Scene, queue string, d time.Duration, reason string) error {
	return s.Store.HoldQueue(s.Ctx, queue, d, reason)
}

func holdByOperator(s *kit.Scene) {
	s.EnqueueMany(3)
	s.Must(hold(s, kit.Queue, time.Hour, "maintenance"), "HoldQueue")
	s.ClaimNone("the queue is on hold")
	s.Must(hold(s, kit.Queue, time.Minute, "sooner"), "HoldQueue")
	s.Advance(time.Minute)
	kit.Same(s, "jobs after the shorter hold", len(s.ClaimMany(kit.UpTo(10))), 1)
	s.Must(hold(s, kit.Queue, time.Hour, "again"), "HoldQueue")
	got := s.Block(s.Ctx, kit.By("w2"))
	s.Stays(got)
	s.Must(hold(s, kit.Queue, 0, ""), "HoldQueue")
	s.Answered(got, "the end of the hold")
	s.Claim()
	if err := hold(s, "nobody", time.Minute, ""); !errors.Is(err, sojourn.ErrNotFound) {
		s.Fatalf("a queue that is not there: %v", err)
	}
	s.Refused(hold(s, kit.Queue, -1, ""), sojourn.CodeInvalid, "a negative hold")
	s.Refused(hold(s, kit.Queue, sojourn.MaxHold+1, ""), sojourn.CodeInvalid, "a hold of more than a day")
}

func holdGoesOn(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("order-1"))
	e := s.Errored()
	s.Enqueue()
	s.Must(hold(s, kit.Queue, time.Hour, ""), "HoldQueue")
	s.Respond("order-1")
	kit.Same(s, "the resumed job", s.Claim().Job.ID, c.Job.ID)
	d := s.Claim(kit.Deciding)
	if d.Job.ID != e.Job.ID || d.Purpose != sojourn.PurposeDecide {
		s.Fatalf("got job %d to %s, want %d to decide", d.Job.ID, d.Purpose, e.Job.ID)
	}
	s.ClaimNone("the queue is on hold")
}

func breakerOpens(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 3, Within: time.Minute, Open: 30 * time.Second, Probes: 2}})
	s.EnqueueMany(60, kit.Steady(time.Hour))
	cs := s.ClaimMany(kit.UpTo(10))
	s.Finish(fails(cs[0], "http_503"), sojourn.Scheduled)
	s.Finish(fails(cs[1], "http_503"), sojourn.Scheduled)
	s.Advance(time.Minute)
	s.Must(extendAll(s, cs[2:]), "Extend")
	s.Finish(fails(cs[2], "http_503"), sojourn.Scheduled)
	s.Finish(kit.Completed(cs[3]), sojourn.Completed)
	s.Finish(fails(cs[4], "http_503"), sojourn.Scheduled)
	s.Claim() // the first two are too long ago
	s.Finish(fails(cs[5], "http_503"), sojourn.Scheduled)
	s.ClaimNone("the breaker is open")
	got := s.Block(s.Ctx, kit.By("w2"), kit.UpTo(1))
	s.Finish(kit.Completed(cs[6]), sojourn.Completed)
	s.Stays(got)
	s.Advance(30 * time.Second)
	first := s.Answered(got, "the time of the first probe")
	second := s.ClaimMany(kit.UpTo(10))
	kit.Same(s, "further probes", len(second), 1)
	s.ClaimNone("the probes are on their way")
	s.Finish(kit.Completed(first), sojourn.Completed)
	s.ClaimNone("one probe has not answered")
	s.Finish(fails(second[0], "http_503"), sojourn.Scheduled)
	s.ClaimNone("a probe has failed")
	s.Advance(30 * time.Second)
	probes := s.ClaimMany(kit.UpTo(10))
	kit.Same(s, "new probes", len(probes), 2)
	s.Finish(kit.Await(probes[0], time.Hour), sojourn.Awaiting)
	s.Finish(kit.Completed(probes[1]), sojourn.Completed)
	kit.Same(s, "the first job of the ramp", len(s.ClaimMany(kit.UpTo(10))), 1)
	s.Advance(10 * time.Second)
	kit.Same(s, "jobs after the ramp", len(s.ClaimMany(kit.UpTo(10))), 10)
}

func extendAll(s *kit.Scene, cs []driver.Claimed) error {
	leases := make([]sojourn.Lease, len(cs))
	for i, c := range cs {
		leases[i] = c.Lease
	}
	_, err := s.Store.Extend(s.Ctx, leases)
	return err
}

func breakerReasons(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 2, Reasons: []string{"http_5*", sojourn.ReasonTimeout, "declined"}}})
	s.EnqueueMany(6, kit.Steady(time.Hour))
	for _, c := range s.ClaimMany(kit.UpTo(3)) {
		s.Finish(fails(c, "not_ours"), sojourn.Scheduled)
	}
	waits := s.Claim()
	s.Finish(kit.Await(waits, time.Second), sojourn.Awaiting)
	s.Swept(time.Second, driver.Swept{TimedOut: 1})
	asked := s.Claim()
	s.Finish(kit.Await(asked, time.Hour), sojourn.Awaiting)
	r := s.Answer("", kit.ToJob(asked.Job.ID), kit.Failing("declined"))
	s.Send(r)
	s.State(asked.Job.ID, sojourn.Scheduled)
	s.ClaimNone("a timeout and an error response have opened the breaker")
}

func breakerLostProbe(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 1, Open: time.Minute}})
	s.EnqueueMany(3, kit.Steady(time.Hour))
	s.Finish(fails(s.Claim(), "down"), sojourn.Scheduled)
	s.Advance(time.Minute)
	s.Claim(kit.Leased(time.Hour))
	s.ClaimNone("the probe is on its way")
	s.Advance(time.Minute)
	probe := s.Claim()
	s.Finish(kit.Completed(probe), sojourn.Completed)
}
