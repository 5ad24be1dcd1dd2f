package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var keyTrials = []trial{
	{"a live key", "Another id with the key of a live job is answered with that job; nothing changes and the new id stays unused.",
		"tr:N5 inv:U1 inv:U3 spec:J5 spec:P1 rules:F2", liveKey},
	{"keys are unique per kind", "The same key of another kind, and no key at all, are other jobs.", "spec:J5 inv:U1", keysPerKind},
	{"rules:F2 the id is looked up before the key", "A known id is that job, even when its key belongs to a new live job by now.",
		"tr:N4 rules:F2 spec:J1", idBeforeKey},
	{"one key twice in a batch", "Uniqueness holds inside one batch.", "tr:N5 inv:U1 spec:P10", keyTwiceInBatch},
	{"the end of a job frees its key", "Each way to end a job frees its key in the same transaction.", "inv:U2 tr:F1 tr:F8 tr:F9 tr:O1 tr:W6 spec:J5", keyFreed},
	{"on conflict: error", "With ReturnError a live key is ErrConflict and nothing changes.", "tr:N5 spec:P1", conflictError},
	{"on conflict: replace", "With Replace a job that was never claimed gets the new args, times and priority, and keeps its id.",
		"tr:N6 spec:P1 inv:U3 rules:E4", replace},
	{"replace only before the first claim", "A job that was claimed in this generation is never replaced.", "tr:N6 rules:E4 spec:P1", replaceRefused},
	{"KeepKey", "A final job holds its key for as long as its policy says, and not a moment longer.", "inv:U2 spec:J5 spec:H5", keepKey},
	{"late SetKey", "SetKey takes the key at once and durably, so that enqueues and responses find the job.",
		"tr:L3 inv:U1 inv:F2 rules:B12 spec:H2", lateSetKey},
	{"SetKey conflicts", "A key of another live job, or a second key, is ErrConflict to the step alone.", "tr:L4 rules:B12 inv:U1 inv:P4", setKeyConflict},
}

func liveKey(s *scene) {
	first := s.enqueue(sojourn.Key("order-42"), args("first"))
	for _, want := range []sojourn.State{sojourn.Ready, sojourn.Running, sojourn.Awaiting} {
		s.advance(time.Second)
		switch want {
		case sojourn.Running:
			s.claim()
		case sojourn.Awaiting:
			c := driver.Claimed{Lease: sojourn.Lease{ID: first, Epoch: 1, Worker: "w1"}}
			s.finish(await(c, 0), want)
		}
		before := s.picture(first)
		j := s.job(sojourn.Key("order-42"), args("second"), sojourn.Priority(1))
		if e := s.put(j); e.ID != first || !e.Duplicate || e.State != want || e.Replaced {
			s.Fatalf("a live key answered %+v, want a duplicate of %d, %s", e, first, want)
		}
		s.gone(j.ID)
		s.unchanged(first, before, "an enqueue with its key")
		free := s.job()
		free.ID = j.ID // unused: it may name another job
		if e := s.put(free); e.ID != j.ID || e.Duplicate {
			s.Fatalf("the unused id answered %+v", e)
		}
		s.cancel(j.ID)
	}
}

func keysPerKind(s *scene) {
	a, b := s.enqueue(sojourn.Key("k")), s.enqueue(ofKind("refund"), sojourn.Key("k"))
	c, d := s.enqueue(), s.enqueue()
	other := s.job(sojourn.Key("k"), sojourn.Queue("elsewhere"))
	same(s, "the owner of the key in another queue", s.put(other).ID, a)
	for _, id := range []sojourn.ID{a, b, c, d} {
		s.state(id, sojourn.Ready)
	}
}

func idBeforeKey(s *scene) {
	first := s.job(sojourn.Key("k"))
	s.put(first)
	s.finish(completed(s.claim()), sojourn.Completed)
	second := s.enqueue(sojourn.Key("k"))
	before := s.picture(second)
	if e := s.put(first); e.ID != first.ID || !e.Duplicate || e.State != sojourn.Completed {
		s.Fatalf("the repeated enqueue answered %+v, want the final job %d", e, first.ID)
	}
	s.unchanged(second, before, "a repeated enqueue of another id")
}

func keyTwiceInBatch(s *scene) {
	jobs := []sojourn.Job{s.job(sojourn.Key("k")), s.job(), s.job(sojourn.Key("k")), s.job(ofKind("refund"), sojourn.Key("k"))}
	es, err := s.store.Enqueue(s.ctx, jobs, false)
	s.must(err, "Enqueue")
	if es[2].ID != jobs[0].ID || !es[2].Duplicate || es[0].Duplicate || es[3].Duplicate {
		s.Fatalf("a batch with one key twice answered %+v", es)
	}
	s.gone(jobs[2].ID)
}

func keyFreed(s *scene) {
	ways := map[string]func(id sojourn.ID, c driver.Claimed){
		"complete": func(_ sojourn.ID, c driver.Claimed) { s.finish(completed(c), sojourn.Completed) },
		"abort":    func(_ sojourn.ID, c driver.Claimed) { s.finish(abort(c), sojourn.Failed) },
		"cancel": func(_ sojourn.ID, c driver.Claimed) {
			s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled}, sojourn.Cancelled)
		},
		"edit cancel": func(id sojourn.ID, _ driver.Claimed) { s.cancel(id) },
		"edit fail": func(id sojourn.ID, _ driver.Claimed) {
			s.edited(id, sojourn.Edit{Action: sojourn.EditFail}, sojourn.Failed)
		},
		"last error": func(_ sojourn.ID, c driver.Claimed) { s.finish(failure(c), sojourn.Failed) },
		"last crash": func(id sojourn.ID, _ driver.Claimed) {
			s.swept(lease, driver.Swept{Lost: 1})
			s.state(id, sojourn.Failed)
		},
		"undecodable": func(_ sojourn.ID, c driver.Claimed) {
			s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeUndecodable, Text: "bad JSON"}, sojourn.Failed)
		},
		"deadline": func(id sojourn.ID, c driver.Claimed) {
			s.finish(await(c, 0), sojourn.Awaiting)
			s.swept(3*time.Minute, driver.Swept{Deadlines: 1})
			s.state(id, sojourn.Failed)
		},
	}
	for way, end := range inOrder(ways) {
		old := s.running(sojourn.Key(way), sojourn.MaxAttempts(1), sojourn.MaxCrashes(1), sojourn.Deadline(3*time.Minute))
		end(old.Job.ID, old)
		j := s.job(sojourn.Key(way))
		if e := s.put(j); e.ID != j.ID || e.Duplicate {
			s.Errorf("after %s the key is still taken: %+v", way, e)
		}
		s.cancel(j.ID)
	}
}

func conflictError(s *scene) {
	id := s.enqueue(sojourn.Key("k"))
	before := s.picture(id)
	j := s.job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.ReturnError))
	_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
	s.is(err, sojourn.ErrConflict, "a live key with ReturnError")
	s.gone(j.ID)
	s.unchanged(id, before, "a refused enqueue")
	s.cancel(id)
	s.put(j)
	s.state(j.ID, sojourn.Ready)
}

func replace(s *scene) {
	id := s.enqueue(sojourn.Key("k"), args("old"))
	next := s.enqueue()
	s.advance(time.Second)
	j := s.job(sojourn.Key("k"), args("new"), sojourn.Priority(200), sojourn.MaxAttempts(9), sojourn.Tags("t"), sojourn.OnKeyConflict(sojourn.Replace))
	if e := s.put(j); e.ID != id || !e.Replaced || e.State != sojourn.Ready {
		s.Fatalf("replace answered %+v, want %d replaced, ready", e, id)
	}
	s.gone(j.ID)
	got := s.state(id, sojourn.Ready)
	same(s, "args", string(got.Args), "new")
	same(s, "priority", got.Priority, 200)
	same(s, "max_attempts", got.Policy.MaxAttempts, 9)
	s.finds(sojourn.Filter{Tag: "t"}, id)
	s.happened(id, "replaced")
	same(s, "the first job, as the other has a worse priority now", s.claim().Job.ID, next)

	j = s.job(sojourn.Key("k"), args("newer"), sojourn.Delay(time.Hour), sojourn.OnKeyConflict(sojourn.Replace))
	if e := s.put(j); e.ID != id || !e.Replaced || e.State != sojourn.Scheduled {
		s.Fatalf("replace by a delayed one answered %+v, want %d replaced, scheduled", e, id)
	}
	s.at("run_at", s.state(id, sojourn.Scheduled).RunAt, s.now().Add(time.Hour))
	j = s.job(sojourn.Key("k"), args("newest"), sojourn.OnKeyConflict(sojourn.Replace))
	s.put(j)
	same(s, "args", string(s.claim().Job.Args), "newest")
}

func replaceRefused(s *scene) {
	states := map[string]func(key string) sojourn.ID{
		"running":  func(key string) sojourn.ID { return s.running(sojourn.Key(key)).Job.ID },
		"awaiting": func(key string) sojourn.ID { return s.awaiting(sojourn.Key(key)).Job.ID },
		"resumed":  func(key string) sojourn.ID { return s.resumed(key).Job.ID },
		"retrying": func(key string) sojourn.ID { return s.retrying(sojourn.Key(key)).Job.ID },
		"errored":  func(key string) sojourn.ID { return s.errored(sojourn.Key(key)).Job.ID },
		"released": func(key string) sojourn.ID {
			c := s.running(sojourn.Key(key))
			s.finish(released(c), sojourn.Ready)
			return c.Job.ID
		},
	}
	for what, make := range inOrder(states) {
		id := make(what)
		before := s.picture(id)
		j := s.job(sojourn.Key(what), args("new"), sojourn.OnKeyConflict(sojourn.Replace))
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		s.is(err, sojourn.ErrConflict, "replace of a job that is "+what)
		s.unchanged(id, before, "a refused replace")
		s.cancel(id)
		s.edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
		if e := s.put(j); e.ID != id || !e.Replaced { // never claimed in this generation
			s.Fatalf("replace after a redrive answered %+v", e)
		}
		s.cancel(id)
	}
}

func keepKey(s *scene) {
	c := s.running(sojourn.Key("k"), sojourn.KeepKey(time.Hour))
	s.finish(completed(c), sojourn.Completed)
	s.advance(time.Hour - time.Second)
	s.sweep()
	if e := s.put(s.job(sojourn.Key("k"))); e.ID != c.Job.ID || !e.Duplicate || e.State != sojourn.Completed {
		s.Fatalf("a redelivered event answered %+v, want the final job %d", e, c.Job.ID)
	}
	j := s.job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.ReturnError))
	_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
	s.is(err, sojourn.ErrConflict, "a kept key with ReturnError")
	s.became(s.respond("k"), sojourn.Late, c.Job.ID)
	s.advance(2 * time.Second)
	fresh := s.job(sojourn.Key("k"))
	if e := s.put(fresh); e.ID != fresh.ID || e.Duplicate {
		s.Fatalf("after KeepKey has passed the enqueue answered %+v", e)
	}
}

func lateSetKey(s *scene) {
	c := s.running()
	s.must(s.save(driver.Saved{Lease: c.Lease, Key: "late"}), "SetKey")
	same(s, "key", s.state(c.Job.ID, sojourn.Running).Key, "late")
	if e := s.put(s.job(sojourn.Key("late"))); e.ID != c.Job.ID || !e.Duplicate {
		s.Fatalf("an enqueue with the new key answered %+v", e)
	}
	s.must(s.save(driver.Saved{Lease: c.Lease, Key: "late"}), "SetKey with the key it has")
	s.became(s.respond("late"), sojourn.Early, c.Job.ID)
	if j := s.finish(await(c, 0), sojourn.Ready); !j.Resumed {
		s.Fatal("the Await did not find the answer that was kept under the late key")
	}
	s.finish(completed(s.claim()), sojourn.Completed)
	// An answer that came before the key was set waits in the inbox for the Await.
	d := s.running()
	r := s.respond("later")
	s.became(r, sojourn.Early, 0)
	s.must(s.save(driver.Saved{Lease: d.Lease, Key: "later"}), "SetKey")
	s.finish(await(d, 0), sojourn.Ready)
	s.lies(r.Seq, sojourn.Applied)
	s.finish(completed(s.claim()), sojourn.Completed)
	// A key that the job has awaited is its own already.
	e := s.running()
	s.finish(await(e, 0, "asked"), sojourn.Awaiting)
	s.respond("asked")
	e = s.claim()
	s.must(s.save(driver.Saved{Lease: e.Lease, Key: "asked"}), "SetKey with a key that it has awaited")
	same(s, "key", s.state(e.Job.ID, sojourn.Running).Key, "asked")
}

func setKeyConflict(s *scene) {
	other := s.enqueue(sojourn.Key("taken"), sojourn.Delay(time.Hour))
	a, b := s.running(), s.running(sojourn.Key("own"))
	c := s.running()
	s.advance(time.Second)
	errs, err := s.store.Save(s.ctx, []driver.Saved{
		{Lease: a.Lease, Key: "taken"}, {Lease: b.Lease, Key: "second"}, {Lease: c.Lease, Key: "mine"}, {Lease: a.Lease, Key: "a\nb"}})
	s.must(err, "Save")
	s.is(errs[0].Err, sojourn.ErrConflict, "a key of another live job")
	s.is(errs[1].Err, sojourn.ErrConflict, "a second key")
	s.must(errs[2].Err, "a free key in the same call")
	s.refused(errs[3].Err, sojourn.CodeInvalid, "a key with a control character")
	same(s, "key", s.state(a.Job.ID, sojourn.Running).Key, "")
	kept := s.final(sojourn.Completed, sojourn.Key("kept"), sojourn.KeepKey(time.Hour))
	s.is(s.save(driver.Saved{Lease: a.Lease, Key: "kept"}), sojourn.ErrConflict, "a key that a final job keeps")
	same(s, "key", s.state(b.Job.ID, sojourn.Running).Key, "own")
	same(s, "key", s.state(c.Job.ID, sojourn.Running).Key, "mine")
	s.cancel(other)
	s.must(s.save(driver.Saved{Lease: a.Lease, Key: "taken"}), "the key of a job that has ended")
	s.became(s.respond("kept"), sojourn.Late, kept.Job.ID)
	s.finish(completed(a), sojourn.Completed)
}
