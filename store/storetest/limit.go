package storetest

import (
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var flowTrials = []trial{
	{"limit", "The summed weight in flight stays within the limit: 10 with jobs of weight 2 is 5 at a time, and a job in flight is running, awaiting or resumed.",
		"spec:K1 spec:K2 inv:T1", limitHolds},
	{"limit 100 of weight 1", "A limit of 100 lets 100 jobs of weight 1 start, over however many claims.", "spec:K2 inv:T1", limitHundred},
	{"no limit", "A limit below 1 is none.", "spec:K1", limitNone},
	{"limit of what is in flight already", "A new limit counts what was claimed before it was set.", "inv:T1 inv:T2", limitNew},
	{"limit raised", "A raised limit starts jobs at once, also for a claim that waits.", "spec:K1 inv:T1", limitRaised},
	{"limit lowered", "A lowered limit drains: it ends nothing, and starts nothing until there is room below it.", "inv:T4 inv:T1", limitLowered},
	{"weight returned", "Every end of an attempt gives its weight back once.", "inv:T2 rules:D1", limitReturned},
	{"weight 0", "A job without weight passes a full limit, and does not count, however many heavy ones stand before it.", "spec:K3 spec:J12", limitCritical},
	{"oversize", "A job heavier than the limit is refused at the enqueue; if the limit was lowered later it runs alone.",
		"spec:J12 inv:T4", limitOversize},
	{"overtaken for lack of weight", "Once a heavy job was overtaken for too long, what becomes free is kept for it.", "inv:W3", limitReserve},
	{"overtaken too often", "Once a heavy job was overtaken by 100 claims, what becomes free is kept for it.", "inv:W3", limitReserveCount},
	{"worker smaller than a job", "A job too heavy for a worker is left to others and does not stand in the way.", "spec:J12 rules:H1", limitCapacity},
	{"max_depth", "A full queue refuses jobs with a retryable error, but never the next job of a completed one.", "rules:C7", depthHolds},
	{"pause a kind", "A paused kind is not handed out, in one queue or in all; other kinds are.", "spec:K9 inv:W5", pauseKind},
}

func limited(n int64) sojourn.QueueSettings { return sojourn.QueueSettings{Limit: n} }

func limitHolds(s *scene) {
	s.setQueue(line, limited(10))
	for i := range 8 {
		s.enqueue(sojourn.Weight(2), sojourn.Key("k"+strconv.Itoa(i)))
	}
	cs := s.claimMany(upTo(100))
	same(s, "jobs at a time", len(cs), 5)
	s.claimNone("the limit is used up")
	s.finish(await(cs[0], time.Hour), sojourn.Awaiting)
	s.claimNone("an awaiting job holds its weight")
	s.respond(cs[0].Job.Key)
	s.inFlight(10, "with a resumed job")
	resumed := s.claim(upTo(1)) // passes the gate unasked, for it holds its weight
	same(s, "the resumed job", resumed.Job.ID, cs[0].Job.ID)
	s.claimNone("the limit is used up")
	s.finish(completed(resumed), sojourn.Completed)
	same(s, "jobs after one has ended", len(s.claimMany(upTo(100))), 1)
}

func limitHundred(s *scene) {
	s.setQueue(line, limited(100))
	s.enqueueMany(120)
	n := 0
	for range 20 {
		n += len(s.claimMany(upTo(7)))
	}
	same(s, "jobs at a time", n, 100)
}

func limitNone(s *scene) {
	for _, n := range []int64{0, -1, -100} {
		s.setQueue(line, limited(n))
		s.enqueueMany(30)
		same(s, "jobs claimed", len(s.claimMany(upTo(100))), 30)
	}
}

func limitNew(s *scene) {
	s.enqueueMany(9)
	cs := s.claimMany(upTo(4))
	s.setQueue(line, limited(6))
	same(s, "jobs beside four that ran before", len(s.claimMany(upTo(100))), 2)
	s.setQueue(line, limited(0))
	s.finish(completed(cs[0]), sojourn.Completed)
	s.setQueue(line, limited(6))
	same(s, "jobs beside five", len(s.claimMany(upTo(100))), 1)
}

func limitRaised(s *scene) {
	s.setQueue(line, limited(1))
	s.enqueueMany(3)
	s.claim()
	got := s.block(s.ctx, by("w2"))
	s.setQueue(line, limited(2))
	s.answered(got, "a raised limit")
	s.claimNone("the limit is used up again")
}

func limitLowered(s *scene) {
	s.setQueue(line, limited(5))
	s.enqueueMany(9)
	cs := s.claimMany(upTo(5))
	s.setQueue(line, limited(3))
	for i, c := range cs[:2] {
		s.claimNone("more is in flight than the new limit")
		s.inFlight(int64(5-i), "while it drains")
		s.finish(completed(c), sojourn.Completed)
	}
	s.claimNone("as much is in flight as the limit says")
	s.finish(completed(cs[2]), sojourn.Completed)
	same(s, "jobs when there is room", len(s.claimMany(upTo(5))), 1)
}

func limitReturned(s *scene) {
	s.setQueue(line, limited(1))
	again := func(what string) driver.Claimed {
		s.Helper()
		s.inFlight(0, what)
		s.enqueue(steady(time.Hour), sojourn.Key(what), sojourn.Delay(0), sojourn.Priority(int32(-s.claims)))
		c := s.claim()
		s.inFlight(1, what)
		s.enqueue(sojourn.Priority(1000))
		s.claimNone("the limit is used up: " + what)
		return c
	}
	s.finish(completed(again("nothing")), sojourn.Completed)
	s.finish(failure(again("a completion")), sojourn.Scheduled)
	s.finish(snooze(again("an error"), time.Hour), sojourn.Scheduled)
	s.edited(again("a snooze").Job.ID, sojourn.Edit{Action: sojourn.EditCancel}, sojourn.Cancelled)
	c := again("a cancel")
	s.advance(lease + time.Second)
	s.sweep()
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditCancel}, sojourn.Cancelled)
	c = again("a lost lease")
	s.finish(await(c, time.Minute), sojourn.Awaiting)
	s.advance(2 * time.Minute)
	s.sweep()
	s.inFlight(0, "a timeout")
}

func limitCritical(s *scene) {
	s.setQueue(line, limited(2))
	s.enqueueMany(5, sojourn.Weight(2))
	critical := s.enqueue(sojourn.Weight(0), sojourn.Priority(1000))
	same(s, "heavy jobs", len(s.claimMany(upTo(1))), 1)
	same(s, "the job without weight", s.claim().Job.ID, critical)
	s.inFlight(2, "with a job without weight")
	before := s.enqueue(sojourn.Weight(0), sojourn.Queue("plain"))
	s.setQueue("plain", limited(1)) // its line is made when the limit is
	s.enqueueMany(2, sojourn.Queue("plain"), sojourn.Priority(1))
	got := claimedIDs(s.claimMany(from("plain"), upTo(10)))
	same(s, "jobs of both sorts", len(got), 2)
	same(s, "the second of them", got[1], before)
}

func limitOversize(s *scene) {
	s.setQueue(line, limited(3))
	j := s.job(sojourn.Weight(4))
	_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
	s.refused(err, sojourn.CodeOversize, "a job heavier than the limit")
	big := s.enqueue(sojourn.Weight(3))
	small := s.enqueue()
	heavier, here := int32(4), line
	elsewhere := s.enqueue(sojourn.Queue("other"), sojourn.Weight(heavier))
	s.refused(s.edit(small, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Weight: &heavier}}).Err, sojourn.CodeOversize, "a change to it")
	s.refused(s.edit(elsewhere, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Queue: &here}}).Err, sojourn.CodeOversize, "a move of it")
	same(s, "the weight that was refused", s.get(small).Weight, 1)
	s.setQueue(line, limited(2))
	same(s, "the oversize job", s.claim().Job.ID, big) // nothing else is in flight
	s.claimNone("it runs alone")
	c := s.get(big)
	s.finish(sojourn.Outcome{Lease: sojourn.Lease{ID: big, Epoch: c.Epoch, Worker: "w1"}, Type: sojourn.OutcomeCompleted}, sojourn.Completed)
	same(s, "the one behind it", s.claim().Job.ID, small)
}

// overtakes lets light jobs overtake a heavy one until reserve forbids it.
func (s *scene) overtakes(limit int) (heavy sojourn.ID, overtaken int) {
	s.Helper()
	s.setQueue(line, limited(2))
	s.enqueueMany(2)
	running := s.claimMany(upTo(2))
	heavy = s.enqueue(sojourn.Weight(2), sojourn.Priority(1))
	s.enqueueMany(limit + 2)
	for range limit {
		s.finish(completed(running[0]), sojourn.Completed)
		cs := s.claimMany(upTo(2))
		if len(cs) == 0 {
			s.finish(completed(running[1]), sojourn.Completed)
			return heavy, overtaken
		}
		same(s, "light jobs", len(cs), 1)
		running = []driver.Claimed{running[1], cs[0]}
		overtaken++
		s.advance(100 * time.Millisecond)
	}
	s.Fatalf("overtaken %d times and still nothing is kept for job %d", overtaken, heavy)
	return heavy, overtaken
}

func limitReserve(s *scene) {
	s.setQueue(line, limited(2))
	s.enqueueMany(2)
	first := s.claimMany(upTo(2))
	heavy := s.enqueue(sojourn.Weight(2), sojourn.Priority(1))
	s.enqueueMany(5)
	s.finish(completed(first[0]), sojourn.Completed)
	second := s.claim() // overtakes
	s.advance(sojourn.DefaultReserveAfter - time.Second)
	s.extends(first[1].Lease, true)
	s.extends(second.Lease, true)
	s.finish(completed(first[1]), sojourn.Completed)
	third := s.claim() // overtakes again: 29 s
	s.advance(time.Second)
	s.finish(completed(second), sojourn.Completed)
	s.claimNone("what is free is kept for the heavy job", by("w2"))
	s.enqueue(sojourn.Weight(0))
	s.claim()
	s.finish(completed(third), sojourn.Completed)
	same(s, "the heavy job", s.claim().Job.ID, heavy)
}

func limitReserveCount(s *scene) {
	heavy, n := s.overtakes(150)
	same(s, "claims that overtook it", n, 100)
	same(s, "the heavy job", s.claim().Job.ID, heavy)
}

func limitCapacity(s *scene) {
	s.setQueue(line, limited(10))
	heavy := s.enqueue(sojourn.Weight(5))
	light := s.enqueue()
	same(s, "the job that fits the worker", s.claim(room(2)).Job.ID, light)
	same(s, "the job that fits the other", s.claim(room(9)).Job.ID, heavy)
}

func depthHolds(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{MaxDepth: 3})
	ids := s.enqueueMany(3)
	refuse := func(what string) {
		s.Helper()
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{s.job()}, false)
		if e := s.refused(err, sojourn.CodeQueueFull, what); !e.Retryable {
			s.Fatalf("%s: the refusal is not retryable", what)
		}
	}
	refuse("a job more than max_depth")
	s.enqueue(sojourn.Delay(time.Hour)) // not ready
	s.put(s.jobOf(ids[0]))              // known already
	c := s.claim()
	s.advance(time.Second)
	s.enqueue()
	refuse("the queue is full again")
	o := completed(c)
	o.Next = []sojourn.Job{s.job(), s.job()}
	s.finish(o, sojourn.Completed)
	same(s, "ready jobs", s.queue(line).Counts[sojourn.Ready], 5)
	s.advance(time.Second)
	es, err := s.store.Enqueue(s.ctx, []sojourn.Job{s.job(), s.job(sojourn.Queue("other"))}, true)
	s.must(err, "Enqueue")
	s.refused(es[0].Err, sojourn.CodeQueueFull, "one of a batch")
	same(s, "the other of the batch", es[1].State, sojourn.Ready)
}

// jobOf makes a job with the id of one that is stored.
func (s *scene) jobOf(id sojourn.ID) sojourn.Job {
	j := *sojourn.NewJob(charge, []byte(`{"order":42}`), typed("text/plain"))
	j.ID = id
	return j
}

func pauseKind(s *scene) {
	a, b := s.enqueue(ofKind("a")), s.enqueue(ofKind("b"))
	both := kinds("a", "b")
	s.setQueue(line, sojourn.QueueSettings{PausedKinds: []string{"a"}})
	same(s, "the kind that is not paused", s.claim(both).Job.ID, b)
	s.claimNone("its kind is paused", both)
	s.setQueue(line, sojourn.QueueSettings{})
	s.setQueue(sojourn.AllQueues, sojourn.QueueSettings{PausedKinds: []string{"a"}})
	s.claimNone("its kind is paused in all queues", both)
	elsewhere := s.enqueue(ofKind("b"), sojourn.Queue("other"))
	s.setQueue(sojourn.AllQueues, sojourn.QueueSettings{Paused: true})
	s.claimNone("all queues are paused", both, from(line, "other"))
	got := s.block(s.ctx, both, by("w2"))
	s.setQueue(sojourn.AllQueues, sojourn.QueueSettings{})
	s.answered(got, "the end of a pause of all queues")
	same(s, "the job of the other queue", s.claim(both, from("other")).Job.ID, elsewhere)
	s.state(a, sojourn.Running)
	s.refused(sojourn.NewClient(s.store).Queues().Set(s.ctx, sojourn.AllQueues, limited(1)), sojourn.CodeInvalid, "a limit for all queues")
	qs, err := s.store.Queues(s.ctx)
	s.must(err, "Queues")
	same(s, "queues", len(qs), 2)
}
