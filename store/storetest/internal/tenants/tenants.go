package tenants

import (
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var tenantTrials = []kit.Trial{
	{Name: "an id belongs to the token that leased it", Law: "An id of another caller's block is refused, and the answer does not tell whether a job has it.",
		Covers: "tr:N4 rules:F2 spec:H7", Run: foreignIDs},
	{Name: "an id belongs to the server that drew it", Law: "No caller can use an id of the block from which a server draws ids.",
		Covers: "tr:N4 rules:F2 spec:H7", Run: serverIDs},
	{Name: "next jobs have ids of their worker", Law: "A completion cannot carry along jobs with ids of another caller's block.",
		Covers: "tr:F15 rules:F2 spec:H7", Run: foreignNextIDs},
	{Name: "rules:F2 the same id is the same job", Law: "A repeated call is a duplicate whatever has become of the job; other content is a conflict.",
		Covers: "tr:N4 tr:N6 tr:O5 rules:F2 inv:A3", Run: sameContent},
	{Name: "a repeat after the id block has expired", Law: "Then an id with other content answers the same whether a job has it or not.",
		Covers: "tr:N4 rules:F2 rules:A6", Run: repeatExpired},
	{Name: "a key of a job out of reach", Law: "A key that a job of another tenant holds is a conflict without its id and state, and nothing changes.",
		Covers: "tr:N5 tr:N6 spec:P1 spec:H7", Run: foreignKey},
	{Name: "next jobs and a key out of reach", Law: "A completion neither replaces a job of another tenant nor learns of it.",
		Covers: "tr:N5 tr:N6 tr:F15 spec:H7", Run: foreignNextKey},
	{Name: "a token creates so many queues and no more", Law: "The queues that jobs of a token have created are counted, and the next one is refused.",
		Covers: "spec:A9 spec:H7", Run: queueLimit},
	{Name: "list queues in pages", Law: "Pages have the queues that the caller may see, in the order of creation, each once.",
		Covers: "spec:A5 spec:O13 spec:H7", Run: queuePages},
	{Name: "a replace names who replaced", Law: "The history of a replaced job names the token.", Covers: "tr:N6 spec:H7", Run: replacedBy},
}

// burn makes the next ids so long that none of them appears in an error by chance.
func burn(s *kit.Scene) {
	s.Helper()
	for range 3 {
		_, err := s.Store.IDs(s.Ctx, 10_000)
		s.Must(err, "IDs")
	}
	s.IDs = nil
}

// foreign enqueues a job with an id of another caller, and returns the refusal without the id.
func foreign(s *kit.Scene, j sojourn.Job, what string) string {
	s.Helper()
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	e := s.Refused(err, sojourn.CodeInvalid, what)
	kit.Same(s, what+": the field", e.Field, "id")
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, true)
	s.Must(err, "%s, partial", what)
	s.Refused(es[0].Err, sojourn.CodeInvalid, what+", partial")
	return strings.ReplaceAll(e.Error(), strconv.FormatInt(int64(j.ID), 10), "ID")
}

func foreignIDs(s *kit.Scene) {
	burn(s)
	alice, mallory := s.Tenant("alice", kit.Everything), s.Tenant("mallory", kit.Everything)
	stored, free := alice.Job(sojourn.Key("k")), alice.Job()
	alice.Put(stored)
	before := s.Picture(stored.ID)
	steal := func(id sojourn.ID, j sojourn.Job) sojourn.Job { j.ID = id; return j }
	answers := map[string]string{
		"an id that is free":            foreign(mallory, steal(free.ID, mallory.Job()), "an id of another token"),
		"an id that has a job":          foreign(mallory, steal(stored.ID, mallory.Job()), "a used id of another token"),
		"an id with the same content":   foreign(mallory, stored, "a job of another token"),
		"an id of a caller without one": foreign(s, steal(free.ID, s.Job()), "an id of a token, by nobody"),
		"a used id, without a token":    foreign(s, stored, "a used id of a token, by nobody"),
		"an id that nobody has leased":  foreign(s, steal(1<<50, s.Job()), "an id that nobody has leased"),
	}
	for what, answer := range kit.InOrder(answers) {
		kit.Same(s, "the answer to "+what, answer, answers["an id that is free"])
	}
	foreign(mallory, steal(s.Job().ID, mallory.Job()), "an id of a caller without a token")
	s.Unchanged(stored.ID, before, "the tries of others")
	if e := alice.Put(free); e.Duplicate || e.ID != free.ID {
		s.Fatalf("the owner's own enqueue answered %+v", e)
	}
	restarted := s.Tenant("alice", kit.Everything)
	for _, j := range []sojourn.Job{stored, free} {
		if e := restarted.Put(j); !e.Duplicate || e.ID != j.ID {
			s.Fatalf("a repeat by a new process with the same token answered %+v", e)
		}
	}
	mixed := []sojourn.Job{mallory.Job(), free, mallory.Job()}
	es, err := mallory.Store.Enqueue(mallory.Ctx, mixed, true)
	s.Must(err, "Enqueue of a mixed batch, partial")
	s.Refused(es[1].Err, sojourn.CodeInvalid, "the foreign id in the batch")
	s.Must(es[0].Err, "the first of the batch")
	s.Must(es[2].Err, "the last of the batch")
}

func serverIDs(s *kit.Scene) {
	if _, far := s.Store.(kit.Distant); far {
		s.Skip("the server draws the ids")
	}
	server := sojourn.NewServerClient(s.Store)
	alice, mallory := s.Tenant("alice", kit.Everything), s.Tenant("mallory", kit.Everything)
	first := sojourn.NewJob(kit.Kind, nil)
	_, err := server.Enqueue(alice.Ctx, first)
	s.Must(err, "Enqueue of a job without an id")
	for _, thief := range []*kit.Scene{mallory, alice, s} {
		for i := range sojourn.ID(5) {
			j := thief.Job()
			j.ID = first.ID + i
			foreign(thief, j, "an id of the server's block")
			_, err := server.Enqueue(thief.Ctx, &j)
			s.Refused(err, sojourn.CodeInvalid, "an id of the server's block, through the server")
		}
	}
	for range 5 {
		j := sojourn.NewJob(kit.Kind, nil)
		if e, err := server.Enqueue(alice.Ctx, j); err != nil || e.Duplicate || e.ID != j.ID {
			s.Fatalf("a job without an id answered %+v, %v", e, err)
		}
		s.State(j.ID, sojourn.Ready)
	}
	if e, err := server.Enqueue(alice.Ctx, first); err != nil || !e.Duplicate { // the server's own repeat
		s.Fatalf("the same job again answered %+v, %v", e, err)
	}
}

func foreignNextIDs(s *kit.Scene) {
	alice, mallory := s.Tenant("alice", kit.Everything), s.Tenant("mallory", kit.Everything)
	id := alice.Enqueue()
	c := mallory.Claim(kit.By("mallory/w"))
	kit.Same(s, "the claimed job", c.Job.ID, id)
	f := mallory.Reports(kit.Follow(c, alice.Job()), driver.FinishRefused)
	s.Refused(f.Err, sojourn.CodeInvalid, "a next job with an id of another token")
	s.State(id, sojourn.Running)
	next := mallory.Job()
	mallory.Finish(kit.Follow(c, next), sojourn.Completed)
	s.State(next.ID, sojourn.Ready)
}

// contents are jobs that differ from each other in one thing that a caller can say.
func contents(s *kit.Scene) map[string]func(*sojourn.Job) {
	return map[string]func(*sojourn.Job){
		"kind":                func(j *sojourn.Job) { j.Kind = "refund" },
		"queue":               func(j *sojourn.Job) { j.Queue = "elsewhere" },
		"key":                 func(j *sojourn.Job) { j.Key = "l" },
		"no key":              func(j *sojourn.Job) { j.Key = "" },
		"group":               func(j *sojourn.Job) { j.Group = "g" },
		"args":                func(j *sojourn.Job) { j.Args = []byte(`{"order":43}`) },
		"content type":        func(j *sojourn.Job) { j.ContentType = "text/csv" },
		"priority":            sojourn.Priority(7),
		"priority, as it was": sojourn.Priority(sojourn.DefaultPriority),
		"weight":              sojourn.Weight(2),
		"tags":                sojourn.Tags("t"),
		"meta":                sojourn.Meta("a", "b"),
		"run_at":              sojourn.RunAt(s.Now().Add(time.Hour)),
		"delay":               sojourn.Delay(time.Hour),
		"max attempts":        sojourn.MaxAttempts(9),
		"policy":              kit.Policy(sojourn.Policy{StopAtWindowEnd: new(true)}),
	}
}

func sameContent(s *kit.Scene) {
	pick := int32(5)
	elsewhere, group := "elsewhere", "g"
	b := []byte(`{"order":44}`)
	full := s.Job(sojourn.Key("k"), sojourn.Tags("b", "a", "b"), sojourn.Meta("x", "1"), sojourn.Delay(time.Minute))
	s.Put(full)
	kit.Same(s, "a repeat", s.Put(full).Duplicate, true)
	s.Change(full.ID, sojourn.Edit{Queue: &elsewhere, Group: &group, Priority: &pick, Args: &b, Tags: &[]string{"z"}}, sojourn.Scheduled)
	kit.Same(s, "a repeat after a move and an edit", s.Put(full).Duplicate, true)
	s.Put(s.Job(sojourn.Key("k"), kit.Args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	kit.Same(s, "a repeat after a replace", s.Put(full).Duplicate, true)
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Defaults: sojourn.Policy{Priority: &pick, MaxAttempts: 3, KeepKey: time.Hour}})
	kit.Same(s, "a repeat after other defaults of the queue", s.Put(full).Duplicate, true)

	j := s.Job(sojourn.Key("j"))
	s.Put(j)
	before := s.Picture(j.ID)
	for what, change := range kit.InOrder(contents(s)) {
		o := j
		change(&o)
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{o}, false)
		s.Is(err, sojourn.ErrConflict, "another "+what)
		es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j, o}, true)
		s.Must(err, "Enqueue, partial")
		s.Is(es[1].Err, sojourn.ErrConflict, "another "+what+", partial")
	}
	s.Unchanged(j.ID, before, "what was refused")
	for what, change := range kit.InOrder(contents(s)) {
		twice := s.Job(sojourn.Key("twice " + what))
		o := twice
		change(&o)
		es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{twice, o}, true)
		s.Must(err, "Enqueue of one id twice")
		s.Is(es[1].Err, sojourn.ErrConflict, "one id twice in a batch with another "+what)
		s.Cancel(twice.ID)
	}
	o := j
	o.OnConflict = sojourn.ReturnError
	kit.Same(s, "a repeat that says something else about keys", s.Put(o).Duplicate, true)
	s.Finish(kit.Completed(s.Claim(kit.From(kit.Queue))), sojourn.Completed)
	kit.Same(s, "a repeat after the end", s.Put(j).Duplicate, true)
}

func repeatExpired(s *kit.Scene) {
	burn(s)
	alice, mallory := s.Tenant("alice", kit.Everything), s.Tenant("mallory", kit.Everything)
	stored, free := alice.Job(), alice.Job()
	alice.Put(stored)
	s.Advance(sojourn.IDLife + time.Second)
	kit.Same(s, "a late repeat", alice.Put(stored).Duplicate, true)
	for _, thief := range []*kit.Scene{mallory, alice, s} {
		var answers []string
		for _, id := range []sojourn.ID{stored.ID, free.ID} {
			j := thief.Job(kit.Args("other"))
			j.ID = id
			_, err := thief.Store.Enqueue(thief.Ctx, []sojourn.Job{j}, false)
			e := s.Refused(err, sojourn.CodeIDExpired, "an id of an old block")
			answers = append(answers, strings.ReplaceAll(e.Error(), strconv.FormatInt(int64(id), 10), "ID"))
		}
		kit.Same(s, "the answer to an id that is free", answers[1], answers[0])
	}
	s.State(stored.ID, sojourn.Ready)
	s.Gone(free.ID)
}

// unreachable enqueues a job in each way with the key of another tenant's job, and wants a conflict
// that names no part of that job.
func unreachable(s *kit.Scene, key string, holder sojourn.ID, what string) {
	s.Helper()
	for _, on := range []sojourn.OnConflict{sojourn.ReturnExisting, sojourn.ReturnError, sojourn.Replace} {
		j := s.Job(sojourn.Key(key), sojourn.Queue("attack-1"), kit.Args("stolen"), sojourn.OnKeyConflict(on))
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		s.Is(err, sojourn.ErrConflict, what)
		silent(s, err, holder, what)
		es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, true)
		s.Must(err, "%s, partial", what)
		s.Is(es[0].Err, sojourn.ErrConflict, what+", partial")
		silent(s, es[0].Err, holder, what+", partial")
		if es[0].ID != 0 || es[0].State != 0 || es[0].Duplicate || es[0].Replaced {
			s.Fatalf("%s: the answer tells about the job: %+v", what, es[0])
		}
	}
}

// silent wants an error to say neither the id nor the state nor the queue of a job.
func silent(s *kit.Scene, err error, id sojourn.ID, what string) {
	s.Helper()
	for _, secret := range []string{strconv.FormatInt(int64(id), 10), "victim", "ready", "running", "scheduled", "completed"} {
		if strings.Contains(err.Error(), secret) {
			s.Fatalf("%s: %q tells of the job: %q", what, err, secret)
		}
	}
}

func foreignKey(s *kit.Scene) {
	burn(s)
	mallory := s.Tenant("mallory", access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "attack-*"})
	held := map[string]func(key string) sojourn.ID{
		"ready": func(key string) sojourn.ID { return s.Enqueue(sojourn.Key(key), sojourn.Queue("victim")) },
		"scheduled": func(key string) sojourn.ID {
			return s.Enqueue(sojourn.Key(key), sojourn.Queue("victim"), sojourn.Delay(time.Hour))
		},
		"kept": func(key string) sojourn.ID {
			id := s.Enqueue(sojourn.Key(key), sojourn.Queue("victim"), sojourn.KeepKey(time.Hour))
			s.Cancel(id)
			return id
		},
	}
	n := 0
	for what, hold := range kit.InOrder(held) {
		n++
		key := "order-" + strconv.Itoa(n)
		id := hold(key)
		before := s.Picture(id)
		unreachable(mallory, key, id, "the key of a job that is "+what)
		s.Unchanged(id, before, "an enqueue by another tenant")
	}
	mine := mallory.Job(sojourn.Key("mine"), sojourn.Queue("attack-1"))
	mallory.Put(mine)
	again := mallory.Job(sojourn.Key("mine"), sojourn.Queue("attack-2"))
	if e := mallory.Put(again); e.ID != mine.ID || !e.Duplicate || e.State != sojourn.Ready {
		s.Fatalf("a key of the caller's own answered %+v", e)
	}
	both := s.Tenant("both", access.Grant{Verbs: []access.Verb{access.VerbRead}}, access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "attack-*"},
		access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "victim", Kind: "refund"}) // another kind
	id := s.Enqueue(sojourn.Key("b"), sojourn.Queue("victim"))
	unreachable(both, "b", id, "the key of a job of another kind than granted")
}

func foreignNextKey(s *kit.Scene) {
	burn(s)
	id := s.Enqueue(sojourn.Key("k"), sojourn.Queue("victim"))
	before := s.Picture(id)
	mallory := s.Tenant("mallory", access.Grant{Verbs: []access.Verb{access.VerbEnqueue, access.VerbWork, access.VerbReadArgs}, Queue: "attack-*"})
	mallory.Put(mallory.Job(sojourn.Queue("attack-1")))
	c := mallory.Claim(kit.From("attack-1"), kit.By("mallory/w"))
	for _, on := range []sojourn.OnConflict{sojourn.ReturnExisting, sojourn.ReturnError, sojourn.Replace} {
		o := kit.Follow(c, mallory.Job(sojourn.Key("k"), sojourn.Queue("attack-1"), kit.Args("stolen"), sojourn.OnKeyConflict(on)))
		fs, err := mallory.Store.Finish(mallory.Ctx, []sojourn.Outcome{o})
		s.Must(err, "Finish")
		kit.Same(s, "status", fs[0].Status, driver.FinishRefused)
		s.Is(fs[0].Err, sojourn.ErrConflict, "a next job with the key of another tenant's job")
		silent(s, fs[0].Err, id, "a next job")
	}
	s.Unchanged(id, before, "a completion by another tenant")
	s.State(c.Job.ID, sojourn.Running)
}

func replacedBy(s *kit.Scene) {
	alice := s.Tenant("alice", kit.Everything)
	id := s.Enqueue(sojourn.Key("k"))
	alice.Put(alice.Job(sojourn.Key("k"), kit.Args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	kit.Same(s, "who replaced", s.Happened(id, "replaced")[0].By, "alice")
	other := s.Enqueue(sojourn.Key("l"))
	s.Put(s.Job(sojourn.Key("l"), kit.Args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	kit.Same(s, "who replaced without a token", s.Happened(other, "replaced")[0].By, "")
}

func queueLimit(s *kit.Scene) {
	c := &access.Caller{Token: "alice", Grants: []access.Grant{kit.Everything}, MaxQueues: 5}
	alice, bob := s.Caller(c), s.Caller(&access.Caller{Token: "bob", Grants: []access.Grant{kit.Everything}, MaxQueues: 5})
	in := func(t *kit.Scene, queues ...string) (jobs []sojourn.Job) {
		for _, q := range queues {
			jobs = append(jobs, t.Job(sojourn.Queue(q)))
		}
		return jobs
	}
	s.Enqueue(sojourn.Queue("there")) // created by another tenant
	_, err := alice.Store.Enqueue(alice.Ctx, in(alice, "a", "there", "b", "a", "c"), false)
	s.Must(err, "Enqueue into 3 new queues")
	_, err = alice.Store.Enqueue(alice.Ctx, in(alice, "d", "e", "f"), false)
	e := s.Refused(err, sojourn.CodeQueueLimit, "the sixth queue")
	kit.Same(s, "the index", e.Index, 2)
	kit.Same(s, "the field", e.Field, "queue")
	es, err := alice.Store.Enqueue(alice.Ctx, in(alice, "d", "e", "f", "a", "d"), true)
	s.Must(err, "Enqueue, partial")
	for i, want := range []string{"", "", sojourn.CodeQueueLimit, "", ""} {
		kit.Same(s, "the refusal of item "+strconv.Itoa(i), sojourn.ErrorCode(es[i].Err), want)
	}
	bob.Put(bob.Job(sojourn.Queue("f"))) // another token, and a caller without one
	s.EnqueueMany(1, sojourn.Queue("g"))
	alice.Put(alice.Job(sojourn.Queue("f")))
	_, err = alice.Store.Enqueue(alice.Ctx, in(alice, "h"), false)
	s.Refused(err, sojourn.CodeQueueLimit, "another queue")
	run := alice.Claim(kit.From("b"), kit.By("alice/w"))
	f := alice.Reports(kit.Follow(run, in(alice, "h")...), driver.FinishRefused)
	s.Refused(f.Err, sojourn.CodeQueueLimit, "a next job in another queue")
	alice.Finish(kit.Completed(run), sojourn.Completed)
	empty := s.Forget("c")
	s.Is(empty, sojourn.ErrConflict, "ForgetQueue with a job")
	gone := alice.Claim(kit.From("e"), kit.By("alice/w"))
	alice.Finish(kit.Completed(gone), sojourn.Completed)
	s.Advance(sojourn.IDLife + time.Second)
	s.Edit(gone.Job.ID, sojourn.Edit{Action: sojourn.EditPurge})
	s.Must(s.Forget("e"), "ForgetQueue")
	alice.IDs = nil
	alice.Put(alice.Job(sojourn.Queue("h"))) // there is room again
}

func queuePages(s *kit.Scene) {
	var want []string
	for i := range 25 {
		want = append(want, "q-"+strconv.Itoa(i%2)+"-"+strconv.Itoa(i))
		s.EnqueueMany(1+i%3, sojourn.Queue(want[i]))
	}
	s.SetQueue(sojourn.AllQueues, sojourn.QueueSettings{Paused: true})
	walk := func(t *kit.Scene, l driver.Store, limit int) (names []string) {
		for after := ""; ; {
			p, err := l.ListQueues(t.Ctx, after, limit)
			s.Must(err, "ListQueues after %q", after)
			if len(p.Items) > limit || p.Next != "" && len(p.Items) < limit {
				s.Fatalf("a page of %d has %d queues, and %q is next", limit, len(p.Items), p.Next)
			}
			for _, q := range p.Items {
				i := len(names)
				names = append(names, q.Name)
				if t == s {
					kit.Same(s, "ready jobs of "+q.Name, q.Counts[sojourn.Ready], int64(1+i%3))
				}
			}
			if after = p.Next; after == "" {
				return names
			}
		}
	}
	for _, limit := range []int{1, 4, 5, 24, 25, 26, sojourn.MaxFind} {
		kit.Same(s, "the queues in pages of "+strconv.Itoa(limit), kit.Text(walk(s, s.Store, limit)), kit.Text(want))
	}
	p, err := s.Store.ListQueues(s.Ctx, "", 0)
	s.Must(err, "ListQueues")
	kit.Same(s, "a page without a limit", len(p.Items), 25)
	var odd []string
	for i := 1; i < 25; i += 2 {
		odd = append(odd, want[i])
	}
	some := s.Tenant("some", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "q-1-*"})
	for _, limit := range []int{1, 5, 12, 13} {
		kit.Same(s, "the queues of a tenant", kit.Text(walk(some, some.Store, limit)), kit.Text(odd))
	}
	_, err = some.Store.ListQueues(some.Ctx, "q-0-0", 0)
	s.Is(err, sojourn.ErrNotFound, "a page after a queue that the caller may not see")
	_, err = s.Store.ListQueues(s.Ctx, "nope", 0)
	s.Is(err, sojourn.ErrNotFound, "a page after a queue that does not exist")
	_, err = s.Store.ListQueues(s.Ctx, "", sojourn.MaxFind+1)
	s.Refused(err, sojourn.CodeInvalid, "a page that is too long")
}
