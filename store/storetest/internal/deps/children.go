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

var childTrials = []kit.Trial{
	{Name: "a job awaits its children", Law: "The step that awaits children stores them; the same attempt goes on when the last one is final, whatever its end.",
		Covers: "tr:F17 tr:S8 tr:C2 spec:D3 inv:G1", Run: awaitsChildren},
	{Name: "a wait for children holds no weight", Law: "A parent at a limit of one does not keep its children from running.", Covers: "tr:F17 rules:C10", Run: noWeight},
	{Name: "no children", Law: "A step that awaits no children goes on at once.", Covers: "tr:F17", Run: noChildren},
	{Name: "children once", Law: "A name is one job in a stage, however often the step runs; a redrive and a next stage begin with other children.",
		Covers: "tr:F17 tr:F12 rules:A2 rules:H2 inv:G5", Run: childrenOnce},
	{Name: "a wait for children that is too long", Law: "The end of within, or the timeout, ends the attempt; the children go on, and the retry waits for them again.",
		Covers: "tr:W11 tr:F17 inv:J1", Run: childrenTimeout},
	{Name: "a retry after the children", Law: "A retry keeps that the children are final, and the responses that it has got; asking again for the same is refused.",
		Covers: "tr:S8 tr:F2 tr:W1 tr:F15", Run: childrenRetry},
	{Name: "a response during the wait for children", Law: "A response is attached meanwhile, and the job has it when it goes on.", Covers: "tr:R5 tr:S8 tr:M3", Run: childrenResponse},
	{Name: "the end of a job that awaits children", Law: "A cancel, a deadline or an end by hand leaves the children alone.", Covers: "tr:O1 tr:W6", Run: childrenOutlive},
	{Name: "children that are other jobs", Law: "A child may be the live job of its key, which counts once; a job that waits for the parent is refused.",
		Covers: "tr:F17 tr:F15 tr:N5 inv:G3", Run: childrenExist},
	{Name: "children that cannot be", Law: "What the store cannot take is refused with a code, nothing is stored, and the lease stands.", Covers: "tr:F15 rules:C7", Run: childrenRefused},
	{Name: "children are refused by no limit", Law: "max_depth refuses no child.", Covers: "tr:F17 rules:C7", Run: childrenNoLimit},
	{Name: "tenants and children", Law: "A worker stores children only where its token may enqueue, and reads only those that it may see.", Covers: "tr:F15", Run: childrenForeign},
	{Name: "retention spares awaited children", Law: "Children stay until their parent is final, so that it can read their results.", Covers: "tr:W10", Run: childrenKept},
	{Name: "a dependency on an own child", Law: "A job may depend on a child that it awaits; without the dependency the child is its child as before.",
		Covers: "spec:D4 inv:G1 inv:G5", Run: dependsOnChild},
	{Name: "why a parent waits", Law: "Why names the children that are not final, and until when the parent waits.", Covers: "spec:O5", Run: whyChildren},
}

// child is a job with a name.
func child(s *kit.Scene, name string, options ...sojourn.Option) sojourn.Job {
	return s.Job(append([]sojourn.Option{sojourn.Name(name), sojourn.Queue("parts")}, options...)...)
}

// part claims one child.
func part(s *kit.Scene) driver.Claimed { s.Helper(); return s.Claim(kit.From("parts")) }

func awaitsChildren(s *kit.Scene) {
	c := s.Running()
	id := c.Job.ID
	a, b := child(s, "a"), child(s, "b")
	o := kit.AwaitJobs(c, time.Hour, a, b)
	o.Verdict.Checkpoint = []byte("sent")
	j := s.Finish(o, sojourn.Blocked)
	kit.Same(s, "open children", j.WaitsFor, 2)
	kit.Same(s, "children done", j.ChildrenDone, false)
	s.Finds(sojourn.Filter{AwaitedBy: id}, a.ID, b.ID)
	s.Finds(sojourn.Filter{ChildrenOf: a.ID}, id)
	s.Finds(sojourn.Filter{ParentsOf: id}) // they are no dependencies
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	waits(s, id, 1)
	s.ClaimNone("a child is open")
	s.Finish(kit.Abort(part(s)), sojourn.Failed)
	j = s.State(id, sojourn.Ready)
	kit.Same(s, "children done", j.ChildrenDone, true)
	d := take(s, id)
	kit.Same(s, "the attempt", d.Job.Attempt, 1)
	kit.Same(s, "the purpose", d.Purpose, sojourn.PurposeStart)
	kit.Same(s, "children done", d.Job.ChildrenDone, true)
	kit.Same(s, "the checkpoint", string(d.Job.Checkpoint), "sent")
	found, err := s.Store.Find(s.Ctx, sojourn.Filter{AwaitedBy: id, Full: true})
	s.Must(err, "Find")
	for i, want := range []string{"a done completed", "b  failed"} {
		kit.Same(s, "a child", fmt.Sprint(found[i].Name, " ", string(found[i].Result), " ", found[i].State), want)
	}
	s.Finish(kit.Completed(d), sojourn.Completed)
	s.Happened(id, "await_jobs", "unblocked", "completed")
	s.Finds(sojourn.Filter{AwaitedBy: id}, a.ID, b.ID)
}

func noWeight(s *kit.Scene) {
	s.SetQueue("default", sojourn.QueueSettings{Limit: 1})
	c := s.Running()
	s.Finish(kit.AwaitJobs(c, 0, s.Job(sojourn.Name("a"))), sojourn.Blocked)
	s.InFlight(0, "while it waits")
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	kit.Same(s, "the parent", s.Claim().Job.ID, c.Job.ID)
	s.InFlight(1, "the parent runs")
}

func noChildren(s *kit.Scene) {
	c := s.Running()
	j := s.Finish(kit.AwaitJobs(c, time.Hour), sojourn.Ready)
	kit.Same(s, "children done", j.ChildrenDone, true)
	d := take(s, c.Job.ID)
	kit.Same(s, "the attempt", d.Job.Attempt, 1)
	s.Finish(kit.AwaitJobs(d, time.Hour), sojourn.Ready) // a handler may ask for nothing twice
}

func childrenOnce(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second), sojourn.MaxAttempts(1))
	id := c.Job.ID
	a := child(s, "a")
	o := kit.AwaitJobs(c, time.Second, a)
	s.Finish(o, sojourn.Blocked)
	before := s.Picture(id)
	s.Reports(o, driver.FinishRepeated)
	s.Unchanged(id, before, "a repeated report")
	s.Finish(kit.Completed(part(s)), sojourn.Completed)

	c = take(s, id)
	s.Finish(kit.Advance(c, ""), sojourn.Ready) // another stage, another a
	c = take(s, id)
	kit.Same(s, "children done in the next stage", c.Job.ChildrenDone, false)
	b := child(s, "a")
	s.Finish(kit.AwaitJobs(c, 0, b), sojourn.Blocked)
	s.Finds(sojourn.Filter{AwaitedBy: id}, b.ID)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	s.Finish(kit.Abort(take(s, id)), sojourn.Failed)

	s.Edited(id, kit.RedriveEdit, sojourn.Ready)
	c = take(s, id)
	kit.Same(s, "children done in the next generation", c.Job.ChildrenDone, false)
	d := child(s, "a")
	s.Finish(kit.AwaitJobs(c, 0, d), sojourn.Blocked)
	s.Finds(sojourn.Filter{AwaitedBy: id}, d.ID)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	s.State(id, sojourn.Ready)
}

func childrenTimeout(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second), sojourn.Timeout(time.Hour))
	id := c.Job.ID
	a, b := child(s, "a"), child(s, "b")
	j := s.Finish(kit.AwaitJobs(c, time.Minute, a, b), sojourn.Blocked)
	s.At("wake_at", j.WakeAt, s.Now().Add(time.Minute))
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	s.At("wake_at", s.Get(id).WakeAt, j.WakeAt) // the end of one child does not prolong it
	s.Advance(time.Minute)
	s.Sweep()
	j = s.State(id, sojourn.Scheduled)
	kit.Same(s, "the reason", j.Reason, sojourn.ReasonTimeout)
	kit.Same(s, "children done", j.ChildrenDone, false)
	s.Counters(id, 1, 1, 0)
	s.State(b.ID, sojourn.Ready)
	s.Advance(time.Second)
	c = take(s, id)
	again := []sojourn.Job{child(s, "a"), child(s, "b"), child(s, "c")}
	j = s.Finish(kit.AwaitJobs(c, 0, again...), sojourn.Blocked)
	kit.Same(s, "open children", j.WaitsFor, 2)
	s.Finds(sojourn.Filter{AwaitedBy: id}, a.ID, b.ID, again[2].ID)
	s.Gone(again[0].ID)
	for range 2 {
		s.Finish(kit.Completed(part(s)), sojourn.Completed)
	}
	s.State(id, sojourn.Ready)
	s.Happened(id, "await_jobs", "timed_out", "await_jobs", "unblocked")

	d := s.Running(sojourn.Timeout(time.Minute), sojourn.MaxAttempts(1), sojourn.Queue("other"))
	e := child(s, "a")
	s.Finish(kit.AwaitJobs(d, time.Hour, e), sojourn.Blocked)
	s.Advance(time.Minute)
	s.Sweep()
	kit.Same(s, "the reason", s.State(d.Job.ID, sojourn.Failed).Reason, sojourn.ReasonTimeout)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
}

func childrenRetry(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second))
	id := c.Job.ID
	s.Finish(kit.AwaitJobs(c, 0, child(s, "a")), sojourn.Blocked)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	s.Finish(kit.Failure(take(s, id)), sojourn.Scheduled)
	s.Advance(time.Second)
	d := take(s, id)
	kit.Same(s, "children done after an error", d.Job.ChildrenDone, true)
	s.Advance(sojourn.DefaultLease + time.Second)
	s.Sweep()
	e := take(s, id)
	kit.Same(s, "children done after a lost lease", e.Job.ChildrenDone, true)
	s.Refused(s.Reports(kit.AwaitJobs(e, 0, child(s, "a")), driver.FinishRefused).Err, sojourn.CodeInvalid, "children that are final already")
	s.Finish(kit.AwaitJobs(e, 0, child(s, "a"), child(s, "b")), sojourn.Blocked)
	kit.Same(s, "children done during another wait", s.Get(id).ChildrenDone, false)
}

func childrenResponse(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	id := c.Job.ID
	s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
	s.Respond("k", kit.Body("first"))
	c = s.Claim()
	s.Finish(kit.AwaitJobs(c, 0, child(s, "a")), sojourn.Blocked)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	c = take(s, id)
	kit.Same(s, "the response that stays", string(s.ClaimedResponse(c).Body), "first")
	s.Finish(kit.Completed(c), sojourn.Completed)

	c = s.Running(sojourn.Key("l"))
	id = c.Job.ID
	s.Finish(kit.AwaitJobs(c, 0, child(s, "a")), sojourn.Blocked)
	s.Became(s.Respond("l", kit.Body("meanwhile")), sojourn.Early, id)
	waits(s, id, 1)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	kit.Same(s, "the response that came meanwhile", string(s.ClaimedResponse(take(s, id)).Body), "meanwhile")
}

func childrenOutlive(s *kit.Scene) {
	park := func(options ...sojourn.Option) (parent, c sojourn.ID) {
		p := s.Running(options...)
		j := child(s, "a")
		s.Finish(kit.AwaitJobs(p, 0, j), sojourn.Blocked)
		return p.Job.ID, j.ID
	}
	parent, a := park()
	s.Cancel(parent)
	s.State(a, sojourn.Ready)
	late, b := park(sojourn.Deadline(time.Minute))
	s.Advance(time.Minute)
	s.Sweep()
	s.State(late, sojourn.Failed)
	for range 2 {
		s.Finish(kit.Completed(part(s)), sojourn.Completed)
	}
	s.State(b, sojourn.Completed)
	s.State(parent, sojourn.Cancelled)
	parent, a = park() // the children go too where the call says so
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{AwaitedBy: parent}, sojourn.Edit{Action: sojourn.EditCancel})
	s.Must(err, "Edit")
	kit.Same(s, "cancelled children", len(ed.Items), 1)
	s.State(a, sojourn.Cancelled)
	s.State(parent, sojourn.Ready)
	s.Cancel(parent)
	parent, a = park()
	s.Must(change(s, parent, undepend()).Err, "remove all")
	s.State(parent, sojourn.Ready)
	s.Finds(sojourn.Filter{AwaitedBy: parent}, a)
}

func childrenExist(s *kit.Scene) {
	held := s.Enqueue(sojourn.Key("k"), sojourn.Queue("parts"))
	c := s.Running()
	id := c.Job.ID
	j := s.Finish(kit.AwaitJobs(c, 0, child(s, "a", sojourn.Key("k")), child(s, "b", sojourn.Key("new")), child(s, "c", sojourn.Key("new"))), sojourn.Blocked)
	kit.Same(s, "open children", j.WaitsFor, 2)
	kit.Same(s, "the first part", s.Finish(kit.Completed(part(s)), sojourn.Completed).ID, held)
	waits(s, id, 1)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	c = take(s, id)
	s.Finish(kit.Completed(c), sojourn.Completed)

	c = s.Running(sojourn.Key("mine"))
	id = c.Job.ID
	waiting := s.Enqueue(sojourn.Key("waiting"), sojourn.Queue("parts"), sojourn.DependsOn(id))
	for what, j := range map[string]sojourn.Job{
		"the job itself":               child(s, "a", sojourn.Key("mine")),
		"a job that waits for it":      child(s, "a", sojourn.Key("waiting")),
		"a new job that waits for it":  child(s, "a", sojourn.DependsOn(id)),
		"a new job that does so later": child(s, "a", sojourn.DependsOn(waiting)),
	} {
		err := s.Reports(kit.AwaitJobs(c, 0, j), driver.FinishRefused).Err
		s.Is(err, sojourn.ErrConflict, what)
		if !strings.Contains(err.Error(), id.String()) {
			s.Fatalf("the refusal of %s does not name a cycle: %v", what, err)
		}
		s.Gone(j.ID)
	}
	s.State(id, sojourn.Running)
	first, second := child(s, "first"), child(s, "second")
	sojourn.DependsOn(first.ID)(&second)
	s.Finish(kit.AwaitJobs(c, 0, second, first), sojourn.Blocked)
	kit.Same(s, "the part that another waits for", part(s).Job.ID, first.ID)
	waits(s, second.ID, 1)
}

func childrenRefused(s *kit.Scene) {
	c := s.Running()
	good := child(s, "good")
	for what, change := range map[string]func(o *sojourn.Outcome){
		"a child without a name":  func(o *sojourn.Outcome) { o.Next[1].Name = "" },
		"two with the same name":  func(o *sojourn.Outcome) { o.Next[1].Name = "good" },
		"a child with a wrong id": func(o *sojourn.Outcome) { o.Next[1].ID = -1 },
		"a queue that is no name": func(o *sojourn.Outcome) { o.Next[1].Queue = "no name" },
		"a negative wait":         func(o *sojourn.Outcome) { o.Wait.Within = -1 },
		"a wait with keys":        func(o *sojourn.Outcome) { o.Wait.Keys = []string{"k"} },
		"children of a snooze":    func(o *sojourn.Outcome) { o.Type, o.Wait = sojourn.OutcomeSnooze, sojourn.Wait{} },
	} {
		o := kit.AwaitJobs(c, time.Hour, good, child(s, "bad"))
		change(&o)
		s.Refused(s.Reports(o, driver.FinishRefused).Err, sojourn.CodeInvalid, what)
		s.Gone(good.ID)
	}
	s.Enqueue(sojourn.Key("taken"))
	o := kit.AwaitJobs(c, 0, good, child(s, "bad", sojourn.Key("taken"), sojourn.OnKeyConflict(sojourn.ReturnError)))
	s.Is(s.Reports(o, driver.FinishRefused).Err, sojourn.ErrConflict, "a child whose key is taken")
	s.Gone(good.ID)
	s.State(c.Job.ID, sojourn.Running)
	s.Finish(kit.AwaitJobs(c, 0, good), sojourn.Blocked)
}

func childrenNoLimit(s *kit.Scene) {
	s.SetQueue("parts", sojourn.QueueSettings{MaxDepth: 1})
	c := s.Running()
	s.Finish(kit.AwaitJobs(c, 0, child(s, "a"), child(s, "b"), child(s, "c")), sojourn.Blocked)
	kit.Same(s, "ready children", s.Queue("parts").Counts[sojourn.Ready], 3)
}

func childrenForeign(s *kit.Scene) {
	alice := s.Tenant("alice", access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: "alice"})
	bobs := s.Enqueue(sojourn.Key("bobs"), sojourn.Queue("bob"))
	alice.Enqueue(sojourn.Queue("alice"))
	c := alice.Claim(kit.From("alice"), kit.By("alice/w"))
	mine := alice.Job(sojourn.Name("a"), sojourn.Queue("alice"))
	for what, j := range map[string]sojourn.Job{
		"a child in another tenant's queue":   alice.Job(sojourn.Name("b"), sojourn.Queue("bob")),
		"a child with another tenant's key":   alice.Job(sojourn.Name("b"), sojourn.Queue("alice"), sojourn.Key("bobs")),
		"a child that waits for another's":    alice.Job(sojourn.Name("b"), sojourn.Queue("alice"), sojourn.DependsOn(bobs)),
		"a child with an id of another block": s.Job(sojourn.Name("b"), sojourn.Queue("alice")),
	} {
		f := alice.Reports(kit.AwaitJobs(c, 0, mine, j), driver.FinishRefused)
		if f.Err == nil {
			s.Errorf("%s is refused without an error", what)
		}
		s.Gone(mine.ID)
	}
	alice.Finish(kit.AwaitJobs(c, 0, mine), sojourn.Blocked)
	s.State(bobs, sojourn.Ready)
	s.Finish(kit.Completed(s.Claim(kit.From("bob"))), sojourn.Completed)
}

func childrenKept(s *kit.Scene) {
	s.SetQueue("parts", sojourn.QueueSettings{Retention: sojourn.Retention{Age: time.Hour}})
	c := s.Running()
	a, b := child(s, "a"), child(s, "b")
	s.Finish(kit.AwaitJobs(c, 10*time.Hour, a, b), sojourn.Blocked)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	other := s.Final(sojourn.Completed, sojourn.Queue("parts"), sojourn.Priority(1)).Job.ID
	s.Advance(3 * time.Hour)
	s.Sweep()
	s.Gone(other)
	s.State(a.ID, sojourn.Completed)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	s.Finish(kit.Completed(take(s, c.Job.ID)), sojourn.Completed)
	s.Advance(3 * time.Hour)
	s.Sweep()
	s.Gone(a.ID)
	s.Advance(8 * 24 * time.Hour)
	s.Sweep()
	s.Gone(c.Job.ID)
}

func whyChildren(s *kit.Scene) {
	c := s.Running()
	a, b := child(s, "a"), child(s, "b")
	s.Finish(kit.AwaitJobs(c, time.Hour, a, b), sojourn.Blocked)
	s.Finish(kit.Completed(part(s)), sojourn.Completed)
	w, err := s.Store.Why(s.Ctx, c.Job.ID)
	s.Must(err, "Why")
	kit.Same(s, "waits", w.Waits, fmt.Sprintf("for its children job %d (ready)", b.ID))
	s.At("until", w.Until, s.Get(c.Job.ID).WakeAt)
}

func dependsOnChild(s *kit.Scene) {
	c := s.Running()
	id := c.Job.ID
	a, b := child(s, "a"), child(s, "b")
	s.Finish(kit.AwaitJobs(c, 0, a, b), sojourn.Blocked)
	both := dependOn(a.ID)
	both.Undepend = &[]sojourn.ID{a.ID}
	s.Must(change(s, id, both).Err, "add and remove in one call")
	s.Finds(sojourn.Filter{ParentsOf: id})
	waits(s, id, 1)
	s.Must(change(s, id, dependOn(b.ID)).Err, "add")
	s.Finds(sojourn.Filter{ParentsOf: id}, b.ID)
	s.Must(change(s, id, undepend(b.ID)).Err, "remove")
	s.Finds(sojourn.Filter{ParentsOf: id})
	s.Finds(sojourn.Filter{AwaitedBy: id}, a.ID, b.ID)
	kit.Same(s, "children done", s.State(id, sojourn.Ready).ChildrenDone, true)
	s.Finish(kit.Completed(take(s, id)), sojourn.Completed)
	s.Advance(sojourn.IDLife + time.Second)
	s.Must(s.Edit(id, sojourn.Edit{Action: sojourn.EditPurge}).Err, "purge") // the store's own checks look for names without a job
}
