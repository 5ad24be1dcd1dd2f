package kit

import "github.com/sojourn-queue/sojourn"

// asOperator calls the store as operators do.
type asOperator struct{ *environment }

// Edit changes one job and returns the answer for it.
func (s *asOperator) Edit(id sojourn.ID, e sojourn.Edit) sojourn.Edited {
	s.Helper()
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, e)
	s.Must(err, "Edit")
	if len(ed.Items) != 1 || ed.Items[0].ID != id {
		s.Fatalf("Edit of job %d answered %+v", id, ed)
	}
	return ed.Items[0]
}

// Edited wants an edit to change the job.
func (s *asOperator) Edited(id sojourn.ID, e sojourn.Edit, want sojourn.State) sojourn.Job {
	s.Helper()
	if item := s.Edit(id, e); item.Err != nil || !item.Changed || item.State != want {
		s.Fatalf("Edit %s of job %d answered %+v, want it changed and %s", e.Action, id, item, want)
	}
	return s.State(id, want)
}

// Changed counts the jobs that an edit has changed.
func Changed(edited sojourn.Page[sojourn.Edited]) (n int) {
	for _, item := range edited.Items {
		if item.Changed {
			n++
		}
	}
	return n
}

// Change wants a change to succeed and to leave the job in a state.
func (s *asOperator) Change(id sojourn.ID, c sojourn.Edit, want sojourn.State) sojourn.Job {
	s.Helper()
	c.Action, c.By, c.Reason = sojourn.EditChange, "ops", "asked"
	return s.Edited(id, c, want)
}

// Cancel ends a live job.
func (s *asOperator) Cancel(id sojourn.ID) {
	s.Helper()
	s.Edited(id, sojourn.Edit{Action: sojourn.EditCancel, By: "ops", Reason: "asked"}, sojourn.Cancelled)
}

// RedriveEdit redrives the jobs that it is used on.
var RedriveEdit = sojourn.Edit{Action: sojourn.EditRedrive, By: "ops"}

// SetQueue replaces the settings of a queue.
func (s *asOperator) SetQueue(name string, q sojourn.QueueSettings) {
	s.Helper()
	s.Must(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, name, q), "SetQueue")
}

// Paused pauses the queue or lets it run.
func (s *asOperator) Paused(on bool) {
	s.Helper()
	s.SetQueue(Queue, sojourn.QueueSettings{Paused: on})
}

// InFlight wants the queue to count n jobs of weight 1 in flight.
func (s *asOperator) InFlight(want int64, when string) {
	s.Helper()
	if got := s.Queue(Queue).InFlight; got != want {
		s.Fatalf("%s: the queue has %d in flight, want %d", when, got, want)
	}
}

// Forget removes an empty queue.
func (s *asOperator) Forget(name string) error {
	_, err := s.Store.ForgetQueue(s.Ctx, name, sojourn.ForgetOptions{})
	return err
}
