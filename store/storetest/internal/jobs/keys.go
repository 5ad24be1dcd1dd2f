package jobs

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var keyTrials = []kit.Trial{
	{Name: "a live key", Law: "Another id with the key of a live job is answered with that job; nothing changes and the new id stays unused.",
		Covers: "tr:N5 inv:U1 inv:U3 spec:J5 spec:P1 rules:F2", Run: liveKey},
	{Name: "keys are unique per kind", Law: "The same key of another kind, and no key at all, are other jobs.", Covers: "spec:J5 inv:U1", Run: keysPerKind},
	{Name: "rules:F2 the id is looked up before the key", Law: "A known id is that job, even when its key belongs to a new live job by now.",
		Covers: "tr:N4 rules:F2 spec:J1", Run: idBeforeKey},
	{Name: "one key twice in a batch", Law: "Uniqueness holds inside one batch.", Covers: "tr:N5 inv:U1 spec:P10", Run: keyTwiceInBatch},
	{Name: "the end of a job frees its key", Law: "Each way to end a job frees its key in the same transaction.",
		Covers: "inv:U2 tr:F1 tr:F8 tr:F9 tr:O1 tr:W6 spec:J5", Run: keyFreed},
	{Name: "on conflict: error", Law: "With ReturnError a live key is ErrConflict and nothing changes.", Covers: "tr:N5 spec:P1", Run: conflictError},
	{Name: "on conflict: replace", Law: "With Replace a job that was never claimed gets the new args, times and priority, and keeps its id.",
		Covers: "tr:N6 spec:P1 inv:U3 rules:E4", Run: replace},
	{Name: "replace only before the first claim", Law: "A job that was claimed in this generation is never replaced.",
		Covers: "tr:N6 rules:E4 spec:P1", Run: replaceRefused},
	{Name: "KeepKey", Law: "A final job holds its key for as long as its policy says, and not a moment longer.", Covers: "inv:U2 spec:J5 spec:H5", Run: keepKey},
	{Name: "late SetKey", Law: "SetKey takes the key at once and durably, so that enqueues and responses find the job.",
		Covers: "tr:L3 inv:U1 inv:F2 rules:B12 spec:H2", Run: lateSetKey},
	{Name: "SetKey conflicts", Law: "A key of another live job, or a second key, is ErrConflict to the step alone.",
		Covers: "tr:L4 rules:B12 inv:U1 inv:P4", Run: setKeyConflict},
}

func liveKey(s *kit.Scene) {
	first := s.Enqueue(sojourn.Key("order-42"), kit.Args("first"))
	for _, want := range []sojourn.State{sojourn.Ready, sojourn.Running, sojourn.Awaiting} {
		s.Advance(time.Second)
		switch want {
		case sojourn.Running:
			s.Claim()
		case sojourn.Awaiting:
			c := driver.Claimed{Lease: sojourn.Lease{ID: first, Epoch: 1, Worker: "w1"}}
			s.Finish(kit.Await(c, 0), want)
		}
		before := s.Picture(first)
		j := s.Job(sojourn.Key("order-42"), kit.Args("second"), sojourn.Priority(1))
		if e := s.Put(j); e.ID != first || !e.Duplicate || e.State != want || e.Replaced {
			s.Fatalf("a live key answered %+v, want a duplicate of %d, %s", e, first, want)
		}
		s.Gone(j.ID)
		s.Unchanged(first, before, "an enqueue with its key")
		free := s.Job()
		free.ID = j.ID // unused: it may name another job
		if e := s.Put(free); e.ID != j.ID || e.Duplicate {
			s.Fatalf("the unused id answered %+v", e)
		}
		s.Cancel(j.ID)
	}
}

func keysPerKind(s *kit.Scene) {
	a, b := s.Enqueue(sojourn.Key("k")), s.Enqueue(kit.OfKind("refund"), sojourn.Key("k"))
	c, d := s.Enqueue(), s.Enqueue()
	other := s.Job(sojourn.Key("k"), sojourn.Queue("elsewhere"))
	kit.Same(s, "the owner of the key in another queue", s.Put(other).ID, a)
	for _, id := range []sojourn.ID{a, b, c, d} {
		s.State(id, sojourn.Ready)
	}
}

func idBeforeKey(s *kit.Scene) {
	first := s.Job(sojourn.Key("k"))
	s.Put(first)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	second := s.Enqueue(sojourn.Key("k"))
	before := s.Picture(second)
	if e := s.Put(first); e.ID != first.ID || !e.Duplicate || e.State != sojourn.Completed {
		s.Fatalf("the repeated enqueue answered %+v, want the final job %d", e, first.ID)
	}
	s.Unchanged(second, before, "a repeated enqueue of another id")
}

func keyTwiceInBatch(s *kit.Scene) {
	jobs := []sojourn.Job{s.Job(sojourn.Key("k")), s.Job(), s.Job(sojourn.Key("k")), s.Job(kit.OfKind("refund"), sojourn.Key("k"))}
	es, err := s.Store.Enqueue(s.Ctx, jobs, false)
	s.Must(err, "Enqueue")
	if es[2].ID != jobs[0].ID || !es[2].Duplicate || es[0].Duplicate || es[3].Duplicate {
		s.Fatalf("a batch with one key twice answered %+v", es)
	}
	s.Gone(jobs[2].ID)
}

func keyFreed(s *kit.Scene) {
	ways := map[string]func(id sojourn.ID, c driver.Claimed){
		"complete": func(_ sojourn.ID, c driver.Claimed) { s.Finish(kit.Completed(c), sojourn.Completed) },
		"abort":    func(_ sojourn.ID, c driver.Claimed) { s.Finish(kit.Abort(c), sojourn.Failed) },
		"cancel": func(_ sojourn.ID, c driver.Claimed) {
			s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled}, sojourn.Cancelled)
		},
		"edit cancel": func(id sojourn.ID, _ driver.Claimed) { s.Cancel(id) },
		"edit fail": func(id sojourn.ID, _ driver.Claimed) {
			s.Edited(id, sojourn.Edit{Action: sojourn.EditFail}, sojourn.Failed)
		},
		"last error": func(_ sojourn.ID, c driver.Claimed) { s.Finish(kit.Failure(c), sojourn.Failed) },
		"last crash": func(id sojourn.ID, _ driver.Claimed) {
			s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
			s.State(id, sojourn.Failed)
		},
		"undecodable": func(_ sojourn.ID, c driver.Claimed) {
			s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeUndecodable, Text: "bad JSON"}, sojourn.Failed)
		},
		"deadline": func(id sojourn.ID, c driver.Claimed) {
			s.Finish(kit.Await(c, 0), sojourn.Awaiting)
			s.Swept(3*time.Minute, driver.Swept{Deadlines: 1})
			s.State(id, sojourn.Failed)
		},
	}
	for way, end := range kit.InOrder(ways) {
		old := s.Running(sojourn.Key(way), sojourn.MaxAttempts(1), sojourn.MaxCrashes(1), sojourn.Deadline(3*time.Minute))
		end(old.Job.ID, old)
		j := s.Job(sojourn.Key(way))
		if e := s.Put(j); e.ID != j.ID || e.Duplicate {
			s.Errorf("after %s the key is still taken: %+v", way, e)
		}
		s.Cancel(j.ID)
	}
}

func conflictError(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("k"))
	before := s.Picture(id)
	j := s.Job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.ReturnError))
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	s.Is(err, sojourn.ErrConflict, "a live key with ReturnError")
	s.Gone(j.ID)
	s.Unchanged(id, before, "a refused enqueue")
	s.Cancel(id)
	s.Put(j)
	s.State(j.ID, sojourn.Ready)
}

func replace(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("k"), kit.Args("old"))
	next := s.Enqueue()
	s.Advance(time.Second)
	j := s.Job(sojourn.Key("k"), kit.Args("new"), sojourn.Priority(200), sojourn.MaxAttempts(9), sojourn.Tags("t"), sojourn.OnKeyConflict(sojourn.Replace))
	if e := s.Put(j); e.ID != id || !e.Replaced || e.State != sojourn.Ready {
		s.Fatalf("replace answered %+v, want %d replaced, ready", e, id)
	}
	s.Gone(j.ID)
	got := s.State(id, sojourn.Ready)
	kit.Same(s, "args", string(got.Args), "new")
	kit.Same(s, "priority", got.Priority, 200)
	kit.Same(s, "max_attempts", got.Policy.MaxAttempts, 9)
	s.Finds(sojourn.Filter{Tag: "t"}, id)
	s.Happened(id, "replaced")
	kit.Same(s, "the first job, as the other has a worse priority now", s.Claim().Job.ID, next)

	j = s.Job(sojourn.Key("k"), kit.Args("newer"), sojourn.Delay(time.Hour), sojourn.OnKeyConflict(sojourn.Replace))
	if e := s.Put(j); e.ID != id || !e.Replaced || e.State != sojourn.Scheduled {
		s.Fatalf("replace by a delayed one answered %+v, want %d replaced, scheduled", e, id)
	}
	s.At("run_at", s.State(id, sojourn.Scheduled).RunAt, s.Now().Add(time.Hour))
	j = s.Job(sojourn.Key("k"), kit.Args("newest"), sojourn.OnKeyConflict(sojourn.Replace))
	s.Put(j)
	kit.Same(s, "args", string(s.Claim().Job.Args), "newest")
}

func replaceRefused(s *kit.Scene) {
	states := map[string]func(key string) sojourn.ID{
		"running":  func(key string) sojourn.ID { return s.Running(sojourn.Key(key)).Job.ID },
		"awaiting": func(key string) sojourn.ID { return s.Awaiting(sojourn.Key(key)).Job.ID },
		"resumed":  func(key string) sojourn.ID { return s.Resumed(key).Job.ID },
		"retrying": func(key string) sojourn.ID { return s.Retrying(sojourn.Key(key)).Job.ID },
		"errored":  func(key string) sojourn.ID { return s.Errored(sojourn.Key(key)).Job.ID },
		"released": func(key string) sojourn.ID {
			c := s.Running(sojourn.Key(key))
			s.Finish(kit.Released(c), sojourn.Ready)
			return c.Job.ID
		},
	}
	for what, make := range kit.InOrder(states) {
		id := make(what)
		before := s.Picture(id)
		j := s.Job(sojourn.Key(what), kit.Args("new"), sojourn.OnKeyConflict(sojourn.Replace))
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		s.Is(err, sojourn.ErrConflict, "replace of a job that is "+what)
		s.Unchanged(id, before, "a refused replace")
		s.Cancel(id)
		s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
		if e := s.Put(j); e.ID != id || !e.Replaced { // never claimed in this generation
			s.Fatalf("replace after a redrive answered %+v", e)
		}
		s.Cancel(id)
	}
}

func keepKey(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), sojourn.KeepKey(time.Hour))
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Advance(time.Hour - time.Second)
	s.Sweep()
	if e := s.Put(s.Job(sojourn.Key("k"))); e.ID != c.Job.ID || !e.Duplicate || e.State != sojourn.Completed {
		s.Fatalf("a redelivered event answered %+v, want the final job %d", e, c.Job.ID)
	}
	j := s.Job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.ReturnError))
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	s.Is(err, sojourn.ErrConflict, "a kept key with ReturnError")
	s.Became(s.Respond("k"), sojourn.Late, c.Job.ID)
	s.Advance(2 * time.Second)
	fresh := s.Job(sojourn.Key("k"))
	if e := s.Put(fresh); e.ID != fresh.ID || e.Duplicate {
		s.Fatalf("after KeepKey has passed the enqueue answered %+v", e)
	}
}

func lateSetKey(s *kit.Scene) {
	c := s.Running()
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Key: "late"}), "SetKey")
	kit.Same(s, "key", s.State(c.Job.ID, sojourn.Running).Key, "late")
	if e := s.Put(s.Job(sojourn.Key("late"))); e.ID != c.Job.ID || !e.Duplicate {
		s.Fatalf("an enqueue with the new key answered %+v", e)
	}
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Key: "late"}), "SetKey with the key it has")
	s.Became(s.Respond("late"), sojourn.Early, c.Job.ID)
	if j := s.Finish(kit.Await(c, 0), sojourn.Ready); !j.Resumed {
		s.Fatal("the Await did not find the answer that was kept under the late key")
	}
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	// An answer that came before the key was set waits in the inbox for the Await.
	d := s.Running()
	r := s.Respond("later")
	s.Became(r, sojourn.Early, 0)
	s.Must(s.Save(driver.Saved{Lease: d.Lease, Key: "later"}), "SetKey")
	s.Finish(kit.Await(d, 0), sojourn.Ready)
	s.Stored(r.Seq, sojourn.Applied)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	// A key that the job has awaited is its own already.
	e := s.Running()
	s.Finish(kit.Await(e, 0, "asked"), sojourn.Awaiting)
	s.Respond("asked")
	e = s.Claim()
	s.Must(s.Save(driver.Saved{Lease: e.Lease, Key: "asked"}), "SetKey with a key that it has awaited")
	kit.Same(s, "key", s.State(e.Job.ID, sojourn.Running).Key, "asked")
}

func setKeyConflict(s *kit.Scene) {
	other := s.Enqueue(sojourn.Key("taken"), sojourn.Delay(time.Hour))
	a, b := s.Running(), s.Running(sojourn.Key("own"))
	c := s.Running()
	s.Advance(time.Second)
	errs, err := s.Store.Save(s.Ctx, []driver.Saved{
		{Lease: a.Lease, Key: "taken"}, {Lease: b.Lease, Key: "second"}, {Lease: c.Lease, Key: "mine"}, {Lease: a.Lease, Key: "a\nb"}})
	s.Must(err, "Save")
	s.Is(errs[0].Err, sojourn.ErrConflict, "a key of another live job")
	s.Is(errs[1].Err, sojourn.ErrConflict, "a second key")
	s.Must(errs[2].Err, "a free key in the same call")
	s.Refused(errs[3].Err, sojourn.CodeInvalid, "a key with a control character")
	kit.Same(s, "key", s.State(a.Job.ID, sojourn.Running).Key, "")
	kept := s.Final(sojourn.Completed, sojourn.Key("kept"), sojourn.KeepKey(time.Hour))
	s.Is(s.Save(driver.Saved{Lease: a.Lease, Key: "kept"}), sojourn.ErrConflict, "a key that a final job keeps")
	kit.Same(s, "key", s.State(b.Job.ID, sojourn.Running).Key, "own")
	kit.Same(s, "key", s.State(c.Job.ID, sojourn.Running).Key, "mine")
	s.Cancel(other)
	s.Must(s.Save(driver.Saved{Lease: a.Lease, Key: "taken"}), "the key of a job that has ended")
	s.Became(s.Respond("kept"), sojourn.Late, kept.Job.ID)
	s.Finish(kit.Completed(a), sojourn.Completed)
}
