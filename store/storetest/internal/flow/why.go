package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/throttle"
)

var whyTrials = []kit.Trial{
	{Name: "why", Law: "For a job in any state, why says what it waits for and until when.", Covers: "spec:K9 spec:K8", Run: whyStates},
	{Name: "why of a ready job", Law: "For a ready job, why names the first closed gate with its numbers, when it opens, and how many stand before it.",
		Covers: "spec:K1 spec:K8", Run: whyGates},
	{Name: "why and the claim agree", Law: "A job is claimable exactly if why says so, whatever is set and whatever is in flight.",
		Covers: "spec:K1 spec:K4 spec:K5 spec:K8 inv:T1", Run: whyAgrees},
	{Name: "why of a queue", Law: "For a queue, why counts what holds its jobs back.", Covers: "spec:K8", Run: whyQueue},
}

func why(s *kit.Scene, id sojourn.ID) sojourn.Why {
	s.Helper()
	w, err := s.Store.Why(s.Ctx, id)
	s.Must(err, "Why %d", id)
	if w.ID != id || w.Waits == "" || w.Claimable && w.Gate != "" {
		s.Fatalf("why of job %d is %+v", id, w)
	}
	return w
}

// waits wants a job to wait for this.
func waits(s *kit.Scene, id sojourn.ID, gate, text string, until time.Time) sojourn.Why {
	s.Helper()
	w := why(s, id)
	if w.Claimable || w.Gate != gate || !strings.Contains(w.Waits, text) {
		s.Fatalf("why of job %d is %+v, want the gate %q and %q", id, w, gate, text)
	}
	s.At("when the job's wait ends", w.Until, until)
	return w
}

func whyStates(s *kit.Scene) {
	now := s.Now()
	waits(s, s.Enqueue(sojourn.Delay(time.Hour)), "", "for its time", now.Add(time.Hour))
	waits(s, s.Retrying(kit.Steady(time.Minute)).Job.ID, "", "after 1 failures", now.Add(time.Minute))
	c := s.Running()
	kit.Same(s, "the worker", waits(s, c.Job.ID, "", "for its worker", now.Add(kit.LeaseTime)).Worker, c.Lease.Worker)
	s.Finish(kit.Completed(c), sojourn.Completed)
	a := s.Awaiting(sojourn.Key("order-1"), sojourn.Timeout(2*time.Hour))
	w := waits(s, a.Job.ID, "", "for a response", s.Get(a.Job.ID).WakeAt)
	kit.Same(s, "the keys", strings.Join(w.Keys, " "), "order-1")
	waits(s, s.Final(sojourn.Failed).Job.ID, "", "it has ended, reason", time.Time{})
	if w := why(s, s.Errored().Job.ID); !w.Claimable || !strings.Contains(w.Waits, "retry policy") {
		s.Fatalf("why of an errored job is %+v", w)
	}
	if _, err := s.Store.Why(s.Ctx, s.ID()); !errors.Is(err, sojourn.ErrNotFound) {
		s.Fatalf("why of no job: %v", err)
	}
	id := s.Enqueue(kit.OfKind("nobody_knows"))
	if w := why(s, id); !w.Claimable || !w.Unhandled {
		s.Fatalf("why of a job that no worker asks for is %+v", w)
	}
}

func whyGates(s *kit.Scene) {
	ids := s.EnqueueMany(5)
	if w := why(s, ids[3]); !w.Claimable || w.Ahead != 3 {
		s.Fatalf("why is %+v, want it claimable with 3 ahead", w)
	}
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Paused: true})
	waits(s, ids[0], sojourn.GatePause, "the queue is paused", time.Time{})
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: 2, Rate: &sojourn.Rate{Count: 1, Per: time.Minute, Burst: 3}})
	c := s.ClaimMany(kit.UpTo(2))
	w := waits(s, ids[2], sojourn.GateLimit, "the limit is used up", time.Time{})
	g := w.Gates[slices.IndexFunc(w.Gates, func(g sojourn.Gate) bool { return g.Name == sojourn.GateLimit })]
	if g.Used != 2 || g.Of != 2 || g.Open {
		s.Fatalf("the limit's gate is %+v", g)
	}
	s.Finish(kit.Completed(c[0]), sojourn.Completed)
	s.Claim()
	s.Finish(kit.Completed(c[1]), sojourn.Completed)
	waits(s, ids[3], sojourn.GateRate, "1 per 1m0s", s.Now().Add(time.Minute))
	s.Must(hold(s, kit.Queue, time.Hour, "maintenance"), "HoldQueue")
	waits(s, ids[3], sojourn.GateHold, "maintenance", s.Now().Add(time.Hour))
	s.Must(hold(s, kit.Queue, 0, ""), "HoldQueue")
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Breaker: &sojourn.Breaker{Failures: 1, Open: time.Minute}})
	s.Advance(time.Second) // the other processes know it then
	s.Finish(fails(s.Claim(), "down"), sojourn.Scheduled)
	waits(s, ids[4], sojourn.GateBreaker, "too many failures", s.Now().Add(time.Minute))
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Throttle: "go"})
	waits(s, ids[4], sojourn.GateThrottle, "option Throttle", time.Time{})
}

// whyAgrees plays random settings and jobs. Every claimed job was claimable, and a claim returns no
// job only if none was.
func whyAgrees(s *kit.Scene) {
	throttled(s, func(c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
		return throttle.Admission{Start: c.Priority%3 != 0 && f.Sum(func(l throttle.FlightLoad) bool { return l.Group == c.Group }).Jobs < 3}, nil
	})
	groups := []string{"", "east", "north", "west"}
	for round := range 5 {
		s.SetQueue(kit.Queue, anySettings(s))
		for range 8 {
			s.Enqueue(sojourn.Group(groups[s.Random(4)]), sojourn.Weight(int32(s.Random(4))), sojourn.Priority(int32(s.Random(5))), kit.Steady(time.Hour))
		}
		var held []driver.Claimed
		for step := range 15 {
			ready, err := s.Store.Find(s.Ctx, sojourn.Filter{Queue: kit.Queue, States: []sojourn.State{sojourn.Ready}, Limit: 1000})
			s.Must(err, "Find")
			claimable := map[sojourn.ID]bool{}
			var reasons []string
			for _, j := range ready {
				w := why(s, j.ID)
				claimable[j.ID] = w.Claimable
				reasons = append(reasons, fmt.Sprintf("%d %s", j.ID, w.Gate))
			}
			explained := map[sojourn.ID]sojourn.Why{}
			for _, j := range ready {
				explained[j.ID] = why(s, j.ID)
			}
			cs := s.ClaimMany(kit.UpTo(1), kit.Leased(time.Hour))
			what := fmt.Sprintf("round %d, step %d", round, step)
			if len(cs) == 0 {
				for id, yes := range claimable {
					if yes {
						s.Fatalf("%s: nothing was claimed, but job %d is claimable: %+v (settings %+v)", what, id, why(s, id), s.Queue(kit.Queue).Settings)
					}
				}
			} else if !claimable[cs[0].Job.ID] {
				s.Fatalf("%s: job %d was claimed, which was not claimable: %+v, %v (settings %+v)", what, cs[0].Job.ID, explained[cs[0].Job.ID], reasons, s.Queue(kit.Queue).Settings)
			}
			held = append(held, cs...)
			held = anyEnd(s, held)
			s.Advance(time.Duration(s.Random(3)) * 400 * time.Millisecond)
		}
		for _, c := range held {
			s.Finish(kit.Completed(c), sojourn.Completed)
		}
	}
}

func anySettings(s *kit.Scene) (q sojourn.QueueSettings) {
	if s.Random(2) == 0 {
		q.Limit = int64(3 + s.Random(5))
		if s.Random(2) == 0 {
			q.Shares, q.Borrow = map[string]float64{"east": .4, "north": .3}, s.Random(2) == 0
		}
	}
	if s.Random(3) == 0 {
		q.GroupLimit = int64(3 + s.Random(3))
	}
	if s.Random(3) == 0 {
		q.Rate = &sojourn.Rate{Count: int64(1 + s.Random(3)), Per: time.Second, Burst: int64(s.Random(3))}
	}
	if s.Random(3) == 0 {
		q.GroupRate = &sojourn.Rate{Count: 1, Per: time.Second}
	}
	if s.Random(3) == 0 {
		q.Breaker = &sojourn.Breaker{Failures: 2, Within: time.Minute, Open: time.Second}
	}
	if s.Random(3) == 0 {
		q.Throttle = "go"
	}
	return q
}

// anyEnd ends one of the running jobs in one of many ways, or none.
func anyEnd(s *kit.Scene, held []driver.Claimed) []driver.Claimed {
	if len(held) == 0 || s.Random(3) == 0 {
		return held
	}
	i := s.Random(len(held))
	c := held[i]
	switch s.Random(4) {
	case 0:
		s.Finish(kit.Completed(c), sojourn.Completed)
	case 1:
		s.Finish(fails(c, "down"), sojourn.Scheduled)
	case 2:
		s.Finish(kit.Released(c), sojourn.Ready)
	case 3:
		s.Finish(holds(c, "", time.Second), sojourn.Ready)
	}
	return slices.Delete(held, i, i+1)
}

func whyQueue(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: 10, GroupLimit: 2})
	s.EnqueueMany(6, sojourn.Group("east"))
	s.EnqueueMany(3)
	kit.Same(s, "jobs of the first claim", len(s.ClaimMany(kit.UpTo(5))), 5)
	w, err := s.Store.WhyQueue(s.Ctx, kit.Queue)
	s.Must(err, "WhyQueue")
	if w.Asked != 4 || w.Open != 0 || len(w.Held) != 1 || w.Held[0].Jobs != 4 || w.Held[0].Name != sojourn.GateGroup || w.Held[0].First == 0 {
		s.Fatalf("why of the queue is %+v, want 4 jobs held by the limit of their group", w)
	}
	s.Must(hold(s, kit.Queue, time.Minute, ""), "HoldQueue")
	w, err = s.Store.WhyQueue(s.Ctx, kit.Queue)
	s.Must(err, "WhyQueue")
	if len(w.Held) != 1 || w.Held[0].Name != sojourn.GateHold || w.Held[0].Jobs != 4 {
		s.Fatalf("why of a queue on hold is %+v", w)
	}
	if _, err := s.Store.WhyQueue(context.Background(), "nobody"); !errors.Is(err, sojourn.ErrNotFound) {
		s.Fatalf("why of no queue: %v", err)
	}
}
