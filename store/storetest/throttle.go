package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/throttle"
)

var throttleTrials = []trial{
	{"throttler", "A throttler sees the candidate and what is in flight, and starts exactly those that it lets through: 40 of 100 for east, 30 for north and west.",
		"spec:K4 spec:K5 spec:K6", throttleShares},
	{"throttler sees", "A throttler is told all about the candidate, and of what is in flight kind, group, state and weight.", "spec:K6", throttleSees},
	{"throttler that refuses many", "However many jobs a throttler refuses, in one group or in many, the one behind them that it lets through starts.",
		"spec:K5 spec:K6", throttleHides},
	{"throttler that puts off", "A job that is put off is scheduled to that time and costs no attempt; one that is failed fails with the reason.",
		"tr:S6 tr:S7 spec:K5", throttlePutsOff},
	{"throttler that fails", "An error and a panic start nothing, are counted and shown, and hold back neither other jobs nor other queues.",
		"inv:T5 inv:J3 spec:K5", throttleFails},
	{"throttler that hangs", "A throttler that does not answer starts nothing and delays no other queue.", "inv:T5", throttleHangs},
	{"throttler that is not here", "A process without the throttler of a queue starts none of its jobs.", "spec:K5", throttleMissing},
	{"rule", "A queue's rule is compiled when it is set and asked from the next claim on; a text that does not compile is refused.", "spec:K5", throttleRule},
	{"throttler and a claim that waits", "A claim that waits is answered when the end of a job lets the next one through, or the time does.", "spec:K5", throttleWakes},
}

type ask = func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error)

// throttled opens the scene's store with a throttler for the usual queue.
func (s *scene) throttled(t ask) {
	s.Helper()
	s.open(options{Throttlers: map[string]throttle.Throttler{line: throttle.ThrottlerFunc(
		func(_ context.Context, c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
			return t(c, f)
		})}})
}

func throttleShares(s *scene) {
	of := map[string]int64{"east": 40, "north": 30, "west": 30}
	s.throttled(func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		used := f.Sum(func(l throttle.FlightLoad) bool { return l.Group == c.Group }).Weight
		return throttle.Admission{Start: used+int64(c.Weight) <= of[c.Group]}, nil
	})
	for group := range inOrder(of) {
		s.enqueueMany(50, sojourn.Group(group))
	}
	s.enqueueMany(50)
	by := map[string]int64{}
	var claimed []driver.Claimed
	for range 40 {
		cs := s.claimMany(upTo(7))
		claimed = append(claimed, cs...)
		for _, c := range cs {
			by[c.Job.Group]++
		}
	}
	for group, want := range inOrder(of) {
		same(s, "jobs of "+group, by[group], want)
	}
	same(s, "jobs in all", len(claimed), 100)
	c := claimed[0]
	s.finish(await(c, time.Hour), sojourn.Awaiting)
	s.claimNone("a job that awaits counts")
	s.cancel(c.Job.ID)
	same(s, "the group of the next job", s.claim().Job.Group, c.Job.Group)
}

func throttleSees(s *scene) {
	var seen throttle.Candidate
	var flight throttle.Flight
	s.throttled(func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		if len(c.Tags) > 0 {
			seen, flight = *c, *f
			return throttle.Admission{}, nil
		}
		return throttle.Admission{Start: true}, nil
	})
	s.setQueue(line, sojourn.QueueSettings{Throttle: "go", Limit: 100})
	s.awaiting(sojourn.Group("east"), sojourn.Key("a"))
	s.running(sojourn.Group("north"), sojourn.Weight(3))
	id := s.enqueue(sojourn.Key("k"), sojourn.Group("west"), sojourn.Weight(7), sojourn.Priority(5), sojourn.Tags("urgent"), sojourn.Meta("tenant", "t1"))
	s.claimNone("the throttler refuses it")
	if seen.ID != id || seen.Kind != charge || seen.Key != "k" || seen.Group != "west" || seen.Weight != 7 || seen.Priority != 5 || seen.Attempt != 1 ||
		seen.Tags[0] != "urgent" || seen.Meta["tenant"] != "t1" || !seen.CreatedAt.Equal(s.now()) || !seen.RunAt.Equal(s.now()) {
		s.Errorf("the candidate is %+v", seen)
	}
	got := map[string]int64{}
	for _, l := range flight.Loads {
		got[l.Kind+" "+l.Group+" "+l.State.String()] += l.Weight
	}
	if len(got) != 2 || got[charge+" east awaiting"] != 1 || got[charge+" north running"] != 3 || len(flight.List) != 2 || flight.Limit != 100 || !flight.Now.Equal(s.now()) {
		s.Errorf("in flight is %v, %+v", got, flight)
	}
}

// throttleHides has more jobs than one claim reads: 3,000 jobs of one group, and 1,500 groups of
// one job.
func throttleHides(s *scene) {
	s.throttled(func(c *throttle.Candidate, _ *throttle.Flight) (throttle.Admission, error) {
		return throttle.Admission{Start: c.Group == "good" || len(c.Tags) > 0}, nil
	})
	for range 3 {
		s.enqueueMany(1000, sojourn.Group("giant"))
	}
	behind := s.enqueue(sojourn.Group("giant"), sojourn.Tags("yes"))
	good := s.enqueue(sojourn.Group("good"))
	same(s, "the job of the next group", s.claim(upTo(1)).Job.ID, good)
	s.startsWithin(100, behind)
	for i := range 15 {
		jobs := make([]sojourn.Job, 100)
		for k := range jobs {
			jobs[k] = s.job(sojourn.Group("f" + strconv.Itoa(1000+100*i+k)))
		}
		_, err := s.store.Enqueue(s.ctx, jobs, false)
		s.must(err, "Enqueue")
	}
	last := s.enqueue(sojourn.Group("z"), sojourn.Tags("yes"))
	s.startsWithin(100, last)
}

// startsWithin wants one of the next claims to give the job.
func (s *scene) startsWithin(claims int, id sojourn.ID) {
	s.Helper()
	for range claims {
		if cs := s.claimMany(upTo(10)); len(cs) > 0 {
			same(s, "the job that starts", cs[0].Job.ID, id)
			return
		}
	}
	s.Fatalf("job %d was not found by %d claims", id, claims)
}

func throttlePutsOff(s *scene) {
	later := s.now().Add(time.Hour)
	s.throttled(func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		switch {
		case c.Group == "bad":
			return throttle.Admission{Fail: "blacklisted"}, nil
		case f.Now.Before(later):
			return throttle.Admission{NotBefore: later}, nil
		}
		return throttle.Admission{Start: true}, nil
	})
	a, b := s.enqueue(), s.enqueue(sojourn.Group("bad"), sojourn.Key("k"))
	s.claimNone("one is put off, one fails")
	j := s.state(a, sojourn.Scheduled)
	s.at("run_at", j.RunAt, later)
	s.counters(a, 0, 0, 0)
	same(s, "the reason", s.state(b, sojourn.Failed).Reason, "blacklisted")
	s.enqueue(sojourn.Group("good"), sojourn.Key("k")) // the key of the failed one is free
	s.advance(time.Hour)
	same(s, "jobs in time", len(s.claimMany(upTo(10))), 2)
	same(s, "the attempt", s.get(a).Attempt, 1)
}

func throttleFails(s *scene) {
	s.throttled(func(c *throttle.Candidate, _ *throttle.Flight) (throttle.Admission, error) {
		switch c.Group {
		case "error":
			return throttle.Admission{Start: true}, errors.New("no idea about " + c.Key)
		case "panic":
			panic("oops")
		}
		return throttle.Admission{Start: true}, nil
	})
	bad := []sojourn.ID{s.enqueue(sojourn.Group("error"), sojourn.Key("k1")), s.enqueue(sojourn.Group("panic"))}
	good := s.enqueue(sojourn.Group("good"))
	other := s.enqueue(sojourn.Queue("other"))
	same(s, "the job beside them", s.claim(upTo(10)).Job.ID, good)
	same(s, "the job of another queue", s.claim(from("other")).Job.ID, other)
	s.claimNone("the throttler fails")
	for _, id := range bad {
		s.state(id, sojourn.Ready)
	}
	t := s.queue(line).Trouble
	if t.Count < 2 || !strings.Contains(t.Text, "no idea about k1") && !strings.Contains(t.Text, "oops") || t.At.IsZero() {
		s.Fatalf("the queue shows the trouble %+v", t)
	}
	s.advance(15 * time.Second)
	s.claimNone("the throttler fails")
	if again := s.queue(line).Trouble; again.Count <= t.Count || !again.At.Equal(s.now()) {
		s.Fatalf("later the trouble is %+v, it was %+v", again, t)
	}
}

func throttleHangs(s *scene) {
	back := make(chan struct{})
	defer close(back)
	var asked atomic.Int32
	s.throttled(func(*throttle.Candidate, *throttle.Flight) (throttle.Admission, error) {
		asked.Add(1)
		<-back
		return throttle.Admission{Start: true}, nil
	})
	s.enqueueMany(5)
	other := s.enqueue(sojourn.Queue("other"))
	same(s, "the job of another queue", s.claim(from(line, "other")).Job.ID, other)
	s.claimNone("the throttler has not come back")
	if n := asked.Load(); n > 2 { // by each process that takes part
		s.Fatalf("it was asked %d times before it came back", n)
	}
	if t := s.queue(line).Trouble; !strings.Contains(t.Text, "longer than") {
		s.Fatalf("the queue shows the trouble %+v", t)
	}
}

func throttleMissing(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Throttle: "go"})
	s.enqueue()
	s.enqueue(sojourn.Queue("other"))
	s.claimNone("this process has no throttler")
	s.claim(from("other"))
	if t := s.queue(line).Trouble; !strings.Contains(t.Text, "option Throttle") {
		s.Fatalf("the queue shows the trouble %+v", t)
	}
	err := sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{Throttle: "true"})
	s.refused(err, sojourn.CodeInvalid, "a rule for a process without rules")
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

func throttleRule(s *scene) {
	s.open(options{Rules: toyRules})
	s.enqueueMany(5)
	s.refused(sojourn.NewClient(s.store).Queues().Set(s.ctx, line, sojourn.QueueSettings{Throttle: "maybe"}), sojourn.CodeInvalid, "a rule that does not compile")
	s.setQueue(line, sojourn.QueueSettings{Throttle: "no"})
	s.claimNone("the rule says no")
	s.setQueue(line, sojourn.QueueSettings{Throttle: "few"})
	same(s, "jobs at a time", len(s.claimMany(upTo(10))), 1)
	s.setQueue(line, sojourn.QueueSettings{Throttle: "yes"})
	same(s, "jobs with the rule yes", len(s.claimMany(upTo(2))), 2)
	s.setQueue(line, sojourn.QueueSettings{})
	same(s, "jobs without a rule", len(s.claimMany(upTo(10))), 2)
}

func throttleWakes(s *scene) {
	var allowed atomic.Bool
	s.throttled(func(_ *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		n := f.Sum(func(throttle.FlightLoad) bool { return true }).Jobs
		return throttle.Admission{Start: n == 0 || allowed.Load()}, nil
	})
	s.enqueueMany(3)
	c := s.claim()
	got := s.block(s.ctx, by("w2"))
	s.finish(completed(c), sojourn.Completed)
	s.answered(got, "the end of a job")
	got = s.block(s.ctx, by("w2"))
	allowed.Store(true)
	s.advance(time.Second)
	s.answered(got, "a rule that looks at something else")
}
