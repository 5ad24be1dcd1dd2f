package jobs

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var cancelTrials = []kit.Trial{
	{Name: "cancel in every state", Law: "Cancel ends a job in any live state, at once, and says by whom and why.",
		Covers: "tr:O1 spec:P8 spec:P9 spec:S5 inv:C2 inv:U2 inv:T2", Run: cancelEverywhere},
	{Name: "rules:A5 cancel a running job", Law: "A running job is final in the cancel's own transaction; its worker learns it at the next Extend.",
		Covers: "tr:O1 rules:A5 spec:P8 inv:C2", Run: cancelRunning},
	{Name: "cancel refuses running jobs if asked to", Law: "With Refuse a running job is left alone.", Covers: "tr:O1 spec:P8 rules:A5", Run: cancelRefuse},
	{Name: "cancel twice", Law: "Cancel of a cancelled job changes nothing and is no error; of a job that ended otherwise it is ErrConflict.",
		Covers: "tr:O1 rules:A7 inv:S2", Run: cancelTwice},
	{Name: "an operator fails a job", Law: "An operator may fail any live job, with a reason.", Covers: "tr:O1 spec:S10", Run: failEverywhere},
	{Name: "edit many", Law: "One call edits all jobs that the filter finds; one refusal does not stop the others.",
		Covers: "tr:O1 inv:P4 rules:A7 spec:P10", Run: editMany},
	{Name: "edit at most a thousand", Law: "An Edit changes at most MaxFind jobs and says whether there may be more.", Covers: "tr:O1 spec:R9", Run: editBounded},
	{Name: "edit refuses bad input", Law: "A malformed edit is refused with a code.", Covers: "spec:A16 tr:O5", Run: editBad},
	{Name: "edit of nothing", Law: "An Edit that finds nothing changes nothing and is no error.", Covers: "tr:O1", Run: editNothing},
}

// everyState makes one job in each live state. Each has its own kind-wide key, so that they do not
// meet.
func everyState(s *kit.Scene) map[string]sojourn.ID {
	s.Helper()
	return map[string]sojourn.ID{
		"errored":   s.Errored(sojourn.Key("errored")).Job.ID,
		"retrying":  s.Retrying(sojourn.Key("retrying")).Job.ID,
		"running":   s.Running(sojourn.Key("running")).Job.ID,
		"awaiting":  s.Awaiting(sojourn.Key("awaiting")).Job.ID,
		"resumed":   s.Resumed("resumed").Job.ID,
		"scheduled": s.Enqueue(sojourn.Key("scheduled"), sojourn.Delay(time.Hour)),
		"ready":     s.Enqueue(sojourn.Key("ready")),
	}
}

func cancelEverywhere(s *kit.Scene) {
	for what, id := range kit.InOrder(everyState(s)) {
		before := s.History(id)
		running := s.Get(id).State == sojourn.Running
		j := s.Edited(id, sojourn.Edit{Action: sojourn.EditCancel, By: "ops", Reason: "asked"}, sojourn.Cancelled)
		kit.Same(s, what+": reason", j.Reason, "asked")
		s.At(what+": finished_at", j.FinishedAt, s.Now())
		as := s.History(id)
		kit.Same(s, what+": entries added", len(as)-len(before), 1)
		a := as[len(as)-1]
		kit.Same(s, what+": outcome", a.Outcome, "cancelled")
		kit.Same(s, what+": by", a.By, "ops")
		kit.Same(s, what+": reason in the history", a.Reason, "asked")
		kit.Same(s, what+": state", a.State, sojourn.Cancelled)
		kit.Same(s, what+": it ended a step", a.Epoch > 0, running)
		s.Enqueue(sojourn.Key(what), sojourn.Delay(48*time.Hour)) // the key is free
	}
	s.InFlight(0, "after the cancels")
	s.ClaimNone("all are cancelled")
	s.Swept(24*time.Hour, driver.Swept{})
}

func cancelRunning(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	s.Advance(time.Second)
	s.Cancel(c.Job.ID)
	s.InFlight(0, "at once")
	kit.Same(s, "why the lease is lost", s.Extends(c.Lease, false), driver.LostCancelled)
	kit.Same(s, "why the report is lost", s.Reports(kit.Completed(c), driver.FinishLost).Reason, driver.LostCancelled)
	s.Is(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("x")}), sojourn.ErrLeaseLost, "Save after the cancel")
	a := s.Happened(c.Job.ID, "cancelled")[0]
	kit.Same(s, "epoch in the history", a.Epoch, 1)
	kit.Same(s, "worker in the history", a.Worker, "w1")
	s.At("began_at", a.BeganAt, s.Now().Add(-time.Second))
	s.Swept(kit.LeaseTime, driver.Swept{})
}

func cancelRefuse(s *kit.Scene) {
	c := s.Running()
	before := s.Picture(c.Job.ID)
	for _, action := range []sojourn.EditAction{sojourn.EditCancel, sojourn.EditFail} {
		item := s.Edit(c.Job.ID, sojourn.Edit{Action: action, Refuse: true})
		s.Is(item.Err, sojourn.ErrConflict, "a refusing edit of a running job")
		kit.Same(s, "changed", item.Changed, false)
		s.Unchanged(c.Job.ID, before, "a refused edit")
	}
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditCancel, Refuse: true}, sojourn.Cancelled)
}

func cancelTwice(s *kit.Scene) {
	c := s.Final(sojourn.Cancelled)
	s.Advance(time.Second)
	before := s.Picture(c.Job.ID)
	item := s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditCancel, By: "other", Reason: "again"})
	if item.Changed || item.Err != nil || item.State != sojourn.Cancelled {
		s.Fatalf("cancel of a cancelled job answered %+v", item)
	}
	s.Unchanged(c.Job.ID, before, "a second cancel")
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed} {
		d := s.Final(end)
		before := s.Picture(d.Job.ID)
		item := s.Edit(d.Job.ID, sojourn.Edit{Action: sojourn.EditCancel})
		s.Is(item.Err, sojourn.ErrConflict, "cancel of a job that is "+end.String())
		kit.Same(s, "changed", item.Changed, false)
		s.Unchanged(d.Job.ID, before, "a refused cancel")
	}
}

func failEverywhere(s *kit.Scene) {
	for what, id := range kit.InOrder(everyState(s)) {
		j := s.Edited(id, sojourn.Edit{Action: sojourn.EditFail, By: "ops", Reason: "broken"}, sojourn.Failed)
		kit.Same(s, what+": reason", j.Reason, "broken")
		as := s.History(id)
		kit.Same(s, what+": outcome", as[len(as)-1].Outcome, "failed")
		kit.Same(s, what+": by", as[len(as)-1].By, "ops")
	}
	s.InFlight(0, "after the failures")
	c := s.Final(sojourn.Failed)
	item := s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditFail})
	kit.Same(s, "changed by a second fail", item.Changed, false)
}

func editMany(s *kit.Scene) {
	a, b := s.Enqueue(sojourn.Tags("x")), s.Enqueue(sojourn.Tags("x"), sojourn.Delay(time.Hour))
	done := s.Final(sojourn.Completed, sojourn.Tags("x"), sojourn.Priority(1)).Job.ID
	other := s.Enqueue(sojourn.Tags("y"))
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{Tag: "x"}, sojourn.Edit{Action: sojourn.EditCancel, By: "ops"})
	s.Must(err, "Edit")
	if kit.Changed(ed) != 2 || len(ed.Items) != 3 || (ed.Next != "") {
		s.Fatalf("Edit answered %+v, want 2 of 3 changed", ed)
	}
	for _, item := range ed.Items {
		if item.ID == done {
			s.Is(item.Err, sojourn.ErrConflict, "the completed job")
		} else {
			s.Must(item.Err, "job %d", item.ID)
		}
	}
	s.State(a, sojourn.Cancelled)
	s.State(b, sojourn.Cancelled)
	s.State(done, sojourn.Completed)
	s.State(other, sojourn.Ready)
}

func editBounded(s *kit.Scene) {
	for range 3 {
		s.EnqueueMany(335, sojourn.Queue("many"))
	}
	e := sojourn.Edit{Action: sojourn.EditCancel}
	f := sojourn.Filter{Queue: "many", States: []sojourn.State{sojourn.Ready}, Limit: sojourn.MaxFind}
	ed, err := s.Store.Edit(s.Ctx, f, e)
	s.Must(err, "Edit")
	if kit.Changed(ed) != 1000 || len(ed.Items) != 1000 || !(ed.Next != "") {
		s.Fatalf("Edit of 1,005 jobs changed %d, answered %d and more %v", kit.Changed(ed), len(ed.Items), (ed.Next != ""))
	}
	ed, err = s.Store.Edit(s.Ctx, f, e)
	s.Must(err, "Edit")
	if kit.Changed(ed) != 5 || (ed.Next != "") {
		s.Fatalf("Edit of the rest changed %d, more %v", kit.Changed(ed), (ed.Next != ""))
	}
	kit.Same(s, "cancelled", s.Queue("many").Counts[sojourn.Cancelled], 1005)
}

func editBad(s *kit.Scene) {
	id := s.Enqueue()
	before := s.Picture(id)
	w, g, d, q := int32(-1), "a\nb", time.Duration(-1), "no queue"
	far := s.Now().Add(2 * sojourn.MaxHorizon)
	for what, e := range kit.InOrder(map[string]sojourn.Edit{
		"no action":      {},
		"unknown action": {Action: "explode"},
		"nothing":        {Action: sojourn.EditChange},
		"weight":         {Action: sojourn.EditChange, Weight: &w},
		"group":          {Action: sojourn.EditChange, Group: &g},
		"delay":          {Action: sojourn.EditChange, Delay: &d},
		"queue":          {Action: sojourn.EditChange, Queue: &q},
		"tags":           {Action: sojourn.EditChange, Tags: &[]string{"a b"}},
		"policy":         {Action: sojourn.EditChange, Policy: &sojourn.Policy{MaxAttempts: -7}},
		"run_at":         {Action: sojourn.EditChange, RunAt: &far},
	}) {
		ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, e)
		if err == nil && len(ed.Items) == 1 {
			err = ed.Items[0].Err // the store may check against its clock per job
		}
		s.Refused(err, sojourn.CodeInvalid, what)
		s.Unchanged(id, before, "a refused edit")
	}
	_, err := s.Store.Edit(s.Ctx, sojourn.Filter{Limit: -1}, sojourn.Edit{Action: sojourn.EditCancel})
	s.Refused(err, sojourn.CodeInvalid, "a bad filter")
}

func editNothing(s *kit.Scene) {
	for _, action := range []sojourn.EditAction{sojourn.EditCancel, sojourn.EditFail, sojourn.EditRedrive, sojourn.EditPurge} {
		ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{Kind: "unknown"}, sojourn.Edit{Action: action})
		s.Must(err, "Edit %s of nothing", action)
		if kit.Changed(ed) != 0 || len(ed.Items) != 0 || (ed.Next != "") {
			s.Fatalf("Edit %s of nothing answered %+v", action, ed)
		}
	}
}
