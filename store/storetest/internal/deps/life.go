package deps

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var lifeTrials = []kit.Trial{
	{Name: "a job waits for another", Law: "A job is blocked until the job that it depends on has completed, and is released in the transaction that completes it.",
		Covers: "tr:N1 tr:S3 spec:J20 spec:P6 spec:D10 rules:G3 inv:G1 inv:G2", Run: waitsForOne},
	{Name: "rules:G4 the last of several releases", Law: "A job with several dependencies is released once, by the last of them.",
		Covers: "tr:S3 spec:D10 rules:G4 inv:G2", Run: waitsForSeveral},
	{Name: "dependencies inside a batch", Law: "Jobs of a batch may depend on each other in any order.", Covers: "tr:N1 spec:P6", Run: insideBatch},
	{Name: "a delay is honoured after the release", Law: "Delay, key and priority keep their meaning after the release.", Covers: "tr:S3 spec:D4 spec:D9", Run: delayed},
	{Name: "a parent that has ended", Law: "A completed parent blocks nothing; a failed one acts by on_failure at once.", Covers: "tr:N1 tr:S4 tr:S5 spec:D7", Run: endedBefore},
	{Name: "a refused dependency frees no key", Law: "A job of a batch that is refused because of its dependencies leaves the key of a final job with that job.",
		Covers: "spec:P6 spec:P10 tr:N5", Run: refusedKey},
	{Name: "a missing parent", Law: "A parent that does not exist is an error, or counts as completed if the dependency says so.", Covers: "spec:P6 spec:D4", Run: missing},
	{Name: "a cycle inside a batch", Law: "A batch whose jobs depend on each other in a circle is refused with the path, whole or each for itself.",
		Covers: "spec:D6 inv:G3", Run: batchCycle},
	{Name: "the same enqueue again", Law: "A repeated enqueue with dependencies is a duplicate, and with others a conflict.", Covers: "tr:N4 spec:P6", Run: repeated},
	{Name: "next jobs depend on each other", Law: "Jobs that a completion enqueues may depend on it and on each other.", Covers: "tr:F1 tr:N1 spec:D3", Run: nextDepends},
	{Name: "replace a blocked job", Law: "A job that replaces a blocked one brings its own dependencies.", Covers: "tr:N6 spec:P6", Run: replaceBlocked},
}

func waitsForOne(s *kit.Scene) {
	parent := s.Enqueue()
	child := s.Enqueue(sojourn.DependsOn(parent))
	waits(s, child, 1)
	c := take(s, parent)
	s.ClaimNone("the other one is blocked")
	s.Sweep() // releases nothing
	waits(s, child, 1)
	s.Finish(kit.Completed(c), sojourn.Completed)
	j := s.State(child, sojourn.Ready)
	kit.Same(s, "open dependencies", j.WaitsFor, 0)
	e := s.Happened(child, "unblocked")[0]
	kit.Same(s, "by", e.By, "job "+parent.String())
	s.Finds(sojourn.Filter{ParentsOf: child}, parent)
	s.Finds(sojourn.Filter{ChildrenOf: parent}, child)
	s.Finish(kit.Completed(take(s, child)), sojourn.Completed)
	s.Finds(sojourn.Filter{ParentsOf: child}, parent) // its result can still be read
}

func waitsForSeveral(s *kit.Scene) {
	parents := s.EnqueueMany(5)
	child := s.Enqueue(sojourn.DependsOn(parents[:2]...), sojourn.DependsOn(parents[2:]...))
	for i := range parents {
		waits(s, child, int32(5-i))
		s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	}
	s.State(child, sojourn.Ready)
	kit.Same(s, "releases", len(s.Happened(child, "unblocked")), 1)
}

func insideBatch(s *kit.Scene) {
	last, first, middle := s.Job(), s.Job(), s.Job()
	sojourn.DependsOn(middle.ID)(&last)
	sojourn.DependsOn(first.ID)(&middle)
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{last, first, middle}, false)
	s.Must(err, "Enqueue")
	for i, want := range []sojourn.State{sojourn.Blocked, sojourn.Ready, sojourn.Blocked} {
		kit.Same(s, "state in the answer", es[i].State, want)
	}
	for _, id := range []sojourn.ID{first.ID, middle.ID, last.ID} {
		s.Finish(kit.Completed(take(s, id)), sojourn.Completed)
	}
}

func delayed(s *kit.Scene) {
	parent := s.Enqueue()
	child := s.Enqueue(sojourn.DependsOn(parent), sojourn.Delay(time.Minute), sojourn.Key("k"))
	s.Finish(kit.Completed(take(s, parent)), sojourn.Completed)
	s.State(child, sojourn.Scheduled)
	kit.Same(s, "who has the key", s.Put(s.Job(sojourn.Key("k"))).ID, child)
	s.Advance(time.Minute)
	take(s, child)
}

func endedBefore(s *kit.Scene) {
	done, broken := s.Final(sojourn.Completed).Job.ID, s.Final(sojourn.Failed).Job.ID
	s.State(s.Enqueue(sojourn.DependsOn(done)), sojourn.Ready)
	s.State(s.Enqueue(on(sojourn.IgnoreFailure, broken)), sojourn.Ready)
	waits(s, s.Enqueue(sojourn.DependsOn(done, broken)), 1)
	for f, want := range map[sojourn.OnFailure]sojourn.State{sojourn.CancelOnFailure: sojourn.Cancelled, sojourn.FailOnFailure: sojourn.Failed} {
		kit.Same(s, "reason", settle(s, s.Enqueue(on(f, broken)), want).Reason, sojourn.ReasonDependency)
	}
}

func missing(s *kit.Scene) {
	nobody := s.ID()
	j := s.Job(sojourn.DependsOn(nobody))
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	s.Is(err, sojourn.ErrNotFound, "a dependency on a job that does not exist")
	s.Gone(j.ID)
	id := s.Enqueue(sojourn.WithDependency(sojourn.Dependency{Jobs: []sojourn.ID{nobody}, MissingOK: true}))
	s.State(id, sojourn.Ready)
	bad := s.Job(on("perhaps", nobody))
	_, err = s.Store.Enqueue(s.Ctx, []sojourn.Job{bad}, false)
	s.Refused(err, sojourn.CodeInvalid, "an unknown on_failure")
}

func batchCycle(s *kit.Scene) {
	a, b, c, apart := s.Job(), s.Job(), s.Job(), s.Job()
	sojourn.DependsOn(b.ID)(&a)
	sojourn.DependsOn(a.ID)(&b)
	sojourn.DependsOn(a.ID)(&c)
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{a, b, apart}, false)
	s.Is(err, sojourn.ErrConflict, "a cycle of two")
	if path := a.ID.String() + " → " + b.ID.String() + " → " + a.ID.String(); !strings.Contains(err.Error(), path) {
		s.Fatalf("the refusal %q does not name the path %s", err, path)
	}
	s.Gone(apart.ID)
	self := s.Job()
	sojourn.DependsOn(self.ID)(&self)
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{a, b, c, apart, self}, true)
	s.Must(err, "Enqueue with partial")
	for i, want := range []error{sojourn.ErrConflict, sojourn.ErrConflict, sojourn.ErrNotFound, nil, sojourn.ErrConflict} {
		if want == nil {
			s.Must(es[i].Err, "a job outside of the cycle")
			continue
		}
		s.Is(es[i].Err, want, "job of a cycle, or that depends on one")
	}
	s.State(apart.ID, sojourn.Ready)
	s.Gone(c.ID)
}

func repeated(s *kit.Scene) {
	parent, other := s.Enqueue(), s.Enqueue()
	j := s.Job(sojourn.DependsOn(parent))
	s.Put(j)
	e := s.Put(j)
	if !e.Duplicate || e.State != sojourn.Blocked {
		s.Fatalf("the same enqueue again answered %+v", e)
	}
	waits(s, j.ID, 1)
	j.Depends = []sojourn.Dependency{{Jobs: []sojourn.ID{other}}}
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	s.Is(err, sojourn.ErrConflict, "the same id with other dependencies")
}

func nextDepends(s *kit.Scene) {
	c := s.Running()
	first, second := s.Job(sojourn.DependsOn(c.Job.ID)), s.Job()
	sojourn.DependsOn(first.ID)(&second)
	s.Finish(kit.Follow(c, first, second), sojourn.Completed)
	s.State(first.ID, sojourn.Ready)
	waits(s, second.ID, 1)
	s.Finish(kit.Completed(take(s, first.ID)), sojourn.Completed)
	s.State(second.ID, sojourn.Ready)
}

func replaceBlocked(s *kit.Scene) {
	parents := s.EnqueueMany(3, sojourn.Delay(time.Hour))
	child := s.Enqueue(sojourn.Key("k"), sojourn.DependsOn(parents[0], parents[1]))
	e := s.Put(s.Job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.Replace), sojourn.DependsOn(parents[2])))
	if e.ID != child || !e.Replaced || e.State != sojourn.Blocked {
		s.Fatalf("the replacement answered %+v", e)
	}
	waits(s, child, 1)
	s.Finds(sojourn.Filter{ParentsOf: child}, parents[2])
	s.Put(s.Job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.Replace)))
	s.State(child, sojourn.Ready)
	s.Finds(sojourn.Filter{ParentsOf: child})
}

func refusedKey(s *kit.Scene) {
	before := s.Final(sojourn.Completed, sojourn.Key("k")).Job.ID
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{s.Job(sojourn.Key("k"), sojourn.DependsOn(s.ID())), s.Job()}, true)
	s.Must(err, "Enqueue with partial")
	s.Is(es[0].Err, sojourn.ErrNotFound, "a dependency on a job that does not exist")
	kit.Same(s, "the job of the key", s.Find(sojourn.Filter{Key: "k"})[0], before)
}
