package outcomes

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var stageTrials = []kit.Trial{
	{Name: "three stages of a job", Law: "An advance continues a job in another queue: same id, key, args and checkpoint, one history.",
		Covers: "tr:F16 spec:R12 spec:D2", Run: threeStages},
	{Name: "a stage counts its own attempts", Law: "Attempts, failures and crashes of one stage use up nothing of the next.",
		Covers: "tr:F16 spec:R12 rules:E1 rules:E2", Run: stageBudgets},
	{Name: "an advance returns the weight", Law: "A stage holds no weight of the queue before, and starts by the gates of its own queue.",
		Covers: "tr:F16 rules:D1", Run: stageWeight},
	{Name: "an advance with a delay", Law: "A stage starts after its delay or at its time, with a new priority and weight, in the place that they give it.",
		Covers: "tr:F16 spec:D2", Run: stageLater},
	{Name: "an advance repeated", Law: "A repeated advance changes nothing more, and one whose lease is lost changes nothing at all.",
		Covers: "tr:F16 tr:F12 rules:A2", Run: stageRepeated},
	{Name: "capabilities of the stage before", Law: "A token of an earlier stage is stale, used or not; a response by key stays for the first wait of the stage.",
		Covers: "tr:F16 tr:R4 tr:M5 rules:B7 rules:B2", Run: stageLinks},
	{Name: "redrive of a stage", Law: "A redrive repeats the stage that has failed, in its queue.", Covers: "tr:F16 tr:O3", Run: stageRedriven},
	{Name: "an advance that cannot be", Law: "What the store cannot take is refused with a code, and the lease stands.", Covers: "tr:F15 rules:C7", Run: stageRefused},
	{Name: "an advance is refused by no limit", Law: "Neither max_depth nor the limit of the next queue refuses an advance.", Covers: "tr:F16 rules:C7", Run: stageNoLimit},
	{Name: "an end with a checkpoint and details", Law: "Abort, cancel and the last error store a checkpoint, and a result with its type.",
		Covers: "tr:F8 tr:F9 tr:F3 spec:D1 spec:P8", Run: endWithDetails},
	{Name: "next jobs without ids", Law: "The store draws the ids of next jobs that have none; a report that is repeated makes no job twice.",
		Covers: "tr:F1 spec:D2", Run: nextWithoutIDs},
}

func threeStages(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("order-1"), kit.Args("{}"), sojourn.Queue("pack"))
	c := s.Claim(kit.From("pack"))
	kit.Same(s, "the first stage", c.Job.Stage, 0)
	o := kit.Advance(c, "ship")
	o.Verdict.Checkpoint = []byte("packed")
	s.Finish(o, sojourn.Ready)
	s.ClaimNone("it has left the queue", kit.From("pack"))
	d := s.Claim(kit.From("ship"))
	kit.Same(s, "the id", d.Job.ID, id)
	kit.Same(s, "the key", d.Job.Key, "order-1")
	kit.Same(s, "the args", string(d.Job.Args), "{}")
	kit.Same(s, "the checkpoint", string(d.Job.Checkpoint), "packed")
	kit.Same(s, "the stage", d.Job.Stage, 1)
	kit.Same(s, "the queue", d.Job.Queue, "ship")
	if a, b := c.Job.IdempotencyKey(), d.Job.IdempotencyKey(); a == b {
		s.Errorf("both stages send the idempotency key %s", a)
	}
	s.Finish(kit.Advance(d, ""), sojourn.Ready) // the same queue
	e := s.Claim(kit.From("ship"))
	kit.Same(s, "the last stage", e.Job.Stage, 2)
	kit.Same(s, "the checkpoint that stays", string(e.Job.Checkpoint), "packed")
	j := s.Finish(kit.Completed(e), sojourn.Completed)
	kit.Same(s, "the stage of the final job", j.Stage, 2)
	for i, a := range s.Happened(id, "advance", "advance", "completed") {
		kit.Same(s, "the stage in the history", a.Stage, int32(i))
		kit.Same(s, "the attempt in the history", a.Attempt, 1)
	}
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "order-1"}, id)
}

func stageBudgets(s *kit.Scene) {
	c := s.Running(sojourn.MaxAttempts(2), kit.Steady(time.Second))
	id := c.Job.ID
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Advance(time.Second)
	c = s.Claim()
	s.Counters(id, 2, 1, 0)
	s.Finish(kit.Advance(c, ""), sojourn.Ready)
	s.Counters(id, 0, 0, 0)
	kit.Same(s, "the error of the stage before", s.Get(id).Reason, "")
	c = s.Claim()
	s.Counters(id, 1, 0, 0)
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	kit.Same(s, "the error of this stage", s.Get(id).Reason, "gateway")
	s.Advance(time.Second)
	s.Finish(kit.Failure(s.Claim()), sojourn.Failed)
	s.Counters(id, 2, 2, 0)
}

func stageWeight(s *kit.Scene) {
	for _, q := range []string{kit.Queue, "next"} {
		s.SetQueue(q, sojourn.QueueSettings{Limit: 1})
	}
	c := s.Running()
	other := s.Enqueue()
	first := s.Enqueue(sojourn.Queue("next"))
	s.ClaimNone("the limit is reached")
	s.Finish(kit.Advance(c, "next"), sojourn.Ready)
	s.InFlight(0, "after the advance")
	kit.Same(s, "the next job of the queue before", s.Claim().Job.ID, other)
	d := s.Claim(kit.From("next"))
	kit.Same(s, "the older job, in the order of the next queue", d.Job.ID, c.Job.ID)
	s.ClaimNone("the limit of the next queue is reached", kit.From("next"))
	s.Finish(kit.Advance(d, ""), sojourn.Ready)
	kit.Same(s, "the stage after it", s.Claim(kit.From("next")).Job.ID, c.Job.ID)
	s.ClaimNone("the limit is reached again", kit.From("next"))
	s.State(first, sojourn.Ready)
}

func stageLater(s *kit.Scene) {
	c := s.Running()
	o := kit.Advance(c, "next")
	o.Delay, o.Priority, o.Weight = time.Minute, new(int32(7)), new(int32(3))
	j := s.Finish(o, sojourn.Scheduled)
	kit.Same(s, "the priority", j.Priority, 7)
	kit.Same(s, "the weight", j.Weight, 3)
	s.At("run_at", j.RunAt, s.Now().Add(time.Minute))
	s.ClaimNone("it is not due", kit.From("next"))
	s.Advance(time.Minute)
	s.Enqueue(sojourn.Queue("next"))
	d := s.Claim(kit.From("next"))
	kit.Same(s, "the first by priority", d.Job.ID, c.Job.ID)
	p := kit.Advance(d, "next")
	p.RunAt = s.Now().Add(time.Hour)
	s.At("run_at", s.Finish(p, sojourn.Scheduled).RunAt, p.RunAt)
}

func stageRepeated(s *kit.Scene) {
	c := s.Running()
	o := kit.Advance(c, "next")
	s.Finish(o, sojourn.Ready)
	before := s.Picture(c.Job.ID)
	s.Reports(o, driver.FinishRepeated)
	s.Unchanged(c.Job.ID, before, "a repeated advance")
	s.Reports(kit.Completed(c), driver.FinishLost)
	d := s.Claim(kit.From("next"))
	s.Reports(o, driver.FinishRepeated)
	kit.Same(s, "the stage", s.State(d.Job.ID, sojourn.Running).Stage, 1)
	s.Cancel(d.Job.ID)
	s.Reports(kit.Advance(d, ""), driver.FinishLost)
	kit.Same(s, "the stage of the cancelled job", s.Get(d.Job.ID).Stage, 1)
}

func stageLinks(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	early := s.Respond("", kit.Token(c.Job.Token), kit.Body("by link"))
	byKey := s.Respond("k", kit.Body("by key"))
	j := s.Finish(kit.Advance(c, ""), sojourn.Ready)
	kit.Same(s, "kept", j.Kept, 1)
	s.Stored(early.Seq, sojourn.Stale)
	s.Stored(byKey.Seq, sojourn.Early)
	s.Became(s.Respond("", kit.Token(c.Job.Token)), sojourn.Stale, c.Job.ID) // before the stage begins
	d := s.Claim()
	if d.Job.Response != nil {
		s.Errorf("the stage begins with the response %s", d.Job.Response.Body)
	}
	s.Became(s.Respond("", kit.Token(c.Job.Token)), sojourn.Stale, c.Job.ID)
	s.Finish(kit.Await(d, 0), sojourn.Ready)
	e := s.Claim()
	kit.Same(s, "the answer of the wait", string(s.ClaimedResponse(e).Body), "by key")
	s.Finish(kit.Advance(e, ""), sojourn.Ready) // with a response in hand, which is used
	s.Stored(byKey.Seq, sojourn.Applied)
	f := s.Claim()
	s.Finish(kit.Await(f, 0), sojourn.Awaiting)
	for _, old := range []driver.Claimed{c, d, e} {
		s.Became(s.Respond("", kit.Token(old.Job.Token)), sojourn.Stale, c.Job.ID)
	}
	s.Became(s.Respond("", kit.Token(f.Job.Token)), sojourn.Applied, c.Job.ID)
}

func stageRedriven(s *kit.Scene) {
	c := s.Running()
	s.Finish(kit.Advance(c, "next"), sojourn.Ready)
	d := s.Claim(kit.From("next"))
	s.Finish(kit.Abort(d), sojourn.Failed)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	e := s.Claim(kit.From("next"))
	kit.Same(s, "the stage", e.Job.Stage, 1)
	kit.Same(s, "the generation", e.Job.Generation, 2)
	s.Finish(kit.Completed(e), sojourn.Completed)
}

func stageRefused(s *kit.Scene) {
	c := s.Running()
	for what, change := range map[string]func(o *sojourn.Outcome){
		"a queue that is no name":  func(o *sojourn.Outcome) { o.Queue = "no name" },
		"a negative delay":         func(o *sojourn.Outcome) { o.Delay = -1 },
		"a weight out of range":    func(o *sojourn.Outcome) { o.Weight = new(int32(-1)) },
		"a time beyond all":        func(o *sojourn.Outcome) { o.RunAt = s.Now().Add(2 * sojourn.MaxHorizon) },
		"next jobs of an advance":  func(o *sojourn.Outcome) { o.Next = []sojourn.Job{s.Job()} },
		"a priority of an abort":   func(o *sojourn.Outcome) { o.Type, o.Priority = sojourn.OutcomeAbort, new(int32(1)) },
		"an outcome of poll steps": func(o *sojourn.Outcome) { o.Type = sojourn.OutcomeAnswer },
	} {
		o := kit.Advance(c, "next")
		change(&o)
		s.Refused(s.Reports(o, driver.FinishRefused).Err, sojourn.CodeInvalid, what)
	}
	kit.Same(s, "the stage", s.State(c.Job.ID, sojourn.Running).Stage, 0)
	s.Finish(kit.Advance(c, "next"), sojourn.Ready)
}

func stageNoLimit(s *kit.Scene) {
	s.SetQueue("next", sojourn.QueueSettings{MaxDepth: 1})
	s.SetQueue("light", sojourn.QueueSettings{Limit: 1})
	s.Enqueue(sojourn.Queue("next"))
	c := s.Running(sojourn.Weight(5))
	s.Finish(kit.Advance(c, "next"), sojourn.Ready)
	for range 2 {
		c = s.Claim(kit.From("next"))
	}
	s.Finish(kit.Advance(c, "light"), sojourn.Ready)
	s.State(c.Job.ID, sojourn.Ready)
}

func endWithDetails(s *kit.Scene) {
	for _, end := range []struct {
		of   func(c driver.Claimed) sojourn.Outcome
		want sojourn.State
	}{
		{kit.Abort, sojourn.Failed},
		{func(c driver.Claimed) sojourn.Outcome {
			return sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled}
		}, sojourn.Cancelled},
		{kit.Failure, sojourn.Failed},
	} {
		c := s.Running(sojourn.MaxAttempts(1))
		o := end.of(c)
		o.Result, o.ResultType, o.Verdict.Checkpoint = []byte("row 17 has no name"), "text/plain", []byte("17")
		j := s.Finish(o, end.want)
		kit.Same(s, "the detail", string(j.Result), "row 17 has no name")
		kit.Same(s, "its type", j.ResultType, "text/plain")
		kit.Same(s, "the checkpoint", string(j.Checkpoint), "17")
	}
}

func nextWithoutIDs(s *kit.Scene) {
	c := s.Running()
	next := []sojourn.Job{*sojourn.NewJob("a", nil), *sojourn.NewJob("b", nil, sojourn.Delay(time.Hour)), *sojourn.NewJob("c", nil, sojourn.DependsOn(c.Job.ID))}
	named := s.Job()
	o := kit.Follow(c, append(next, named)...)
	s.Finish(o, sojourn.Completed)
	s.Reports(o, driver.FinishRepeated)
	kit.Same(s, "the ids of the report", o.Next[0].ID, 0)
	s.State(named.ID, sojourn.Ready)
	want := map[string]sojourn.State{"a": sojourn.Ready, "b": sojourn.Scheduled, "c": sojourn.Ready}
	for kind, state := range want {
		found := s.Find(sojourn.Filter{Kind: kind})
		if len(found) != 1 {
			s.Fatalf("jobs of kind %s: %v", kind, found)
		}
		s.State(found[0], state)
	}
}
