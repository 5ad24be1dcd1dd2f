package claims

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var claimTrials = []kit.Trial{
	{Name: "claim a ready job", Law: "A claim gives a job its lease, a new epoch and a new attempt, counted before the handler starts.",
		Covers: "tr:C1 inv:F1 inv:S3 inv:P1 spec:O1 spec:O14 spec:S2 spec:L1 spec:J9 spec:J18 rules:H1 rules:E1 spec:B2", Run: claimReady},
	{Name: "rules:H1 what a claim tells", Law: "A claim tells the worker all it needs: content, counters, checkpoint, and what is left of each clock as durations.",
		Covers: "rules:H1 inv:K2 spec:J23 spec:L10", Run: claimTells},
	{Name: "claim only what was asked for", Law: "A claim gives only jobs of the named kinds, from the named queues.",
		Covers: "spec:O11 spec:O10 spec:W8", Run: claimFilters},
	{Name: "claim no more than was asked for", Law: "A claim gives at most Max jobs, and more than MaxBatch is clamped.", Covers: "spec:O1 spec:B4", Run: claimMax},
	{Name: "claim within the capacity", Law: "A job that does not fit the worker's room is passed over, and weight 0 always fits.",
		Covers: "spec:W9 spec:J12", Run: claimCapacity},
	{Name: "claim keeps room", Law: "A job that does not fit the worker's room and has been ready for the claim's reserve is not passed over any more.",
		Covers: "spec:W9 spec:J12", Run: claimReserve},
	{Name: "claim keeps room at gates", Law: "In a queue with gates, room is kept only for a job that all gates let through.",
		Covers: "spec:W9 rules:C9", Run: claimReserveGated},
	{Name: "claim an attempt that is open", Law: "A job that was snoozed or released goes on with its attempt, with its timeout set anew.",
		Covers: "tr:C2 rules:E1 inv:P2 spec:J9 spec:J19", Run: claimOpen},
	{Name: "claim a resumed job", Law: "A resumed job goes on with its attempt and its clock, which stood while it rested.",
		Covers: "tr:C3 tr:M1 spec:H3 rules:C2 inv:F1", Run: claimResumed},
	{Name: "claim never sees the rest", Law: "A claim never gives a scheduled, awaiting, errored, running or final job.",
		Covers: "tr:C1 tr:C4 inv:S4 spec:S12 spec:S13", Run: claimNever},
	{Name: "claim refuses bad input", Law: "A malformed claim is refused with a code.", Covers: "spec:O1 spec:A3", Run: claimBad},
	{Name: "claim that closes a number", Law: "A claim that closes a number takes nothing, answers what the claim with the number has taken, and lets it take nothing should it arrive later.",
		Covers: "tr:C6 rules:A3", Run: claimCloses},
	{Name: "a claim promotes what is due", Law: "A claim takes jobs that have come due and leases that have ended without waiting for a sweep.",
		Covers: "tr:S1 tr:W1 spec:O7 spec:L4 spec:O16 inv:L5", Run: claimPromotes},
}

func claimReady(s *kit.Scene) {
	id := s.Enqueue()
	s.Advance(time.Second)
	c := s.Claim()
	kit.Same(s, "id", c.Job.ID, id)
	kit.Same(s, "epoch", c.Lease.Epoch, 1)
	kit.Same(s, "worker", c.Lease.Worker, "w1")
	kit.Same(s, "purpose", c.Purpose, sojourn.PurposeStart)
	j := s.State(id, sojourn.Running)
	s.Counters(id, 1, 0, 0)
	kit.Same(s, "epoch of the row", j.Epoch, 1)
	kit.Same(s, "worker of the row", j.Worker, "w1")
	kit.Same(s, "purpose of the row", j.Purpose, sojourn.PurposeStart)
	kit.Same(s, "claimed attempt", c.Job.Attempt, 1)
	kit.Same(s, "claimed state", c.Job.State, sojourn.Running)
	s.InFlight(1, "after the claim")
	s.ClaimNone("it runs", kit.By("w2"))
	s.ClaimNone("it runs")
}

func claimTells(s *kit.Scene) {
	c := s.Running(kit.Policy(sojourn.Policy{RunTimeout: 7 * time.Second, Timeout: time.Hour, Deadline: 3 * time.Hour}), kit.Steady(time.Minute), kit.Args("input"))
	kit.Same(s, "lease for", c.LeaseFor, kit.LeaseTime)
	kit.Same(s, "timeout left", c.Timeout, time.Hour)
	kit.Same(s, "deadline left", c.Deadline, 3*time.Hour)
	kit.Same(s, "run timeout", c.Job.Policy.RunTimeout, 7*time.Second)
	kit.Same(s, "args", string(c.Job.Args), "input")
	kit.Same(s, "response", c.Job.Response == nil, true)
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("half")}), "Save")
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Advance(time.Minute)
	d := s.Claim(kit.By("w2"), kit.Leased(10*time.Minute), kit.Deciding)
	kit.Same(s, "lease for", d.LeaseFor, 10*time.Minute)
	kit.Same(s, "timeout left in a new attempt", d.Timeout, time.Hour)
	kit.Same(s, "deadline left after a minute", d.Deadline, 3*time.Hour-time.Minute)
	kit.Same(s, "checkpoint", string(d.Job.Checkpoint), "half")
	kit.Same(s, "attempt", d.Job.Attempt, 2)
	kit.Same(s, "failures", d.Job.Failures, 1)
	kit.Same(s, "crashes", d.Job.Crashes, 0)
	kit.Same(s, "generation", d.Job.Generation, 1)
	if len(d.History) != 1 || d.History[0].Reason != "gateway" || d.History[0].Attempt != 1 {
		s.Fatalf("the history told to a worker with the retry handler is %+v, want the one error", d.History)
	}
	kit.Same(s, "deadline of a job without one", s.Running(kit.OfKind("plain")).Deadline, 0)
	kit.Same(s, "default lease", func() time.Duration { s.Enqueue(); return s.Claim(kit.Leased(0)).LeaseFor }(), sojourn.DefaultLease)
}

func claimFilters(s *kit.Scene) {
	a := s.Enqueue(sojourn.Queue("q1"))
	b := s.Enqueue(sojourn.Queue("q2"), kit.OfKind("refund"))
	s.ClaimNone("no job in this queue", kit.From("q3"))
	s.ClaimNone("no job of this kind in this queue", kit.From("q2"))
	s.ClaimNone("nobody runs this kind", kit.From("q1", "q2"), kit.Kinds("mail"))
	kit.Same(s, "the job of q2", s.Claim(kit.From("q2", "q1"), kit.Kinds("refund")).Job.ID, b)
	kit.Same(s, "the job of q1", s.Claim(kit.From("q2", "q1"), kit.Kinds("refund", kit.Kind)).Job.ID, a)
}

func claimCloses(s *kit.Scene) {
	closing := func(r *driver.ClaimRequest) { r.Close = true }
	one := s.Enqueue()
	s.ClaimNone("it only closes number 1", kit.Numbered(1), closing)
	s.ClaimNone("number 1 is closed", kit.Numbered(1))
	s.ClaimNone("number 1 is closed", kit.Numbered(1), closing)
	c := s.Claim(kit.Numbered(2))
	kit.Same(s, "the job of number 2", c.Job.ID, one)
	s.Enqueue()
	for range 2 {
		kit.Same(s, "what number 2 has taken", s.Claim(kit.Numbered(2), closing).Lease, c.Lease)
	}
	s.ClaimNone("number 2 is closed", kit.Numbered(2))
	s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeReleased}, sojourn.Ready)
	s.ClaimNone("number 2 is closed", kit.Numbered(2))
	s.ClaimNone("nothing of number 2 stands", kit.Numbered(2), closing)
	kit.Same(s, "jobs of number 3", len(s.ClaimMany(kit.Numbered(3), kit.UpTo(10))), 2)
	r := driver.ClaimRequest{Worker: "w1", Queues: []string{kit.Queue}, Kinds: []string{kit.Kind}, Max: 1, Close: true}
	_, err := s.Store.Claim(s.Ctx, r)
	s.Refused(err, sojourn.CodeInvalid, "without a number")
	r.Number, r.Wait = 4, time.Second
	_, err = s.Store.Claim(s.Ctx, r)
	s.Refused(err, sojourn.CodeInvalid, "with a wait")
}

func claimMax(s *kit.Scene) {
	ids := s.EnqueueMany(20)
	cs := s.ClaimMany(kit.UpTo(7))
	kit.Same(s, "jobs", len(cs), 7)
	for i, c := range cs {
		kit.Same(s, "the job", c.Job.ID, ids[i])
	}
	kit.Same(s, "the rest", len(s.ClaimMany(kit.UpTo(1_000_000))), 13)
}

func claimCapacity(s *kit.Scene) {
	heavy, light, zero := s.Enqueue(sojourn.Weight(5)), s.Enqueue(sojourn.Weight(2)), s.Enqueue(sojourn.Weight(0))
	more := s.Enqueue(sojourn.Weight(2))
	cs := s.ClaimMany(kit.UpTo(10), kit.Room(3))
	if len(cs) != 2 || cs[0].Job.ID != light || cs[1].Job.ID != zero {
		s.Fatalf("with room for 3 the claim gave %v, want %d and %d", kit.ClaimedIDs(cs), light, zero)
	}
	free := s.Enqueue(sojourn.Weight(0))
	kit.Same(s, "the job of weight 0 at no room", s.Claim(kit.UpTo(10), kit.Room(0)).Job.ID, free)
	cs = s.ClaimMany(kit.UpTo(10), kit.Room(7))
	if len(cs) != 2 || cs[0].Job.ID != heavy || cs[1].Job.ID != more {
		s.Fatalf("with room for 7 the claim gave %v, want %d and %d", kit.ClaimedIDs(cs), heavy, more)
	}
	// Each of three fits, but not all of them: what fits beside the first may be in the next queue.
	first := s.EnqueueMany(3)[0]
	behind := s.Enqueue(sojourn.Queue("behind"), sojourn.Weight(0))
	cs = s.ClaimMany(kit.From(sojourn.DefaultQueue, "behind"), kit.UpTo(3), kit.Room(1))
	if len(cs) != 2 || cs[0].Job.ID != first || cs[1].Job.ID != behind {
		s.Fatalf("with room for 1 the claim gave %v, want %d and %d", kit.ClaimedIDs(cs), first, behind)
	}
}

// reserving is a claim of up to 10 jobs by a worker with room for so much.
func reserving(capacity int64, after time.Duration) kit.ClaimOption {
	return func(r *driver.ClaimRequest) { r.Max, r.Capacity, r.Reserve = 10, capacity, after }
}

func claimReserve(s *kit.Scene) {
	const after = 10 * time.Second
	heavy := s.Enqueue(sojourn.Weight(5), sojourn.Priority(1))
	s.EnqueueMany(9)
	kit.Same(s, "light jobs before the reserve", len(s.ClaimMany(reserving(3, after))), 3)
	s.Advance(after)
	other := s.Enqueue(sojourn.Queue("other"))
	s.ClaimNone("room is kept", reserving(3, after))
	s.ClaimNone("room is kept, in all queues of the claim", reserving(3, after), kit.From(kit.Queue, "other"))
	kit.Same(s, "a claim without a reserve", len(s.ClaimMany(kit.UpTo(2), kit.Room(3))), 2)
	kit.Same(s, "a queue without heavy jobs", s.Claim(reserving(3, after), kit.From("other")).Job.ID, other)
	cs := s.ClaimMany(reserving(6, after))
	if len(cs) != 2 || cs[0].Job.ID != heavy {
		s.Fatalf("with room for 6 the claim gave %v, want %d and a light job", kit.ClaimedIDs(cs), heavy)
	}
	urgent := s.Enqueue(sojourn.Priority(0))
	late := s.Enqueue(sojourn.Weight(5), sojourn.Priority(1))
	s.Advance(after)
	kit.Same(s, "what stands before it starts", s.Claim(reserving(5, after)).Job.ID, urgent)
	kit.Same(s, "then it", s.Claim(reserving(5, after)).Job.ID, late)
	_, err := s.Store.Claim(s.Ctx, s.Request(reserving(5, -1)))
	s.Refused(err, sojourn.CodeInvalid, "a negative reserve")
}

func claimReserveGated(s *kit.Scene) {
	const after = 10 * time.Second
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: 100})
	heavy := s.Enqueue(sojourn.Weight(5), sojourn.Priority(1))
	s.EnqueueMany(6)
	s.Advance(after)
	s.ClaimNone("room is kept", reserving(3, after))
	kit.Same(s, "a claim without a reserve", len(s.ClaimMany(kit.UpTo(1), kit.Room(3))), 1)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: 4})
	kit.Same(s, "the limit holds the heavy job back, not the room", len(s.ClaimMany(reserving(3, after))), 3)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Limit: 100})
	cs := s.ClaimMany(reserving(6, after))
	if len(cs) != 2 || cs[0].Job.ID != heavy {
		s.Fatalf("with room for 6 the claim gave %v, want %d and a light job", kit.ClaimedIDs(cs), heavy)
	}
}

func claimOpen(s *kit.Scene) {
	c := s.Running(sojourn.Timeout(time.Hour))
	id := c.Job.ID
	s.Advance(10 * time.Minute)
	s.Finish(kit.Snooze(c, time.Minute), sojourn.Scheduled)
	s.ClaimNone("it is snoozed")
	s.Advance(time.Minute)
	c = s.Claim()
	kit.Same(s, "timeout left after the snooze", c.Timeout, time.Hour)
	kit.Same(s, "purpose", c.Purpose, sojourn.PurposeStart)
	kit.Same(s, "epoch", c.Lease.Epoch, 2)
	s.Counters(id, 1, 0, 0)
	s.Advance(10 * time.Minute)
	s.Finish(kit.Released(c), sojourn.Ready)
	c = s.Claim(kit.By("w2"))
	kit.Same(s, "timeout left after the release", c.Timeout, time.Hour)
	kit.Same(s, "epoch", c.Lease.Epoch, 3)
	s.Counters(id, 1, 0, 0)
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Happened(id, "snooze", "released", "completed")
}

func claimResumed(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), sojourn.Timeout(time.Hour))
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Advance(10 * time.Minute)
	s.Respond("k", kit.Body("yes"))
	s.Advance(20 * time.Minute) // no worker resumes it: the clock stands
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	kit.Same(s, "epoch", d.Lease.Epoch, 2)
	kit.Same(s, "timeout left", d.Timeout, 50*time.Minute)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "yes")
	kit.Same(s, "answers", len(d.Job.Responses), 1)
	s.Counters(c.Job.ID, 1, 0, 0)
	s.InFlight(1, "after the resume")
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Swept(50*time.Minute-time.Second, driver.Swept{}) // timeout_at has moved on by the time it rested
	s.Swept(time.Second, driver.Swept{TimedOut: 1})
}

func claimNever(s *kit.Scene) {
	s.Errored()
	s.Running()
	s.Enqueue(sojourn.Delay(time.Hour))
	s.Awaiting(sojourn.Key("k"))
	s.Retrying()
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		s.Final(end)
	}
	s.ClaimNone("none of them is ready, and this worker has no retry handler")
	s.ClaimNone("the handler of another kind", kit.Kinds(kit.Kind, "refund"), func(r *driver.ClaimRequest) { r.Decidable = []string{"refund"} })
}

func claimBad(s *kit.Scene) {
	s.Enqueue()
	for what, spoil := range kit.InOrder(map[string]kit.ClaimOption{
		"no worker":      kit.By(""),
		"bad worker":     kit.By("a b"),
		"max 0":          kit.UpTo(0),
		"max -1":         kit.UpTo(-1),
		"negative lease": kit.Leased(-time.Second),
		"negative wait":  func(r *driver.ClaimRequest) { r.Wait = -1 },
	}) {
		_, err := s.Store.Claim(s.Ctx, s.Request(spoil))
		s.Refused(err, sojourn.CodeInvalid, what)
	}
	s.Claim()
}

func claimPromotes(s *kit.Scene) {
	lost := s.Running()
	due := s.Enqueue(sojourn.Delay(time.Minute))
	s.Advance(time.Minute)
	cs := s.ClaimMany(kit.By("w2"), kit.UpTo(10))
	if len(cs) != 2 || cs[0].Job.ID != lost.Job.ID || cs[1].Job.ID != due {
		s.Fatalf("without a sweep the claim gave %v, want %d (its lease has ended) and %d (due)", kit.ClaimedIDs(cs), lost.Job.ID, due)
	}
	s.Counters(lost.Job.ID, 2, 0, 1)
	s.Counters(due, 1, 0, 0)
	s.Happened(lost.Job.ID, "lost")
}
