package flow

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var groupTrials = []kit.Trial{
	{Name: "group limit", Law: "The weight in flight of each group stays within the group limit; jobs without a group are not held back.",
		Covers: "spec:K4 inv:T1", Run: groupLimit},
	{Name: "strict order in a group", Law: "With a group limit of 1 the jobs of a group run one at a time, in order, also when they wait for answers.",
		Covers: "spec:K4 inv:W1", Run: groupFIFO},
	{Name: "groups take turns", Law: "Groups with ready jobs start one job each in turn, however large their backlogs, over one claim and over many.",
		Covers: "inv:W4 spec:K4", Run: groupTurns},
	{Name: "shares", Law: "Of 100 slots 40 go to the east, 30 to the north, 30 to the west, and to nobody else.", Covers: "spec:K4 spec:K2", Run: groupShares},
	{Name: "the rest of the shares", Law: "Groups without a share divide what the shares leave.", Covers: "spec:K4", Run: groupRest},
	{Name: "borrowed shares", Law: "With borrow an idle share is used by others, but each group gets its own first.", Covers: "spec:K4", Run: groupBorrow},
	{Name: "groups of jobs that wait already", Law: "Jobs that were there before the queue had groups take their turns as well, and go back into one line.",
		Covers: "spec:K4", Run: groupLater},
	{Name: "a job changes its group", Law: "A waiting job that is moved to another group or queue stands in the line of that.",
		Covers: "spec:K4 tr:O5 rules:D1", Run: groupMoved},
	{Name: "weight 0 among groups", Law: "A job without weight passes the limit of its group and of its queue.", Covers: "spec:K3", Run: groupCritical},
	{Name: "peek at groups", Law: "Find with Next shows the order in which claims take.", Covers: "spec:O2", Run: groupPeek},
}

// groupsOf counts claimed jobs by group.
func groupsOf(cs []driver.Claimed) map[string]int {
	n := map[string]int{}
	for _, c := range cs {
		n[c.Job.Group]++
	}
	return n
}

func groupLimit(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{GroupLimit: 2})
	for _, g := range []string{"a", "b", ""} {
		s.EnqueueMany(5, sojourn.Group(g))
	}
	heavy := s.Enqueue(sojourn.Group("heavy"), sojourn.Weight(3)) // runs alone in its group
	s.Enqueue(sojourn.Group("heavy"))
	cs := s.ClaimMany(kit.UpTo(100))
	kit.Same(s, "jobs by group", fmt.Sprint(groupsOf(cs)), "map[:5 a:2 b:2 heavy:1]")
	s.ClaimNone("all groups are at their limit")
	for _, c := range cs {
		if c.Job.Group == "b" || c.Job.ID == heavy {
			s.Finish(kit.Completed(c), sojourn.Completed)
		}
	}
	kit.Same(s, "jobs by group", fmt.Sprint(groupsOf(s.ClaimMany(kit.UpTo(100)))), "map[b:2 heavy:1]")
}

func groupFIFO(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{GroupLimit: 1})
	var want, got []sojourn.ID
	for i := range 3 {
		want = append(want, s.Enqueue(sojourn.Group("g"), sojourn.Key(fmt.Sprint(i))))
	}
	s.Enqueue(sojourn.Group("g"), sojourn.Priority(200), sojourn.Weight(1))
	for i := range 3 {
		c := s.Claim()
		got = append(got, c.Job.ID)
		s.ClaimNone("one job of the group runs")
		s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
		s.ClaimNone("one job of the group awaits")
		s.Respond(fmt.Sprint(i))
		s.Finish(kit.Completed(s.Claim(kit.UpTo(5))), sojourn.Completed)
	}
	s.Order(got, want)
	c := s.Claim()
	s.Enqueue(sojourn.Group("g"), sojourn.Priority(300))
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Claim() // a retry waits, the group continues
}

func groupTurns(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Fair: true})
	s.EnqueueMany(40, sojourn.Group("giant"), sojourn.Priority(1))
	for _, g := range []string{"a", "b", "z"} {
		s.EnqueueMany(4, sojourn.Group(g))
	}
	kit.Same(s, "one claim", fmt.Sprint(groupsOf(s.ClaimMany(kit.UpTo(8)))), "map[a:2 b:2 giant:2 z:2]")
	n := map[string]int{}
	for range 8 {
		n[s.Claim().Job.Group]++
	}
	kit.Same(s, "eight claims", fmt.Sprint(n), "map[a:2 b:2 giant:2 z:2]")
	kit.Same(s, "the giant alone", fmt.Sprint(groupsOf(s.ClaimMany(kit.UpTo(50)))), "map[giant:36]")
}

func shares(borrow bool) sojourn.QueueSettings {
	return sojourn.QueueSettings{Limit: 100, Shares: map[string]float64{"east": .4, "north": .3, "west": .3}, Borrow: borrow}
}

func groupShares(s *kit.Scene) {
	s.SetQueue(kit.Queue, shares(false))
	for _, g := range []string{"east", "north", "west", "south"} {
		s.EnqueueMany(60, sojourn.Group(g))
	}
	n := map[string]int{}
	for range 30 {
		for g, k := range groupsOf(s.ClaimMany(kit.UpTo(7))) {
			n[g] += k
		}
	}
	kit.Same(s, "jobs by region", fmt.Sprint(n), "map[east:40 north:30 west:30]")
}

func groupRest(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: 10, Shares: map[string]float64{"east": .4, "west": .2}})
	for _, g := range []string{"a", "b", "c", "east"} {
		s.EnqueueMany(9, sojourn.Group(g))
	}
	s.EnqueueMany(9)
	n := map[string]int{}
	for _, c := range s.ClaimMany(kit.UpTo(100)) {
		if c.Job.Group == "east" {
			n["east"]++
		} else {
			n["rest"]++
		}
	}
	kit.Same(s, "jobs", fmt.Sprint(n), "map[east:4 rest:4]")
}

func groupBorrow(s *kit.Scene) {
	s.SetQueue(kit.Queue, shares(true))
	s.EnqueueMany(100, sojourn.Group("east"))
	s.EnqueueMany(50, sojourn.Group("north"))
	cs := s.ClaimMany(kit.UpTo(1000))
	kit.Same(s, "jobs by region", fmt.Sprint(groupsOf(cs)), "map[east:55 north:45]") // 40 and 30 of their own, and the 30 of the west in turn
	s.EnqueueMany(50, sojourn.Group("west"))
	for _, c := range cs[:10] {
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
	kit.Same(s, "who gets what becomes free", fmt.Sprint(groupsOf(s.ClaimMany(kit.UpTo(1000)))), "map[west:10]")
}

func groupLater(s *kit.Scene) {
	for i := range 6 {
		s.EnqueueMany(1, sojourn.Group(fmt.Sprint(i%2)), sojourn.Priority(int32(i%2)))
	}
	due := s.Enqueue(sojourn.Group("2"), sojourn.Delay(time.Minute))
	running := s.ClaimMany(kit.UpTo(1))
	s.SetQueue(kit.Queue, sojourn.QueueSettings{GroupLimit: 2})
	s.Advance(2 * time.Minute)
	s.Extends(running[0].Lease, true)
	kit.Same(s, "jobs by group", fmt.Sprint(groupsOf(s.ClaimMany(kit.UpTo(100)))), "map[0:1 1:2 2:1]")
	s.State(due, sojourn.Running)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	kit.Same(s, "jobs in one line", fmt.Sprint(groupsOf(s.ClaimMany(kit.UpTo(100)))), "map[0:1 1:1]")
}

func groupMoved(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{GroupLimit: 1})
	s.SetQueue("other", sojourn.QueueSettings{Limit: 1, Order: sojourn.OrderTime})
	a, b := s.Enqueue(sojourn.Group("g")), s.Enqueue(sojourn.Group("g"))
	kit.Same(s, "the first", s.Claim(kit.UpTo(5)).Job.ID, a)
	h, other, zero := "h", "other", int32(0)
	s.Edited(b, sojourn.Edit{Action: sojourn.EditChange, Group: &h}, sojourn.Ready)
	kit.Same(s, "the second, in another group", s.Claim(kit.UpTo(5)).Job.ID, b)
	c := s.Enqueue(sojourn.Group("g"))
	d := s.Enqueue(sojourn.Group("g"))
	s.Edited(c, sojourn.Edit{Action: sojourn.EditChange, Queue: &other}, sojourn.Ready)
	s.ClaimNone("the group is at its limit")
	kit.Same(s, "the third, in another queue", s.Claim(kit.UpTo(5), kit.From("other")).Job.ID, c)
	s.Edited(d, sojourn.Edit{Action: sojourn.EditChange, Queue: &other, Weight: &zero}, sojourn.Ready)
	kit.Same(s, "the fourth, without weight", s.Claim(kit.UpTo(5), kit.From("other")).Job.ID, d)
}

func groupCritical(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: 1, GroupLimit: 1})
	s.EnqueueMany(3, sojourn.Group("g"))
	s.Claim()
	critical := s.Enqueue(sojourn.Group("g"), sojourn.Weight(0), sojourn.Priority(1000))
	kit.Same(s, "the job without weight", s.Claim(kit.UpTo(5)).Job.ID, critical)
}

func groupPeek(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Fair: true})
	for i := range 12 {
		s.Enqueue(sojourn.Group([]string{"a", "a", "b", "c"}[i%4]), sojourn.Priority(int32(s.Random(5))), kit.OfKind([]string{kit.Kind, "b"}[s.Random(2)]))
	}
	s.Enqueue(sojourn.Group("a"), sojourn.Weight(0))
	both := kit.Kinds(kit.Kind, "b")
	s.ClaimMany(kit.UpTo(2), both) // the turn is somewhere
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{Queue: kit.Queue, Next: true, Limit: 100})
	s.Must(err, "Find")
	var want []sojourn.ID
	for _, j := range jobs {
		want = append(want, j.ID)
	}
	kit.Same(s, "jobs that wait", len(want), 11)
	s.Order(kit.ClaimedIDs(s.ClaimMany(kit.UpTo(4), both)), want[:4])
	s.Order(s.Drain(both), want[4:])
}
