package deps

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var replaceTrials = []kit.Trial{
	{Name: "a cycle through a replaced job", Law: "A batch that replaces a job closes no cycle: not with its own jobs, not through stored ones, not with another replaced job.",
		Covers: "tr:N6 spec:D6 inv:G3", Run: replaceCycle},
	{Name: "a dependency on a duplicate in the batch", Law: "A job of a batch that was answered with another one stands for that one in the dependencies of the batch.",
		Covers: "tr:N5 spec:P6", Run: duplicateParent},
	{Name: "a replaced job as the parent", Law: "A job of a batch may depend on one that replaces a stored job: it waits for the stored job.",
		Covers: "tr:N6 tr:N1 spec:P6", Run: replacedParent},
	{Name: "two replacements of one job", Law: "Of two jobs of a batch that replace the same job, the second one's dependencies count.",
		Covers: "tr:N6 spec:P6 inv:G1", Run: replacedTwice},
}

// replacing is a job that replaces the one with the key.
func replacing(s *kit.Scene, key string, parents ...sojourn.ID) sojourn.Job {
	s.Helper()
	return s.Job(sojourn.Key(key), sojourn.OnKeyConflict(sojourn.Replace), sojourn.DependsOn(parents...))
}

func replaceCycle(s *kit.Scene) {
	later := sojourn.Delay(time.Hour)
	stored := s.Enqueue(sojourn.Key("k"), later)
	other := s.Enqueue(sojourn.Key("o"), later)
	below := s.Enqueue(sojourn.DependsOn(stored))
	refused := func(what string, jobs ...sojourn.Job) {
		s.Helper()
		_, err := s.Store.Enqueue(s.Ctx, jobs, false)
		s.Is(err, sojourn.ErrConflict, what)
		s.State(stored, sojourn.Scheduled)
	}
	x := s.Job()
	y := replacing(s, "k", x.ID)
	x.Depends = []sojourn.Dependency{{Jobs: []sojourn.ID{y.ID}}}
	refused("a cycle with a job of the batch, by the id of the batch", y, x)
	x = s.Job(sojourn.DependsOn(stored))
	refused("a cycle with a job of the batch, by the stored id", x, replacing(s, "k", x.ID))
	x = s.Job(sojourn.DependsOn(below))
	refused("a cycle through a stored job and one of the batch", replacing(s, "k", x.ID), x)
	refused("a cycle through a stored job", replacing(s, "k", below))
	refused("a cycle of two replaced jobs", replacing(s, "k", other), replacing(s, "o", stored))
	refused("a cycle of one replaced job", replacing(s, "k", stored))
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{replacing(s, "k", other), replacing(s, "o", stored)}, true)
	s.Must(err, "Enqueue with partial")
	if es[0].Err == nil && es[1].Err == nil {
		s.Fatal("two replaced jobs depend on each other")
	}
}

func duplicateParent(s *kit.Scene) {
	first, same := s.Job(sojourn.Key("k")), s.Job(sojourn.Key("k"))
	child := s.Job(sojourn.DependsOn(same.ID), sojourn.DependsOn(first.ID))
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{first, same, child}, false)
	s.Must(err, "Enqueue")
	kit.Same(s, "the job of the key", es[1].ID, first.ID)
	waits(s, child.ID, 1)
	s.Finish(kit.Completed(take(s, first.ID)), sojourn.Completed)
	s.State(child.ID, sojourn.Ready)
}

func replacedParent(s *kit.Scene) {
	stored := s.Enqueue(sojourn.Key("k"), sojourn.Delay(time.Hour))
	y := replacing(s, "k")
	child := s.Job(sojourn.DependsOn(y.ID))
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{child, y}, false)
	s.Must(err, "Enqueue")
	kit.Same(s, "the replaced job", es[1].ID, stored)
	waits(s, child.ID, 1)
	s.Finds(sojourn.Filter{ParentsOf: child.ID}, stored)
	s.Finish(kit.Completed(take(s, stored)), sojourn.Completed)
	s.State(child.ID, sojourn.Ready)
}

func replacedTwice(s *kit.Scene) {
	parents := s.EnqueueMany(2, sojourn.Delay(time.Hour))
	stored := s.Enqueue(sojourn.Key("k"), sojourn.DependsOn(parents...))
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{replacing(s, "k", parents...), replacing(s, "k", parents[1])}, false)
	s.Must(err, "Enqueue")
	waits(s, stored, 1)
	s.Finds(sojourn.Filter{ParentsOf: stored}, parents[1])
	_, err = s.Store.Enqueue(s.Ctx, []sojourn.Job{replacing(s, "k", parents...), replacing(s, "k")}, false)
	s.Must(err, "Enqueue")
	s.State(stored, sojourn.Ready)
}
