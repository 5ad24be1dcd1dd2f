package deps

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var changeTrials = []kit.Trial{
	{Name: "add and remove dependencies", Law: "Dependencies of a blocked job are added and removed; the removal of the last one releases it, with its delay.",
		Covers: "spec:D4 tr:S3 tr:O5 inv:G1", Run: addRemove},
	{Name: "only blocked jobs change their dependencies", Law: "A job that is not blocked, a missing parent and an unknown dependency are refused, and nothing changes.",
		Covers: "spec:D4", Run: addRefused},
	{Name: "a change names a missing parent", Law: "A missing parent that counts as completed adds nothing, and can be removed in the same call no more than any other.",
		Covers: "spec:D4", Run: addMissing},
	{Name: "a cycle of edges that are added", Law: "An added dependency that closes a cycle is refused with its path.", Covers: "spec:D6 inv:G3", Run: addedCycle},
}

var tenantTrials = []kit.Trial{
	{Name: "tenants and dependencies", Law: "A token depends on jobs within its grants only; others look as if they did not exist, and a foreign dependent hinders nobody.",
		Covers: "spec:D8", Run: foreign},
	{Name: "a tenant's change of a foreign dependency", Law: "A dependency on a job that the caller may not read stays as it is, whatever the caller adds.",
		Covers: "spec:D4 inv:G1 inv:G2", Run: foreignChange},
}

func change(s *kit.Scene, id sojourn.ID, c sojourn.Edit) sojourn.Edited {
	s.Helper()
	c.Action, c.By = sojourn.EditChange, "ops"
	return s.Edit(id, c)
}

func dependOn(ids ...sojourn.ID) sojourn.Edit {
	return sojourn.Edit{DependOn: &[]sojourn.Dependency{{Jobs: ids}}}
}

func undepend(ids ...sojourn.ID) sojourn.Edit {
	if ids == nil {
		ids = []sojourn.ID{}
	}
	return sojourn.Edit{Undepend: &ids}
}

func addRemove(s *kit.Scene) {
	parents := s.EnqueueMany(4, sojourn.Delay(time.Hour))
	child := s.Enqueue(sojourn.DependsOn(parents[0]))
	s.Must(change(s, child, dependOn(parents...)).Err, "add") // one is there already
	waits(s, child, 4)
	s.Must(change(s, child, undepend(parents[1])).Err, "remove")
	waits(s, child, 3)
	s.Cancel(s.Enqueue()) // another job's end changes nothing
	s.Must(change(s, child, undepend()).Err, "remove all")
	s.State(child, sojourn.Ready)
	kit.Same(s, "releases", len(s.Happened(child, "edited", "edited", "edited", "unblocked")), 4)
	late := s.Enqueue(sojourn.DependsOn(parents[0]), sojourn.Delay(2*time.Hour))
	s.Must(change(s, late, undepend()).Err, "remove all")
	s.State(late, sojourn.Scheduled)
}

func addRefused(s *kit.Scene) {
	ready, parent := s.Enqueue(), s.Enqueue(sojourn.Delay(time.Hour))
	s.Is(change(s, ready, dependOn(parent)).Err, sojourn.ErrConflict, "a dependency of a ready job")
	child := s.Enqueue(sojourn.DependsOn(parent))
	before := s.Picture(child)
	s.Is(change(s, child, dependOn(s.ID())).Err, sojourn.ErrNotFound, "a dependency on a missing job")
	s.Is(change(s, child, undepend(ready)).Err, sojourn.ErrNotFound, "the removal of a dependency that is not there")
	s.Unchanged(child, before, "a refused change")
}

func addMissing(s *kit.Scene) {
	nobody := s.ID()
	ok := []sojourn.Dependency{{Jobs: []sojourn.ID{nobody}, MissingOK: true}}
	child := s.Enqueue(sojourn.DependsOn(s.Enqueue(sojourn.Delay(time.Hour))))
	c := undepend(nobody)
	c.DependOn = &ok
	s.Is(change(s, child, c).Err, sojourn.ErrNotFound, "the removal of a dependency on a missing job")
	waits(s, child, 1)
	c = undepend()
	c.DependOn = &ok
	s.Must(change(s, child, c).Err, "add a missing parent and remove all")
	s.State(child, sojourn.Ready)
}

func addedCycle(s *kit.Scene) {
	root := s.Enqueue(sojourn.Delay(time.Hour))
	a := s.Enqueue(sojourn.DependsOn(root))
	b := s.Enqueue(sojourn.DependsOn(a))
	c := s.Enqueue(sojourn.DependsOn(b))
	err := change(s, a, dependOn(c)).Err
	s.Is(err, sojourn.ErrConflict, "a cycle of three")
	path := strings.Join([]string{a.String(), c.String(), b.String(), a.String()}, " → ")
	if !strings.Contains(err.Error(), path) {
		s.Fatalf("the refusal %q does not name the path %s", err, path)
	}
	s.Is(change(s, a, dependOn(a)).Err, sojourn.ErrConflict, "a job that depends on itself")
	waits(s, a, 1)
}

func grant(queue string) access.Grant {
	return access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: queue}
}

func foreign(s *kit.Scene) {
	alice, both := s.Tenant("alice", grant("alice")), s.Tenant("both", kit.Everything)
	secret := s.Enqueue(sojourn.Queue("bob"))
	j := alice.Job(sojourn.Queue("alice"), sojourn.DependsOn(secret))
	_, err := alice.Store.Enqueue(alice.Ctx, []sojourn.Job{j}, false)
	s.Is(err, sojourn.ErrNotFound, "a dependency on another tenant's job")

	mine := alice.Enqueue(sojourn.Queue("alice"))
	waiting := both.Enqueue(sojourn.Queue("bob"), sojourn.DependsOn(mine))
	following := both.Enqueue(sojourn.Queue("bob"), on(sojourn.CancelOnFailure, mine))
	alice.Cancel(mine)
	waits(s, waiting, 1)
	settle(s, following, sojourn.Cancelled)
}

func foreignChange(s *kit.Scene) {
	alice, bob := s.Tenant("alice", grant("alice")), s.Tenant("bob", grant("bob"))
	theirs := bob.Enqueue(sojourn.Queue("bob"))
	mine := alice.Enqueue(sojourn.Queue("alice"), sojourn.Delay(time.Hour))
	child := s.Enqueue(sojourn.Queue("alice"), sojourn.DependsOn(theirs, mine))
	more := sojourn.Edit{DependOn: &[]sojourn.Dependency{{Jobs: []sojourn.ID{theirs}, MissingOK: true}}}
	s.Must(change(alice, child, more).Err, "add a job of another tenant, which counts as missing")
	waits(s, child, 2)
	bob.Cancel(bob.Enqueue(sojourn.Queue("bob")))
	s.Finish(kit.Completed(s.Claim(kit.From("bob"))), sojourn.Completed)
	waits(s, child, 1)
	alice.Cancel(alice.Enqueue(sojourn.Queue("alice")))
	s.Must(change(alice, child, undepend(mine)).Err, "remove the own job")
	s.State(child, sojourn.Ready)
}
