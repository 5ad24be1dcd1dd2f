package storetest

import (
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

var tenantTrials = []trial{
	{"an id belongs to the token that leased it", "An id of another caller's block is refused, and the answer does not tell whether a job has it.",
		"tr:N4 rules:F2 spec:H7", foreignIDs},
	{"an id belongs to the server that drew it", "No caller can use an id of the block from which a server draws ids.", "tr:N4 rules:F2 spec:H7", serverIDs},
	{"next jobs have ids of their worker", "A completion cannot carry along jobs with ids of another caller's block.", "tr:F15 rules:F2 spec:H7", foreignNextIDs},
	{"rules:F2 the same id is the same job", "A repeated call is a duplicate whatever has become of the job; other content is a conflict.",
		"tr:N4 tr:N6 tr:O5 rules:F2 inv:A3", sameContent},
	{"a repeat after the id block has expired", "Then an id with other content answers the same whether a job has it or not.",
		"tr:N4 rules:F2 rules:A6", repeatExpired},
	{"a key of a job out of reach", "A key that a job of another tenant holds is a conflict without its id and state, and nothing changes.",
		"tr:N5 tr:N6 spec:P1 spec:H7", foreignKey},
	{"next jobs and a key out of reach", "A completion neither replaces a job of another tenant nor learns of it.", "tr:N5 tr:N6 tr:F15 spec:H7", foreignNextKey},
	{"a token creates so many queues and no more", "The queues that jobs of a token have created are counted, and the next one is refused.", "spec:A9 spec:H7", queueLimit},
	{"list queues in pages", "Pages have the queues that the caller may see, in the order of creation, each once.", "spec:A5 spec:O13 spec:H7", queuePages},
	{"a replace names who replaced", "The history of a replaced job names the token.", "tr:N6 spec:H7", replacedBy},
}

// burn makes the next ids so long that none of them appears in an error by chance.
func (s *scene) burn() {
	s.Helper()
	for range 3 {
		_, err := s.store.IDs(s.ctx, 10_000)
		s.must(err, "IDs")
	}
	s.ids = nil
}

// foreign enqueues a job with an id of another caller, and returns the refusal without the id.
func (s *scene) foreign(j sojourn.Job, what string) string {
	s.Helper()
	_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
	e := s.refused(err, sojourn.CodeInvalid, what)
	same(s, what+": the field", e.Field, "id")
	es, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, true)
	s.must(err, "%s, partial", what)
	s.refused(es[0].Err, sojourn.CodeInvalid, what+", partial")
	return strings.ReplaceAll(e.Error(), strconv.FormatInt(int64(j.ID), 10), "ID")
}

func foreignIDs(s *scene) {
	s.burn()
	alice, mallory := s.tenant("alice", everything), s.tenant("mallory", everything)
	stored, free := alice.job(sojourn.Key("k")), alice.job()
	alice.put(stored)
	before := s.picture(stored.ID)
	steal := func(id sojourn.ID, j sojourn.Job) sojourn.Job { j.ID = id; return j }
	answers := map[string]string{
		"an id that is free":            mallory.foreign(steal(free.ID, mallory.job()), "an id of another token"),
		"an id that has a job":          mallory.foreign(steal(stored.ID, mallory.job()), "a used id of another token"),
		"an id with the same content":   mallory.foreign(stored, "a job of another token"),
		"an id of a caller without one": s.foreign(steal(free.ID, s.job()), "an id of a token, by nobody"),
		"a used id, without a token":    s.foreign(stored, "a used id of a token, by nobody"),
		"an id that nobody has leased":  s.foreign(steal(1<<50, s.job()), "an id that nobody has leased"),
	}
	for what, answer := range inOrder(answers) {
		same(s, "the answer to "+what, answer, answers["an id that is free"])
	}
	mallory.foreign(steal(s.job().ID, mallory.job()), "an id of a caller without a token")
	s.unchanged(stored.ID, before, "the tries of others")
	if e := alice.put(free); e.Duplicate || e.ID != free.ID {
		s.Fatalf("the owner's own enqueue answered %+v", e)
	}
	restarted := s.tenant("alice", everything)
	for _, j := range []sojourn.Job{stored, free} {
		if e := restarted.put(j); !e.Duplicate || e.ID != j.ID {
			s.Fatalf("a repeat by a new process with the same token answered %+v", e)
		}
	}
	mixed := []sojourn.Job{mallory.job(), free, mallory.job()}
	es, err := mallory.store.Enqueue(mallory.ctx, mixed, true)
	s.must(err, "Enqueue of a mixed batch, partial")
	s.refused(es[1].Err, sojourn.CodeInvalid, "the foreign id in the batch")
	s.must(es[0].Err, "the first of the batch")
	s.must(es[2].Err, "the last of the batch")
}

func serverIDs(s *scene) {
	if _, far := s.store.(Distant); far {
		s.Skip("the server draws the ids")
	}
	server := sojourn.NewServerClient(s.store)
	alice, mallory := s.tenant("alice", everything), s.tenant("mallory", everything)
	first := sojourn.NewJob(charge, nil)
	_, err := server.Enqueue(alice.ctx, first)
	s.must(err, "Enqueue of a job without an id")
	for _, thief := range []*scene{mallory, alice, s} {
		for i := range sojourn.ID(5) {
			j := thief.job()
			j.ID = first.ID + i
			thief.foreign(j, "an id of the server's block")
			_, err := server.Enqueue(thief.ctx, &j)
			s.refused(err, sojourn.CodeInvalid, "an id of the server's block, through the server")
		}
	}
	for range 5 {
		j := sojourn.NewJob(charge, nil)
		if e, err := server.Enqueue(alice.ctx, j); err != nil || e.Duplicate || e.ID != j.ID {
			s.Fatalf("a job without an id answered %+v, %v", e, err)
		}
		s.state(j.ID, sojourn.Ready)
	}
	if e, err := server.Enqueue(alice.ctx, first); err != nil || !e.Duplicate { // the server's own repeat
		s.Fatalf("the same job again answered %+v, %v", e, err)
	}
}

func foreignNextIDs(s *scene) {
	alice, mallory := s.tenant("alice", everything), s.tenant("mallory", everything)
	id := alice.enqueue()
	c := mallory.claim(by("mallory/w"))
	same(s, "the claimed job", c.Job.ID, id)
	f := mallory.reports(follow(c, alice.job()), driver.FinishRefused)
	s.refused(f.Err, sojourn.CodeInvalid, "a next job with an id of another token")
	s.state(id, sojourn.Running)
	next := mallory.job()
	mallory.finish(follow(c, next), sojourn.Completed)
	s.state(next.ID, sojourn.Ready)
}

// contents are jobs that differ from each other in one thing that a caller can say.
func contents(s *scene) map[string]func(*sojourn.Job) {
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
		"run_at":              sojourn.RunAt(s.now().Add(time.Hour)),
		"delay":               sojourn.Delay(time.Hour),
		"max attempts":        sojourn.MaxAttempts(9),
		"policy":              policy(sojourn.Policy{StopAtWindowEnd: new(true)}),
	}
}

func sameContent(s *scene) {
	pick := int32(5)
	elsewhere, group := "elsewhere", "g"
	b := []byte(`{"order":44}`)
	full := s.job(sojourn.Key("k"), sojourn.Tags("b", "a", "b"), sojourn.Meta("x", "1"), sojourn.Delay(time.Minute))
	s.put(full)
	same(s, "a repeat", s.put(full).Duplicate, true)
	s.change(full.ID, sojourn.Change{Queue: &elsewhere, Group: &group, Priority: &pick, Args: &b, Tags: &[]string{"z"}}, sojourn.Scheduled)
	same(s, "a repeat after a move and an edit", s.put(full).Duplicate, true)
	s.put(s.job(sojourn.Key("k"), args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	same(s, "a repeat after a replace", s.put(full).Duplicate, true)
	s.setQueue(line, sojourn.QueueSettings{Defaults: sojourn.QueueDefaults{Priority: &pick, Policy: sojourn.Policy{MaxAttempts: 3, KeepKey: time.Hour}}})
	same(s, "a repeat after other defaults of the queue", s.put(full).Duplicate, true)

	j := s.job(sojourn.Key("j"))
	s.put(j)
	before := s.picture(j.ID)
	for what, change := range inOrder(contents(s)) {
		o := j
		change(&o)
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{o}, false)
		s.is(err, sojourn.ErrConflict, "another "+what)
		es, err := s.store.Enqueue(s.ctx, []sojourn.Job{j, o}, true)
		s.must(err, "Enqueue, partial")
		s.is(es[1].Err, sojourn.ErrConflict, "another "+what+", partial")
	}
	s.unchanged(j.ID, before, "what was refused")
	for what, change := range inOrder(contents(s)) {
		twice := s.job(sojourn.Key("twice " + what))
		o := twice
		change(&o)
		es, err := s.store.Enqueue(s.ctx, []sojourn.Job{twice, o}, true)
		s.must(err, "Enqueue of one id twice")
		s.is(es[1].Err, sojourn.ErrConflict, "one id twice in a batch with another "+what)
		s.cancel(twice.ID)
	}
	o := j
	o.OnConflict = sojourn.ReturnError
	same(s, "a repeat that says something else about keys", s.put(o).Duplicate, true)
	s.finish(completed(s.claim(from(line))), sojourn.Completed)
	same(s, "a repeat after the end", s.put(j).Duplicate, true)
}

func repeatExpired(s *scene) {
	s.burn()
	alice, mallory := s.tenant("alice", everything), s.tenant("mallory", everything)
	stored, free := alice.job(), alice.job()
	alice.put(stored)
	s.advance(sojourn.IDLife + time.Second)
	same(s, "a late repeat", alice.put(stored).Duplicate, true)
	for _, thief := range []*scene{mallory, alice, s} {
		var answers []string
		for _, id := range []sojourn.ID{stored.ID, free.ID} {
			j := thief.job(args("other"))
			j.ID = id
			_, err := thief.store.Enqueue(thief.ctx, []sojourn.Job{j}, false)
			e := s.refused(err, sojourn.CodeIDExpired, "an id of an old block")
			answers = append(answers, strings.ReplaceAll(e.Error(), strconv.FormatInt(int64(id), 10), "ID"))
		}
		same(s, "the answer to an id that is free", answers[1], answers[0])
	}
	s.state(stored.ID, sojourn.Ready)
	s.gone(free.ID)
}

// unreachable enqueues a job in each way with the key of another tenant's job, and wants a conflict
// that names no part of that job.
func (s *scene) unreachable(key string, holder sojourn.ID, what string) {
	s.Helper()
	for _, on := range []sojourn.OnConflict{sojourn.ReturnExisting, sojourn.ReturnError, sojourn.Replace} {
		j := s.job(sojourn.Key(key), sojourn.Queue("attack-1"), args("stolen"), sojourn.OnKeyConflict(on))
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		s.is(err, sojourn.ErrConflict, what)
		s.silent(err, holder, what)
		es, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, true)
		s.must(err, "%s, partial", what)
		s.is(es[0].Err, sojourn.ErrConflict, what+", partial")
		s.silent(es[0].Err, holder, what+", partial")
		if es[0].ID != 0 || es[0].State != 0 || es[0].Duplicate || es[0].Replaced {
			s.Fatalf("%s: the answer tells about the job: %+v", what, es[0])
		}
	}
}

// silent wants an error to say neither the id nor the state nor the queue of a job.
func (s *scene) silent(err error, id sojourn.ID, what string) {
	s.Helper()
	for _, secret := range []string{strconv.FormatInt(int64(id), 10), "victim", "ready", "running", "scheduled", "completed"} {
		if strings.Contains(err.Error(), secret) {
			s.Fatalf("%s: %q tells of the job: %q", what, err, secret)
		}
	}
}

func foreignKey(s *scene) {
	s.burn()
	mallory := s.tenant("mallory", access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "attack-*"})
	held := map[string]func(key string) sojourn.ID{
		"ready": func(key string) sojourn.ID { return s.enqueue(sojourn.Key(key), sojourn.Queue("victim")) },
		"scheduled": func(key string) sojourn.ID {
			return s.enqueue(sojourn.Key(key), sojourn.Queue("victim"), sojourn.Delay(time.Hour))
		},
		"kept": func(key string) sojourn.ID {
			id := s.enqueue(sojourn.Key(key), sojourn.Queue("victim"), sojourn.KeepKey(time.Hour))
			s.cancel(id)
			return id
		},
	}
	n := 0
	for what, hold := range inOrder(held) {
		n++
		key := "order-" + strconv.Itoa(n)
		id := hold(key)
		before := s.picture(id)
		mallory.unreachable(key, id, "the key of a job that is "+what)
		s.unchanged(id, before, "an enqueue by another tenant")
	}
	mine := mallory.job(sojourn.Key("mine"), sojourn.Queue("attack-1"))
	mallory.put(mine)
	again := mallory.job(sojourn.Key("mine"), sojourn.Queue("attack-2"))
	if e := mallory.put(again); e.ID != mine.ID || !e.Duplicate || e.State != sojourn.Ready {
		s.Fatalf("a key of the caller's own answered %+v", e)
	}
	both := s.tenant("both", access.Grant{Verbs: []access.Verb{access.VerbRead}}, access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "attack-*"},
		access.Grant{Verbs: []access.Verb{access.VerbEnqueue}, Queue: "victim", Kind: "refund"}) // another kind
	id := s.enqueue(sojourn.Key("b"), sojourn.Queue("victim"))
	both.unreachable("b", id, "the key of a job of another kind than granted")
}

func foreignNextKey(s *scene) {
	s.burn()
	id := s.enqueue(sojourn.Key("k"), sojourn.Queue("victim"))
	before := s.picture(id)
	mallory := s.tenant("mallory", access.Grant{Verbs: []access.Verb{access.VerbEnqueue, access.VerbWork, access.VerbReadArgs}, Queue: "attack-*"})
	mallory.put(mallory.job(sojourn.Queue("attack-1")))
	c := mallory.claim(from("attack-1"), by("mallory/w"))
	for _, on := range []sojourn.OnConflict{sojourn.ReturnExisting, sojourn.ReturnError, sojourn.Replace} {
		o := follow(c, mallory.job(sojourn.Key("k"), sojourn.Queue("attack-1"), args("stolen"), sojourn.OnKeyConflict(on)))
		fs, err := mallory.store.Finish(mallory.ctx, []sojourn.Outcome{o})
		s.must(err, "Finish")
		same(s, "status", fs[0].Status, driver.FinishRefused)
		s.is(fs[0].Err, sojourn.ErrConflict, "a next job with the key of another tenant's job")
		s.silent(fs[0].Err, id, "a next job")
	}
	s.unchanged(id, before, "a completion by another tenant")
	s.state(c.Job.ID, sojourn.Running)
}

func replacedBy(s *scene) {
	alice := s.tenant("alice", everything)
	id := s.enqueue(sojourn.Key("k"))
	alice.put(alice.job(sojourn.Key("k"), args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	same(s, "who replaced", s.happened(id, "replaced")[0].By, "alice")
	other := s.enqueue(sojourn.Key("l"))
	s.put(s.job(sojourn.Key("l"), args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	same(s, "who replaced without a token", s.happened(other, "replaced")[0].By, "")
}

func queueLimit(s *scene) {
	c := &access.Caller{Token: "alice", Grants: []access.Grant{everything}, MaxQueues: 5}
	alice, bob := s.caller(c), s.caller(&access.Caller{Token: "bob", Grants: []access.Grant{everything}, MaxQueues: 5})
	in := func(t *scene, queues ...string) (jobs []sojourn.Job) {
		for _, q := range queues {
			jobs = append(jobs, t.job(sojourn.Queue(q)))
		}
		return jobs
	}
	s.enqueue(sojourn.Queue("there")) // created by another tenant
	_, err := alice.store.Enqueue(alice.ctx, in(alice, "a", "there", "b", "a", "c"), false)
	s.must(err, "Enqueue into 3 new queues")
	_, err = alice.store.Enqueue(alice.ctx, in(alice, "d", "e", "f"), false)
	e := s.refused(err, sojourn.CodeQueueLimit, "the sixth queue")
	same(s, "the index", e.Index, 2)
	same(s, "the field", e.Field, "queue")
	es, err := alice.store.Enqueue(alice.ctx, in(alice, "d", "e", "f", "a", "d"), true)
	s.must(err, "Enqueue, partial")
	for i, want := range []string{"", "", sojourn.CodeQueueLimit, "", ""} {
		same(s, "the refusal of item "+strconv.Itoa(i), sojourn.ErrorCode(es[i].Err), want)
	}
	bob.put(bob.job(sojourn.Queue("f"))) // another token, and a caller without one
	s.enqueueMany(1, sojourn.Queue("g"))
	alice.put(alice.job(sojourn.Queue("f")))
	_, err = alice.store.Enqueue(alice.ctx, in(alice, "h"), false)
	s.refused(err, sojourn.CodeQueueLimit, "another queue")
	run := alice.claim(from("b"), by("alice/w"))
	f := alice.reports(follow(run, in(alice, "h")...), driver.FinishRefused)
	s.refused(f.Err, sojourn.CodeQueueLimit, "a next job in another queue")
	alice.finish(completed(run), sojourn.Completed)
	empty := s.store.ForgetQueue(s.ctx, "c")
	s.is(empty, sojourn.ErrConflict, "ForgetQueue with a job")
	gone := alice.claim(from("e"), by("alice/w"))
	alice.finish(completed(gone), sojourn.Completed)
	s.advance(sojourn.IDLife + time.Second)
	s.edit(gone.Job.ID, sojourn.Edit{Action: sojourn.EditPurge})
	s.must(s.store.ForgetQueue(s.ctx, "e"), "ForgetQueue")
	alice.ids = nil
	alice.put(alice.job(sojourn.Queue("h"))) // there is room again
}

func queuePages(s *scene) {
	var want []string
	for i := range 25 {
		want = append(want, "q-"+strconv.Itoa(i%2)+"-"+strconv.Itoa(i))
		s.enqueueMany(1+i%3, sojourn.Queue(want[i]))
	}
	s.setQueue(sojourn.AllQueues, sojourn.QueueSettings{Paused: true})
	walk := func(t *scene, l driver.Store, limit int) (names []string) {
		for after := ""; ; {
			p, err := l.ListQueues(t.ctx, after, limit)
			s.must(err, "ListQueues after %q", after)
			if len(p.Items) > limit || p.Next != "" && len(p.Items) < limit {
				s.Fatalf("a page of %d has %d queues, and %q is next", limit, len(p.Items), p.Next)
			}
			for _, q := range p.Items {
				i := len(names)
				names = append(names, q.Name)
				if t == s {
					same(s, "ready jobs of "+q.Name, q.Counts[sojourn.Ready], int64(1+i%3))
				}
			}
			if after = p.Next; after == "" {
				return names
			}
		}
	}
	for _, limit := range []int{1, 4, 5, 24, 25, 26, sojourn.MaxFind} {
		same(s, "the queues in pages of "+strconv.Itoa(limit), text(walk(s, s.store, limit)), text(want))
	}
	p, err := s.store.ListQueues(s.ctx, "", 0)
	s.must(err, "ListQueues")
	same(s, "a page without a limit", len(p.Items), 25)
	var odd []string
	for i := 1; i < 25; i += 2 {
		odd = append(odd, want[i])
	}
	some := s.tenant("some", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "q-1-*"})
	for _, limit := range []int{1, 5, 12, 13} {
		same(s, "the queues of a tenant", text(walk(some, some.store, limit)), text(odd))
	}
	_, err = some.store.ListQueues(some.ctx, "q-0-0", 0)
	s.is(err, sojourn.ErrNotFound, "a page after a queue that the caller may not see")
	_, err = s.store.ListQueues(s.ctx, "nope", 0)
	s.is(err, sojourn.ErrNotFound, "a page after a queue that does not exist")
	_, err = s.store.ListQueues(s.ctx, "", sojourn.MaxFind+1)
	s.refused(err, sojourn.CodeInvalid, "a page that is too long")
}
