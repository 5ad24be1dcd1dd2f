package flow

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/throttle"
)

var throttleTrials = []kit.Trial{
	{Name: "throttler", Law: "A throttler sees the candidate and what is in flight, and starts exactly those that it lets through: 40 of 100 for east, 30 for north and west.",
		Covers: "spec:K4 spec:K5 spec:K6", Run: throttleShares},
	{Name: "throttler sees", Law: "A throttler is told all about the candidate, and of what is in flight kind, group, state and weight.",
		Covers: "spec:K6", Run: throttleSees},
	{Name: "throttler that refuses many", Law: "However many jobs a throttler refuses, in one group or in many, the one behind them that it lets through starts.",
		Covers: "spec:K5 spec:K6", Run: throttleHides},
	{Name: "throttler that puts off", Law: "A job that is put off is scheduled to that time and costs no attempt; one that is failed fails with the reason.",
		Covers: "tr:S6 tr:S7 spec:K5", Run: throttlePutsOff},
	{Name: "throttler that fails", Law: "An error and a panic start nothing, are counted and shown, and hold back neither other jobs nor other queues.",
		Covers: "inv:T5 inv:J3 spec:K5", Run: throttleFails},
	{Name: "throttler that hangs", Law: "A throttler that does not answer starts nothing and delays no other queue.", Covers: "inv:T5", Run: throttleHangs},
	{Name: "throttler that is not here", Law: "A process without the throttler of a queue starts none of its jobs.", Covers: "spec:K5", Run: throttleMissing},
	{Name: "rule", Law: "A queue's rule is compiled when it is set and asked from the next claim on; a text that does not compile is refused.",
		Covers: "spec:K5", Run: throttleRule},
	{Name: "throttler and a claim that waits", Law: "A claim that waits is answered when the end of a job lets the next one through, or the time does.",
		Covers: "spec:K5", Run: throttleWakes},
}

type ask = func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error)

// throttled opens the scene's store with a throttler for the usual queue.
func throttled(s *kit.Scene, t ask) {
	s.Helper()
	s.Open(kit.Options{Throttlers: map[string]throttle.Throttler{kit.Queue: throttle.ThrottlerFunc(
		func(_ context.Context, c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
			return t(c, f)
		})}})
}

func throttleShares(s *kit.Scene) {
	of := map[string]int64{"east": 40, "north": 30, "west": 30}
	throttled(s, func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		used := f.Sum(func(l throttle.FlightLoad) bool { return l.Group == c.Group }).Weight
		return throttle.Admission{Start: used+int64(c.Weight) <= of[c.Group]}, nil
	})
	for group := range kit.InOrder(of) {
		s.EnqueueMany(50, sojourn.Group(group))
	}
	s.EnqueueMany(50)
	by := map[string]int64{}
	var claimed []driver.Claimed
	for range 40 {
		cs := s.ClaimMany(kit.UpTo(7))
		claimed = append(claimed, cs...)
		for _, c := range cs {
			by[c.Job.Group]++
		}
	}
	for group, want := range kit.InOrder(of) {
		kit.Same(s, "jobs of "+group, by[group], want)
	}
	kit.Same(s, "jobs in all", len(claimed), 100)
	c := claimed[0]
	s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
	s.ClaimNone("a job that awaits counts")
	s.Cancel(c.Job.ID)
	kit.Same(s, "the group of the next job", s.Claim().Job.Group, c.Job.Group)
}

func throttleSees(s *kit.Scene) {
	var seen throttle.Candidate
	var flight throttle.Flight
	throttled(s, func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		if len(c.Tags) > 0 {
			seen, flight = *c, *f
			return throttle.Admission{}, nil
		}
		return throttle.Admission{Start: true}, nil
	})
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Throttle: "go", Limit: 100})
	s.Awaiting(sojourn.Group("east"), sojourn.Key("a"))
	s.Running(sojourn.Group("north"), sojourn.Weight(3))
	id := s.Enqueue(sojourn.Key("k"), sojourn.Group("west"), sojourn.Weight(7), sojourn.Priority(5), sojourn.Tags("urgent"), sojourn.Meta("tenant", "t1"))
	s.ClaimNone("the throttler refuses it")
	if seen.ID != id || seen.Kind != kit.Kind || seen.Key != "k" || seen.Group != "west" || seen.Weight != 7 || seen.Priority != 5 || seen.Attempt != 1 ||
		seen.Tags[0] != "urgent" || seen.Meta["tenant"] != "t1" || !seen.CreatedAt.Equal(s.Now()) || !seen.RunAt.Equal(s.Now()) {
		s.Errorf("the candidate is %+v", seen)
	}
	got := map[string]int64{}
	for _, l := range flight.Loads {
		got[l.Kind+" "+l.Group+" "+l.State.String()] += l.Weight
	}
	if len(got) != 2 || got[kit.Kind+" east awaiting"] != 1 || got[kit.Kind+" north running"] != 3 || len(flight.List) != 2 || flight.Limit != 100 || !flight.Now.Equal(s.Now()) {
		s.Errorf("in flight is %v, %+v", got, flight)
	}
}

// throttleHides has more jobs than one claim reads: 3,000 jobs of one group, and 1,500 groups of
// one job.
func throttleHides(s *kit.Scene) {
	throttled(s, func(c *throttle.Candidate, _ *throttle.Flight) (throttle.Admission, error) {
		return throttle.Admission{Start: c.Group == "good" || len(c.Tags) > 0}, nil
	})
	for range 3 {
		s.EnqueueMany(1000, sojourn.Group("giant"))
	}
	behind := s.Enqueue(sojourn.Group("giant"), sojourn.Tags("yes"))
	good := s.Enqueue(sojourn.Group("good"))
	kit.Same(s, "the job of the next group", s.Claim(kit.UpTo(1)).Job.ID, good)
	startsWithin(s, 100, behind)
	for i := range 15 {
		jobs := make([]sojourn.Job, 100)
		for k := range jobs {
			jobs[k] = s.Job(sojourn.Group("f" + strconv.Itoa(1000+100*i+k)))
		}
		_, err := s.Store.Enqueue(s.Ctx, jobs, false)
		s.Must(err, "Enqueue")
	}
	last := s.Enqueue(sojourn.Group("z"), sojourn.Tags("yes"))
	startsWithin(s, 100, last)
}

// startsWithin wants one of the next claims to give the job.
func startsWithin(s *kit.Scene, claims int, id sojourn.ID) {
	s.Helper()
	for range claims {
		if cs := s.ClaimMany(kit.UpTo(10)); len(cs) > 0 {
			kit.Same(s, "the job that starts", cs[0].Job.ID, id)
			return
		}
	}
	s.Fatalf("job %d was not found by %d claims", id, claims)
}

func throttlePutsOff(s *kit.Scene) {
	later := s.Now().Add(time.Hour)
	throttled(s, func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		switch {
		case c.Group == "bad":
			return throttle.Admission{Fail: "blacklisted"}, nil
		case f.Now.Before(later):
			return throttle.Admission{NotBefore: later}, nil
		}
		return throttle.Admission{Start: true}, nil
	})
	a, b := s.Enqueue(), s.Enqueue(sojourn.Group("bad"), sojourn.Key("k"))
	s.ClaimNone("one is put off, one fails")
	j := s.State(a, sojourn.Scheduled)
	s.At("run_at", j.RunAt, later)
	s.Counters(a, 0, 0, 0)
	kit.Same(s, "the reason", s.State(b, sojourn.Failed).Reason, "blacklisted")
	s.Enqueue(sojourn.Group("good"), sojourn.Key("k")) // the key of the failed one is free
	s.Advance(time.Hour)
	kit.Same(s, "jobs in time", len(s.ClaimMany(kit.UpTo(10))), 2)
	kit.Same(s, "the attempt", s.Get(a).Attempt, 1)
}

func throttleFails(s *kit.Scene) {
	throttled(s, func(c *throttle.Candidate, _ *throttle.Flight) (throttle.Admission, error) {
		switch c.Group {
		case "error":
			return throttle.Admission{Start: true}, errors.New("no idea about " + c.Key)
		case "panic":
			panic("oops")
		}
		return throttle.Admission{Start: true}, nil
	})
	bad := []sojourn.ID{s.Enqueue(sojourn.Group("error"), sojourn.Key("k1")), s.Enqueue(sojourn.Group("panic"))}
	good := s.Enqueue(sojourn.Group("good"))
	other := s.Enqueue(sojourn.Queue("other"))
	kit.Same(s, "the job beside them", s.Claim(kit.UpTo(10)).Job.ID, good)
	kit.Same(s, "the job of another queue", s.Claim(kit.From("other")).Job.ID, other)
	s.ClaimNone("the throttler fails")
	for _, id := range bad {
		s.State(id, sojourn.Ready)
	}
	t := s.Queue(kit.Queue)
	if t.ThrottleErrors < 2 || !strings.Contains(t.ThrottleError, "no idea about k1") && !strings.Contains(t.ThrottleError, "oops") || t.ThrottleErrorAt.IsZero() {
		s.Fatalf("the queue shows the trouble %+v", t)
	}
	s.Advance(15 * time.Second)
	s.ClaimNone("the throttler fails")
	if again := s.Queue(kit.Queue); again.ThrottleErrors <= t.ThrottleErrors || !again.ThrottleErrorAt.Equal(s.Now()) {
		s.Fatalf("later the trouble is %+v, it was %+v", again, t)
	}
}

func throttleHangs(s *kit.Scene) {
	back := make(chan struct{})
	defer close(back)
	var asked atomic.Int32
	throttled(s, func(*throttle.Candidate, *throttle.Flight) (throttle.Admission, error) {
		asked.Add(1)
		<-back
		return throttle.Admission{Start: true}, nil
	})
	s.EnqueueMany(5)
	other := s.Enqueue(sojourn.Queue("other"))
	kit.Same(s, "the job of another queue", s.Claim(kit.From(kit.Queue, "other")).Job.ID, other)
	s.ClaimNone("the throttler has not come back")
	if n := asked.Load(); n > 2 { // by each process that takes part
		s.Fatalf("it was asked %d times before it came back", n)
	}
	if t := s.Queue(kit.Queue); !strings.Contains(t.ThrottleError, "longer than") {
		s.Fatalf("the queue shows the trouble %+v", t)
	}
}

func throttleMissing(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Throttle: "go"})
	s.Enqueue()
	s.Enqueue(sojourn.Queue("other"))
	s.ClaimNone("this process has no throttler")
	s.Claim(kit.From("other"))
	if t := s.Queue(kit.Queue); !strings.Contains(t.ThrottleError, "option Throttle") {
		s.Fatalf("the queue shows the trouble %+v", t)
	}
	err := sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{Throttle: "true"})
	s.Refused(err, sojourn.CodeInvalid, "a rule for a process without rules")
}

// toyRules knows the texts yes, no and few, which lets one job at a time through.
func toyRules(text string) (throttle.Throttler, error) {
	if text != "yes" && text != "no" && text != "few" {
		return nil, sojourn.Invalid("throttle", "1:1: unknown %q", text)
	}
	return throttle.ThrottlerFunc(func(_ context.Context, _ *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		n := f.Sum(func(throttle.FlightLoad) bool { return true }).Jobs
		return throttle.Admission{Start: text == "yes" || text == "few" && n == 0}, nil
	}), nil
}

func throttleRule(s *kit.Scene) {
	s.Open(kit.Options{Rules: toyRules})
	s.EnqueueMany(5)
	s.Refused(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, kit.Queue, sojourn.QueueSettings{Throttle: "maybe"}), sojourn.CodeInvalid, "a rule that does not compile")
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Throttle: "no"})
	s.ClaimNone("the rule says no")
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Throttle: "few"})
	kit.Same(s, "jobs at a time", len(s.ClaimMany(kit.UpTo(10))), 1)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Throttle: "yes"})
	kit.Same(s, "jobs with the rule yes", len(s.ClaimMany(kit.UpTo(2))), 2)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	kit.Same(s, "jobs without a rule", len(s.ClaimMany(kit.UpTo(10))), 2)
}

func throttleWakes(s *kit.Scene) {
	var allowed atomic.Bool
	throttled(s, func(_ *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		n := f.Sum(func(throttle.FlightLoad) bool { return true }).Jobs
		return throttle.Admission{Start: n == 0 || allowed.Load()}, nil
	})
	s.EnqueueMany(3)
	c := s.Claim()
	got := s.Block(s.Ctx, kit.By("w2"))
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Answered(got, "the end of a job")
	got = s.Block(s.Ctx, kit.By("w2"))
	allowed.Store(true)
	s.Advance(time.Second)
	s.Answered(got, "a rule that looks at something else")
}
