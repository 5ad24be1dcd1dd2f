package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var claimTrials = []trial{
	{"claim a ready job", "A claim gives a job its lease, a new epoch and a new attempt, counted before the handler starts.",
		"tr:C1 inv:F1 inv:S3 inv:P1 spec:O1 spec:O14 spec:S2 spec:L1 spec:J9 spec:J18 rules:H1 rules:E1 spec:B2", claimReady},
	{"rules:H1 what a claim tells", "A claim tells the worker all it needs: content, counters, checkpoint, and what is left of each clock as durations.",
		"rules:H1 inv:K2 spec:J23 spec:L10", claimTells},
	{"claim only what was asked for", "A claim gives only jobs of the named kinds, from the named queues.", "spec:O11 spec:O10 spec:W8", claimFilters},
	{"claim no more than was asked for", "A claim gives at most Max jobs, and more than MaxBatch is clamped.", "spec:O1 spec:B4", claimMax},
	{"claim within the capacity", "A job that does not fit the worker's room is passed over, and weight 0 always fits.", "spec:W9 spec:J12", claimCapacity},
	{"claim keeps room", "A job that does not fit the worker's room and has been ready for the claim's reserve is not passed over any more.",
		"spec:W9 spec:J12", claimReserve},
	{"claim keeps room at gates", "In a queue with gates, room is kept only for a job that all gates let through.", "spec:W9 rules:C9", claimReserveGated},
	{"claim an attempt that is open", "A job that was snoozed or released goes on with its attempt, with its timeout set anew.",
		"tr:C2 rules:E1 inv:P2 spec:J9 spec:J19", claimOpen},
	{"claim a resumed job", "A resumed job goes on with its attempt and its clock, which stood while it rested.",
		"tr:C3 tr:M1 spec:H3 rules:C2 inv:F1", claimResumed},
	{"claim never sees the rest", "A claim never gives a scheduled, awaiting, errored, running or final job.", "tr:C1 tr:C4 inv:S4 spec:S12 spec:S13", claimNever},
	{"claim refuses bad input", "A malformed claim is refused with a code.", "spec:O1 spec:A3", claimBad},
	{"claim that closes a number", "A claim that closes a number takes nothing, answers what the claim with the number has taken, and lets it take nothing should it arrive later.",
		"tr:C6 rules:A3", claimCloses},
	{"a claim promotes what is due", "A claim takes jobs that have come due and leases that have ended without waiting for a sweep.",
		"tr:S1 tr:W1 spec:O7 spec:L4 spec:O16 inv:L5", claimPromotes},
}

func claimReady(s *scene) {
	id := s.enqueue()
	s.advance(time.Second)
	c := s.claim()
	same(s, "id", c.Job.ID, id)
	same(s, "epoch", c.Lease.Epoch, 1)
	same(s, "worker", c.Lease.Worker, "w1")
	same(s, "purpose", c.Purpose, sojourn.PurposeStart)
	j := s.state(id, sojourn.Running)
	s.counters(id, 1, 0, 0)
	same(s, "epoch of the row", j.Epoch, 1)
	same(s, "worker of the row", j.Worker, "w1")
	same(s, "purpose of the row", j.Purpose, sojourn.PurposeStart)
	same(s, "claimed attempt", c.Job.Attempt, 1)
	same(s, "claimed state", c.Job.State, sojourn.Running)
	s.inFlight(1, "after the claim")
	s.claimNone("it runs", by("w2"))
	s.claimNone("it runs")
}

func claimTells(s *scene) {
	c := s.running(policy(sojourn.Policy{RunTimeout: 7 * time.Second, Timeout: time.Hour, Deadline: 3 * time.Hour}), steady(time.Minute), args("input"))
	same(s, "lease for", c.LeaseFor, lease)
	same(s, "timeout left", c.Timeout, time.Hour)
	same(s, "deadline left", c.Deadline, 3*time.Hour)
	same(s, "run timeout", c.Job.Policy.RunTimeout, 7*time.Second)
	same(s, "args", string(c.Job.Args), "input")
	same(s, "response", c.Job.Response == nil, true)
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("half")}), "Save")
	s.finish(failure(c), sojourn.Scheduled)
	s.advance(time.Minute)
	d := s.claim(by("w2"), leased(10*time.Minute), deciding)
	same(s, "lease for", d.LeaseFor, 10*time.Minute)
	same(s, "timeout left in a new attempt", d.Timeout, time.Hour)
	same(s, "deadline left after a minute", d.Deadline, 3*time.Hour-time.Minute)
	same(s, "checkpoint", string(d.Job.Checkpoint), "half")
	same(s, "attempt", d.Job.Attempt, 2)
	same(s, "failures", d.Job.Failures, 1)
	same(s, "crashes", d.Job.Crashes, 0)
	same(s, "generation", d.Job.Generation, 1)
	if len(d.History) != 1 || d.History[0].Reason != "gateway" || d.History[0].Attempt != 1 {
		s.Fatalf("the history told to a worker with the retry handler is %+v, want the one error", d.History)
	}
	same(s, "deadline of a job without one", s.running(ofKind("plain")).Deadline, 0)
	same(s, "default lease", func() time.Duration { s.enqueue(); return s.claim(leased(0)).LeaseFor }(), sojourn.DefaultLease)
}

func claimFilters(s *scene) {
	a := s.enqueue(sojourn.Queue("q1"))
	b := s.enqueue(sojourn.Queue("q2"), ofKind("refund"))
	s.claimNone("no job in this queue", from("q3"))
	s.claimNone("no job of this kind in this queue", from("q2"))
	s.claimNone("nobody runs this kind", from("q1", "q2"), kinds("mail"))
	same(s, "the job of q2", s.claim(from("q2", "q1"), kinds("refund")).Job.ID, b)
	same(s, "the job of q1", s.claim(from("q2", "q1"), kinds("refund", charge)).Job.ID, a)
}

func claimCloses(s *scene) {
	closing := func(r *driver.ClaimRequest) { r.Close = true }
	one := s.enqueue()
	s.claimNone("it only closes number 1", numbered(1), closing)
	s.claimNone("number 1 is closed", numbered(1))
	s.claimNone("number 1 is closed", numbered(1), closing)
	c := s.claim(numbered(2))
	same(s, "the job of number 2", c.Job.ID, one)
	s.enqueue()
	for range 2 {
		same(s, "what number 2 has taken", s.claim(numbered(2), closing).Lease, c.Lease)
	}
	s.claimNone("number 2 is closed", numbered(2))
	s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeReleased}, sojourn.Ready)
	s.claimNone("number 2 is closed", numbered(2))
	s.claimNone("nothing of number 2 stands", numbered(2), closing)
	same(s, "jobs of number 3", len(s.claimMany(numbered(3), upTo(10))), 2)
	r := driver.ClaimRequest{Worker: "w1", Queues: []string{line}, Kinds: []string{charge}, Max: 1, Close: true}
	_, err := s.store.Claim(s.ctx, r)
	s.refused(err, sojourn.CodeInvalid, "without a number")
	r.Number, r.Wait = 4, time.Second
	_, err = s.store.Claim(s.ctx, r)
	s.refused(err, sojourn.CodeInvalid, "with a wait")
}

func claimMax(s *scene) {
	ids := s.enqueueMany(20)
	cs := s.claimMany(upTo(7))
	same(s, "jobs", len(cs), 7)
	for i, c := range cs {
		same(s, "the job", c.Job.ID, ids[i])
	}
	same(s, "the rest", len(s.claimMany(upTo(1_000_000))), 13)
}

func claimCapacity(s *scene) {
	heavy, light, zero := s.enqueue(sojourn.Weight(5)), s.enqueue(sojourn.Weight(2)), s.enqueue(sojourn.Weight(0))
	more := s.enqueue(sojourn.Weight(2))
	cs := s.claimMany(upTo(10), room(3))
	if len(cs) != 2 || cs[0].Job.ID != light || cs[1].Job.ID != zero {
		s.Fatalf("with room for 3 the claim gave %v, want %d and %d", claimedIDs(cs), light, zero)
	}
	free := s.enqueue(sojourn.Weight(0))
	same(s, "the job of weight 0 at no room", s.claim(upTo(10), room(0)).Job.ID, free)
	cs = s.claimMany(upTo(10), room(7))
	if len(cs) != 2 || cs[0].Job.ID != heavy || cs[1].Job.ID != more {
		s.Fatalf("with room for 7 the claim gave %v, want %d and %d", claimedIDs(cs), heavy, more)
	}
}

// reserving is a claim of up to 10 jobs by a worker with room for so much.
func reserving(capacity int64, after time.Duration) wish {
	return func(r *driver.ClaimRequest) { r.Max, r.Capacity, r.Reserve = 10, capacity, after }
}

func claimReserve(s *scene) {
	const after = 10 * time.Second
	heavy := s.enqueue(sojourn.Weight(5), sojourn.Priority(1))
	s.enqueueMany(9)
	same(s, "light jobs before the reserve", len(s.claimMany(reserving(3, after))), 3)
	s.advance(after)
	other := s.enqueue(sojourn.Queue("other"))
	s.claimNone("room is kept", reserving(3, after))
	s.claimNone("room is kept, in all queues of the claim", reserving(3, after), from(line, "other"))
	same(s, "a claim without a reserve", len(s.claimMany(upTo(2), room(3))), 2)
	same(s, "a queue without heavy jobs", s.claim(reserving(3, after), from("other")).Job.ID, other)
	cs := s.claimMany(reserving(6, after))
	if len(cs) != 2 || cs[0].Job.ID != heavy {
		s.Fatalf("with room for 6 the claim gave %v, want %d and a light job", claimedIDs(cs), heavy)
	}
	urgent := s.enqueue(sojourn.Priority(0))
	late := s.enqueue(sojourn.Weight(5), sojourn.Priority(1))
	s.advance(after)
	same(s, "what stands before it starts", s.claim(reserving(5, after)).Job.ID, urgent)
	same(s, "then it", s.claim(reserving(5, after)).Job.ID, late)
	_, err := s.store.Claim(s.ctx, s.request(reserving(5, -1)))
	s.refused(err, sojourn.CodeInvalid, "a negative reserve")
}

func claimReserveGated(s *scene) {
	const after = 10 * time.Second
	s.setQueue(line, sojourn.QueueSettings{Limit: 100})
	heavy := s.enqueue(sojourn.Weight(5), sojourn.Priority(1))
	s.enqueueMany(6)
	s.advance(after)
	s.claimNone("room is kept", reserving(3, after))
	same(s, "a claim without a reserve", len(s.claimMany(upTo(1), room(3))), 1)
	s.setQueue(line, sojourn.QueueSettings{Limit: 4})
	same(s, "the limit holds the heavy job back, not the room", len(s.claimMany(reserving(3, after))), 3)
	s.setQueue(line, sojourn.QueueSettings{Limit: 100})
	cs := s.claimMany(reserving(6, after))
	if len(cs) != 2 || cs[0].Job.ID != heavy {
		s.Fatalf("with room for 6 the claim gave %v, want %d and a light job", claimedIDs(cs), heavy)
	}
}

func claimOpen(s *scene) {
	c := s.running(sojourn.Timeout(time.Hour))
	id := c.Job.ID
	s.advance(10 * time.Minute)
	s.finish(snooze(c, time.Minute), sojourn.Scheduled)
	s.claimNone("it is snoozed")
	s.advance(time.Minute)
	c = s.claim()
	same(s, "timeout left after the snooze", c.Timeout, time.Hour)
	same(s, "purpose", c.Purpose, sojourn.PurposeStart)
	same(s, "epoch", c.Lease.Epoch, 2)
	s.counters(id, 1, 0, 0)
	s.advance(10 * time.Minute)
	s.finish(released(c), sojourn.Ready)
	c = s.claim(by("w2"))
	same(s, "timeout left after the release", c.Timeout, time.Hour)
	same(s, "epoch", c.Lease.Epoch, 3)
	s.counters(id, 1, 0, 0)
	s.finish(completed(c), sojourn.Completed)
	s.happened(id, "snooze", "released", "completed")
}

func claimResumed(s *scene) {
	c := s.running(sojourn.Key("k"), sojourn.Timeout(time.Hour))
	s.finish(await(c, 0), sojourn.Awaiting)
	s.advance(10 * time.Minute)
	s.respond("k", body("yes"))
	s.advance(20 * time.Minute) // no worker resumes it: the clock stands
	d := s.claim(by("w2"))
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	same(s, "epoch", d.Lease.Epoch, 2)
	same(s, "timeout left", d.Timeout, 50*time.Minute)
	same(s, "the answer", string(s.inHand(d).Body), "yes")
	same(s, "answers", len(d.Job.Responses), 1)
	s.counters(c.Job.ID, 1, 0, 0)
	s.inFlight(1, "after the resume")
	s.finish(await(d, 0), sojourn.Awaiting)
	s.swept(50*time.Minute-time.Second, driver.Swept{}) // timeout_at has moved on by the time it rested
	s.swept(time.Second, driver.Swept{TimedOut: 1})
}

func claimNever(s *scene) {
	s.errored()
	s.running()
	s.enqueue(sojourn.Delay(time.Hour))
	s.awaiting(sojourn.Key("k"))
	s.retrying()
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		s.final(end)
	}
	s.claimNone("none of them is ready, and this worker has no retry handler")
	s.claimNone("the handler of another kind", kinds(charge, "refund"), func(r *driver.ClaimRequest) { r.Decidable = []string{"refund"} })
}

func claimBad(s *scene) {
	s.enqueue()
	for what, spoil := range inOrder(map[string]wish{
		"no worker":      by(""),
		"bad worker":     by("a b"),
		"max 0":          upTo(0),
		"max -1":         upTo(-1),
		"negative lease": leased(-time.Second),
		"negative wait":  func(r *driver.ClaimRequest) { r.Wait = -1 },
	}) {
		_, err := s.store.Claim(s.ctx, s.request(spoil))
		s.refused(err, sojourn.CodeInvalid, what)
	}
	s.claim()
}

func claimPromotes(s *scene) {
	lost := s.running()
	due := s.enqueue(sojourn.Delay(time.Minute))
	s.advance(time.Minute)
	cs := s.claimMany(by("w2"), upTo(10))
	if len(cs) != 2 || cs[0].Job.ID != lost.Job.ID || cs[1].Job.ID != due {
		s.Fatalf("without a sweep the claim gave %v, want %d (its lease has ended) and %d (due)", claimedIDs(cs), lost.Job.ID, due)
	}
	s.counters(lost.Job.ID, 2, 0, 1)
	s.counters(due, 1, 0, 0)
	s.happened(lost.Job.ID, "lost")
}
