package claims

import (
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var orderTrials = []kit.Trial{
	{Name: "order by priority", Law: "Lower priorities are claimed first, whatever the numbers.", Covers: "spec:J11 spec:O4 spec:O5", Run: orderPriority},
	{Name: "order by run_at among equals", Law: "Among equal priorities the earlier run_at is claimed first, also if it was scheduled.",
		Covers: "spec:O4 spec:O7 inv:W1 spec:J11", Run: orderRunAt},
	{Name: "order of insertion among equals", Law: "Among equal run_at the ids decide: strict FIFO.", Covers: "spec:P14 inv:W1", Run: orderFIFO},
	{Name: "resumed jobs come first", Law: "A job that was answered is claimed before all plain ready ones, whatever their priority.",
		Covers: "tr:C3 rules:C2", Run: orderResumed},
	{Name: "queues in order", Law: "Without shares a claim empties the queues in the order given.", Covers: "spec:O8 spec:O10 inv:W4", Run: orderQueues},
	{Name: "queues by share", Law: "With shares a claim is spread over the queues in their proportion, and an empty queue costs nothing.",
		Covers: "spec:O9 inv:W4", Run: orderShares},
	{Name: "a first loss returns to the front", Law: "After its first lost lease a job keeps its place; after later ones it backs off.",
		Covers: "tr:W1 spec:O6 spec:R8 rules:E2 spec:S13", Run: orderLost},
	{Name: "a retry goes behind", Law: "A job that was retried stands behind its equals, at the time of its retry.", Covers: "tr:F2 spec:R2 inv:W1", Run: orderRetry},
	{Name: "a changed priority keeps the place among equals", Law: "A change of priority keeps run_at.", Covers: "tr:O5 spec:P7", Run: orderChanged},
	{Name: "order by time", Law: "In the order time the minute of run_at comes first and the priority second: the table of the specification.",
		Covers: "spec:O3 spec:O5", Run: orderTime},
	{Name: "the other order of the same table", Law: "In the order priority the same jobs stand by priority.", Covers: "spec:O4 spec:O5", Run: orderTable},
	{Name: "starvation without ageing", Law: "Without ageing jobs of a better priority that keep coming starve one of a worse.", Covers: "spec:O4", Run: orderStarves},
	{Name: "no starvation with ageing", Law: "With ageing nothing that became ready later than priorities times age_step is started before.",
		Covers: "spec:O4 inv:W2", Run: orderAges},
	{Name: "a changed order", Law: "A queue whose order is changed stands in the new one at once, jobs that wait for their time or a retry too.",
		Covers: "spec:O3 spec:O4 spec:A5", Run: orderChangedLater},
	{Name: "a release keeps the place", Law: "A released job is claimed again before those that came after it.", Covers: "tr:F11 rules:D2 spec:W11", Run: orderReleased},
}

func orderPriority(s *kit.Scene) {
	var want []sojourn.ID
	byPriority := map[int32]sojourn.ID{}
	all := []int32{math.MinInt32, -5, 0, 1, 99, 100, 101, math.MaxInt32}
	shuffled := slices.Clone(all)
	for i := range shuffled {
		k := s.Random(i + 1)
		shuffled[i], shuffled[k] = shuffled[k], shuffled[i]
	}
	for _, p := range shuffled {
		byPriority[p] = s.Enqueue(sojourn.Priority(p))
	}
	for _, p := range all {
		want = append(want, byPriority[p])
	}
	cs := s.ClaimMany(kit.UpTo(3))
	s.Order(kit.ClaimedIDs(cs), want[:3])
	s.Order(s.Drain(), want[3:])
}

func orderRunAt(s *kit.Scene) {
	third := s.Enqueue(sojourn.Delay(3 * time.Second))
	second := s.Enqueue(sojourn.Delay(2 * time.Second))
	first := s.Enqueue()
	s.Advance(2500 * time.Millisecond)
	late := s.Enqueue() // behind second, which was due half a second ago, before third
	urgent := s.Enqueue(sojourn.Priority(99))
	s.Advance(time.Hour)
	s.Order(s.Drain(), []sojourn.ID{urgent, first, second, late, third})
}

func orderFIFO(s *kit.Scene) {
	ids := s.EnqueueMany(30)
	ids = append(ids, s.EnqueueMany(30)...)
	s.Order(s.Drain(kit.UpTo(7)), ids)
}

func orderResumed(s *kit.Scene) {
	a := s.Resumed("a").Job.ID
	urgent := s.Enqueue(sojourn.Priority(math.MinInt32))
	b := s.Awaiting(sojourn.Key("b"), sojourn.Priority(math.MinInt32), sojourn.Queue("other")) // its own queue, so that it is claimed alone
	s.Respond("b")
	s.Order(kit.ClaimedIDs(s.ClaimMany(kit.UpTo(10))), []sojourn.ID{a, urgent})
	kit.Same(s, "the resumed one of the other queue", s.Claim(kit.From("other")).Job.ID, b.Job.ID)
}

func orderQueues(s *kit.Scene) {
	var want []sojourn.ID
	b := s.EnqueueMany(3, sojourn.Queue("b"), sojourn.Priority(1))
	a := s.EnqueueMany(3, sojourn.Queue("a"))
	want = append(append(want, a...), b...)
	s.Order(kit.ClaimedIDs(s.ClaimMany(kit.From("a", "empty", "b"), kit.UpTo(4))), want[:4])
	s.Order(s.Drain(kit.From("a", "b")), want[4:])
}

func orderShares(s *kit.Scene) {
	s.EnqueueMany(300, sojourn.Queue("a"))
	s.EnqueueMany(300, sojourn.Queue("b"))
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
	a, b := count(s.ClaimMany(kit.From("a", "b"), kit.UpTo(80), shares))
	if a+b != 80 || a < 50 || b < 10 {
		s.Fatalf("one claim of 80 at 3:1 gave %d of a and %d of b", a, b)
	}
	for range 3 { // the spread is within one claim; who claims one at a time rotates the order of the queues
		kit.Same(s, "the queue of a claim of one", s.Claim(kit.From("a", "b"), shares).Job.Queue, "a")
		kit.Same(s, "the queue of a claim of one", s.Claim(kit.From("b", "a"), shares).Job.Queue, "b")
	}
	s.ClaimMany(kit.From("b"), kit.UpTo(1000))
	a, b = count(s.ClaimMany(kit.From("a", "b"), kit.UpTo(40), shares))
	if a != 40 || b != 0 {
		s.Fatalf("with b empty a claim of 40 gave %d of a and %d of b", a, b)
	}
}

func orderLost(s *kit.Scene) {
	lost := s.Running(kit.Steady(time.Minute)).Job.ID
	s.Advance(time.Second)
	behind := s.Enqueue()
	urgent := s.Enqueue(sojourn.Priority(1))
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.State(lost, sojourn.Ready)
	s.Order(kit.ClaimedIDs(s.ClaimMany(kit.UpTo(3))), []sojourn.ID{urgent, lost, behind})
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 3})
	s.State(behind, sojourn.Ready)
	j := s.State(lost, sojourn.Scheduled) // its second loss
	s.At("run_at after the second loss", j.RunAt, s.Now().Add(time.Minute))
}

func orderRetry(s *kit.Scene) {
	id := s.Retrying().Job.ID // in ten seconds
	s.Advance(9 * time.Second)
	before := s.Enqueue()
	s.Advance(2 * time.Second)
	after := s.Enqueue()
	s.Order(s.Drain(), []sojourn.ID{before, id, after})
}

func orderChanged(s *kit.Scene) {
	a := s.Enqueue()
	s.Advance(time.Second)
	b := s.Enqueue(sojourn.Priority(50))
	p := int32(50)
	j := s.Edited(a, sojourn.Edit{Action: sojourn.EditChange, Priority: &p}, sojourn.Ready)
	s.At("run_at", j.RunAt, s.Now().Add(-time.Second))
	s.Order(s.Drain(), []sojourn.ID{a, b})
}

func orderReleased(s *kit.Scene) {
	c := s.Running()
	s.Advance(time.Second)
	behind := s.Enqueue()
	s.Finish(kit.Released(c), sojourn.Ready)
	s.Order(s.Drain(), []sojourn.ID{c.Job.ID, behind})
}

// table enqueues the jobs of the specification's example: 10:32/700, 10:33/50, 10:33/100, 10:40/1,
// 10:40/7, in another order.
func table(s *kit.Scene) map[int32]sojourn.ID {
	s.Helper()
	ten := s.Now().Truncate(time.Hour).Add(time.Hour)
	ids := map[int32]sojourn.ID{}
	for _, j := range []struct{ minute, second, priority int32 }{{40, 0, 7}, {33, 7, 100}, {32, 59, 700}, {40, 30, 1}, {33, 50, 50}} {
		ids[j.priority] = s.Enqueue(sojourn.Priority(j.priority), sojourn.RunAt(ten.Add(time.Duration(j.minute)*time.Minute+time.Duration(j.second)*time.Second)))
	}
	s.Advance(2 * time.Hour)
	return ids
}

func orderTime(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Order: sojourn.OrderTime})
	t := table(s)
	s.Order(s.Drain(), []sojourn.ID{t[700], t[50], t[100], t[1], t[7]})
}

func orderTable(s *kit.Scene) {
	t := table(s)
	s.Order(s.Drain(), []sojourn.ID{t[1], t[7], t[50], t[100], t[700]})
}

// starve keeps ten jobs of priority 1 ready, starts one a second, and returns the number of starts
// before the job of priority 2.
func starve(s *kit.Scene) int {
	s.Helper()
	poor := s.Enqueue(sojourn.Priority(2))
	s.EnqueueMany(10, sojourn.Priority(1))
	for n := range 200 {
		c := s.Claim()
		if c.Job.ID == poor {
			return n
		}
		s.Finish(kit.Completed(c), sojourn.Completed)
		s.Advance(time.Second)
		s.Enqueue(sojourn.Priority(1))
	}
	return -1
}

func orderStarves(s *kit.Scene) { kit.Same(s, "starts before the job of priority 2", starve(s), -1) }

func orderAges(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{AgeStep: 30 * time.Second})
	// Jobs that became ready in the first 30 s may overtake it: the ten of the beginning and one a
	// second. The one of second 30 has the same rank, and the larger id.
	kit.Same(s, "starts before the job of priority 2", starve(s), 10+29)
}

func orderChangedLater(s *kit.Scene) {
	retry := s.Running(kit.Steady(time.Minute), sojourn.Priority(9))
	s.Finish(kit.Failure(retry), sojourn.Scheduled)
	s.Advance(time.Second)
	second := s.Enqueue(sojourn.Priority(1), sojourn.Delay(2*time.Minute))
	first := s.Enqueue(sojourn.Priority(5))
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Order: sojourn.OrderTime})
	s.Advance(time.Hour)
	s.Sweep()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{Queue: kit.Queue, Next: true})
	s.Must(err, "Find")
	kit.Same(s, "what would be next", jobs[0].ID, first)
	want := []sojourn.ID{first, retry.Job.ID, second}
	s.Order([]sojourn.ID{jobs[0].ID, jobs[1].ID, jobs[2].ID}, want)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	jobs, err = s.Store.Find(s.Ctx, sojourn.Filter{Queue: kit.Queue, Next: true})
	s.Must(err, "Find")
	kit.Same(s, "what would be next in the order priority", jobs[0].ID, second)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Order: sojourn.OrderTime})
	s.Order(s.Drain(), want)
}
