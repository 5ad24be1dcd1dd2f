package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
)

var orderTrials = []trial{
	{"order by priority", "Lower priorities are claimed first, whatever the numbers.", "spec:J11 spec:O4 spec:O5", orderPriority},
	{"order by run_at among equals", "Among equal priorities the earlier run_at is claimed first, also if it was scheduled.",
		"spec:O4 spec:O7 inv:W1 spec:J11", orderRunAt},
	{"order of insertion among equals", "Among equal run_at the ids decide: strict FIFO.", "spec:P14 inv:W1", orderFIFO},
	{"resumed jobs come first", "A job that was answered is claimed before all plain ready ones, whatever their priority.", "tr:C3 rules:C2", orderResumed},
	{"queues in order", "Without shares a claim empties the queues in the order given.", "spec:O8 spec:O10 inv:W4", orderQueues},
	{"queues by share", "With shares a claim is spread over the queues in their proportion, and an empty queue costs nothing.",
		"spec:O9 inv:W4", orderShares},
	{"a first loss returns to the front", "After its first lost lease a job keeps its place; after later ones it backs off.",
		"tr:W1 spec:O6 spec:R8 rules:E2 spec:S13", orderLost},
	{"a retry goes behind", "A job that was retried stands behind its equals, at the time of its retry.", "tr:F2 spec:R2 inv:W1", orderRetry},
	{"a changed priority keeps the place among equals", "A change of priority keeps run_at.", "tr:O5 spec:P7", orderChanged},
	{"a release keeps the place", "A released job is claimed again before those that came after it.", "tr:F11 rules:D2 spec:W11", orderReleased},
}

// drain claims everything, one by one, and completes it.
func (s *scene) drain(wishes ...wish) []sojourn.ID {
	s.Helper()
	var ids []sojourn.ID
	for {
		cs := s.claimMany(wishes...)
		if len(cs) == 0 {
			return ids
		}
		for _, c := range cs {
			ids = append(ids, c.Job.ID)
			s.finish(completed(c), sojourn.Completed)
		}
	}
}

func (s *scene) order(got, want []sojourn.ID) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Fatalf("claimed in the order %v, want %v", got, want)
	}
}

func orderPriority(s *scene) {
	var want []sojourn.ID
	byPriority := map[int32]sojourn.ID{}
	all := []int32{math.MinInt32, -5, 0, 1, 99, 100, 101, math.MaxInt32}
	shuffled := slices.Clone(all)
	for i := range shuffled {
		k := s.random(i + 1)
		shuffled[i], shuffled[k] = shuffled[k], shuffled[i]
	}
	for _, p := range shuffled {
		byPriority[p] = s.enqueue(sojourn.Priority(p))
	}
	for _, p := range all {
		want = append(want, byPriority[p])
	}
	cs := s.claimMany(upTo(3))
	s.order(claimedIDs(cs), want[:3])
	s.order(s.drain(), want[3:])
}

func orderRunAt(s *scene) {
	third := s.enqueue(sojourn.Delay(3 * time.Second))
	second := s.enqueue(sojourn.Delay(2 * time.Second))
	first := s.enqueue()
	s.advance(2500 * time.Millisecond)
	late := s.enqueue() // behind second, which was due half a second ago, before third
	urgent := s.enqueue(sojourn.Priority(99))
	s.advance(time.Hour)
	s.order(s.drain(), []sojourn.ID{urgent, first, second, late, third})
}

func orderFIFO(s *scene) {
	ids := s.enqueueMany(30)
	ids = append(ids, s.enqueueMany(30)...)
	s.order(s.drain(upTo(7)), ids)
}

func orderResumed(s *scene) {
	a := s.resumed("a").Job.ID
	urgent := s.enqueue(sojourn.Priority(math.MinInt32))
	b := s.awaiting(sojourn.Key("b"), sojourn.Priority(math.MinInt32), sojourn.Queue("other")) // its own queue, so that it is claimed alone
	s.respond("b")
	s.order(claimedIDs(s.claimMany(upTo(10))), []sojourn.ID{a, urgent})
	same(s, "the resumed one of the other queue", s.claim(from("other")).Job.ID, b.Job.ID)
}

func orderQueues(s *scene) {
	var want []sojourn.ID
	b := s.enqueueMany(3, sojourn.Queue("b"), sojourn.Priority(1))
	a := s.enqueueMany(3, sojourn.Queue("a"))
	want = append(append(want, a...), b...)
	s.order(claimedIDs(s.claimMany(from("a", "empty", "b"), upTo(4))), want[:4])
	s.order(s.drain(from("a", "b")), want[4:])
}

func orderShares(s *scene) {
	s.enqueueMany(300, sojourn.Queue("a"))
	s.enqueueMany(300, sojourn.Queue("b"))
	shares := func(r *sojourn.ClaimRequest) { r.Share = map[string]int{"a": 3, "b": 1} }
	count := func(cs []sojourn.Claimed) (a, b int) {
		for _, c := range cs {
			if c.Job.Queue == "a" {
				a++
			} else {
				b++
			}
		}
		return a, b
	}
	a, b := count(s.claimMany(from("a", "b"), upTo(80), shares))
	if a+b != 80 || a < 50 || b < 10 {
		s.Fatalf("one claim of 80 at 3:1 gave %d of a and %d of b", a, b)
	}
	for range 3 { // the spread is within one claim; who claims one at a time rotates the order of the queues
		same(s, "the queue of a claim of one", s.claim(from("a", "b"), shares).Job.Queue, "a")
		same(s, "the queue of a claim of one", s.claim(from("b", "a"), shares).Job.Queue, "b")
	}
	s.claimMany(from("b"), upTo(1000))
	a, b = count(s.claimMany(from("a", "b"), upTo(40), shares))
	if a != 40 || b != 0 {
		s.Fatalf("with b empty a claim of 40 gave %d of a and %d of b", a, b)
	}
}

func orderLost(s *scene) {
	lost := s.running(steady(time.Minute)).Job.ID
	s.advance(time.Second)
	behind := s.enqueue()
	urgent := s.enqueue(sojourn.Priority(1))
	s.swept(lease, sojourn.Swept{Lost: 1})
	s.state(lost, sojourn.Ready)
	s.order(claimedIDs(s.claimMany(upTo(3))), []sojourn.ID{urgent, lost, behind})
	s.swept(lease, sojourn.Swept{Lost: 3})
	s.state(behind, sojourn.Ready)
	j := s.state(lost, sojourn.Scheduled) // its second loss
	s.at("run_at after the second loss", j.RunAt, s.now().Add(time.Minute))
}

func orderRetry(s *scene) {
	id := s.retrying().Job.ID // in ten seconds
	s.advance(9 * time.Second)
	before := s.enqueue()
	s.advance(2 * time.Second)
	after := s.enqueue()
	s.order(s.drain(), []sojourn.ID{before, id, after})
}

func orderChanged(s *scene) {
	a := s.enqueue()
	s.advance(time.Second)
	b := s.enqueue(sojourn.Priority(50))
	p := int32(50)
	j := s.edited(a, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Priority: &p}}, sojourn.Ready)
	s.at("run_at", j.RunAt, s.now().Add(-time.Second))
	s.order(s.drain(), []sojourn.ID{a, b})
}

func orderReleased(s *scene) {
	c := s.running()
	s.advance(time.Second)
	behind := s.enqueue()
	s.finish(released(c), sojourn.Ready)
	s.order(s.drain(), []sojourn.ID{c.Job.ID, behind})
}
