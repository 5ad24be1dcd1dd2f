package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
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
	{"order by time", "In the order time the minute of run_at comes first and the priority second: the table of the specification.", "spec:O3 spec:O5", orderTime},
	{"the other order of the same table", "In the order priority the same jobs stand by priority.", "spec:O4 spec:O5", orderTable},
	{"starvation without ageing", "Without ageing jobs of a better priority that keep coming starve one of a worse.", "spec:O4", orderStarves},
	{"no starvation with ageing", "With ageing nothing that became ready later than priorities times age_step is started before.", "spec:O4 inv:W2", orderAges},
	{"a changed order", "A queue whose order is changed stands in the new one at once, jobs that wait for their time or a retry too.", "spec:O3 spec:O4 spec:A5", orderChangedLater},
	{"a release keeps the place", "A released job is claimed again before those that came after it.", "tr:F11 rules:D2 spec:W11", orderReleased},
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
	shares := func(r *driver.ClaimRequest) { r.Share = map[string]int{"a": 3, "b": 1} }
	count := func(cs []driver.Claimed) (a, b int) {
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
	s.swept(lease, driver.Swept{Lost: 1})
	s.state(lost, sojourn.Ready)
	s.order(claimedIDs(s.claimMany(upTo(3))), []sojourn.ID{urgent, lost, behind})
	s.swept(lease, driver.Swept{Lost: 3})
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

// table enqueues the jobs of the specification's example: 10:32/700, 10:33/50, 10:33/100, 10:40/1,
// 10:40/7, in another order.
func (s *scene) table() map[int32]sojourn.ID {
	s.Helper()
	ten := s.now().Truncate(time.Hour).Add(time.Hour)
	ids := map[int32]sojourn.ID{}
	for _, j := range []struct{ minute, second, priority int32 }{{40, 0, 7}, {33, 7, 100}, {32, 59, 700}, {40, 30, 1}, {33, 50, 50}} {
		ids[j.priority] = s.enqueue(sojourn.Priority(j.priority), sojourn.RunAt(ten.Add(time.Duration(j.minute)*time.Minute+time.Duration(j.second)*time.Second)))
	}
	s.advance(2 * time.Hour)
	return ids
}

func orderTime(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Order: sojourn.OrderTime})
	t := s.table()
	s.order(s.drain(), []sojourn.ID{t[700], t[50], t[100], t[1], t[7]})
}

func orderTable(s *scene) {
	t := s.table()
	s.order(s.drain(), []sojourn.ID{t[1], t[7], t[50], t[100], t[700]})
}

// starve keeps ten jobs of priority 1 ready, starts one a second, and returns the number of starts
// before the job of priority 2.
func (s *scene) starve() int {
	s.Helper()
	poor := s.enqueue(sojourn.Priority(2))
	s.enqueueMany(10, sojourn.Priority(1))
	for n := range 200 {
		c := s.claim()
		if c.Job.ID == poor {
			return n
		}
		s.finish(completed(c), sojourn.Completed)
		s.advance(time.Second)
		s.enqueue(sojourn.Priority(1))
	}
	return -1
}

func orderStarves(s *scene) { same(s, "starts before the job of priority 2", s.starve(), -1) }

func orderAges(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{AgeStep: 30 * time.Second})
	// Jobs that became ready in the first 30 s may overtake it: the ten of the beginning and one a
	// second. The one of second 30 has the same rank, and the larger id.
	same(s, "starts before the job of priority 2", s.starve(), 10+29)
}

func orderChangedLater(s *scene) {
	retry := s.running(steady(time.Minute), sojourn.Priority(9))
	s.finish(failure(retry), sojourn.Scheduled)
	s.advance(time.Second)
	second := s.enqueue(sojourn.Priority(1), sojourn.Delay(2*time.Minute))
	first := s.enqueue(sojourn.Priority(5))
	s.setQueue(line, sojourn.QueueSettings{Order: sojourn.OrderTime})
	s.advance(time.Hour)
	s.sweep()
	jobs, err := s.store.Find(s.ctx, sojourn.Filter{Queue: line, Next: true})
	s.must(err, "Find")
	same(s, "what would be next", jobs[0].ID, first)
	want := []sojourn.ID{first, retry.Job.ID, second}
	s.order([]sojourn.ID{jobs[0].ID, jobs[1].ID, jobs[2].ID}, want)
	s.setQueue(line, sojourn.QueueSettings{})
	jobs, err = s.store.Find(s.ctx, sojourn.Filter{Queue: line, Next: true})
	s.must(err, "Find")
	same(s, "what would be next in the order priority", jobs[0].ID, second)
	s.setQueue(line, sojourn.QueueSettings{Order: sojourn.OrderTime})
	s.order(s.drain(), want)
}
