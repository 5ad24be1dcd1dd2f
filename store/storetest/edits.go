package storetest

import (
	"github.com/sojourn-queue/sojourn"
)

func (s *asOperator) change(id sojourn.ID, c sojourn.Change, want sojourn.State) sojourn.Job {
	s.Helper()
	return s.edited(id, sojourn.Edit{Action: sojourn.EditChange, By: "ops", Reason: "asked", Change: c}, want)
}

func (s *asOperator) paused(on bool) { s.Helper(); s.setQueue(line, sojourn.QueueSettings{Paused: on}) }

var redriveEdit = sojourn.Edit{Action: sojourn.EditRedrive, By: "ops"}

// edit changes one job and returns the answer for it.
func (s *asOperator) edit(id sojourn.ID, e sojourn.Edit) sojourn.EditedItem {
	s.Helper()
	ed, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, e)
	s.must(err, "Edit")
	if len(ed.Items) != 1 || ed.Items[0].ID != id {
		s.Fatalf("Edit of job %d answered %+v", id, ed)
	}
	if n := ed.Changed; (n == 1) != ed.Items[0].Changed || n > 1 {
		s.Fatalf("Edit counts %d changed, its item says %v", n, ed.Items[0].Changed)
	}
	return ed.Items[0]
}

// edited wants an edit to change the job.
func (s *asOperator) edited(id sojourn.ID, e sojourn.Edit, want sojourn.State) sojourn.Job {
	s.Helper()
	if item := s.edit(id, e); item.Err != nil || !item.Changed || item.State != want {
		s.Fatalf("Edit %s of job %d answered %+v, want it changed and %s", e.Action, id, item, want)
	}
	return s.state(id, want)
}

// cancel ends a live job.
func (s *asOperator) cancel(id sojourn.ID) {
	s.Helper()
	s.edited(id, sojourn.Edit{Action: sojourn.EditCancel, By: "ops", Reason: "asked"}, sojourn.Cancelled)
}
