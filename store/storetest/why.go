package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/throttle"
)

var whyTrials = []trial{
	{"why", "For a job in any state, why says what it waits for and until when.", "spec:K9 spec:K8", whyStates},
	{"why of a ready job", "For a ready job, why names the first closed gate with its numbers, when it opens, and how many stand before it.", "spec:K1 spec:K8", whyGates},
	{"why and the claim agree", "A job is claimable exactly if why says so, whatever is set and whatever is in flight.", "spec:K1 spec:K4 spec:K5 spec:K8 inv:T1", whyAgrees},
	{"why of a queue", "For a queue, why counts what holds its jobs back.", "spec:K8", whyQueue},
}

func (s *scene) why(id sojourn.ID) sojourn.Why {
	s.Helper()
	w, err := s.store.Why(s.ctx, id)
	s.must(err, "Why %d", id)
	if w.ID != id || w.Waits == "" || w.Claimable && w.Gate != "" {
		s.Fatalf("why of job %d is %+v", id, w)
	}
	return w
}

// waits wants a job to wait for this.
func (s *scene) waits(id sojourn.ID, gate, text string, until time.Time) sojourn.Why {
	s.Helper()
	w := s.why(id)
	if w.Claimable || w.Gate != gate || !strings.Contains(w.Waits, text) {
		s.Fatalf("why of job %d is %+v, want the gate %q and %q", id, w, gate, text)
	}
	s.at("when the job's wait ends", w.Until, until)
	return w
}

func whyStates(s *scene) {
	now := s.now()
	s.waits(s.enqueue(sojourn.Delay(time.Hour)), "", "for its time", now.Add(time.Hour))
	s.waits(s.retrying(steady(time.Minute)).Job.ID, "", "after 1 failures", now.Add(time.Minute))
	c := s.running()
	same(s, "the worker", s.waits(c.Job.ID, "", "for its worker", now.Add(lease)).Worker, c.Lease.Worker)
	s.finish(completed(c), sojourn.Completed)
	a := s.awaiting(sojourn.Key("order-1"), sojourn.Timeout(2*time.Hour))
	w := s.waits(a.Job.ID, "", "for a response", s.get(a.Job.ID).WakeAt)
	same(s, "the keys", strings.Join(w.Keys, " "), "order-1")
	s.waits(s.final(sojourn.Failed).Job.ID, "", "it has ended, reason", time.Time{})
	if w := s.why(s.errored().Job.ID); !w.Claimable || !strings.Contains(w.Waits, "retry policy") {
		s.Fatalf("why of an errored job is %+v", w)
	}
	if _, err := s.store.Why(s.ctx, s.id()); !errors.Is(err, sojourn.ErrNotFound) {
		s.Fatalf("why of no job: %v", err)
	}
	id := s.enqueue(ofKind("nobody_knows"))
	if w := s.why(id); !w.Claimable || !w.Unhandled {
		s.Fatalf("why of a job that no worker asks for is %+v", w)
	}
}

func whyGates(s *scene) {
	ids := s.enqueueMany(5)
	if w := s.why(ids[3]); !w.Claimable || w.Ahead != 3 {
		s.Fatalf("why is %+v, want it claimable with 3 ahead", w)
	}
	s.setQueue(line, sojourn.QueueSettings{Paused: true})
	s.waits(ids[0], sojourn.GatePause, "the queue is paused", time.Time{})
	s.setQueue(line, sojourn.QueueSettings{Limit: 2, Rate: &sojourn.Rate{Count: 1, Per: time.Minute, Burst: 3}})
	c := s.claimMany(upTo(2))
	w := s.waits(ids[2], sojourn.GateLimit, "the limit is used up", time.Time{})
	g := w.Gates[slices.IndexFunc(w.Gates, func(g sojourn.Gate) bool { return g.Name == sojourn.GateLimit })]
	if g.Used != 2 || g.Of != 2 || g.Open {
		s.Fatalf("the limit's gate is %+v", g)
	}
	s.finish(completed(c[0]), sojourn.Completed)
	s.claim()
	s.finish(completed(c[1]), sojourn.Completed)
	s.waits(ids[3], sojourn.GateRate, "1 per 1m0s", s.now().Add(time.Minute))
	s.must(s.hold(line, time.Hour, "maintenance"), "HoldQueue")
	s.waits(ids[3], sojourn.GateHold, "maintenance", s.now().Add(time.Hour))
	s.must(s.hold(line, 0, ""), "HoldQueue")
	s.setQueue(line, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 1, Open: time.Minute}})
	s.advance(time.Second) // the other processes know it then
	s.finish(fails(s.claim(), "down"), sojourn.Scheduled)
	s.waits(ids[4], sojourn.GateBreaker, "too many failures", s.now().Add(time.Minute))
	s.setQueue(line, sojourn.QueueSettings{Throttle: "go"})
	s.waits(ids[4], sojourn.GateThrottle, "option Throttle", time.Time{})
}

// whyAgrees plays random settings and jobs. Every claimed job was claimable, and a claim returns no
// job only if none was.
func whyAgrees(s *scene) {
	s.throttled(func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		return throttle.Admission{Start: c.Priority%3 != 0 && f.Sum(func(l throttle.FlightLoad) bool { return l.Group == c.Group }).Jobs < 3}, nil
	})
	groups := []string{"", "east", "north", "west"}
	for round := range 5 {
		s.setQueue(line, s.anySettings())
		for range 8 {
			s.enqueue(sojourn.Group(groups[s.random(4)]), sojourn.Weight(int32(s.random(4))), sojourn.Priority(int32(s.random(5))), steady(time.Hour))
		}
		var held []driver.Claimed
		for step := range 15 {
			ready, err := s.store.Find(s.ctx, sojourn.Filter{Queue: line, States: []sojourn.State{sojourn.Ready}, Limit: 1000})
			s.must(err, "Find")
			claimable := map[sojourn.ID]bool{}
			var reasons []string
			for _, j := range ready {
				w := s.why(j.ID)
				claimable[j.ID] = w.Claimable
				reasons = append(reasons, fmt.Sprintf("%d %s", j.ID, w.Gate))
			}
			explained := map[sojourn.ID]sojourn.Why{}
			for _, j := range ready {
				explained[j.ID] = s.why(j.ID)
			}
			cs := s.claimMany(upTo(1), leased(time.Hour))
			what := fmt.Sprintf("round %d, step %d", round, step)
			if len(cs) == 0 {
				for id, yes := range claimable {
					if yes {
						s.Fatalf("%s: nothing was claimed, but job %d is claimable: %+v (settings %+v)", what, id, s.why(id), s.queue(line).Settings)
					}
				}
			} else if !claimable[cs[0].Job.ID] {
				s.Fatalf("%s: job %d was claimed, which was not claimable: %+v, %v (settings %+v)", what, cs[0].Job.ID, explained[cs[0].Job.ID], reasons, s.queue(line).Settings)
			}
			held = append(held, cs...)
			held = s.anyEnd(held)
			s.advance(time.Duration(s.random(3)) * 400 * time.Millisecond)
		}
		for _, c := range held {
			s.finish(completed(c), sojourn.Completed)
		}
	}
}

func (s *scene) anySettings() (q sojourn.QueueSettings) {
	if s.random(2) == 0 {
		q.Limit = int64(3 + s.random(5))
		if s.random(2) == 0 {
			q.Shares, q.Borrow = map[string]float64{"east": .4, "north": .3}, s.random(2) == 0
		}
	}
	if s.random(3) == 0 {
		q.GroupLimit = int64(3 + s.random(3))
	}
	if s.random(3) == 0 {
		q.Rate = &sojourn.Rate{Count: int64(1 + s.random(3)), Per: time.Second, Burst: int64(s.random(3))}
	}
	if s.random(3) == 0 {
		q.GroupRate = &sojourn.Rate{Count: 1, Per: time.Second}
	}
	if s.random(3) == 0 {
		q.Breaker = &sojourn.Breaker{Failures: 2, Within: time.Minute, Open: time.Second}
	}
	if s.random(3) == 0 {
		q.Throttle = "go"
	}
	return q
}

// anyEnd ends one of the running jobs in one of many ways, or none.
func (s *scene) anyEnd(held []driver.Claimed) []driver.Claimed {
	if len(held) == 0 || s.random(3) == 0 {
		return held
	}
	i := s.random(len(held))
	c := held[i]
	switch s.random(4) {
	case 0:
		s.finish(completed(c), sojourn.Completed)
	case 1:
		s.finish(fails(c, "down"), sojourn.Scheduled)
	case 2:
		s.finish(released(c), sojourn.Ready)
	case 3:
		s.finish(holds(c, "", time.Second), sojourn.Ready)
	}
	return slices.Delete(held, i, i+1)
}

func whyQueue(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Limit: 10, GroupLimit: 2})
	s.enqueueMany(6, sojourn.Group("east"))
	s.enqueueMany(3)
	same(s, "jobs of the first claim", len(s.claimMany(upTo(5))), 5)
	w, err := s.store.WhyQueue(s.ctx, line)
	s.must(err, "WhyQueue")
	if w.Asked != 4 || w.Open != 0 || len(w.Held) != 1 || w.Held[0].Jobs != 4 || w.Held[0].Name != sojourn.GateGroup || w.Held[0].First == 0 {
		s.Fatalf("why of the queue is %+v, want 4 jobs held by the limit of their group", w)
	}
	s.must(s.hold(line, time.Minute, ""), "HoldQueue")
	w, err = s.store.WhyQueue(s.ctx, line)
	s.must(err, "WhyQueue")
	if len(w.Held) != 1 || w.Held[0].Name != sojourn.GateHold || w.Held[0].Jobs != 4 {
		s.Fatalf("why of a queue on hold is %+v", w)
	}
	if _, err := s.store.WhyQueue(context.Background(), "nobody"); !errors.Is(err, sojourn.ErrNotFound) {
		s.Fatalf("why of no queue: %v", err)
	}
}
