package tenants

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var composeTrials = []kit.Trial{
	{Name: "follow-up jobs stop at grants", Law: "A token follows and advances only into its own queues, and a next job depends only on jobs that it may read; a refusal leaves the lease.",
		Covers: "spec:D2 rules:C7", Run: followGranted},
	{Name: "cascades stop at grants", Law: "Whatever a call says about dependents, jobs of other tenants with on_failure wait stay blocked.", Covers: "spec:D8", Run: cascadeGranted},
}

// only is a grant for everything in one queue.
func only(queue string) access.Grant {
	return access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: queue}
}

func followGranted(s *kit.Scene) {
	alice := s.Tenant("alice", only("alice"))
	secret := s.Enqueue(sojourn.Queue("bob"), sojourn.Delay(time.Hour))
	alice.Enqueue(sojourn.Queue("alice"))
	c := alice.Claim(kit.From("alice"), kit.By("alice/w1"))
	job := func(queue string, options ...sojourn.Option) sojourn.Job {
		return *sojourn.NewJob(kit.Kind, nil, append(options, sojourn.Queue(queue))...)
	}
	for what, one := range map[string]struct {
		o    sojourn.Outcome
		code string
	}{
		"a next job of another tenant's queue":           {kit.Follow(c, job("bob")), access.CodeScope},
		"the second of two":                              {kit.Follow(c, job("alice"), job("bob")), access.CodeScope},
		"a next job that depends on another tenant's":    {kit.Follow(c, job("alice", sojourn.DependsOn(secret))), sojourn.CodeDependency},
		"a stage in another tenant's queue":              {kit.Advance(c, "bob"), access.CodeScope},
		"a next job under an id that nobody has leased":  {kit.Follow(c, job("alice", sojourn.WithID(secret+9_000_000))), sojourn.CodeInvalid},
		"a next job under the id of another tenant's":    {kit.Follow(c, job("alice", sojourn.WithID(secret))), sojourn.CodeInvalid},
		"a next job with an id below zero, never stored": {kit.Follow(c, job("alice", sojourn.WithID(-1))), sojourn.CodeInvalid},
	} {
		f := alice.Reports(one.o, driver.FinishRefused)
		if code := sojourn.ErrorCode(f.Err); code != one.code {
			s.Errorf("%s is refused with %v, want the code %s", what, f.Err, one.code)
		}
	}
	s.State(c.Job.ID, sojourn.Running)
	kit.Same(s, "jobs after the refusals", len(s.Find(sojourn.Filter{Limit: 10})), 2)
	alice.Finish(kit.Follow(c, job("alice")), sojourn.Completed)
	kit.Same(s, "jobs after the completion", len(s.Find(sojourn.Filter{Limit: 10})), 3)
}

func cascadeGranted(s *kit.Scene) {
	alice, both := s.Tenant("alice", only("alice")), s.Tenant("both", kit.Everything)
	for _, dependents := range []string{sojourn.DependentsCancel, sojourn.DependentsRelease} {
		mine := alice.Enqueue(sojourn.Queue("alice"))
		own := alice.Enqueue(sojourn.Queue("alice"), sojourn.DependsOn(mine))
		foreign := both.Enqueue(sojourn.Queue("bob"), sojourn.DependsOn(mine))
		ends := alice.Enqueue(sojourn.Queue("alice"), sojourn.WithDependency(sojourn.Dependency{Jobs: []sojourn.ID{mine}, OnFailure: sojourn.CancelOnFailure}))
		deep := both.Enqueue(sojourn.Queue("bob"), sojourn.DependsOn(ends))
		if e := alice.Edit(mine, sojourn.Edit{Action: sojourn.EditCancel, Dependents: dependents}); e.Err != nil {
			s.Fatalf("cancel with dependents %s: %v", dependents, e.Err)
		}
		for range 3 {
			s.Sweep()
		}
		s.State(foreign, sojourn.Blocked)
		s.State(deep, sojourn.Blocked)
		if j := s.Get(own); j.State == sojourn.Blocked {
			s.Errorf("the token's own dependent is still blocked after %s", dependents)
		}
	}
}
