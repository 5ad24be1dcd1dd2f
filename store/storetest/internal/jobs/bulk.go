package jobs

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var bulkTrials = []kit.Trial{
	{Name: "an empty list matches nothing", Law: "A list of a filter that has no entries matches no job, in Find and in every edit.",
		Covers: "spec:O12 spec:A16", Run: emptyList},
	{Name: "an edit without a condition is refused", Law: "An edit whose filter has no condition is refused, unless it says All.",
		Covers: "spec:A16 tr:O1", Run: editAll},
	{Name: "an edit counts its jobs in a dry run", Law: "A dry run changes nothing and counts the jobs that the filter matches.",
		Covers: "spec:O12 spec:R9", Run: dryRun},
	{Name: "an edit of an unknown id", Law: "An id that no job has is answered with ErrNotFound; the other jobs of the call are edited.",
		Covers: "spec:P9", Run: editUnknown},
}

// edits are one edit of each action, each possible for one of the jobs of mixed.
func edits() []sojourn.Edit {
	p := int32(7)
	return []sojourn.Edit{{Action: sojourn.EditCancel}, {Action: sojourn.EditFail}, {Action: sojourn.EditRedrive}, {Action: sojourn.EditPurge},
		{Action: sojourn.EditChange, Priority: &p}, {Action: sojourn.EditChange, Tags: &[]string{"t"}}}
}

// mixed makes a ready, a failed and a completed job, old enough to be purged.
func mixed(s *kit.Scene) []sojourn.ID {
	failed, done := s.Final(sojourn.Failed).Job.ID, s.Final(sojourn.Completed).Job.ID
	s.Advance(time.Hour)
	return []sojourn.ID{s.Enqueue(), failed, done}
}

func emptyList(s *kit.Scene) {
	ids := mixed(s)
	empty := []sojourn.Filter{{IDs: []sojourn.ID{}}, {States: []sojourn.State{}}, {IDs: ids, States: []sojourn.State{}}, {IDs: []sojourn.ID{}, Queue: kit.Queue}}
	for _, f := range empty {
		s.Finds(f)
		f.Full, f.Limit = true, 10
		s.Finds(f)
		for _, e := range edits() {
			before := []string{s.Picture(ids[0]), s.Picture(ids[1]), s.Picture(ids[2])}
			ed, err := s.Store.Edit(s.Ctx, f, e)
			s.Must(err, "Edit %s with an empty list", e.Action)
			if kit.Changed(ed) != 0 || len(ed.Items) != 0 || (ed.Next != "") {
				s.Fatalf("Edit %s with an empty list answered %s, want nothing", e.Action, kit.Text(ed))
			}
			for i, id := range ids {
				s.Unchanged(id, before[i], "an edit with an empty list")
			}
		}
	}
	kit.Same(s, "responses of no outcome", len(s.Inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{}})), 0)
}

func editAll(s *kit.Scene) {
	ids := mixed(s)
	for _, e := range edits() {
		before := []string{s.Picture(ids[0]), s.Picture(ids[1]), s.Picture(ids[2])}
		for _, f := range []sojourn.Filter{{}, {Limit: 1, Newest: true, After: ids[1].String(), Full: true}} {
			_, err := s.Store.Edit(s.Ctx, f, e)
			s.Refused(err, sojourn.CodeInvalid, "an edit without a condition: "+string(e.Action))
		}
		for i, id := range ids {
			s.Unchanged(id, before[i], "a refused edit")
		}
	}
	everything := sojourn.Edit{Action: sojourn.EditCancel, All: true}
	_, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: ids}, everything)
	s.Refused(err, sojourn.CodeInvalid, "all jobs, and only some")
	_, err = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{}}, everything)
	s.Refused(err, sojourn.CodeInvalid, "all jobs, and none")
	more := s.EnqueueMany(2)
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{}, everything)
	s.Must(err, "Edit of all jobs")
	kit.Same(s, "changed", kit.Changed(ed), 3)
	kit.Same(s, "items", len(ed.Items), 5)
	for _, id := range append(more, ids[0]) {
		s.State(id, sojourn.Cancelled)
	}
}

func dryRun(s *kit.Scene) {
	ids := mixed(s)
	many := append(s.EnqueueMany(29, sojourn.Tags("t")), s.Enqueue(sojourn.Tags("t"), sojourn.Key("one of them")))
	counts := []struct {
		f    sojourn.Filter
		want int
	}{{sojourn.Filter{Queue: kit.Queue}, 3 + len(many)}, {sojourn.Filter{Queue: kit.Queue, Limit: 2}, 3 + len(many)}, {sojourn.Filter{Tag: "t", States: []sojourn.State{sojourn.Ready}}, len(many)},
		{sojourn.Filter{States: []sojourn.State{sojourn.Failed}}, 1}, {sojourn.Filter{IDs: append([]sojourn.ID{1 << 40}, ids...)}, 3}, {sojourn.Filter{IDs: []sojourn.ID{}}, 0},
		{sojourn.Filter{Kind: kit.Kind, Key: "one of them"}, 1}, {sojourn.Filter{Kind: kit.Kind, Key: "none"}, 0}}
	before := s.Picture(ids[0])
	for _, c := range counts {
		ed, err := s.Store.Edit(s.Ctx, c.f, sojourn.Edit{Action: sojourn.EditCancel, DryRun: true})
		s.Must(err, "a dry run")
		if ed.Total != c.want || kit.Changed(ed) != 0 || len(ed.Items) != 0 {
			s.Fatalf("a dry run of %s answered %s, want %d matched", kit.Text(c.f), kit.Text(ed), c.want)
		}
	}
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{}, sojourn.Edit{Action: sojourn.EditPurge, DryRun: true, All: true})
	s.Must(err, "a dry run over all jobs")
	kit.Same(s, "matched", ed.Total, 3+len(many))
	_, err = s.Store.Edit(s.Ctx, sojourn.Filter{}, sojourn.Edit{Action: sojourn.EditPurge, DryRun: true})
	s.Refused(err, sojourn.CodeInvalid, "a dry run without a condition")
	s.Unchanged(ids[0], before, "a dry run")
}

func editUnknown(s *kit.Scene) {
	id := s.Enqueue()
	unknown := sojourn.ID(1) << 40
	for _, e := range edits() {
		item := s.Edit(unknown, e)
		s.Is(item.Err, sojourn.ErrNotFound, "edit of an unknown id: "+string(e.Action))
		kit.Same(s, "changed", item.Changed, false)
	}
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{unknown, id, unknown + 1, unknown}}, sojourn.Edit{Action: sojourn.EditCancel})
	s.Must(err, "Edit")
	if len(ed.Items) != 3 || kit.Changed(ed) != 1 || ed.Items[0].ID != id || ed.Items[1].ID != unknown || ed.Items[2].ID != unknown+1 {
		s.Fatalf("Edit of a known and two unknown ids answered %s", kit.Text(ed))
	}
	s.Is(ed.Items[1].Err, sojourn.ErrNotFound, "the first unknown id")
	s.Is(ed.Items[2].Err, sojourn.ErrNotFound, "the second unknown id")
	// A job that is there, and that the other conditions leave out, is not missing.
	ed, err = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{unknown, id}, States: []sojourn.State{sojourn.Ready}}, sojourn.Edit{Action: sojourn.EditCancel})
	s.Must(err, "Edit with states")
	if len(ed.Items) != 1 || ed.Items[0].ID != unknown {
		s.Fatalf("Edit of a job in another state answered %s", kit.Text(ed))
	}
	s.Is(ed.Items[0].Err, sojourn.ErrNotFound, "the unknown id")
}
