package workflows

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/workflow"
)

var operateTrials = []kit.Trial{
	{Name: "a workflow is cancelled", Law: "A cancel of the whole cancels every member that is not final, and starts none of them.", Covers: "spec:D11", Run: cancels},
	{Name: "a workflow is redriven", Law: "A redrive of the whole runs what has failed or was cancelled again, in the order of the dependencies.",
		Covers: "spec:D11 inv:E5", Run: redrives},
	{Name: "a workflow is redriven around a member that stays", Law: "Those that depend on a member whose redrive is refused get its end again.",
		Covers: "spec:D11 inv:E5", Run: redrivesAround},
	{Name: "workflows are listed", Law: "Workflows are listed by prefix and state, members by state, both in pages.", Covers: "spec:D11", Run: lists},
	{Name: "workflows of tenants", Law: "A token sees and changes only workflows whose members are all within its grants.", Covers: "spec:H7", Run: tenants},
	{Name: "callbacks of a tenant", Law: "Callbacks are enqueued with the grants that the token of the maker has at that time.", Covers: "spec:H7 inv:E5", Run: ownersCallback},
}

func cancels(s *kit.Scene) {
	c := calls(s)
	w := order("a")
	for i := range 900 { // more than one slice, and none starts because others end
		w.Add(fmt.Sprintf("m%03d", i), job(), workflow.After("pack").OnFailure(sojourn.IgnoreFailure))
	}
	start(s, w)
	running := s.Claim()
	out, err := c.Cancel(s.Ctx, "a", "changed my mind")
	s.Must(err, "Cancel")
	kit.Same(s, "state", out.State, workflow.Cancelled)
	is(s, "a", "cancelled 1: cancelled 903")
	s.Reports(kit.Completed(running), "lost")
	for _, j := range find(s)[:3] {
		kit.Same(s, "reason", j.Reason, "changed my mind")
		kit.Same(s, "attempts of "+j.Member, j.Attempt, map[bool]int32{true: 1}[j.ID == running.Job.ID])
	}
	called(s, "end cancelled 1", "failure 1")
	out, err = c.Cancel(s.Ctx, "a", "")
	s.Must(err, "Cancel again")
	kit.Same(s, "state", out.State, workflow.Cancelled)
	_, err = c.Cancel(s.Ctx, "nobody", "")
	s.Is(err, sojourn.ErrNotFound, "Cancel of nobody")

	start(s, workflow.New("open").Add("x", job()).StayOpen())
	out, err = c.Cancel(s.Ctx, "open", "")
	s.Must(err, "Cancel of an open one")
	kit.Same(s, "state", out.State, workflow.Cancelled)
	_, err = c.Append(s.Ctx, "open", workflow.Member{Name: "y", Job: job()})
	s.Is(err, sojourn.ErrConflict, "Append to a cancelled one")
}

func redrives(s *kit.Scene) {
	c := calls(s)
	w := workflow.New("a").Add("zero", job()).Add("one", job(), workflow.After("zero").OnFailure(sojourn.CancelOnFailure)).
		Add("beside", job()).Add("two", job(), workflow.After("beside", "one").OnFailure(sojourn.CancelOnFailure)).OnEnd(callback("end")).OnFirstFailure(callback("failure"))
	start(s, w)
	end(s, "zero")
	s.Sweep()
	is(s, "a", "failed 1: completed 1, failed 1, cancelled 2")
	called(s, "end failed 1", "failure 1")
	out, err := c.Redrive(s.Ctx, "a", "fixed")
	s.Must(err, "Redrive")
	kit.Same(s, "state", out.State, workflow.Running)
	is(s, "a", "running 2: blocked 2, ready 1, completed 1")
	kit.Same(s, "first", fmt.Sprint(end(s)), "[zero]")
	kit.Same(s, "second", fmt.Sprint(end(s)), "[one]")
	kit.Same(s, "third", fmt.Sprint(end(s)), "[two]")
	is(s, "a", "completed 2: completed 4")
	called(s, "end completed 2")
	out, err = c.Redrive(s.Ctx, "a", "")
	s.Must(err, "Redrive of a completed one")
	kit.Same(s, "generation", fmt.Sprintln(out.State, out.Generation), "completed 2\n")
}

// redrivesAround: the key of member m was taken meanwhile. a and c come before it, x and z after it
// in the order in which members are redriven.
func redrivesAround(s *kit.Scene) {
	c := calls(s)
	m := func(a sojourn.OnFailure) workflow.Edge { return workflow.After("m").OnFailure(a) }
	start(s, workflow.New("b").Add("m", job(sojourn.Key("k"))).Add("a", job(), m(sojourn.IgnoreFailure)).Add("c", job(), m(sojourn.CancelOnFailure)).
		Add("x", job(), m(sojourn.IgnoreFailure)).Add("z", job(), m(sojourn.CancelOnFailure)).OnEnd(callback("end")))
	end(s, "m")
	s.Sweep()
	end(s, "a", "x")
	is(s, "b", "failed 1: failed 3, cancelled 2")
	called(s, "end failed 1")
	s.Enqueue(sojourn.Key("k"))
	out, err := c.Redrive(s.Ctx, "b", "")
	s.Must(err, "Redrive")
	if !strings.Contains(out.Problem, `"k"`) {
		s.Errorf("the problem is %q", out.Problem)
	}
	s.Sweep()
	is(s, "b", "running 2: ready 2, failed 1, cancelled 2")
	end(s)
	is(s, "b", "failed 2: completed 2, failed 1, cancelled 2")
	called(s, "end failed 2")
}

func lists(s *kit.Scene) {
	c := calls(s)
	for i := range 5 {
		start(s, workflow.New(fmt.Sprint("night-", i)).Add("x", job()))
	}
	start(s, workflow.New("other").Add("x", job()))
	list := func(prefix string, states ...workflow.State) string {
		s.Helper()
		var names []string
		for w, err := range c.All(s.Ctx, prefix, states...) {
			s.Must(err, "All")
			names = append(names, w.Name)
		}
		return strings.Join(names, " ")
	}
	kit.Same(s, "by prefix", list("night-"), "night-0 night-1 night-2 night-3 night-4")
	s.Cancel(member(s, "night-1", "x").ID)
	s.Sweep()
	kit.Same(s, "by state", list("", workflow.Cancelled), "night-1")
	kit.Same(s, "by states", list("", workflow.Running, workflow.Cancelled), "night-0 night-1 night-2 night-3 night-4 other")
	page, err := workflow.StoreOf(s.Store).Workflows(s.Ctx, workflow.Query{Limit: 2, After: "night-0"})
	s.Must(err, "Workflows")
	kit.Same(s, "page", len(page), 2)
	kit.Same(s, "first of the page", fmt.Sprintln(page[0].Name, page[0].Total, page[0].Counts[sojourn.Cancelled], page[0].Live()), "night-1 1 1 0\n")
	_, err = workflow.StoreOf(s.Store).Workflows(s.Ctx, workflow.Query{Names: []string{"night-1", "nobody"}})
	s.Is(err, sojourn.ErrNotFound, "one of the names")
	_, err = workflow.StoreOf(s.Store).Workflows(s.Ctx, workflow.Query{States: []workflow.State{"sideways"}})
	s.Refused(err, sojourn.CodeInvalid, "no such state")
	w := order("members")
	start(s, w)
	var names []string
	for m, err := range c.Members(s.Ctx, "members", sojourn.Ready) {
		s.Must(err, "Members")
		names = append(names, m.Name+" "+m.Kind+" "+m.Queue)
	}
	kit.Same(s, "members that are ready", strings.Join(names, "; "), "charge "+kit.Kind+" default; pack "+kit.Kind+" default")
}

func grants(queue string, verbs ...access.Verb) access.Grant {
	if len(verbs) == 0 {
		verbs = []access.Verb{access.VerbEnqueue, access.VerbRead, access.VerbOperate, access.VerbWork}
	}
	return access.Grant{Verbs: verbs, Queue: queue}
}

func tenants(s *kit.Scene) {
	calls(s)
	alice, bob, both := s.Tenant("alice", grants("a")), s.Tenant("bob", grants("b")), s.Tenant("both", grants("a"), grants("b"))
	in := func(queue string) *sojourn.Job { return job(sojourn.Queue(queue)) }
	for name, w := range map[string]*workflow.Workflow{
		"a member":          workflow.New("x").Add("m", in("a")).Add("n", in("b")),
		"the end":           workflow.New("x").Add("m", in("a")).OnEnd(in("b")),
		"the first failure": workflow.New("x").Add("m", in("a")).OnFirstFailure(in("b")),
	} {
		_, err := calls(alice).Start(alice.Ctx, w)
		s.Refused(err, access.CodeScope, name+" in another queue")
	}
	start(alice, workflow.New("mine").Add("m", in("a")).StayOpen())
	start(both, workflow.New("mixed").Add("m", in("a")).Add("n", in("b")))
	start(alice, workflow.New("hollow").StayOpen())
	kit.Same(s, "owner", get(s, "mine").Owner, "alice")
	for _, name := range []string{"mine", "mixed", "hollow"} {
		_, err := calls(bob).Get(bob.Ctx, name)
		s.Is(err, sojourn.ErrNotFound, "Get of "+name)
		_, err = calls(bob).Cancel(bob.Ctx, name, "")
		s.Is(err, sojourn.ErrNotFound, "Cancel of "+name)
		_, err = calls(bob).Redrive(bob.Ctx, name, "")
		s.Is(err, sojourn.ErrNotFound, "Redrive of "+name)
		_, err = calls(bob).Close(bob.Ctx, name)
		s.Is(err, sojourn.ErrNotFound, "Close of "+name)
		_, err = calls(bob).Append(bob.Ctx, name, workflow.Member{Name: "z", Job: in("b")})
		s.Is(err, sojourn.ErrNotFound, "Append to "+name)
		for _, err := range calls(bob).Members(bob.Ctx, name) {
			s.Is(err, sojourn.ErrNotFound, "Members of "+name)
		}
	}
	_, err := calls(alice).Get(alice.Ctx, "mixed")
	s.Is(err, sojourn.ErrNotFound, "Get of one with a foreign member")
	_, err = calls(bob).Start(bob.Ctx, workflow.New("mine").Add("m", in("b")))
	s.Is(err, sojourn.ErrConflict, "a name of others")
	for w, err := range calls(bob).All(bob.Ctx, "") {
		s.Fatalf("bob sees %v %v", w.Name, err)
	}
	reader := s.Tenant("reader", grants("a", access.VerbRead, access.VerbOperate))
	get(reader, "mine")
	_, err = calls(reader).Append(reader.Ctx, "mine", workflow.Member{Name: "z", Job: in("a")})
	s.Refused(err, access.CodeScope, "Append without the verb")
	// A member that moves takes its workflow with it.
	m := member(s, "mine", "m").ID
	other := "b"
	s.Change(m, sojourn.Edit{Queue: &other}, sojourn.Ready)
	_, err = calls(alice).Get(alice.Ctx, "mine")
	s.Is(err, sojourn.ErrNotFound, "Get after a member has moved away")
	get(both, "mine")
}

func ownersCallback(s *kit.Scene) {
	keeper := s.Keeper()
	token := access.Token{ID: "alice", Name: "alice", Hash: make([]byte, 32), ExpiresAt: s.Now().Add(48 * time.Hour), Grants: []access.Grant{grants(kit.Queue)}}
	s.Must(keeper.SetAccessToken(s.Ctx, token), "SetAccessToken")
	alice := s.Tenant("alice", token.Grants...)
	start(alice, workflow.New("a").Add("x", job()).OnEnd(callback("end")))
	token.Grants = []access.Grant{grants("elsewhere")}
	s.Must(keeper.SetAccessToken(s.Ctx, token), "SetAccessToken")
	end(s)
	called(s)
	w := is(s, "a", "completed 1: completed 1")
	if !strings.Contains(w.Problem, "alice") {
		s.Errorf("the problem is %q", w.Problem)
	}
	token.Grants = []access.Grant{grants(kit.Queue)}
	s.Must(keeper.SetAccessToken(s.Ctx, token), "SetAccessToken")
	s.Advance(2 * time.Minute)
	called(s, "end completed 1")
}
