package storetest

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var groupTrials = []trial{
	{"group limit", "The weight in flight of each group stays within the group limit; jobs without a group are not held back.", "spec:K4 inv:T1", groupLimit},
	{"strict order in a group", "With a group limit of 1 the jobs of a group run one at a time, in order, also when they wait for answers.",
		"spec:K4 inv:W1", groupFIFO},
	{"groups take turns", "Groups with ready jobs start one job each in turn, however large their backlogs, over one claim and over many.", "inv:W4 spec:K4", groupTurns},
	{"shares", "Of 100 slots 40 go to the east, 30 to the north, 30 to the west, and to nobody else.", "spec:K4 spec:K2", groupShares},
	{"the rest of the shares", "Groups without a share divide what the shares leave.", "spec:K4", groupRest},
	{"borrowed shares", "With borrow an idle share is used by others, but each group gets its own first.", "spec:K4", groupBorrow},
	{"groups of jobs that wait already", "Jobs that were there before the queue had groups take their turns as well, and go back into one line.",
		"spec:K4", groupLater},
	{"a job changes its group", "A waiting job that is moved to another group or queue stands in the line of that.", "spec:K4 tr:O5 rules:D1", groupMoved},
	{"weight 0 among groups", "A job without weight passes the limit of its group and of its queue.", "spec:K3", groupCritical},
	{"peek at groups", "Find with Next shows the order in which claims take.", "spec:O2", groupPeek},
}

// groupsOf counts claimed jobs by group.
func groupsOf(cs []driver.Claimed) map[string]int {
	n := map[string]int{}
	for _, c := range cs {
		n[c.Job.Group]++
	}
	return n
}

func groupLimit(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{GroupLimit: 2})
	for _, g := range []string{"a", "b", ""} {
		s.enqueueMany(5, sojourn.Group(g))
	}
	heavy := s.enqueue(sojourn.Group("heavy"), sojourn.Weight(3)) // runs alone in its group
	s.enqueue(sojourn.Group("heavy"))
	cs := s.claimMany(upTo(100))
	same(s, "jobs by group", fmt.Sprint(groupsOf(cs)), "map[:5 a:2 b:2 heavy:1]")
	s.claimNone("all groups are at their limit")
	for _, c := range cs {
		if c.Job.Group == "b" || c.Job.ID == heavy {
			s.finish(completed(c), sojourn.Completed)
		}
	}
	same(s, "jobs by group", fmt.Sprint(groupsOf(s.claimMany(upTo(100)))), "map[b:2 heavy:1]")
}

func groupFIFO(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{GroupLimit: 1})
	var want, got []sojourn.ID
	for i := range 3 {
		want = append(want, s.enqueue(sojourn.Group("g"), sojourn.Key(fmt.Sprint(i))))
	}
	s.enqueue(sojourn.Group("g"), sojourn.Priority(200), sojourn.Weight(1))
	for i := range 3 {
		c := s.claim()
		got = append(got, c.Job.ID)
		s.claimNone("one job of the group runs")
		s.finish(await(c, time.Hour), sojourn.Awaiting)
		s.claimNone("one job of the group awaits")
		s.respond(fmt.Sprint(i))
		s.finish(completed(s.claim(upTo(5))), sojourn.Completed)
	}
	s.order(got, want)
	c := s.claim()
	s.enqueue(sojourn.Group("g"), sojourn.Priority(300))
	s.finish(failure(c), sojourn.Scheduled)
	s.claim() // a retry waits, the group continues
}

func groupTurns(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Fair: true})
	s.enqueueMany(40, sojourn.Group("giant"), sojourn.Priority(1))
	for _, g := range []string{"a", "b", "z"} {
		s.enqueueMany(4, sojourn.Group(g))
	}
	same(s, "one claim", fmt.Sprint(groupsOf(s.claimMany(upTo(8)))), "map[a:2 b:2 giant:2 z:2]")
	n := map[string]int{}
	for range 8 {
		n[s.claim().Job.Group]++
	}
	same(s, "eight claims", fmt.Sprint(n), "map[a:2 b:2 giant:2 z:2]")
	same(s, "the giant alone", fmt.Sprint(groupsOf(s.claimMany(upTo(50)))), "map[giant:36]")
}

func shares(borrow bool) sojourn.QueueSettings {
	return sojourn.QueueSettings{Limit: 100, Shares: map[string]float64{"east": .4, "north": .3, "west": .3}, Borrow: borrow}
}

func groupShares(s *scene) {
	s.setQueue(line, shares(false))
	for _, g := range []string{"east", "north", "west", "south"} {
		s.enqueueMany(60, sojourn.Group(g))
	}
	n := map[string]int{}
	for range 30 {
		for g, k := range groupsOf(s.claimMany(upTo(7))) {
			n[g] += k
		}
	}
	same(s, "jobs by region", fmt.Sprint(n), "map[east:40 north:30 west:30]")
}

func groupRest(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Limit: 10, Shares: map[string]float64{"east": .4, "west": .2}})
	for _, g := range []string{"a", "b", "c", "east"} {
		s.enqueueMany(9, sojourn.Group(g))
	}
	s.enqueueMany(9)
	n := map[string]int{}
	for _, c := range s.claimMany(upTo(100)) {
		if c.Job.Group == "east" {
			n["east"]++
		} else {
			n["rest"]++
		}
	}
	same(s, "jobs", fmt.Sprint(n), "map[east:4 rest:4]")
}

func groupBorrow(s *scene) {
	s.setQueue(line, shares(true))
	s.enqueueMany(100, sojourn.Group("east"))
	s.enqueueMany(50, sojourn.Group("north"))
	cs := s.claimMany(upTo(1000))
	same(s, "jobs by region", fmt.Sprint(groupsOf(cs)), "map[east:55 north:45]") // 40 and 30 of their own, and the 30 of the west in turn
	s.enqueueMany(50, sojourn.Group("west"))
	for _, c := range cs[:10] {
		s.finish(completed(c), sojourn.Completed)
	}
	same(s, "who gets what becomes free", fmt.Sprint(groupsOf(s.claimMany(upTo(1000)))), "map[west:10]")
}

func groupLater(s *scene) {
	for i := range 6 {
		s.enqueueMany(1, sojourn.Group(fmt.Sprint(i%2)), sojourn.Priority(int32(i%2)))
	}
	due := s.enqueue(sojourn.Group("2"), sojourn.Delay(time.Minute))
	running := s.claimMany(upTo(1))
	s.setQueue(line, sojourn.QueueSettings{GroupLimit: 2})
	s.advance(2 * time.Minute)
	s.extends(running[0].Lease, true)
	same(s, "jobs by group", fmt.Sprint(groupsOf(s.claimMany(upTo(100)))), "map[0:1 1:2 2:1]")
	s.state(due, sojourn.Running)
	s.setQueue(line, sojourn.QueueSettings{})
	same(s, "jobs in one line", fmt.Sprint(groupsOf(s.claimMany(upTo(100)))), "map[0:1 1:1]")
}

func groupMoved(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{GroupLimit: 1})
	s.setQueue("other", sojourn.QueueSettings{Limit: 1, Order: sojourn.OrderTime})
	a, b := s.enqueue(sojourn.Group("g")), s.enqueue(sojourn.Group("g"))
	same(s, "the first", s.claim(upTo(5)).Job.ID, a)
	h, other, zero := "h", "other", int32(0)
	s.edited(b, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Group: &h}}, sojourn.Ready)
	same(s, "the second, in another group", s.claim(upTo(5)).Job.ID, b)
	c := s.enqueue(sojourn.Group("g"))
	d := s.enqueue(sojourn.Group("g"))
	s.edited(c, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Queue: &other}}, sojourn.Ready)
	s.claimNone("the group is at its limit")
	same(s, "the third, in another queue", s.claim(upTo(5), from("other")).Job.ID, c)
	s.edited(d, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Queue: &other, Weight: &zero}}, sojourn.Ready)
	same(s, "the fourth, without weight", s.claim(upTo(5), from("other")).Job.ID, d)
}

func groupCritical(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Limit: 1, GroupLimit: 1})
	s.enqueueMany(3, sojourn.Group("g"))
	s.claim()
	critical := s.enqueue(sojourn.Group("g"), sojourn.Weight(0), sojourn.Priority(1000))
	same(s, "the job without weight", s.claim(upTo(5)).Job.ID, critical)
}

func groupPeek(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Fair: true})
	for i := range 12 {
		s.enqueue(sojourn.Group([]string{"a", "a", "b", "c"}[i%4]), sojourn.Priority(int32(s.random(5))), ofKind([]string{charge, "b"}[s.random(2)]))
	}
	s.enqueue(sojourn.Group("a"), sojourn.Weight(0))
	both := kinds(charge, "b")
	s.claimMany(upTo(2), both) // the turn is somewhere
	jobs, err := s.store.Find(s.ctx, sojourn.Filter{Queue: line, Next: true, Limit: 100})
	s.must(err, "Find")
	var want []sojourn.ID
	for _, j := range jobs {
		want = append(want, j.ID)
	}
	same(s, "jobs that wait", len(want), 11)
	s.order(claimedIDs(s.claimMany(upTo(4), both)), want[:4])
	s.order(s.drain(both), want[4:])
}
