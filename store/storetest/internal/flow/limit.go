package flow

import (
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var flowTrials = []kit.Trial{
	{Name: "limit", Law: "The summed weight in flight stays within the limit: 10 with jobs of weight 2 is 5 at a time, and a job in flight is running, awaiting or resumed.",
		Covers: "spec:K1 spec:K2 inv:T1", Run: limitHolds},
	{Name: "limit 100 of weight 1", Law: "A limit of 100 lets 100 jobs of weight 1 start, over however many claims.", Covers: "spec:K2 inv:T1", Run: limitHundred},
	{Name: "no limit", Law: "A limit below 1 is none.", Covers: "spec:K1", Run: limitNone},
	{Name: "limit of what is in flight already", Law: "A new limit counts what was claimed before it was set.", Covers: "inv:T1 inv:T2", Run: limitNew},
	{Name: "limit raised", Law: "A raised limit starts jobs at once, also for a claim that waits.", Covers: "spec:K1 inv:T1", Run: limitRaised},
	{Name: "limit lowered", Law: "A lowered limit drains: it ends nothing, and starts nothing until there is room below it.", Covers: "inv:T4 inv:T1", Run: limitLowered},
	{Name: "weight returned", Law: "Every end of an attempt gives its weight back once.", Covers: "inv:T2 rules:D1", Run: limitReturned},
	{Name: "weight 0", Law: "A job without weight passes a full limit, and does not count, however many heavy ones stand before it.",
		Covers: "spec:K3 spec:J12", Run: limitCritical},
	{Name: "oversize", Law: "A job heavier than the limit is refused at the enqueue; if the limit was lowered later it runs alone.",
		Covers: "spec:J12 inv:T4", Run: limitOversize},
	{Name: "overtaken for lack of weight", Law: "Once a heavy job was overtaken for too long, what becomes free is kept for it.", Covers: "inv:W3", Run: limitReserve},
	{Name: "overtaken too often", Law: "Once a heavy job was overtaken by 100 claims, what becomes free is kept for it.", Covers: "inv:W3", Run: limitReserveCount},
	{Name: "worker smaller than a job", Law: "A job too heavy for a worker is left to others and does not stand in the way.",
		Covers: "spec:J12 rules:H1", Run: limitCapacity},
	{Name: "max_depth", Law: "A full queue refuses jobs with a retryable error, but never the next job of a completed one.", Covers: "rules:C7", Run: depthHolds},
	{Name: "pause a kind", Law: "A paused kind is not handed out, in one queue or in all; other kinds are.", Covers: "spec:K9 inv:W5", Run: pauseKind},
}

func limited(n int64) sojourn.QueueSettings { return sojourn.QueueSettings{Limit: n} }

func limitHolds(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(10))
	for i := range 8 {
		s.Enqueue(sojourn.Weight(2), sojourn.Key("k"+strconv.Itoa(i)))
	}
	cs := s.ClaimMany(kit.UpTo(100))
	kit.Same(s, "jobs at a time", len(cs), 5)
	s.ClaimNone("the limit is used up")
	s.Finish(kit.Await(cs[0], time.Hour), sojourn.Awaiting)
	s.ClaimNone("an awaiting job holds its weight")
	s.Respond(cs[0].Job.Key)
	s.InFlight(10, "with a resumed job")
	resumed := s.Claim(kit.UpTo(1)) // passes the gate unasked, for it holds its weight
	kit.Same(s, "the resumed job", resumed.Job.ID, cs[0].Job.ID)
	s.ClaimNone("the limit is used up")
	s.Finish(kit.Completed(resumed), sojourn.Completed)
	kit.Same(s, "jobs after one has ended", len(s.ClaimMany(kit.UpTo(100))), 1)
}

func limitHundred(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(100))
	s.EnqueueMany(120)
	n := 0
	for range 20 {
		n += len(s.ClaimMany(kit.UpTo(7)))
	}
	kit.Same(s, "jobs at a time", n, 100)
}

func limitNone(s *kit.Scene) {
	for _, n := range []int64{0, -1, -100} {
		s.SetQueue(kit.Queue, limited(n))
		s.EnqueueMany(30)
		kit.Same(s, "jobs claimed", len(s.ClaimMany(kit.UpTo(100))), 30)
	}
}

func limitNew(s *kit.Scene) {
	s.EnqueueMany(9)
	cs := s.ClaimMany(kit.UpTo(4))
	s.SetQueue(kit.Queue, limited(6))
	kit.Same(s, "jobs beside four that ran before", len(s.ClaimMany(kit.UpTo(100))), 2)
	s.SetQueue(kit.Queue, limited(0))
	s.Finish(kit.Completed(cs[0]), sojourn.Completed)
	s.SetQueue(kit.Queue, limited(6))
	kit.Same(s, "jobs beside five", len(s.ClaimMany(kit.UpTo(100))), 1)
}

func limitRaised(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(1))
	s.EnqueueMany(3)
	s.Claim()
	got := s.Block(s.Ctx, kit.By("w2"))
	s.SetQueue(kit.Queue, limited(2))
	s.Answered(got, "a raised limit")
	s.ClaimNone("the limit is used up again")
}

func limitLowered(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(5))
	s.EnqueueMany(9)
	cs := s.ClaimMany(kit.UpTo(5))
	s.SetQueue(kit.Queue, limited(3))
	for i, c := range cs[:2] {
		s.ClaimNone("more is in flight than the new limit")
		s.InFlight(int64(5-i), "while it drains")
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
	s.ClaimNone("as much is in flight as the limit says")
	s.Finish(kit.Completed(cs[2]), sojourn.Completed)
	kit.Same(s, "jobs when there is room", len(s.ClaimMany(kit.UpTo(5))), 1)
}

func limitReturned(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(1))
	again := func(what string) driver.Claimed {
		s.Helper()
		s.InFlight(0, what)
		s.Enqueue(kit.Steady(time.Hour), sojourn.Key(what), sojourn.Delay(0), sojourn.Priority(int32(-s.Claims)))
		c := s.Claim()
		s.InFlight(1, what)
		s.Enqueue(sojourn.Priority(1000))
		s.ClaimNone("the limit is used up: " + what)
		return c
	}
	s.Finish(kit.Completed(again("nothing")), sojourn.Completed)
	s.Finish(kit.Failure(again("a completion")), sojourn.Scheduled)
	s.Finish(kit.Snooze(again("an error"), time.Hour), sojourn.Scheduled)
	s.Edited(again("a snooze").Job.ID, sojourn.Edit{Action: sojourn.EditCancel}, sojourn.Cancelled)
	c := again("a cancel")
	s.Advance(kit.LeaseTime + time.Second)
	s.Sweep()
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditCancel}, sojourn.Cancelled)
	c = again("a lost lease")
	s.Finish(kit.Await(c, time.Minute), sojourn.Awaiting)
	s.Advance(2 * time.Minute)
	s.Sweep()
	s.InFlight(0, "a timeout")
}

func limitCritical(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(2))
	s.EnqueueMany(5, sojourn.Weight(2))
	critical := s.Enqueue(sojourn.Weight(0), sojourn.Priority(1000))
	kit.Same(s, "heavy jobs", len(s.ClaimMany(kit.UpTo(1))), 1)
	kit.Same(s, "the job without weight", s.Claim().Job.ID, critical)
	s.InFlight(2, "with a job without weight")
	before := s.Enqueue(sojourn.Weight(0), sojourn.Queue("plain"))
	s.SetQueue("plain", limited(1)) // its line is made when the limit is
	s.EnqueueMany(2, sojourn.Queue("plain"), sojourn.Priority(1))
	got := kit.ClaimedIDs(s.ClaimMany(kit.From("plain"), kit.UpTo(10)))
	kit.Same(s, "jobs of both sorts", len(got), 2)
	kit.Same(s, "the second of them", got[1], before)
}

func limitOversize(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(3))
	j := s.Job(sojourn.Weight(4))
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	s.Refused(err, sojourn.CodeOversize, "a job heavier than the limit")
	big := s.Enqueue(sojourn.Weight(3))
	small := s.Enqueue()
	heavier, here := int32(4), kit.Queue
	elsewhere := s.Enqueue(sojourn.Queue("other"), sojourn.Weight(heavier))
	s.Refused(s.Edit(small, sojourn.Edit{Action: sojourn.EditChange, Weight: &heavier}).Err, sojourn.CodeOversize, "a change to it")
	s.Refused(s.Edit(elsewhere, sojourn.Edit{Action: sojourn.EditChange, Queue: &here}).Err, sojourn.CodeOversize, "a move of it")
	kit.Same(s, "the weight that was refused", s.Get(small).Weight, 1)
	s.SetQueue(kit.Queue, limited(2))
	kit.Same(s, "the oversize job", s.Claim().Job.ID, big) // nothing else is in flight
	s.ClaimNone("it runs alone")
	c := s.Get(big)
	s.Finish(sojourn.Outcome{Lease: sojourn.Lease{ID: big, Epoch: c.Epoch, Worker: "w1"}, Type: sojourn.OutcomeCompleted}, sojourn.Completed)
	kit.Same(s, "the one behind it", s.Claim().Job.ID, small)
}

// overtakes lets light jobs overtake a heavy one until reserve forbids it.
func overtakes(s *kit.Scene, limit int) (heavy sojourn.ID, overtaken int) {
	s.Helper()
	s.SetQueue(kit.Queue, limited(2))
	s.EnqueueMany(2)
	running := s.ClaimMany(kit.UpTo(2))
	heavy = s.Enqueue(sojourn.Weight(2), sojourn.Priority(1))
	s.EnqueueMany(limit + 2)
	for range limit {
		s.Finish(kit.Completed(running[0]), sojourn.Completed)
		cs := s.ClaimMany(kit.UpTo(2))
		if len(cs) == 0 {
			s.Finish(kit.Completed(running[1]), sojourn.Completed)
			return heavy, overtaken
		}
		kit.Same(s, "light jobs", len(cs), 1)
		running = []driver.Claimed{running[1], cs[0]}
		overtaken++
		s.Advance(100 * time.Millisecond)
	}
	s.Fatalf("overtaken %d times and still nothing is kept for job %d", overtaken, heavy)
	return heavy, overtaken
}

func limitReserve(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(2))
	s.EnqueueMany(2)
	first := s.ClaimMany(kit.UpTo(2))
	heavy := s.Enqueue(sojourn.Weight(2), sojourn.Priority(1))
	s.EnqueueMany(5)
	s.Finish(kit.Completed(first[0]), sojourn.Completed)
	second := s.Claim() // overtakes
	s.Advance(sojourn.DefaultReserveAfter - time.Second)
	s.Extends(first[1].Lease, true)
	s.Extends(second.Lease, true)
	s.Finish(kit.Completed(first[1]), sojourn.Completed)
	third := s.Claim() // overtakes again: 29 s
	s.Advance(time.Second)
	s.Finish(kit.Completed(second), sojourn.Completed)
	s.ClaimNone("what is free is kept for the heavy job", kit.By("w2"))
	s.Enqueue(sojourn.Weight(0))
	s.Claim()
	s.Finish(kit.Completed(third), sojourn.Completed)
	kit.Same(s, "the heavy job", s.Claim().Job.ID, heavy)
}

func limitReserveCount(s *kit.Scene) {
	heavy, n := overtakes(s, 150)
	kit.Same(s, "claims that overtook it", n, 100)
	kit.Same(s, "the heavy job", s.Claim().Job.ID, heavy)
}

func limitCapacity(s *kit.Scene) {
	s.SetQueue(kit.Queue, limited(10))
	heavy := s.Enqueue(sojourn.Weight(5))
	light := s.Enqueue()
	kit.Same(s, "the job that fits the worker", s.Claim(kit.Room(2)).Job.ID, light)
	kit.Same(s, "the job that fits the other", s.Claim(kit.Room(9)).Job.ID, heavy)
}

func depthHolds(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{MaxDepth: 3})
	ids := s.EnqueueMany(3)
	refuse := func(what string) {
		s.Helper()
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{s.Job()}, false)
		if e := s.Refused(err, sojourn.CodeQueueFull, what); !e.Retryable {
			s.Fatalf("%s: the refusal is not retryable", what)
		}
	}
	refuse("a job more than max_depth")
	s.Enqueue(sojourn.Delay(time.Hour)) // not ready
	s.Put(jobOf(s, ids[0]))             // known already
	c := s.Claim()
	s.Advance(time.Second)
	s.Enqueue()
	refuse("the queue is full again")
	o := kit.Completed(c)
	o.Next = []sojourn.Job{s.Job(), s.Job()}
	s.Finish(o, sojourn.Completed)
	kit.Same(s, "ready jobs", s.Queue(kit.Queue).Counts[sojourn.Ready], 5)
	s.Advance(time.Second)
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{s.Job(), s.Job(sojourn.Queue("other"))}, true)
	s.Must(err, "Enqueue")
	s.Refused(es[0].Err, sojourn.CodeQueueFull, "one of a batch")
	kit.Same(s, "the other of the batch", es[1].State, sojourn.Ready)
}

// jobOf makes a job with the id of one that is stored.
func jobOf(s *kit.Scene, id sojourn.ID) sojourn.Job {
	j := *sojourn.NewJob(kit.Kind, []byte(`{"order":42}`), kit.Typed("text/plain"))
	j.ID = id
	return j
}

func pauseKind(s *kit.Scene) {
	a, b := s.Enqueue(kit.OfKind("a")), s.Enqueue(kit.OfKind("b"))
	both := kit.Kinds("a", "b")
	s.SetQueue(kit.Queue, sojourn.QueueSettings{PausedKinds: []string{"a"}})
	kit.Same(s, "the kind that is not paused", s.Claim(both).Job.ID, b)
	s.ClaimNone("its kind is paused", both)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	s.SetQueue(sojourn.AllQueues, sojourn.QueueSettings{PausedKinds: []string{"a"}})
	s.ClaimNone("its kind is paused in all queues", both)
	elsewhere := s.Enqueue(kit.OfKind("b"), sojourn.Queue("other"))
	s.SetQueue(sojourn.AllQueues, sojourn.QueueSettings{Paused: true})
	s.ClaimNone("all queues are paused", both, kit.From(kit.Queue, "other"))
	got := s.Block(s.Ctx, both, kit.By("w2"))
	s.SetQueue(sojourn.AllQueues, sojourn.QueueSettings{})
	s.Answered(got, "the end of a pause of all queues")
	kit.Same(s, "the job of the other queue", s.Claim(both, kit.From("other")).Job.ID, elsewhere)
	s.State(a, sojourn.Running)
	s.Refused(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, sojourn.AllQueues, limited(1)), sojourn.CodeInvalid, "a limit for all queues")
	qs, err := s.Store.Queues(s.Ctx)
	s.Must(err, "Queues")
	kit.Same(s, "queues", len(qs), 2)
}
