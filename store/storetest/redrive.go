package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var redriveTrials = []trial{
	{"redrive", "Redrive runs a failed or cancelled job again under its id: next generation, counters from 0, the epoch goes on.",
		"tr:O3 spec:S5 spec:R9 inv:F6 inv:S2", redrive},
	{"redrive keeps the finished generation", "The history of the finished generation stays unchanged.", "tr:O3 inv:S2 spec:S5", redriveHistory},
	{"rules:A7 redrive twice", "A repeated redrive with the generation it saw is a conflict instead of a second run.", "tr:O3 rules:A7", redriveTwice},
	{"redrive with a taken key", "A redrive whose key belongs to a live job is a conflict; the others of the call go on.", "tr:O4 inv:U1 rules:E4", redriveTaken},
	{"redrive only failed and cancelled jobs", "Completed and live jobs are not redriven.", "tr:O3 rules:E4 inv:S2", redriveRefused},
	{"redrive takes the key again", "A redriven job owns its key, and what came late stays late.", "tr:O3 inv:U1 rules:B5", redriveKey},
	{"redrive a job that keeps its key", "The key that a final job keeps by KeepKey does not stand in the way of its own redrive.", "tr:O3 inv:U1 inv:U2", redriveKeptKey},
	{"a response to a redriven job", "A response that comes before the redriven job was claimed is kept for its Await.", "tr:O3 tr:R5 rules:B4", redriveResponse},
	{"redrive without the checkpoint", "A redrive drops or replaces the checkpoint on request, and so does a change.", "tr:O3 tr:O5 spec:J4", redriveCheckpoint},
	{"redrive with new values", "A redrive takes new values in the same call; if one of them is refused, the job is not redriven.", "tr:O3 tr:O5 spec:P9 spec:S5", redriveValues},
	{"clone a final job", "A completed job runs again as a new job, and the refusals of cancel and redrive say so.", "tr:O1 tr:O3 spec:S11", cloneFinal},
	{"redrive many", "All failed jobs that a filter finds are redriven in one call.", "tr:O3 spec:R9 rules:A7", redriveMany},
}

func redrive(s *scene) {
	for _, end := range []sojourn.State{sojourn.Failed, sojourn.Cancelled} {
		c := s.retrying(sojourn.MaxAttempts(2))
		if end == sojourn.Failed {
			s.advance(10 * time.Second)
			s.finish(failure(s.claim()), end)
		} else {
			s.cancel(c.Job.ID)
		}
		epoch := s.get(c.Job.ID).Epoch
		s.advance(time.Minute)
		j := s.edited(c.Job.ID, redriveEdit, sojourn.Ready)
		same(s, "generation", j.Generation, 2)
		same(s, "epoch", j.Epoch, epoch)
		s.counters(c.Job.ID, 0, 0, 0)
		s.at("run_at", j.RunAt, s.now())
		same(s, "answers in hand", len(j.Responses), 0)
		d := s.claim()
		same(s, "epoch", d.Lease.Epoch, epoch+1)
		same(s, "purpose", d.Purpose, sojourn.PurposeStart)
		s.counters(c.Job.ID, 1, 0, 0)
		s.finish(completed(d), sojourn.Completed)
		same(s, "reason of a redriven job that completed", s.get(c.Job.ID).Reason, "")
	}
}

func redriveHistory(s *scene) {
	c := s.final(sojourn.Failed)
	before := s.history(c.Job.ID)
	s.advance(time.Minute)
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive, By: "ops", Reason: "gateway repaired"}, sojourn.Ready)
	s.finish(completed(s.claim()), sojourn.Completed)
	as := s.happened(c.Job.ID, "abort", "redriven", "completed")
	same(s, "the entry of the finished generation", as[0], before[0])
	same(s, "by", as[1].By, "ops")
	same(s, "reason", as[1].Reason, "gateway repaired")
	same(s, "generation of the last step", as[2].Generation, 2)
	same(s, "attempt of the last step", as[2].Attempt, 1)
	same(s, "epoch of the last step", as[2].Epoch, 2)
}

func redriveTwice(s *scene) {
	id := s.final(sojourn.Failed).Job.ID
	e := sojourn.Edit{Action: sojourn.EditRedrive, Generation: 1}
	s.edited(id, e, sojourn.Ready)
	s.is(s.edit(id, e).Err, sojourn.ErrConflict, "a repeated redrive while the job is ready")
	s.finish(abort(s.claim()), sojourn.Failed)
	before := s.picture(id)
	s.is(s.edit(id, e).Err, sojourn.ErrConflict, "a repeated redrive after the job has failed again")
	s.unchanged(id, before, "a repeated redrive")
	e.Generation = 2
	same(s, "generation", s.edited(id, e, sojourn.Ready).Generation, 3)
	for _, action := range []sojourn.EditAction{sojourn.EditCancel, sojourn.EditFail, sojourn.EditChange} {
		p := int32(9)
		e := sojourn.Edit{Action: action, Generation: 2, Change: sojourn.Change{Priority: &p}}
		s.is(s.edit(id, e).Err, sojourn.ErrConflict, string(action)+" of another generation")
	}
	s.state(id, sojourn.Ready)
}

func redriveTaken(s *scene) {
	a, b := s.final(sojourn.Failed, sojourn.Key("a")).Job.ID, s.final(sojourn.Failed, sojourn.Key("b")).Job.ID
	owner := s.enqueue(sojourn.Key("a"))
	ed, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{a, b}}, redriveEdit)
	s.must(err, "Edit")
	if ed.Changed != 1 || len(ed.Items) != 2 {
		s.Fatalf("Edit answered %+v, want one of two redriven", ed)
	}
	s.is(ed.Items[0].Err, sojourn.ErrConflict, "a redrive whose key is taken")
	s.must(ed.Items[1].Err, "the other redrive")
	same(s, "generation", s.state(a, sojourn.Failed).Generation, 1)
	s.state(b, sojourn.Ready)
	s.cancel(owner)
	s.edited(a, redriveEdit, sojourn.Ready)
	// Two jobs of one call cannot both take one key.
	c, d := s.final(sojourn.Failed, ofKind("x"), sojourn.Key("k")).Job.ID, s.final(sojourn.Failed, ofKind("x"), sojourn.Key("k")).Job.ID
	ed, err = s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{c, d}}, redriveEdit)
	s.must(err, "Edit")
	same(s, "changed", ed.Changed, 1)
}

func redriveRefused(s *scene) {
	ids := s.everyState()
	ids["completed"] = s.final(sojourn.Completed, ofKind("other")).Job.ID
	for what, id := range inOrder(ids) {
		before := s.picture(id)
		item := s.edit(id, redriveEdit)
		s.is(item.Err, sojourn.ErrConflict, "redrive of a job that is "+what)
		same(s, "changed", item.Changed, false)
		s.unchanged(id, before, "a refused redrive")
	}
}

func redriveKey(s *scene) {
	c := s.final(sojourn.Failed, sojourn.Key("k"))
	late := s.respond("k")
	s.became(late, sojourn.Late, c.Job.ID)
	s.edited(c.Job.ID, redriveEdit, sojourn.Ready)
	if e := s.put(s.job(sojourn.Key("k"))); e.ID != c.Job.ID || !e.Duplicate {
		s.Fatalf("an enqueue with the key of a redriven job answered %+v", e)
	}
	d := s.claim()
	same(s, "response", d.Job.Response == nil, true)
	s.finish(await(d, 0), sojourn.Awaiting)
	s.lies(late.Seq, sojourn.Late)
	s.became(s.respond("k"), sojourn.Applied, c.Job.ID)
}

func redriveKeptKey(s *scene) {
	c := s.final(sojourn.Failed, sojourn.Key("k"), sojourn.KeepKey(time.Hour))
	s.edited(c.Job.ID, redriveEdit, sojourn.Ready)
	if e := s.put(s.job(sojourn.Key("k"))); e.ID != c.Job.ID || !e.Duplicate || e.State != sojourn.Ready {
		s.Fatalf("an enqueue with the key of a redriven job answered %+v", e)
	}
	s.advance(2 * time.Hour) // the hold has passed, but the job is live
	s.became(s.respond("k"), sojourn.Early, c.Job.ID)
}

func redriveResponse(s *scene) {
	c := s.resumed("k")
	s.cancel(c.Job.ID)
	s.edited(c.Job.ID, redriveEdit, sojourn.Ready)
	s.became(s.respond("k", body("new")), sojourn.Early, c.Job.ID)
	d := s.claim()
	same(s, "response", d.Job.Response == nil, true)
	same(s, "resumed", s.finish(await(d, 0), sojourn.Ready).Resumed, true)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "new")
}

func redriveMany(s *scene) {
	var failed []sojourn.ID
	for range 5 {
		failed = append(failed, s.final(sojourn.Failed).Job.ID)
	}
	done, cancelled := s.final(sojourn.Completed).Job.ID, s.final(sojourn.Cancelled).Job.ID
	f := sojourn.Filter{Queue: line, States: []sojourn.State{sojourn.Failed}, Reason: "declined"}
	ed, err := s.store.Edit(s.ctx, f, redriveEdit)
	s.must(err, "Edit")
	same(s, "changed", ed.Changed, 5)
	for _, id := range failed {
		s.state(id, sojourn.Ready)
	}
	s.state(done, sojourn.Completed)
	s.state(cancelled, sojourn.Cancelled)
	s.order(s.drain(), failed) // oldest first
}

func redriveCheckpoint(s *scene) {
	redriven := func(e sojourn.Change) string {
		c := s.running(typed(jsonTyped))
		s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte(`"stale"`)}), "Save")
		s.finish(abort(c), sojourn.Failed)
		s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive, Change: e}, sojourn.Ready)
		d := s.claim()
		same(s, "the job", d.Job.ID, c.Job.ID)
		s.finish(completed(d), sojourn.Completed)
		return string(d.Job.Checkpoint)
	}
	newer, bad := []byte(`{"page":1}`), []byte("{")
	same(s, "kept", redriven(sojourn.Change{}), `"stale"`)
	same(s, "dropped", redriven(sojourn.Change{DropCheckpoint: true}), "")
	same(s, "replaced", redriven(sojourn.Change{Checkpoint: &newer}), `{"page":1}`)
	c := s.final(sojourn.Failed, typed(jsonTyped)) // it had none
	s.refused(s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive, Change: sojourn.Change{Checkpoint: &bad}}).Err, sojourn.CodeInvalidJSON, "a broken checkpoint")
	both := sojourn.Edit{Action: sojourn.EditRedrive, Change: sojourn.Change{Checkpoint: &newer, DropCheckpoint: true}}
	_, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, both)
	s.refused(err, sojourn.CodeInvalid, "replaced and dropped")
	s.state(c.Job.ID, sojourn.Failed)
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive, Change: sojourn.Change{DropCheckpoint: true}}, sojourn.Ready)
	same(s, "changed", string(s.change(c.Job.ID, sojourn.Change{Checkpoint: &newer}, sojourn.Ready).Checkpoint), `{"page":1}`)
	same(s, "dropped by a change", string(s.change(c.Job.ID, sojourn.Change{DropCheckpoint: true}, sojourn.Ready).Checkpoint), "")
}

func redriveValues(s *scene) {
	c := s.final(sojourn.Failed, typed(jsonTyped), sojourn.Key("k"), sojourn.Tags("a"), sojourn.Group("g"), sojourn.MaxAttempts(9))
	id, before := c.Job.ID, s.picture(c.Job.ID)
	p, w, g, q, bad, late := int32(7), int32(2), "h", "fresh", []byte("{"), s.now().Add(sojourn.MaxHorizon+time.Hour)
	redriving := func(c sojourn.Change) sojourn.Edit {
		return sojourn.Edit{Action: sojourn.EditRedrive, By: "ops", Generation: 1, Change: c}
	}
	s.refused(s.edit(id, redriving(sojourn.Change{Priority: &p, Args: &bad})).Err, sojourn.CodeInvalidJSON, "broken args")
	s.refused(s.edit(id, redriving(sojourn.Change{Priority: &p, RunAt: &late})).Err, sojourn.CodeInvalid, "a run_at that is too late")
	_, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, redriving(sojourn.Change{Tags: &[]string{""}}))
	s.refused(err, sojourn.CodeInvalid, "an empty tag")
	s.unchanged(id, before, "a refused redrive")
	s.advance(time.Minute)
	newer, runAt := []byte(`{"order":43}`), s.now().Add(time.Hour)
	all := sojourn.Change{Priority: &p, Weight: &w, Group: &g, Queue: &q, Args: &newer, RunAt: &runAt, AddTags: &[]string{"b"},
		Checkpoint: &newer, Policy: &sojourn.Policy{MaxAttempts: 2, Deadline: 2 * time.Hour}}
	j := s.edited(id, redriving(all), sojourn.Scheduled)
	s.at("run_at", j.RunAt, runAt)
	same(s, "generation", j.Generation, 2)
	same(s, "queue and group", j.Queue+" "+j.Group, "fresh h")
	same(s, "priority and weight", [2]int32{j.Priority, j.Weight}, [2]int32{p, w})
	same(s, "tags", strings.Join(j.Tags, " "), "a b")
	same(s, "max_attempts", j.Policy.MaxAttempts, 2)
	s.is(s.edit(id, redriving(all)).Err, sojourn.ErrConflict, "a repeated redrive")
	s.advance(time.Hour)
	d := s.claim(from(q))
	same(s, "args", string(d.Job.Args), `{"order":43}`)
	same(s, "checkpoint", string(d.Job.Checkpoint), `{"order":43}`)
	same(s, "the time left of its life", d.Deadline, time.Hour)
	s.finish(completed(d), sojourn.Completed)
}

func cloneFinal(s *scene) {
	c := sojourn.NewClient(s.store)
	done := s.final(sojourn.Completed, sojourn.Key("k"), sojourn.Group("g"), sojourn.Tags("t"), sojourn.Meta("m", "n"), sojourn.Priority(0), sojourn.Weight(0),
		policy(sojourn.Policy{MaxAttempts: 7}), args("again")).Job
	for what, e := range map[string]sojourn.Edit{"cancel": {Action: sojourn.EditCancel}, "fail": {Action: sojourn.EditFail}, "redrive": redriveEdit} {
		err := s.edit(done.ID, e).Err
		s.is(err, sojourn.ErrConflict, what+" of a completed job")
		if text := err.Error(); !strings.Contains(text, fmt.Sprintf("sojourn job clone %d", done.ID)) || strings.Contains(text, "redrive it") {
			s.Fatalf("%s of a completed job says %q", what, text)
		}
	}
	failed := s.final(sojourn.Failed)
	if text := s.edit(failed.Job.ID, sojourn.Edit{Action: sojourn.EditCancel}).Err.Error(); !strings.Contains(text, "redrive it") {
		s.Fatalf("cancel of a failed job says %q", text)
	}
	s.setQueue(line, sojourn.QueueSettings{Defaults: sojourn.QueueDefaults{Policy: sojourn.Policy{Deadline: time.Hour}}})
	e, err := c.Jobs().Clone(s.ctx, done.ID)
	s.must(err, "Clone")
	same(s, "another id", e.ID != done.ID && !e.Duplicate, true)
	j := s.get(e.ID)
	same(s, "content", text([]any{j.Kind, j.Queue, j.Key, j.Group, j.Tags, j.Meta, j.Priority, j.Weight, string(j.Args), j.ContentType, j.Policy}),
		text([]any{done.Kind, done.Queue, done.Key, done.Group, done.Tags, done.Meta, done.Priority, done.Weight, string(done.Args), done.ContentType, done.Policy}))
	same(s, "of its own life", text([]any{j.State, j.Generation, j.Attempt, j.Epoch}), text([]any{sojourn.Ready, 1, 0, 0}))
	s.state(done.ID, sojourn.Completed)
	_, err = c.Jobs().Clone(s.ctx, done.ID)
	s.is(err, sojourn.ErrConflict, "a clone whose key a live job has")
	e, err = c.Jobs().Clone(s.ctx, done.ID, sojourn.Key("k2"))
	s.must(err, "Clone with another key")
	same(s, "its key", s.get(e.ID).Key, "k2")
	_, err = c.Jobs().Clone(s.ctx, 1<<40)
	s.is(err, sojourn.ErrNotFound, "a clone of an unknown job")
}
