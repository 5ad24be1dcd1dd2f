package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var cancelTrials = []trial{
	{"cancel in every state", "Cancel ends a job in any live state, at once, and says by whom and why.", "tr:O1 spec:P8 spec:P9 spec:S5 inv:C2 inv:U2 inv:T2", cancelEverywhere},
	{"rules:A5 cancel a running job", "A running job is final in the cancel's own transaction; its worker learns it at the next Extend.",
		"tr:O1 rules:A5 spec:P8 inv:C2", cancelRunning},
	{"cancel refuses running jobs if asked to", "With Refuse a running job is left alone.", "tr:O1 spec:P8 rules:A5", cancelRefuse},
	{"cancel twice", "Cancel of a cancelled job changes nothing and is no error; of a job that ended otherwise it is ErrConflict.",
		"tr:O1 rules:A7 inv:S2", cancelTwice},
	{"an operator fails a job", "An operator may fail any live job, with a reason.", "tr:O1 spec:S10", failEverywhere},
	{"edit many", "One call edits all jobs that the filter finds; one refusal does not stop the others.", "tr:O1 inv:P4 rules:A7 spec:P10", editMany},
	{"edit at most a thousand", "An Edit changes at most MaxFind jobs and says whether there may be more.", "tr:O1 spec:R9", editBounded},
	{"edit refuses bad input", "A malformed edit is refused with a code.", "spec:A16 tr:O5", editBad},
	{"edit of nothing", "An Edit that finds nothing changes nothing and is no error.", "tr:O1", editNothing},
}

// everyState makes one job in each live state. Each has its own kind-wide key, so that they do not
// meet.
func (s *scene) everyState() map[string]sojourn.ID {
	s.Helper()
	return map[string]sojourn.ID{
		"errored":   s.errored(sojourn.Key("errored")).Job.ID,
		"retrying":  s.retrying(sojourn.Key("retrying")).Job.ID,
		"running":   s.running(sojourn.Key("running")).Job.ID,
		"awaiting":  s.awaiting(sojourn.Key("awaiting")).Job.ID,
		"resumed":   s.resumed("resumed").Job.ID,
		"scheduled": s.enqueue(sojourn.Key("scheduled"), sojourn.Delay(time.Hour)),
		"ready":     s.enqueue(sojourn.Key("ready")),
	}
}

func cancelEverywhere(s *scene) {
	for what, id := range inOrder(s.everyState()) {
		before := s.history(id)
		running := s.get(id).State == sojourn.Running
		j := s.edited(id, sojourn.Edit{Action: sojourn.EditCancel, By: "ops", Reason: "asked"}, sojourn.Cancelled)
		same(s, what+": reason", j.Reason, "asked")
		s.at(what+": finished_at", j.FinishedAt, s.now())
		as := s.history(id)
		same(s, what+": entries added", len(as)-len(before), 1)
		a := as[len(as)-1]
		same(s, what+": outcome", a.Outcome, "cancelled")
		same(s, what+": by", a.By, "ops")
		same(s, what+": reason in the history", a.Reason, "asked")
		same(s, what+": state", a.State, sojourn.Cancelled)
		same(s, what+": it ended a step", a.Epoch > 0, running)
		s.enqueue(sojourn.Key(what), sojourn.Delay(48*time.Hour)) // the key is free
	}
	s.inFlight(0, "after the cancels")
	s.claimNone("all are cancelled")
	s.swept(24*time.Hour, driver.Swept{})
}

func cancelRunning(s *scene) {
	c := s.running(sojourn.Key("k"))
	s.advance(time.Second)
	s.cancel(c.Job.ID)
	s.inFlight(0, "at once")
	same(s, "why the lease is lost", s.extends(c.Lease, false), driver.LostCancelled)
	same(s, "why the report is lost", s.reports(completed(c), driver.FinishLost).Reason, driver.LostCancelled)
	s.is(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("x")}), sojourn.ErrLeaseLost, "Save after the cancel")
	a := s.happened(c.Job.ID, "cancelled")[0]
	same(s, "epoch in the history", a.Epoch, 1)
	same(s, "worker in the history", a.Worker, "w1")
	s.at("began_at", a.BeganAt, s.now().Add(-time.Second))
	s.swept(lease, driver.Swept{})
}

func cancelRefuse(s *scene) {
	c := s.running()
	before := s.picture(c.Job.ID)
	for _, action := range []sojourn.EditAction{sojourn.EditCancel, sojourn.EditFail} {
		item := s.edit(c.Job.ID, sojourn.Edit{Action: action, Refuse: true})
		s.is(item.Err, sojourn.ErrConflict, "a refusing edit of a running job")
		same(s, "changed", item.Changed, false)
		s.unchanged(c.Job.ID, before, "a refused edit")
	}
	s.finish(await(c, 0), sojourn.Awaiting)
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditCancel, Refuse: true}, sojourn.Cancelled)
}

func cancelTwice(s *scene) {
	c := s.final(sojourn.Cancelled)
	s.advance(time.Second)
	before := s.picture(c.Job.ID)
	item := s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditCancel, By: "other", Reason: "again"})
	if item.Changed || item.Err != nil || item.State != sojourn.Cancelled {
		s.Fatalf("cancel of a cancelled job answered %+v", item)
	}
	s.unchanged(c.Job.ID, before, "a second cancel")
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed} {
		d := s.final(end)
		before := s.picture(d.Job.ID)
		item := s.edit(d.Job.ID, sojourn.Edit{Action: sojourn.EditCancel})
		s.is(item.Err, sojourn.ErrConflict, "cancel of a job that is "+end.String())
		same(s, "changed", item.Changed, false)
		s.unchanged(d.Job.ID, before, "a refused cancel")
	}
}

func failEverywhere(s *scene) {
	for what, id := range inOrder(s.everyState()) {
		j := s.edited(id, sojourn.Edit{Action: sojourn.EditFail, By: "ops", Reason: "broken"}, sojourn.Failed)
		same(s, what+": reason", j.Reason, "broken")
		as := s.history(id)
		same(s, what+": outcome", as[len(as)-1].Outcome, "failed")
		same(s, what+": by", as[len(as)-1].By, "ops")
	}
	s.inFlight(0, "after the failures")
	c := s.final(sojourn.Failed)
	item := s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditFail})
	same(s, "changed by a second fail", item.Changed, false)
}

func editMany(s *scene) {
	a, b := s.enqueue(sojourn.Tags("x")), s.enqueue(sojourn.Tags("x"), sojourn.Delay(time.Hour))
	done := s.final(sojourn.Completed, sojourn.Tags("x"), sojourn.Priority(1)).Job.ID
	other := s.enqueue(sojourn.Tags("y"))
	ed, err := s.store.Edit(s.ctx, sojourn.Filter{Tag: "x"}, sojourn.Edit{Action: sojourn.EditCancel, By: "ops"})
	s.must(err, "Edit")
	if ed.Changed != 2 || len(ed.Items) != 3 || ed.More {
		s.Fatalf("Edit answered %+v, want 2 of 3 changed", ed)
	}
	for _, item := range ed.Items {
		if item.ID == done {
			s.is(item.Err, sojourn.ErrConflict, "the completed job")
		} else {
			s.must(item.Err, "job %d", item.ID)
		}
	}
	s.state(a, sojourn.Cancelled)
	s.state(b, sojourn.Cancelled)
	s.state(done, sojourn.Completed)
	s.state(other, sojourn.Ready)
}

func editBounded(s *scene) {
	for range 3 {
		s.enqueueMany(335, sojourn.Queue("many"))
	}
	e := sojourn.Edit{Action: sojourn.EditCancel}
	f := sojourn.Filter{Queue: "many", States: []sojourn.State{sojourn.Ready}, Limit: sojourn.MaxFind}
	ed, err := s.store.Edit(s.ctx, f, e)
	s.must(err, "Edit")
	if ed.Changed != 1000 || len(ed.Items) != 1000 || !ed.More {
		s.Fatalf("Edit of 1,005 jobs changed %d, answered %d and more %v", ed.Changed, len(ed.Items), ed.More)
	}
	ed, err = s.store.Edit(s.ctx, f, e)
	s.must(err, "Edit")
	if ed.Changed != 5 || ed.More {
		s.Fatalf("Edit of the rest changed %d, more %v", ed.Changed, ed.More)
	}
	same(s, "cancelled", s.queue("many").Counts[sojourn.Cancelled], 1005)
}

func editBad(s *scene) {
	id := s.enqueue()
	before := s.picture(id)
	w, g, d, q := int32(-1), "a\nb", time.Duration(-1), "no queue"
	far := s.now().Add(2 * sojourn.MaxHorizon)
	for what, e := range inOrder(map[string]sojourn.Edit{
		"no action":      {},
		"unknown action": {Action: "explode"},
		"nothing":        {Action: sojourn.EditChange},
		"weight":         {Action: sojourn.EditChange, Change: sojourn.Change{Weight: &w}},
		"group":          {Action: sojourn.EditChange, Change: sojourn.Change{Group: &g}},
		"delay":          {Action: sojourn.EditChange, Change: sojourn.Change{Delay: &d}},
		"queue":          {Action: sojourn.EditChange, Change: sojourn.Change{Queue: &q}},
		"tags":           {Action: sojourn.EditChange, Change: sojourn.Change{Tags: &[]string{"a b"}}},
		"policy":         {Action: sojourn.EditChange, Change: sojourn.Change{Policy: &sojourn.Policy{MaxAttempts: -7}}},
		"run_at":         {Action: sojourn.EditChange, Change: sojourn.Change{RunAt: &far}},
	}) {
		ed, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, e)
		if err == nil && len(ed.Items) == 1 {
			err = ed.Items[0].Err // the store may check against its clock per job
		}
		s.refused(err, sojourn.CodeInvalid, what)
		s.unchanged(id, before, "a refused edit")
	}
	_, err := s.store.Edit(s.ctx, sojourn.Filter{Limit: -1}, sojourn.Edit{Action: sojourn.EditCancel})
	s.refused(err, sojourn.CodeInvalid, "a bad filter")
}

func editNothing(s *scene) {
	for _, action := range []sojourn.EditAction{sojourn.EditCancel, sojourn.EditFail, sojourn.EditRedrive, sojourn.EditPurge} {
		ed, err := s.store.Edit(s.ctx, sojourn.Filter{Kind: "unknown"}, sojourn.Edit{Action: action})
		s.must(err, "Edit %s of nothing", action)
		if ed.Changed != 0 || len(ed.Items) != 0 || ed.More {
			s.Fatalf("Edit %s of nothing answered %+v", action, ed)
		}
	}
}
