package triage

import (
	"fmt"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/store/operation"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var operationTrials = []kit.Trial{
	{Name: "an operation changes all jobs of its filter once", Law: "A stored operation handles each job of its filter once, slice by slice, whoever sweeps, and says how far it is.",
		Covers: "spec:R16", Run: redrivesAll},
	{Name: "an operation stops at a failed canary", Law: "If a canary fails, the rest is not redriven; resumed, it goes on without canaries.", Covers: "spec:R16", Run: canaryFails},
	{Name: "an operation goes on after its canaries", Law: "If all canaries complete, the rest follows.", Covers: "spec:R16", Run: canaryPasses},
	{Name: "an operation keeps its rate and its limit", Law: "An operation changes at most so many jobs a second, and at most so many at all.", Covers: "spec:R16", Run: rateAndLimit},
	{Name: "an operation is paused, resumed and cancelled", Law: "A paused operation changes nothing; resumed it goes on where it was; a cancelled one ends.",
		Covers: "spec:R16", Run: pauses},
	{Name: "an operation runs with the grants of its maker", Law: "An operation of a token whose grants end stops and says why; others do not see it.",
		Covers: "spec:R16 spec:H7", Run: revoked},
	{Name: "operations cancel, move, tag and purge", Law: "Every action of an edit can be a stored operation, and a dry run counts.", Covers: "spec:R16", Run: otherActions},
	{Name: "bad operations", Law: "An operation out of range, and one without a condition, is refused.", Covers: "spec:R16", Run: badOperations},
}

// ops are the calls about operations of a scene.
func ops(s *kit.Scene) operation.Operations {
	s.Helper()
	if _, ok := s.Store.(operation.Store); !ok {
		s.Skip("this store has no stored operations")
	}
	return operation.Of(sojourn.NewClient(s.Store))
}

// begin starts an operation.
func begin(s *kit.Scene, spec operation.Spec) operation.Status {
	s.Helper()
	out, err := ops(s).Start(s.Ctx, spec)
	s.Must(err, "Start of an operation")
	return out
}

// shows wants the state and the numbers of an operation: "running 2 0 0 of 3".
func shows(s *kit.Scene, id, want string) operation.Status {
	s.Helper()
	o, err := ops(s).Get(s.Ctx, id)
	s.Must(err, "Get of operation %s", id)
	kit.Same(s, "operation", fmt.Sprintf("%s %d %d %d of %d", o.State, o.Changed, o.Unchanged, o.Refused, o.Total), want)
	return o
}

// sweeps sweeps once a second until the operation has ended, or n times.
func sweeps(s *kit.Scene, id string, n int) {
	s.Helper()
	for range n {
		s.Sweep()
		o, err := ops(s).Get(s.Ctx, id)
		s.Must(err, "Get of operation %s", id)
		if o.State.Ended() {
			return
		}
		s.Advance(time.Second)
	}
}

// failed stores n failed jobs and returns their group.
func failed(s *kit.Scene, n int) failure.Group {
	s.Helper()
	s.EnqueueMany(n, sojourn.MaxAttempts(1))
	kit.Same(s, "failed jobs", failAll(s, func(c driver.Claimed) string { return fmt.Sprintf("order %d: gateway down", c.Job.ID) }), n)
	s.Advance(time.Second)
	return one(s, failure.Query{})
}

var redrive = sojourn.Edit{Action: sojourn.EditRedrive, Reason: "fixed"}

func redrivesAll(s *kit.Scene) {
	ops(s)
	g := failed(s, 450) // more than two slices
	spec := operation.Spec{ID: "again", Filter: sojourn.Filter{Failure: g.ID}, Edit: redrive}
	begin(s, spec)
	again := begin(s, spec)
	kit.Same(s, "duplicate", again.Duplicate, true)
	_, err := ops(s).Start(s.Ctx, operation.Spec{ID: "again", Filter: sojourn.Filter{Failure: g.ID}, Edit: redrive, Limit: 3})
	s.Is(err, sojourn.ErrConflict, "another operation with the same id")
	late := s.Enqueue(sojourn.MaxAttempts(1), sojourn.Priority(1))
	s.Advance(time.Second)
	s.Finish(fails(s.Claim(), "order 5: gateway down"), sojourn.Failed)
	sweeps(s, "again", 5)
	shows(s, "again", "completed 450 0 0 of 450")
	s.State(late, sojourn.Failed)
	n := 0
	for _, c := range s.ClaimMany(kit.UpTo(1000)) {
		kit.Same(s, "generation", c.Job.Generation, 2)
		s.Finish(fails(c, "order 6: gateway down"), sojourn.Failed)
		n++
	}
	kit.Same(s, "redriven jobs", n, 450)
	s.Sweep()
	s.ClaimNone("each job was redriven once")
	var all []string
	for o, err := range ops(s).All(s.Ctx) {
		s.Must(err, "All")
		all = append(all, o.ID)
	}
	kit.Same(s, "operations", fmt.Sprint(all), "[again]")
	s.Advance(operation.Keep + time.Hour)
	s.Sweep()
	_, err = ops(s).Get(s.Ctx, "again")
	s.Is(err, sojourn.ErrNotFound, "Get of an operation that is kept no longer")
}

func canaryFails(s *kit.Scene) {
	ops(s)
	g := failed(s, 30)
	o := begin(s, operation.Spec{Filter: sojourn.Filter{Failure: g.ID}, Edit: redrive, Canary: 10})
	sweeps(s, o.ID, 3)
	waits := shows(s, o.ID, "canary 10 0 0 of 30")
	kit.Same(s, "canaries", len(waits.Canaries), 10)
	claimed := s.ClaimMany(kit.UpTo(100))
	kit.Same(s, "redriven jobs", len(claimed), 10)
	for _, c := range claimed[1:] {
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
	sweeps(s, o.ID, 3)
	shows(s, o.ID, "canary 10 0 0 of 30")
	s.Finish(fails(claimed[0], "order 7: gateway down"), sojourn.Failed)
	sweeps(s, o.ID, 3)
	stopped := shows(s, o.ID, "stopped 10 0 0 of 30")
	if stopped.Problem == "" {
		s.Errorf("the operation does not say why it has stopped: %+v", stopped)
	}
	s.ClaimNone("a canary has failed")
	_, err := ops(s).Resume(s.Ctx, o.ID)
	s.Must(err, "Resume")
	sweeps(s, o.ID, 5)
	shows(s, o.ID, "completed 30 0 0 of 30")
	kit.Same(s, "redriven jobs", len(s.ClaimMany(kit.UpTo(100))), 20)
}

func canaryPasses(s *kit.Scene) {
	ops(s)
	g := failed(s, 5)
	o := begin(s, operation.Spec{Filter: sojourn.Filter{Failure: g.ID}, Edit: redrive, Canary: 2})
	sweeps(s, o.ID, 2)
	for _, c := range s.ClaimMany(kit.UpTo(100)) {
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
	sweeps(s, o.ID, 5)
	shows(s, o.ID, "completed 5 0 0 of 5")
	kit.Same(s, "redriven jobs", len(s.ClaimMany(kit.UpTo(100))), 3)

	few := failed(s, 1)
	small := begin(s, operation.Spec{Filter: sojourn.Filter{Failure: few.ID}, Edit: redrive, Canary: 10})
	sweeps(s, small.ID, 3)
	shows(s, small.ID, "canary 1 0 0 of 1")
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	sweeps(s, small.ID, 5)
	shows(s, small.ID, "completed 1 0 0 of 1")
}

func rateAndLimit(s *kit.Scene) {
	ops(s)
	g := failed(s, 100)
	o := begin(s, operation.Spec{Filter: sojourn.Filter{Failure: g.ID}, Edit: redrive, Rate: 10, Limit: 35})
	s.Sweep()
	shows(s, o.ID, "running 10 0 0 of 100")
	s.Sweep()
	shows(s, o.ID, "running 10 0 0 of 100")
	s.Advance(time.Second)
	s.Sweep()
	shows(s, o.ID, "running 20 0 0 of 100")
	sweeps(s, o.ID, 5)
	shows(s, o.ID, "completed 35 0 0 of 100")
	kit.Same(s, "redriven jobs", len(s.ClaimMany(kit.UpTo(100))), 35)
}

func pauses(s *kit.Scene) {
	ops(s)
	g := failed(s, 20)
	o := begin(s, operation.Spec{Filter: sojourn.Filter{Failure: g.ID}, Edit: redrive, Rate: 5})
	s.Sweep()
	_, err := ops(s).Pause(s.Ctx, o.ID)
	s.Must(err, "Pause")
	sweeps(s, o.ID, 3)
	shows(s, o.ID, "paused 5 0 0 of 20")
	_, err = ops(s).Resume(s.Ctx, o.ID)
	s.Must(err, "Resume")
	s.Sweep()
	shows(s, o.ID, "running 10 0 0 of 20")
	_, err = ops(s).Cancel(s.Ctx, o.ID)
	s.Must(err, "Cancel")
	sweeps(s, o.ID, 3)
	shows(s, o.ID, "cancelled 10 0 0 of 20")
	_, err = ops(s).Cancel(s.Ctx, o.ID)
	s.Must(err, "Cancel again")
	_, err = ops(s).Resume(s.Ctx, o.ID)
	s.Is(err, sojourn.ErrConflict, "Resume of a cancelled one")
	_, err = ops(s).Pause(s.Ctx, "nobody")
	s.Is(err, sojourn.ErrNotFound, "Pause of nobody")
}

func revoked(s *kit.Scene) {
	ops(s)
	keeper, ok := s.Store.(access.Keeper)
	if !ok {
		s.Skip("this store keeps no tokens")
	}
	g := failed(s, 20)
	grants := []access.Grant{{Verbs: []access.Verb{access.VerbRead, access.VerbOperate}, Queue: "default", Kind: kit.Kind}}
	token := access.Token{ID: "ann", Name: "ann", Hash: make([]byte, 32), Grants: grants, ExpiresAt: s.Now().Add(time.Hour)}
	s.Must(keeper.SetAccessToken(s.Ctx, token), "SetAccessToken")
	ann, bob := s.Tenant("ann", grants...), s.Tenant("bob", grants...)
	o := begin(ann, operation.Spec{Filter: sojourn.Filter{Failure: g.ID}, Edit: redrive, Rate: 5})
	kit.Same(s, "owner", o.Owner, "ann")
	s.Sweep()
	shows(ann, o.ID, "running 5 0 0 of 20")
	_, err := ops(bob).Get(bob.Ctx, o.ID)
	s.Is(err, sojourn.ErrNotFound, "Get by another token")
	_, err = ops(bob).Cancel(bob.Ctx, o.ID)
	s.Is(err, sojourn.ErrNotFound, "Cancel by another token")
	token.RevokedAt = s.Now()
	s.Must(keeper.SetAccessToken(s.Ctx, token), "SetAccessToken")
	sweeps(s, o.ID, 3)
	if out := shows(s, o.ID, "stopped 5 0 0 of 20"); out.Problem == "" {
		s.Error("the operation does not say why it has stopped")
	}
	_, err = ops(ann).Start(ann.Ctx, operation.Spec{Filter: sojourn.Filter{Queue: "other"}, Edit: redrive})
	s.Refused(err, access.CodeScope, "an operation in another queue")
	other := "other"
	_, err = ops(ann).Start(ann.Ctx, operation.Spec{Filter: sojourn.Filter{Failure: g.ID}, Edit: sojourn.Edit{Action: sojourn.EditRedrive, Queue: &other}})
	s.Refused(err, access.CodeScope, "an operation that moves to another queue")
	_, err = ops(ann).Start(ann.Ctx, operation.Spec{Filter: sojourn.Filter{Failure: g.ID}, Edit: sojourn.Edit{Action: sojourn.EditPurge}})
	s.Refused(err, access.CodeScope, "a purge")
}

func otherActions(s *kit.Scene) {
	ops(s)
	ids := s.EnqueueMany(3)
	s.Advance(time.Second)
	filter, other := sojourn.Filter{Queue: "default"}, "other"
	dry, err := ops(s).Start(s.Ctx, operation.Spec{Filter: filter, Edit: sojourn.Edit{Action: sojourn.EditCancel, DryRun: true}})
	s.Must(err, "dry run")
	kit.Same(s, "dry run", fmt.Sprint(dry.DryRun, dry.Total), "true 3")
	_, err = ops(s).Get(s.Ctx, dry.ID)
	s.Is(err, sojourn.ErrNotFound, "Get of a dry run")
	run := func(f sojourn.Filter, e sojourn.Edit, want string) {
		s.Helper()
		o := begin(s, operation.Spec{Filter: f, Edit: e})
		sweeps(s, o.ID, 3)
		shows(s, o.ID, want)
	}
	run(filter, sojourn.Edit{Action: sojourn.EditChange, AddTags: &[]string{"t"}}, "completed 3 0 0 of 3")
	run(filter, sojourn.Edit{Action: sojourn.EditChange, AddTags: &[]string{"t"}}, "completed 0 3 0 of 3")
	run(filter, sojourn.Edit{Action: sojourn.EditChange, Queue: &other}, "completed 3 0 0 of 3")
	s.Finds(sojourn.Filter{Queue: "other", Tag: "t"}, ids...)
	c := s.Claim(kit.From("other"))
	run(sojourn.Filter{Queue: "other"}, sojourn.Edit{Action: sojourn.EditCancel, Refuse: true}, "completed 2 0 1 of 3")
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Advance(sojourn.IDLife + time.Minute)
	run(sojourn.Filter{Queue: "other"}, sojourn.Edit{Action: sojourn.EditPurge}, "completed 3 0 0 of 3")
	s.Finds(sojourn.Filter{Queue: "other"})
}

func badOperations(s *kit.Scene) {
	ops(s)
	queue := sojourn.Filter{Queue: "default"}
	for what, spec := range kit.InOrder(map[string]operation.Spec{
		"no condition":      {Edit: redrive},
		"a limit below 0":   {Filter: queue, Edit: redrive, Limit: -1},
		"a rate below 0":    {Filter: queue, Edit: redrive, Rate: -1},
		"too many canaries": {Filter: queue, Edit: redrive, Canary: operation.MaxCanary + 1},
		"a canary cancel":   {Filter: queue, Edit: sojourn.Edit{Action: sojourn.EditCancel}, Canary: 1},
		"a page":            {Filter: sojourn.Filter{Queue: "default", Limit: 3}, Edit: redrive},
		"a bad id":          {ID: "a b", Filter: queue, Edit: redrive},
		"no action":         {Filter: queue},
	}) {
		_, err := ops(s).Start(s.Ctx, spec)
		s.Refused(err, sojourn.CodeInvalid, what)
	}
	_, err := ops(s).Start(s.Ctx, operation.Spec{Filter: sojourn.Filter{Failure: "0000000000000001"}, Edit: redrive})
	s.Is(err, sojourn.ErrNotFound, "an unknown group")
}
