package deps

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var stageTrials = []kit.Trial{
	{Name: "a stage releases", Law: "An advance resolves the dependencies that wait for the stage, and no others.", Covers: "spec:D5 tr:F16 tr:S3 inv:G1", Run: stageReleases},
	{Name: "two stages that end together", Law: "Two jobs that advance in one call release nothing that waits for the end of one of them.", Covers: "spec:D5 tr:F16 inv:G1", Run: stagesTogether},
	{Name: "the end of a job that never advances", Law: "A dependency on a stage counts the end of the job as any other does.", Covers: "spec:D5 tr:S3 tr:S4 tr:S5", Run: stageEnds},
	{Name: "a stage with a large fan-out", Law: "A stage releases more dependents than one transaction decides, also if the job fails at once.",
		Covers: "spec:D5 tr:S3 inv:G2 inv:G4", Run: stageFanOut},
	{Name: "an advance with dependencies", Law: "The next stage is blocked until its dependencies are resolved; then its delay is honoured.",
		Covers: "spec:D2 spec:D3 tr:F16 tr:S3 inv:G1", Run: stageWaits},
	{Name: "an advance with bad dependencies", Law: "Unknown jobs, jobs outside of the grants and cycles are refused, and the lease stands.",
		Covers: "spec:D3 spec:D6 tr:F15 inv:G3", Run: stageRefused},
	{Name: "an advance that depends on a job that has failed", Law: "on_failure decides a stage as it decides a new job.", Covers: "tr:F16 tr:S4 tr:S5 spec:D7", Run: stageFailed},
}

// onStage is an option for a dependency on the end of a stage.
func onStage(f sojourn.OnFailure, ids ...sojourn.ID) sojourn.Option {
	return sojourn.WithDependency(sojourn.Dependency{Jobs: ids, OnFailure: f, OnStage: true})
}

func stageReleases(s *kit.Scene) {
	parent := s.Enqueue()
	first, plain := s.Enqueue(onStage("", parent)), s.Enqueue(sojourn.DependsOn(parent))
	both := s.Enqueue(onStage("", parent), sojourn.DependsOn(s.Enqueue(sojourn.Delay(time.Hour))))
	s.Finish(kit.Advance(take(s, parent), "next"), sojourn.Ready)
	s.State(first, sojourn.Ready)
	kit.Same(s, "by", s.Happened(first, "unblocked")[0].By, "job "+parent.String())
	waits(s, plain, 1)
	waits(s, both, 1)
	s.Finds(sojourn.Filter{ParentsOf: first}, parent)
	s.Finish(kit.Completed(take(s, first)), sojourn.Completed)
	later := s.Enqueue(onStage("", parent))
	waits(s, later, 1)
	c := s.Claim(kit.From("next"))
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.State(later, sojourn.Ready)
	s.State(plain, sojourn.Ready)
}

func stagesTogether(s *kit.Scene) {
	a, b := s.Running(), s.Running()
	both := s.Enqueue(onStage("", a.Job.ID), sojourn.DependsOn(b.Job.ID))
	one := s.Enqueue(onStage("", b.Job.ID))
	fs, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{kit.Advance(a, "next"), kit.Advance(b, "next")})
	s.Must(err, "Finish")
	kit.Same(s, "the reports", fmt.Sprint(fs[0].Status, fs[1].Status), fmt.Sprint(driver.FinishApplied, driver.FinishApplied))
	s.State(one, sojourn.Ready)
	waits(s, both, 1)
	s.Finds(sojourn.Filter{ParentsOf: both}, a.Job.ID, b.Job.ID)
}

func stageEnds(s *kit.Scene) {
	for _, d := range []struct {
		f    sojourn.OnFailure
		want sojourn.State
	}{{"", sojourn.Blocked}, {sojourn.CancelOnFailure, sojourn.Cancelled}, {sojourn.FailOnFailure, sojourn.Failed}, {sojourn.IgnoreFailure, sojourn.Ready}} {
		c := s.Running()
		child := s.Enqueue(onStage(d.f, c.Job.ID))
		s.Finish(kit.Abort(c), sojourn.Failed)
		settle(s, child, d.want)
		if d.want.Live() {
			s.Cancel(child)
		}
	}
	parent := s.Enqueue()
	child := s.Enqueue(onStage(sojourn.FailOnFailure, parent))
	s.Finish(kit.Completed(take(s, parent)), sojourn.Completed)
	s.State(child, sojourn.Ready)
}

func stageFanOut(s *kit.Scene) {
	parent, n := s.Enqueue(), 0
	for range 3 {
		n += len(s.EnqueueMany(700, onStage(sojourn.FailOnFailure, parent)))
	}
	failing := s.Enqueue(on(sojourn.FailOnFailure, parent))
	s.Finish(kit.Advance(take(s, parent), "next"), sojourn.Ready)
	s.Finish(kit.Abort(s.Claim(kit.From("next"))), sojourn.Failed)
	settle(s, failing, sojourn.Failed)
	counts := s.Queue("default").Counts
	kit.Same(s, "ready", counts[sojourn.Ready], int64(n))
	kit.Same(s, "blocked", counts[sojourn.Blocked], 0)
}

func stageWaits(s *kit.Scene) {
	parents := s.EnqueueMany(2, sojourn.Queue("parents"))
	done := s.Final(sojourn.Completed).Job.ID
	c := s.Running(sojourn.Key("k"))
	id := c.Job.ID
	o := kit.Advance(c, "next")
	o.Delay, o.Depends = time.Minute, []sojourn.Dependency{{Jobs: []sojourn.ID{parents[0], parents[1], done}}}
	j := s.Finish(o, sojourn.Blocked)
	kit.Same(s, "open dependencies", j.WaitsFor, 2)
	kit.Same(s, "stage", j.Stage, 1)
	kit.Same(s, "queue", j.Queue, "next")
	s.InFlight(0, "a blocked stage")
	s.Reports(o, driver.FinishRepeated)
	s.ClaimNone("it is blocked", kit.From("next"))
	s.Finds(sojourn.Filter{ParentsOf: id}, parents[0], parents[1], done)
	s.Finish(kit.Completed(s.Claim(kit.From("parents"))), sojourn.Completed)
	waits(s, id, 1)
	s.Finish(kit.Completed(s.Claim(kit.From("parents"))), sojourn.Completed)
	s.At("run_at", s.State(id, sojourn.Scheduled).RunAt, c.Job.StartedAt.Add(time.Minute))
	s.Advance(time.Minute)
	d := s.Claim(kit.From("next"))
	kit.Same(s, "the job", d.Job.ID, id)
	kit.Same(s, "its attempt", d.Job.Attempt, 1)
	p := kit.Advance(d, "")
	p.Depends = []sojourn.Dependency{{Jobs: parents}}
	s.Finish(p, sojourn.Ready) // all of them have ended
	s.Happened(id, "advance", "unblocked", "advance")
}

func stageRefused(s *kit.Scene) {
	c := s.Running()
	id := c.Job.ID
	child := s.Enqueue(sojourn.DependsOn(id))
	grand := s.Enqueue(sojourn.DependsOn(child))
	refuse := func(what string, want error, parents ...sojourn.ID) error {
		o := kit.Advance(c, "next")
		o.Depends = []sojourn.Dependency{{Jobs: parents}}
		err := s.Reports(o, driver.FinishRefused).Err
		s.Is(err, want, what)
		kit.Same(s, "the stage", s.State(id, sojourn.Running).Stage, 0)
		return err
	}
	refuse("a job that does not exist", sojourn.ErrNotFound, s.ID())
	refuse("a job that depends on itself", sojourn.ErrConflict, id)
	err := refuse("a cycle", sojourn.ErrConflict, grand)
	if path := id.String() + " → " + grand.String() + " → " + child.String() + " → " + id.String(); !strings.Contains(err.Error(), path) {
		s.Fatalf("the refusal %q does not name the path %s", err, path)
	}
	o := kit.Completed(c)
	o.Depends = []sojourn.Dependency{{Jobs: []sojourn.ID{grand}}}
	s.Refused(s.Reports(o, driver.FinishRefused).Err, sojourn.CodeInvalid, "dependencies of a completion")

	secret := s.Enqueue(sojourn.Queue("bob"))
	alice := s.Tenant("alice", access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: "alice"})
	alice.Enqueue(sojourn.Queue("alice"))
	d := alice.Claim(kit.From("alice"), kit.By("alice/w"))
	o = kit.Advance(d, "")
	o.Depends = []sojourn.Dependency{{Jobs: []sojourn.ID{secret}}}
	alice.Is(alice.Reports(o, driver.FinishRefused).Err, sojourn.ErrNotFound, "another tenant's job")
	o.Depends[0].MissingOK = true
	alice.Finish(o, sojourn.Ready)
}

func stageFailed(s *kit.Scene) {
	broken := s.Final(sojourn.Failed).Job.ID
	for f, want := range map[sojourn.OnFailure]sojourn.State{"": sojourn.Blocked, sojourn.CancelOnFailure: sojourn.Cancelled, sojourn.FailOnFailure: sojourn.Failed,
		sojourn.IgnoreFailure: sojourn.Ready} {
		o := kit.Advance(s.Running(), "next")
		o.Depends = []sojourn.Dependency{{Jobs: []sojourn.ID{broken}, OnFailure: f}}
		s.Reports(o, driver.FinishApplied)
		settle(s, o.Lease.ID, want)
	}
}
