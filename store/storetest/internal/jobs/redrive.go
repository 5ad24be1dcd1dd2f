package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var redriveTrials = []kit.Trial{
	{Name: "redrive", Law: "Redrive runs a failed or cancelled job again under its id: next generation, counters from 0, the epoch goes on.",
		Covers: "tr:O3 spec:S5 spec:R9 inv:F6 inv:S2", Run: redrive},
	{Name: "redrive keeps the finished generation", Law: "The history of the finished generation stays unchanged.", Covers: "tr:O3 inv:S2 spec:S5", Run: redriveHistory},
	{Name: "rules:A7 redrive twice", Law: "A repeated redrive with the generation it saw is a conflict instead of a second run.",
		Covers: "tr:O3 rules:A7", Run: redriveTwice},
	{Name: "redrive with a taken key", Law: "A redrive whose key belongs to a live job is a conflict; the others of the call go on.",
		Covers: "tr:O4 inv:U1 rules:E4", Run: redriveTaken},
	{Name: "redrive only failed and cancelled jobs", Law: "Completed and live jobs are not redriven.", Covers: "tr:O3 rules:E4 inv:S2", Run: redriveRefused},
	{Name: "redrive takes the key again", Law: "A redriven job owns its key, and what came late stays late.", Covers: "tr:O3 inv:U1 rules:B5", Run: redriveKey},
	{Name: "redrive a job that keeps its key", Law: "The key that a final job keeps by KeepKey does not stand in the way of its own redrive.",
		Covers: "tr:O3 inv:U1 inv:U2", Run: redriveKeptKey},
	{Name: "a response to a redriven job", Law: "A response that comes before the redriven job was claimed is kept for its Await.",
		Covers: "tr:O3 tr:R5 rules:B4", Run: redriveResponse},
	{Name: "redrive without the checkpoint", Law: "A redrive drops or replaces the checkpoint on request, and so does a change.",
		Covers: "tr:O3 tr:O5 spec:J4", Run: redriveCheckpoint},
	{Name: "redrive with new values", Law: "A redrive takes new values in the same call; if one of them is refused, the job is not redriven.",
		Covers: "tr:O3 tr:O5 spec:P9 spec:S5", Run: redriveValues},
	{Name: "clone a final job", Law: "A completed job runs again as a new job, and the refusals of cancel and redrive say so.",
		Covers: "tr:O1 tr:O3 spec:S11", Run: cloneFinal},
	{Name: "redrive many", Law: "All failed jobs that a filter finds are redriven in one call.", Covers: "tr:O3 spec:R9 rules:A7", Run: redriveMany},
}

func redrive(s *kit.Scene) {
	for _, end := range []sojourn.State{sojourn.Failed, sojourn.Cancelled} {
		c := s.Retrying(sojourn.MaxAttempts(2))
		if end == sojourn.Failed {
			s.Advance(10 * time.Second)
			s.Finish(kit.Failure(s.Claim()), end)
		} else {
			s.Cancel(c.Job.ID)
		}
		epoch := s.Get(c.Job.ID).Epoch
		s.Advance(time.Minute)
		j := s.Edited(c.Job.ID, kit.RedriveEdit, sojourn.Ready)
		kit.Same(s, "generation", j.Generation, 2)
		kit.Same(s, "epoch", j.Epoch, epoch)
		s.Counters(c.Job.ID, 0, 0, 0)
		s.At("run_at", j.RunAt, s.Now())
		kit.Same(s, "answers in hand", len(j.Responses), 0)
		d := s.Claim()
		kit.Same(s, "epoch", d.Lease.Epoch, epoch+1)
		kit.Same(s, "purpose", d.Purpose, sojourn.PurposeStart)
		s.Counters(c.Job.ID, 1, 0, 0)
		s.Finish(kit.Completed(d), sojourn.Completed)
		kit.Same(s, "reason of a redriven job that completed", s.Get(c.Job.ID).Reason, "")
	}
}

func redriveHistory(s *kit.Scene) {
	c := s.Final(sojourn.Failed)
	before := s.History(c.Job.ID)
	s.Advance(time.Minute)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive, By: "ops", Reason: "gateway repaired"}, sojourn.Ready)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	as := s.Happened(c.Job.ID, "abort", "redriven", "completed")
	kit.Same(s, "the entry of the finished generation", kit.Text(as[0]), kit.Text(before[0]))
	kit.Same(s, "by", as[1].By, "ops")
	kit.Same(s, "reason", as[1].Reason, "gateway repaired")
	kit.Same(s, "generation of the last step", as[2].Generation, 2)
	kit.Same(s, "attempt of the last step", as[2].Attempt, 1)
	kit.Same(s, "epoch of the last step", as[2].Epoch, 2)
}

func redriveTwice(s *kit.Scene) {
	id := s.Final(sojourn.Failed).Job.ID
	e := sojourn.Edit{Action: sojourn.EditRedrive, Generation: 1}
	s.Edited(id, e, sojourn.Ready)
	s.Is(s.Edit(id, e).Err, sojourn.ErrConflict, "a repeated redrive while the job is ready")
	s.Finish(kit.Abort(s.Claim()), sojourn.Failed)
	before := s.Picture(id)
	s.Is(s.Edit(id, e).Err, sojourn.ErrConflict, "a repeated redrive after the job has failed again")
	s.Unchanged(id, before, "a repeated redrive")
	e.Generation = 2
	kit.Same(s, "generation", s.Edited(id, e, sojourn.Ready).Generation, 3)
	for _, action := range []sojourn.EditAction{sojourn.EditCancel, sojourn.EditFail, sojourn.EditChange} {
		p := int32(9)
		e := sojourn.Edit{Action: action, Generation: 2, Priority: &p}
		s.Is(s.Edit(id, e).Err, sojourn.ErrConflict, string(action)+" of another generation")
	}
	s.State(id, sojourn.Ready)
}

func redriveTaken(s *kit.Scene) {
	a, b := s.Final(sojourn.Failed, sojourn.Key("a")).Job.ID, s.Final(sojourn.Failed, sojourn.Key("b")).Job.ID
	owner := s.Enqueue(sojourn.Key("a"))
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{a, b}}, kit.RedriveEdit)
	s.Must(err, "Edit")
	if kit.Changed(ed) != 1 || len(ed.Items) != 2 {
		s.Fatalf("Edit answered %+v, want one of two redriven", ed)
	}
	s.Is(ed.Items[0].Err, sojourn.ErrConflict, "a redrive whose key is taken")
	s.Must(ed.Items[1].Err, "the other redrive")
	kit.Same(s, "generation", s.State(a, sojourn.Failed).Generation, 1)
	s.State(b, sojourn.Ready)
	s.Cancel(owner)
	s.Edited(a, kit.RedriveEdit, sojourn.Ready)
	// Two jobs of one call cannot both take one key.
	c, d := s.Final(sojourn.Failed, kit.OfKind("x"), sojourn.Key("k")).Job.ID, s.Final(sojourn.Failed, kit.OfKind("x"), sojourn.Key("k")).Job.ID
	ed, err = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{c, d}}, kit.RedriveEdit)
	s.Must(err, "Edit")
	kit.Same(s, "changed", kit.Changed(ed), 1)
}

func redriveRefused(s *kit.Scene) {
	ids := everyState(s)
	ids["completed"] = s.Final(sojourn.Completed, kit.OfKind("other")).Job.ID
	for what, id := range kit.InOrder(ids) {
		before := s.Picture(id)
		item := s.Edit(id, kit.RedriveEdit)
		s.Is(item.Err, sojourn.ErrConflict, "redrive of a job that is "+what)
		kit.Same(s, "changed", item.Changed, false)
		s.Unchanged(id, before, "a refused redrive")
	}
}

func redriveKey(s *kit.Scene) {
	c := s.Final(sojourn.Failed, sojourn.Key("k"))
	late := s.Respond("k")
	s.Became(late, sojourn.Late, c.Job.ID)
	s.Edited(c.Job.ID, kit.RedriveEdit, sojourn.Ready)
	if e := s.Put(s.Job(sojourn.Key("k"))); e.ID != c.Job.ID || !e.Duplicate {
		s.Fatalf("an enqueue with the key of a redriven job answered %+v", e)
	}
	d := s.Claim()
	kit.Same(s, "response", d.Job.Response == nil, true)
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Stored(late.Seq, sojourn.Late)
	s.Became(s.Respond("k"), sojourn.Applied, c.Job.ID)
}

func redriveKeptKey(s *kit.Scene) {
	c := s.Final(sojourn.Failed, sojourn.Key("k"), sojourn.KeepKey(time.Hour))
	s.Edited(c.Job.ID, kit.RedriveEdit, sojourn.Ready)
	if e := s.Put(s.Job(sojourn.Key("k"))); e.ID != c.Job.ID || !e.Duplicate || e.State != sojourn.Ready {
		s.Fatalf("an enqueue with the key of a redriven job answered %+v", e)
	}
	s.Advance(2 * time.Hour) // the hold has passed, but the job is live
	s.Became(s.Respond("k"), sojourn.Early, c.Job.ID)
}

func redriveResponse(s *kit.Scene) {
	c := s.Resumed("k")
	s.Cancel(c.Job.ID)
	s.Edited(c.Job.ID, kit.RedriveEdit, sojourn.Ready)
	s.Became(s.Respond("k", kit.Body("new")), sojourn.Early, c.Job.ID)
	d := s.Claim()
	kit.Same(s, "response", d.Job.Response == nil, true)
	kit.Same(s, "resumed", s.Finish(kit.Await(d, 0), sojourn.Ready).Resumed, true)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "new")
}

func redriveMany(s *kit.Scene) {
	var failed []sojourn.ID
	for range 5 {
		failed = append(failed, s.Final(sojourn.Failed).Job.ID)
	}
	done, cancelled := s.Final(sojourn.Completed).Job.ID, s.Final(sojourn.Cancelled).Job.ID
	f := sojourn.Filter{Queue: kit.Queue, States: []sojourn.State{sojourn.Failed}, Reason: "declined"}
	ed, err := s.Store.Edit(s.Ctx, f, kit.RedriveEdit)
	s.Must(err, "Edit")
	kit.Same(s, "changed", kit.Changed(ed), 5)
	for _, id := range failed {
		s.State(id, sojourn.Ready)
	}
	s.State(done, sojourn.Completed)
	s.State(cancelled, sojourn.Cancelled)
	s.Order(s.Drain(), failed) // oldest first
}

func redriveCheckpoint(s *kit.Scene) {
	redriven := func(e sojourn.Edit) string {
		c := s.Running(kit.Typed(jsonTyped))
		s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte(`"stale"`)}), "Save")
		s.Finish(kit.Abort(c), sojourn.Failed)
		e.Action = sojourn.EditRedrive
		s.Edited(c.Job.ID, e, sojourn.Ready)
		d := s.Claim()
		kit.Same(s, "the job", d.Job.ID, c.Job.ID)
		s.Finish(kit.Completed(d), sojourn.Completed)
		return string(d.Job.Checkpoint)
	}
	newer, bad := []byte(`{"page":1}`), []byte("{")
	kit.Same(s, "kept", redriven(sojourn.Edit{}), `"stale"`)
	kit.Same(s, "dropped", redriven(sojourn.Edit{DropCheckpoint: true}), "")
	kit.Same(s, "replaced", redriven(sojourn.Edit{Checkpoint: &newer}), `{"page":1}`)
	c := s.Final(sojourn.Failed, kit.Typed(jsonTyped)) // it had none
	s.Refused(s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive, Checkpoint: &bad}).Err, sojourn.CodeInvalidJSON, "a broken checkpoint")
	both := sojourn.Edit{Action: sojourn.EditRedrive, Checkpoint: &newer, DropCheckpoint: true}
	_, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, both)
	s.Refused(err, sojourn.CodeInvalid, "replaced and dropped")
	s.State(c.Job.ID, sojourn.Failed)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive, DropCheckpoint: true}, sojourn.Ready)
	kit.Same(s, "changed", string(s.Change(c.Job.ID, sojourn.Edit{Checkpoint: &newer}, sojourn.Ready).Checkpoint), `{"page":1}`)
	kit.Same(s, "dropped by a change", string(s.Change(c.Job.ID, sojourn.Edit{DropCheckpoint: true}, sojourn.Ready).Checkpoint), "")
}

func redriveValues(s *kit.Scene) {
	c := s.Final(sojourn.Failed, kit.Typed(jsonTyped), sojourn.Key("k"), sojourn.Tags("a"), sojourn.Group("g"), sojourn.MaxAttempts(9))
	id, before := c.Job.ID, s.Picture(c.Job.ID)
	p, w, g, q, bad, late := int32(7), int32(2), "h", "fresh", []byte("{"), s.Now().Add(sojourn.MaxHorizon+time.Hour)
	redriving := func(c sojourn.Edit) sojourn.Edit {
		c.Action, c.By, c.Generation = sojourn.EditRedrive, "ops", 1
		return c
	}
	s.Refused(s.Edit(id, redriving(sojourn.Edit{Priority: &p, Args: &bad})).Err, sojourn.CodeInvalidJSON, "broken args")
	s.Refused(s.Edit(id, redriving(sojourn.Edit{Priority: &p, RunAt: &late})).Err, sojourn.CodeInvalid, "a run_at that is too late")
	_, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, redriving(sojourn.Edit{Tags: &[]string{""}}))
	s.Refused(err, sojourn.CodeInvalid, "an empty tag")
	s.Unchanged(id, before, "a refused redrive")
	s.Advance(time.Minute)
	newer, runAt := []byte(`{"order":43}`), s.Now().Add(time.Hour)
	all := sojourn.Edit{Priority: &p, Weight: &w, Group: &g, Queue: &q, Args: &newer, RunAt: &runAt, AddTags: &[]string{"b"},
		Checkpoint: &newer, Policy: &sojourn.Policy{MaxAttempts: 2, Deadline: 2 * time.Hour}}
	j := s.Edited(id, redriving(all), sojourn.Scheduled)
	s.At("run_at", j.RunAt, runAt)
	kit.Same(s, "generation", j.Generation, 2)
	kit.Same(s, "queue and group", j.Queue+" "+j.Group, "fresh h")
	kit.Same(s, "priority and weight", [2]int32{j.Priority, j.Weight}, [2]int32{p, w})
	kit.Same(s, "tags", strings.Join(j.Tags, " "), "a b")
	kit.Same(s, "max_attempts", j.Policy.MaxAttempts, 2)
	s.Is(s.Edit(id, redriving(all)).Err, sojourn.ErrConflict, "a repeated redrive")
	s.Advance(time.Hour)
	d := s.Claim(kit.From(q))
	kit.Same(s, "args", string(d.Job.Args), `{"order":43}`)
	kit.Same(s, "checkpoint", string(d.Job.Checkpoint), `{"order":43}`)
	kit.Same(s, "the time left of its life", d.Deadline, time.Hour)
	s.Finish(kit.Completed(d), sojourn.Completed)
}

func cloneFinal(s *kit.Scene) {
	c := sojourn.NewClient(s.Store)
	done := s.Final(sojourn.Completed, sojourn.Key("k"), sojourn.Group("g"), sojourn.Tags("t"), sojourn.Meta("m", "n"), sojourn.Priority(0), sojourn.Weight(0),
		kit.Policy(sojourn.Policy{MaxAttempts: 7}), kit.Args("again")).Job
	for what, e := range map[string]sojourn.Edit{"cancel": {Action: sojourn.EditCancel}, "fail": {Action: sojourn.EditFail}, "redrive": kit.RedriveEdit} {
		err := s.Edit(done.ID, e).Err
		s.Is(err, sojourn.ErrConflict, what+" of a completed job")
		if text := err.Error(); !strings.Contains(text, fmt.Sprintf("sojourn job clone %d", done.ID)) || strings.Contains(text, "redrive it") {
			s.Fatalf("%s of a completed job says %q", what, text)
		}
	}
	failed := s.Final(sojourn.Failed)
	if text := s.Edit(failed.Job.ID, sojourn.Edit{Action: sojourn.EditCancel}).Err.Error(); !strings.Contains(text, "redrive it") {
		s.Fatalf("cancel of a failed job says %q", text)
	}
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Defaults: sojourn.Policy{Deadline: time.Hour}})
	e, err := c.Jobs().Clone(s.Ctx, done.ID)
	s.Must(err, "Clone")
	kit.Same(s, "another id", e.ID != done.ID && !e.Duplicate, true)
	j := s.Get(e.ID)
	kit.Same(s, "content", kit.Text([]any{j.Kind, j.Queue, j.Key, j.Group, j.Tags, j.Meta, j.Priority, j.Weight, string(j.Args), j.ContentType, j.Policy}),
		kit.Text([]any{done.Kind, done.Queue, done.Key, done.Group, done.Tags, done.Meta, done.Priority, done.Weight, string(done.Args), done.ContentType, done.Policy}))
	kit.Same(s, "of its own life", kit.Text([]any{j.State, j.Generation, j.Attempt, j.Epoch}), kit.Text([]any{sojourn.Ready, 1, 0, 0}))
	s.State(done.ID, sojourn.Completed)
	_, err = c.Jobs().Clone(s.Ctx, done.ID)
	s.Is(err, sojourn.ErrConflict, "a clone whose key a live job has")
	e, err = c.Jobs().Clone(s.Ctx, done.ID, sojourn.Key("k2"))
	s.Must(err, "Clone with another key")
	kit.Same(s, "its key", s.Get(e.ID).Key, "k2")
	_, err = c.Jobs().Clone(s.Ctx, 1<<40)
	s.Is(err, sojourn.ErrNotFound, "a clone of an unknown job")
}
