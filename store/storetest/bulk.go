package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
)

var bulkTrials = []trial{
	{"an empty list matches nothing", "A list of a filter that has no entries matches no job, in Find and in every edit.", "spec:O12 spec:A16", emptyList},
	{"an edit without a condition is refused", "An edit whose filter has no condition is refused, unless it says All.", "spec:A16 tr:O1", editAll},
	{"an edit counts its jobs in a dry run", "A dry run changes nothing and counts the jobs that the filter matches.", "spec:O12 spec:R9", dryRun},
	{"an edit of an unknown id", "An id that no job has is answered with ErrNotFound; the other jobs of the call are edited.", "spec:P9", editUnknown},
}

// edits are one edit of each action, each possible for one of the jobs of mixed.
func edits() []sojourn.Edit {
	p := int32(7)
	return []sojourn.Edit{{Action: sojourn.EditCancel}, {Action: sojourn.EditFail}, {Action: sojourn.EditRedrive}, {Action: sojourn.EditPurge},
		{Action: sojourn.EditChange, Change: sojourn.Change{Priority: &p}}, {Action: sojourn.EditChange, Change: sojourn.Change{Tags: &[]string{"t"}}}}
}

// mixed makes a ready, a failed and a completed job, old enough to be purged.
func (s *scene) mixed() []sojourn.ID {
	failed, done := s.final(sojourn.Failed).Job.ID, s.final(sojourn.Completed).Job.ID
	s.advance(time.Hour)
	return []sojourn.ID{s.enqueue(), failed, done}
}

func emptyList(s *scene) {
	ids := s.mixed()
	empty := []sojourn.Filter{{IDs: []sojourn.ID{}}, {States: []sojourn.State{}}, {IDs: ids, States: []sojourn.State{}}, {IDs: []sojourn.ID{}, Queue: line}}
	for _, f := range empty {
		s.finds(f)
		f.Full, f.Limit = true, 10
		s.finds(f)
		for _, e := range edits() {
			before := []string{s.picture(ids[0]), s.picture(ids[1]), s.picture(ids[2])}
			ed, err := s.store.Edit(s.ctx, f, e)
			s.must(err, "Edit %s with an empty list", e.Action)
			if ed.Changed != 0 || len(ed.Items) != 0 || ed.More {
				s.Fatalf("Edit %s with an empty list answered %s, want nothing", e.Action, text(ed))
			}
			for i, id := range ids {
				s.unchanged(id, before[i], "an edit with an empty list")
			}
		}
	}
	same(s, "responses of no outcome", len(s.inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{}})), 0)
}

func editAll(s *scene) {
	ids := s.mixed()
	for _, e := range edits() {
		before := []string{s.picture(ids[0]), s.picture(ids[1]), s.picture(ids[2])}
		for _, f := range []sojourn.Filter{{}, {Limit: 1, Newest: true, After: ids[1].String(), Full: true}} {
			_, err := s.store.Edit(s.ctx, f, e)
			s.refused(err, sojourn.CodeInvalid, "an edit without a condition: "+string(e.Action))
		}
		for i, id := range ids {
			s.unchanged(id, before[i], "a refused edit")
		}
	}
	everything := sojourn.Edit{Action: sojourn.EditCancel, All: true}
	_, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: ids}, everything)
	s.refused(err, sojourn.CodeInvalid, "all jobs, and only some")
	_, err = s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{}}, everything)
	s.refused(err, sojourn.CodeInvalid, "all jobs, and none")
	more := s.enqueueMany(2)
	ed, err := s.store.Edit(s.ctx, sojourn.Filter{}, everything)
	s.must(err, "Edit of all jobs")
	same(s, "changed", ed.Changed, 3)
	same(s, "items", len(ed.Items), 5)
	for _, id := range append(more, ids[0]) {
		s.state(id, sojourn.Cancelled)
	}
}

func dryRun(s *scene) {
	ids := s.mixed()
	many := append(s.enqueueMany(29, sojourn.Tags("t")), s.enqueue(sojourn.Tags("t"), sojourn.Key("one of them")))
	counts := []struct {
		f    sojourn.Filter
		want int
	}{{sojourn.Filter{Queue: line}, 3 + len(many)}, {sojourn.Filter{Queue: line, Limit: 2}, 3 + len(many)}, {sojourn.Filter{Tag: "t", States: []sojourn.State{sojourn.Ready}}, len(many)},
		{sojourn.Filter{States: []sojourn.State{sojourn.Failed}}, 1}, {sojourn.Filter{IDs: append([]sojourn.ID{1 << 40}, ids...)}, 3}, {sojourn.Filter{IDs: []sojourn.ID{}}, 0},
		{sojourn.Filter{Kind: charge, Key: "one of them"}, 1}, {sojourn.Filter{Kind: charge, Key: "none"}, 0}}
	before := s.picture(ids[0])
	for _, c := range counts {
		ed, err := s.store.Edit(s.ctx, c.f, sojourn.Edit{Action: sojourn.EditCancel, DryRun: true})
		s.must(err, "a dry run")
		if ed.Matched != c.want || ed.Changed != 0 || len(ed.Items) != 0 {
			s.Fatalf("a dry run of %s answered %s, want %d matched", text(c.f), text(ed), c.want)
		}
	}
	ed, err := s.store.Edit(s.ctx, sojourn.Filter{}, sojourn.Edit{Action: sojourn.EditPurge, DryRun: true, All: true})
	s.must(err, "a dry run over all jobs")
	same(s, "matched", ed.Matched, 3+len(many))
	_, err = s.store.Edit(s.ctx, sojourn.Filter{}, sojourn.Edit{Action: sojourn.EditPurge, DryRun: true})
	s.refused(err, sojourn.CodeInvalid, "a dry run without a condition")
	s.unchanged(ids[0], before, "a dry run")
}

func editUnknown(s *scene) {
	id := s.enqueue()
	unknown := sojourn.ID(1) << 40
	for _, e := range edits() {
		item := s.edit(unknown, e)
		s.is(item.Err, sojourn.ErrNotFound, "edit of an unknown id: "+string(e.Action))
		same(s, "changed", item.Changed, false)
	}
	ed, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{unknown, id, unknown + 1, unknown}}, sojourn.Edit{Action: sojourn.EditCancel})
	s.must(err, "Edit")
	if len(ed.Items) != 3 || ed.Changed != 1 || ed.Items[0].ID != id || ed.Items[1].ID != unknown || ed.Items[2].ID != unknown+1 {
		s.Fatalf("Edit of a known and two unknown ids answered %s", text(ed))
	}
	s.is(ed.Items[1].Err, sojourn.ErrNotFound, "the first unknown id")
	s.is(ed.Items[2].Err, sojourn.ErrNotFound, "the second unknown id")
	// A job that is there, and that the other conditions leave out, is not missing.
	ed, err = s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{unknown, id}, States: []sojourn.State{sojourn.Ready}}, sojourn.Edit{Action: sojourn.EditCancel})
	s.must(err, "Edit with states")
	if len(ed.Items) != 1 || ed.Items[0].ID != unknown {
		s.Fatalf("Edit of a job in another state answered %s", text(ed))
	}
	s.is(ed.Items[0].Err, sojourn.ErrNotFound, "the unknown id")
}
