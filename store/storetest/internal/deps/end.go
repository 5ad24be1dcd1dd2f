package deps

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var endTrials = []kit.Trial{
	{Name: "on_failure", Law: "A parent that fails leaves its dependents blocked, cancels them, fails them, or releases them.",
		Covers: "tr:S3 tr:S4 tr:S5 spec:D7", Run: onFailure},
	{Name: "every end of a parent counts", Law: "Whatever ends a parent decides its dependents: the handler, an operator, a deadline, a lost lease.",
		Covers: "tr:S4 tr:S5 spec:D7 inv:G1", Run: everyEnd},
	{Name: "a next stage is no end", Law: "A job that goes on to its next stage releases nothing that waits for its end.", Covers: "tr:F16 spec:D5 inv:G1", Run: nextStage},
	{Name: "a redrive resolves what still stands", Law: "A failed parent that is redriven and completes releases the jobs that still wait for it.",
		Covers: "tr:S4 tr:S3 spec:D7 rules:C6", Run: redriven},
	{Name: "a cascade", Law: "A chain of dependents ends one after the other, each by its own action.", Covers: "tr:S5 inv:G4", Run: cascade},
	{Name: "a large fan-out", Law: "A job with more dependents than one transaction decides releases all of them, each once.", Covers: "tr:S3 inv:G2 inv:G4", Run: fanOut},
	{Name: "cancel with dependents", Law: "A cancel that would leave dependents waiting for ever is refused and names them, unless it says what becomes of them.",
		Covers: "spec:D8 tr:O1", Run: cancelNamed},
	{Name: "a cancel with dependents goes on through the levels", Law: "What a cancel says about dependents counts for the dependents of each job that ends by it; a released job ends nothing.",
		Covers: "spec:D8 tr:O1 tr:S5 inv:G4", Run: cancelLevels},
	{Name: "cancel of one generation", Law: "A dependent that the same cancel refuses, because it names another generation, counts like one outside of the call.",
		Covers: "spec:D8 tr:O1", Run: cancelOneGeneration},
	{Name: "purge with dependents", Law: "A purge is refused while dependents wait, unless it says what becomes of them.", Covers: "rules:C6 tr:O8 tr:S5", Run: purgeNamed},
	{Name: "retention spares parents", Law: "Retention never deletes a job that a live job waits for.", Covers: "rules:C6 tr:W10", Run: retentionSpares},
	{Name: "the end of a blocked job", Law: "A blocked job can be cancelled, and its parents' ends then do not concern it.", Covers: "tr:O1 inv:G1", Run: blockedEnds},
	{Name: "why a blocked job waits", Law: "Why names the jobs that a blocked job waits for.", Covers: "spec:O5", Run: whyBlocked},
}

var actions = []sojourn.OnFailure{"", sojourn.WaitOnFailure, sojourn.CancelOnFailure, sojourn.FailOnFailure, sojourn.IgnoreFailure}

// after is the state of a dependent after its only parent has failed.
var after = map[sojourn.OnFailure]sojourn.State{"": sojourn.Blocked, sojourn.WaitOnFailure: sojourn.Blocked, sojourn.CancelOnFailure: sojourn.Cancelled,
	sojourn.FailOnFailure: sojourn.Failed, sojourn.IgnoreFailure: sojourn.Ready}

func onFailure(s *kit.Scene) {
	parent := s.Enqueue()
	children := map[sojourn.OnFailure]sojourn.ID{}
	for _, f := range actions {
		children[f] = s.Enqueue(on(f, parent))
	}
	s.Finish(kit.Abort(take(s, parent)), sojourn.Failed)
	for f, id := range children {
		j := s.State(id, after[f])
		if j.State.Final() {
			kit.Same(s, "reason", j.Reason, sojourn.ReasonDependency)
			e := s.History(id)[0]
			kit.Same(s, "by", e.By, "job "+parent.String())
		}
	}
}

func everyEnd(s *kit.Scene) {
	ends := map[string]func(s *kit.Scene) sojourn.ID{
		"fail": func(s *kit.Scene) sojourn.ID { return s.Enqueue(sojourn.Delay(time.Hour)) },
		"deadline": func(s *kit.Scene) sojourn.ID {
			return s.Enqueue(sojourn.Delay(time.Hour), sojourn.Deadline(time.Minute))
		},
		"lease": func(s *kit.Scene) sojourn.ID { return s.Running(sojourn.MaxCrashes(1)).Job.ID },
		"wait": func(s *kit.Scene) sojourn.ID {
			c := s.Running(sojourn.MaxAttempts(1))
			s.Finish(kit.Await(c, time.Second), sojourn.Awaiting)
			return c.Job.ID
		},
	}
	children := map[sojourn.ID]string{}
	for name, start := range kit.InOrder(ends) {
		parent := start(s)
		children[s.Enqueue(on(sojourn.FailOnFailure, parent))] = name
		if name == "fail" {
			s.Edited(parent, sojourn.Edit{Action: sojourn.EditFail}, sojourn.Failed)
		}
	}
	s.Advance(10 * time.Minute)
	s.Sweep()
	for id := range children {
		settle(s, id, sojourn.Failed)
	}
}

func nextStage(s *kit.Scene) {
	parent := s.Enqueue()
	child := s.Enqueue(sojourn.DependsOn(parent))
	s.Finish(kit.Advance(take(s, parent), ""), sojourn.Ready)
	s.Sweep()
	waits(s, child, 1)
	s.Finish(kit.Completed(take(s, parent)), sojourn.Completed)
	s.State(child, sojourn.Ready)
}

func redriven(s *kit.Scene) {
	parent := s.Enqueue()
	stands, gone := s.Enqueue(sojourn.DependsOn(parent)), s.Enqueue(on(sojourn.CancelOnFailure, parent))
	s.Finish(kit.Abort(take(s, parent)), sojourn.Failed)
	waits(s, stands, 1)
	s.Edited(parent, kit.RedriveEdit, sojourn.Ready)
	waits(s, stands, 1)
	s.Finish(kit.Abort(take(s, parent)), sojourn.Failed)
	waits(s, stands, 1)
	s.Edited(parent, kit.RedriveEdit, sojourn.Ready)
	s.Finish(kit.Completed(take(s, parent)), sojourn.Completed)
	s.State(stands, sojourn.Ready)
	s.State(gone, sojourn.Cancelled)
}

func cascade(s *kit.Scene) {
	const n = 12
	ids := []sojourn.ID{s.Enqueue()}
	for range n {
		ids = append(ids, s.Enqueue(on(sojourn.FailOnFailure, ids[len(ids)-1])))
	}
	s.Finish(kit.Abort(take(s, ids[0])), sojourn.Failed)
	s.State(ids[1], sojourn.Failed) // in the same transaction
	s.Sweep()
	for _, id := range ids[1:] {
		s.State(id, sojourn.Failed)
	}
}

func fanOut(s *kit.Scene) {
	parent, n := s.Enqueue(), 0
	for range 3 {
		n += len(s.EnqueueMany(700, sojourn.DependsOn(parent), sojourn.Tags("fan")))
	}
	s.Finish(kit.Completed(take(s, parent)), sojourn.Completed)
	s.Sweep()
	kit.Same(s, "ready", s.Queue("default").Counts[sojourn.Ready], int64(n))
	kit.Same(s, "blocked", s.Queue("default").Counts[sojourn.Blocked], 0)
}

func cancelNamed(s *kit.Scene) {
	parent := s.Enqueue()
	waiting, following := s.Enqueue(sojourn.DependsOn(parent)), s.Enqueue(on(sojourn.CancelOnFailure, parent))
	item := s.Edit(parent, sojourn.Edit{Action: sojourn.EditCancel})
	s.Is(item.Err, sojourn.ErrConflict, "a cancel with a waiting dependent")
	if text := item.Err.Error(); !strings.Contains(text, fmt.Sprint(waiting)) || strings.Contains(text, fmt.Sprint(following)) {
		s.Fatalf("the refusal names other jobs than %d: %s", waiting, text)
	}
	s.State(parent, sojourn.Ready)
	s.Edited(parent, sojourn.Edit{Action: sojourn.EditCancel, Dependents: sojourn.DependentsCancel}, sojourn.Cancelled)
	s.State(waiting, sojourn.Cancelled)
	s.State(following, sojourn.Cancelled)

	parent = s.Enqueue()
	waiting = s.Enqueue(sojourn.DependsOn(parent))
	s.Edited(parent, sojourn.Edit{Action: sojourn.EditCancel, Dependents: sojourn.DependentsRelease}, sojourn.Cancelled)
	s.State(waiting, sojourn.Ready)
	s.Finds(sojourn.Filter{ParentsOf: waiting}, parent) // as a dependency, and not as an awaited child

	parent = s.Enqueue()
	waiting = s.Enqueue(sojourn.DependsOn(parent))
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{parent, waiting}}, sojourn.Edit{Action: sojourn.EditCancel})
	s.Must(err, "Edit")
	for _, item := range ed.Items {
		s.Must(item.Err, "the cancel of both")
	}
	s.State(waiting, sojourn.Cancelled)
	_, err = s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{parent}}, sojourn.Edit{Action: sojourn.EditCancel, Dependents: "perhaps"})
	s.Refused(err, sojourn.CodeInvalid, "an unknown value of dependents")
}

func purgeNamed(s *kit.Scene) {
	for _, d := range []struct {
		dependents string
		want       sojourn.State
	}{{sojourn.DependentsCancel, sojourn.Cancelled}, {sojourn.DependentsRelease, sojourn.Ready}} {
		parent := s.Final(sojourn.Failed).Job.ID
		waiting := s.Enqueue(sojourn.DependsOn(parent))
		s.Advance(sojourn.IDLife + time.Minute)
		s.Is(s.Edit(parent, sojourn.Edit{Action: sojourn.EditPurge}).Err, sojourn.ErrConflict, "a purge with a waiting dependent")
		s.Must(s.Edit(parent, sojourn.Edit{Action: sojourn.EditPurge, Dependents: d.dependents}).Err, "purge")
		s.Gone(parent)
		settle(s, waiting, d.want)
		s.Cancel(s.Enqueue())
		if d.want == sojourn.Ready {
			s.Cancel(waiting)
		}
	}
}

func retentionSpares(s *kit.Scene) {
	s.SetQueue("default", sojourn.QueueSettings{Retention: sojourn.Retention{Age: time.Hour, FailedAge: time.Hour}})
	parent, other := s.Final(sojourn.Failed).Job.ID, s.Final(sojourn.Failed).Job.ID
	waiting := s.Enqueue(sojourn.DependsOn(parent))
	s.Advance(2 * time.Hour)
	s.Sweep()
	s.Gone(other)
	s.State(parent, sojourn.Failed)
	waits(s, waiting, 1)
	s.Cancel(waiting)
	s.Sweep()
	s.Gone(parent)
}

func blockedEnds(s *kit.Scene) {
	parent := s.Enqueue()
	child := s.Enqueue(sojourn.DependsOn(parent))
	s.Cancel(child)
	s.Finish(kit.Completed(take(s, parent)), sojourn.Completed)
	s.State(child, sojourn.Cancelled)
	s.Happened(child, "cancelled")
	s.Edited(child, kit.RedriveEdit, sojourn.Ready) // it depends on nothing any more
	expires := s.Enqueue(sojourn.DependsOn(s.Enqueue(sojourn.Delay(time.Hour))), sojourn.Deadline(time.Minute))
	s.Advance(2 * time.Minute)
	s.Sweep()
	s.State(expires, sojourn.Failed)
}

func whyBlocked(s *kit.Scene) {
	broken, parent := s.Final(sojourn.Failed).Job.ID, s.Enqueue()
	child := s.Enqueue(sojourn.DependsOn(broken, parent))
	w, err := s.Store.Why(s.Ctx, child)
	s.Must(err, "Why")
	want := fmt.Sprintf("for job %d (failed: redrive it, or remove the dependency), job %d (ready)", broken, parent)
	kit.Same(s, "waits", w.Waits, want)
}

func cancelOneGeneration(s *kit.Scene) {
	parent := s.Enqueue()
	again := s.Enqueue(sojourn.Key("k"))
	s.Cancel(again)
	s.Edited(again, kit.RedriveEdit, sojourn.Ready) // its second generation
	s.Put(s.Job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.Replace), sojourn.DependsOn(parent)))
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{parent, again}}, sojourn.Edit{Action: sojourn.EditCancel, Generation: 1})
	s.Must(err, "Edit")
	s.Is(ed.Items[0].Err, sojourn.ErrConflict, "the cancel of a parent whose dependent is in another generation")
	waits(s, again, 1)
	s.State(parent, sojourn.Ready)
}

func cancelLevels(s *kit.Scene) {
	for _, d := range []struct {
		dependents     string
		waits, follows sojourn.State // of jobs that wait for the cancelled one, and for one that is cancelled or fails with it
	}{{sojourn.DependentsCancel, sojourn.Cancelled, sojourn.Cancelled}, {sojourn.DependentsRelease, sojourn.Blocked, sojourn.Ready}} {
		root := s.Enqueue()
		waiting := s.Enqueue(sojourn.DependsOn(root))
		cancelled, failed := s.Enqueue(on(sojourn.CancelOnFailure, root)), s.Enqueue(on(sojourn.FailOnFailure, root))
		deep := s.Enqueue(sojourn.DependsOn(s.Enqueue(sojourn.DependsOn(waiting))))
		follows := []sojourn.ID{s.Enqueue(sojourn.DependsOn(cancelled)), s.Enqueue(sojourn.DependsOn(failed))}
		ignores := s.Enqueue(on(sojourn.IgnoreFailure, cancelled))
		s.Edited(root, sojourn.Edit{Action: sojourn.EditCancel, Dependents: d.dependents}, sojourn.Cancelled)
		settle(s, deep, d.waits)
		for _, id := range follows {
			s.State(id, d.follows)
		}
		s.State(ignores, sojourn.Ready)
		s.State(failed, sojourn.Failed)
	}
	parent := s.Enqueue(sojourn.Queue("fan"))
	s.EnqueueMany(700, sojourn.Queue("fan"), sojourn.DependsOn(parent))
	child := s.EnqueueMany(700, sojourn.Queue("fan"), sojourn.DependsOn(parent))[699]
	deep := s.Enqueue(sojourn.Queue("fan"), sojourn.DependsOn(child))
	s.Edited(parent, sojourn.Edit{Action: sojourn.EditCancel, Dependents: sojourn.DependentsCancel}, sojourn.Cancelled)
	settle(s, deep, sojourn.Cancelled) // more dependents than one transaction decides
}
