// Package search has the cases about filters by values of JSON.
package search

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/operation"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are the cases.
func Trials() []kit.Trial {
	return []kit.Trial{
		{Name: "find by args and meta", Law: "A filter finds the jobs of the queues that index its paths, live and final, by their present args and meta, in pages.", Covers: "spec:O17", Run: values},
		{Name: "no index", Law: "A filter by a path that no queue indexes is refused, and says how to index it.", Covers: "spec:O17", Run: refusals},
		{Name: "index what is stored", Law: "A new index has the jobs that were stored before it; a removed one finds nothing.", Covers: "spec:O17", Run: backfill},
		{Name: "values follow the job", Law: "Values follow a job that changes its args, is replaced or redriven, or goes to another queue, and go with it.", Covers: "spec:O17", Run: follows},
		{Name: "find by result", Law: "A job is found by its result as soon as it has completed, before and after the sweep has indexed it.", Covers: "spec:O17", Run: results},
		{Name: "edit by value", Law: "Edits and stored operations change exactly the jobs with the value.", Covers: "spec:O17", Run: edits},
		{Name: "index a busy queue", Law: "An index that is declared and changed while jobs are stored and completed has all of them.", Covers: "spec:O17", Run: busy},
		{Name: "search of tenants", Law: "A token searches only jobs whose args it may read.", Covers: "spec:O17 spec:H7", Run: tenants},
	}
}

func by(path, value string) sojourn.Filter {
	return sojourn.Filter{Fields: map[string]string{path: value}}
}

func index(s *kit.Scene, queue string, paths ...string) {
	s.Helper()
	s.SetQueue(queue, sojourn.QueueSettings{Index: paths})
	s.Sweep()
	q := s.Queue(queue)
	kit.Same(s, "index of "+queue, strings.Join(q.Settings.Index, " "), strings.Join(paths, " "))
}

func values(s *kit.Scene) {
	index(s, kit.Queue, "args.customer", "args.a.b", "meta.shop")
	var want []sojourn.ID
	for i := range 5 {
		want = append(want, s.Enqueue(kit.Args(fmt.Sprintf(`{"customer": 42, "n": %d}`, i))))
	}
	want = append(want, s.Enqueue(kit.Args(`{"customer": "42"}`), kit.OfKind("other"))) // as text
	s.Enqueue(kit.Args(`{"customer": 43}`))
	s.Enqueue(kit.Args(`no JSON`))
	deep := s.Enqueue(kit.Args(`{"customer": [42], "a": {"b": true}}`), sojourn.Meta("shop", "42"))
	ended := s.Final(sojourn.Completed, kit.OfKind("ends"), kit.Args(`{"customer": 42, "a": {"b": true}}`)).Job.ID
	want = append(want, ended)
	slices.Sort(want)
	s.Finds(by("args.customer", "42"), want...)
	s.Finds(by("args.customer", "4"))
	s.Finds(by("args.a.b", "true"), min(deep, ended), max(deep, ended))
	s.Finds(by("meta.shop", "42"), deep)
	f := by("args.customer", "42")
	f.Kind = "other"
	s.Finds(f, want[slices.IndexFunc(want, func(id sojourn.ID) bool { return s.Get(id).Kind == "other" })])
	f = by("args.customer", "42")
	f.Fields["args.a.b"] = "true"
	s.Finds(f, ended)
	f = by("args.customer", "42")
	f.States = []sojourn.State{sojourn.Completed, sojourn.Failed}
	s.Finds(f, ended)
	f = by("args.customer", "42")
	f.IDs = []sojourn.ID{deep, ended}
	s.Finds(f, ended)
	for _, newest := range []bool{false, true} {
		var got []sojourn.ID
		f = by("args.customer", "42")
		for f.Limit, f.Newest = 3, newest; ; {
			page := s.Find(f)
			got = append(got, page...)
			if len(page) < f.Limit {
				break
			}
			f.After = page[len(page)-1].String()
		}
		if newest {
			slices.Reverse(got)
		}
		kit.Same(s, fmt.Sprintf("pages, newest %v", newest), fmt.Sprint(got), fmt.Sprint(want))
	}
	// A second queue with the path: a filter without a queue finds the jobs of both.
	index(s, "second", "args.customer")
	more := s.Enqueue(kit.Args(`{"customer": 42}`), sojourn.Queue("second"))
	s.Enqueue(kit.Args(`{"customer": 42}`), sojourn.Queue("third"))
	s.Finds(by("args.customer", "42"), append(slices.Clone(want), more)...)
	f = by("args.customer", "42")
	f.Queue = "second"
	s.Finds(f, more)
}

func refusals(s *kit.Scene) {
	s.Enqueue(kit.Args(`{"customer": 42}`))
	f := by("args.customer", "42")
	_, err := s.Store.Find(s.Ctx, f)
	s.Refused(err, sojourn.CodeInvalid, "a path without an index")
	f.Queue = kit.Queue
	_, err = s.Store.Find(s.Ctx, f)
	if e := s.Refused(err, sojourn.CodeInvalid, "a path without an index in the queue"); !strings.Contains(e.Message, "queue set "+kit.Queue+" --index args.customer") {
		s.Errorf("the refusal does not say what to do: %v", e)
	}
	index(s, kit.Queue, "args.customer")
	f.Fields["args.other"] = "1"
	_, err = s.Store.Find(s.Ctx, f)
	s.Refused(err, sojourn.CodeInvalid, "a second path without an index")
	_, err = s.Store.Find(s.Ctx, by("args.customer", strings.Repeat("x", 300)))
	s.Refused(err, sojourn.CodeInvalid, "a value that is too long")
	for what, paths := range map[string][]string{"no root": {"customer"}, "no name": {"args"}, "twice": {"args.a", "args.a"}, "a space": {"args.a b"},
		"too many": {"args.1", "args.2", "args.3", "args.4", "args.5", "args.6", "args.7", "args.8", "args.9"}} {
		_, err := s.Store.SetQueue(s.Ctx, kit.Queue, sojourn.QueueSettings{Index: paths})
		s.Refused(err, sojourn.CodeInvalid, what)
	}
	kit.Same(s, "index after refusals", fmt.Sprint(s.Queue(kit.Queue).Settings.Index), "[args.customer]")
}

func backfill(s *kit.Scene) {
	args := kit.Args(`{"customer": 42, "other": 1}`)
	want := []sojourn.ID{s.Final(sojourn.Completed, kit.OfKind("c"), args).Job.ID, s.Final(sojourn.Failed, kit.OfKind("f"), args).Job.ID, s.Awaiting(kit.OfKind("a"), args).Job.ID, s.Enqueue(args)}
	want = append(want, s.EnqueueMany(20, args)...)
	s.Enqueue(args, sojourn.Queue("elsewhere"))
	slices.Sort(want)
	index(s, kit.Queue, "args.customer")
	s.Finds(by("args.customer", "42"), want...)
	index(s, kit.Queue, "args.other") // replaces the path
	s.Finds(by("args.other", "1"), want...)
	_, err := s.Store.Find(s.Ctx, by("args.customer", "42"))
	s.Refused(err, sojourn.CodeInvalid, "a path that is no longer indexed")
	index(s, kit.Queue)
	_, err = s.Store.Find(s.Ctx, by("args.other", "1"))
	s.Refused(err, sojourn.CodeInvalid, "an index that was removed")
	index(s, kit.Queue, "args.other")
	s.Finds(by("args.other", "1"), want...)
}

func follows(s *kit.Scene) {
	index(s, kit.Queue, "args.c")
	index(s, "next", "args.c", "meta.m")
	one, two, three := kit.Args(`{"c": 1}`), []byte(`{"c": 2}`), []byte(`{"c": 3}`)
	id := s.Enqueue(one, sojourn.Meta("m", "x"))
	s.Change(id, sojourn.Edit{Args: &two}, sojourn.Ready)
	s.Finds(by("args.c", "1"))
	s.Finds(by("args.c", "2"), id)
	s.Finds(by("meta.m", "x"))
	next, plain := "next", "plain"
	s.Change(id, sojourn.Edit{Queue: &next}, sojourn.Ready)
	f := by("args.c", "2")
	f.Queue = kit.Queue
	s.Finds(f)
	s.Finds(by("args.c", "2"), id)
	s.Finds(by("meta.m", "x"), id)
	s.Change(id, sojourn.Edit{Queue: &plain, Args: &three}, sojourn.Ready) // it changes where nothing is indexed
	s.Finds(by("args.c", "2"))
	s.Finds(by("args.c", "3"))
	s.Change(id, sojourn.Edit{Queue: &next}, sojourn.Ready)
	s.Finds(by("args.c", "2"))
	s.Finds(by("args.c", "3"), id)
	s.Cancel(id)
	s.Finds(by("args.c", "3"), id)
	s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive, Args: &two}, sojourn.Ready)
	s.Finds(by("args.c", "3"))
	s.Finds(by("args.c", "2"), id)
	s.Cancel(id)
	s.Advance(time.Hour)
	if e := s.Edit(id, sojourn.Edit{Action: sojourn.EditPurge}); e.Err != nil {
		s.Fatalf("purge: %v", e.Err)
	}
	s.Finds(by("args.c", "2"))

	// A step goes on in another queue.
	c := s.Running(one, sojourn.Meta("m", "y"))
	s.Finds(by("meta.m", "y"))
	s.Finish(kit.Advance(c, "next"), sojourn.Ready)
	s.Finds(by("meta.m", "y"), c.Job.ID)
	s.Finds(by("args.c", "1"), c.Job.ID)

	// A newer job replaces one with its key.
	j := s.Job(sojourn.Key("k"), one, sojourn.Delay(time.Hour), sojourn.OnKeyConflict(sojourn.Replace))
	s.Put(j)
	newer := s.Job(sojourn.Key("k"), kit.Args(`{"c": 9}`), sojourn.Delay(time.Hour), sojourn.OnKeyConflict(sojourn.Replace))
	s.Put(newer)
	s.Finds(by("args.c", "9"), j.ID)
	s.Finds(by("args.c", "1"), c.Job.ID)
}

func results(s *kit.Scene) {
	index(s, kit.Queue, "result.id", "args.c")
	complete := func(result string) sojourn.ID {
		c := s.Running(kit.Args(`{"c": 1}`))
		s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCompleted, Result: []byte(result)}, sojourn.Completed)
		return c.Job.ID
	}
	a, other := complete(`{"id": "r1"}`), complete(`{"id": "r2"}`)
	both := by("result.id", "r1")
	both.Fields["args.c"] = "1"
	check := func(want ...sojourn.ID) {
		s.Helper()
		s.Finds(by("result.id", "r1"), want...)
		s.Finds(both, want...)
		f := both
		f.IDs = []sojourn.ID{a, other}
		s.Finds(f, a)
		f = both
		f.States = []sojourn.State{sojourn.Ready}
		s.Finds(f)
		f = both
		f.EndedBefore = s.Now().Add(-24 * time.Hour)
		s.Finds(f)
	}
	check(a)
	s.Advance(time.Minute)
	s.Sweep()
	check(a)
	b := complete(`{"id": "r1"}`)
	check(a, b)
	s.Advance(time.Minute)
	s.Sweep()
	c := complete(`{"id": "r1"}`)
	check(a, b, c)
	page := by("result.id", "r1")
	page.Limit = 2
	s.Finds(page, a, b)
	page.After = b.String()
	s.Finds(page, c)
	index(s, kit.Queue, "args.c", "result.id") // a new index finds what has ended before
	check(a, b, c)
	s.Advance(time.Minute)
	s.Sweep()
	check(a, b, c)
}

func edits(s *kit.Scene) {
	index(s, kit.Queue, "args.c")
	args := kit.Args(`{"c": 1}`)
	want := s.EnqueueMany(3, args)
	other := s.Enqueue(kit.Args(`{"c": 2}`))
	page, err := s.Store.Edit(s.Ctx, by("args.c", "1"), sojourn.Edit{Action: sojourn.EditFail, DryRun: true})
	s.Must(err, "dry run")
	kit.Same(s, "jobs of the dry run", page.Total, 3)
	page, err = s.Store.Edit(s.Ctx, by("args.c", "1"), sojourn.Edit{Action: sojourn.EditFail})
	s.Must(err, "fail")
	kit.Same(s, "failed jobs", len(page.Items), 3)
	for _, id := range want {
		s.State(id, sojourn.Failed)
	}
	s.State(other, sojourn.Ready)
	ended := by("args.c", "1")
	ended.States = []sojourn.State{sojourn.Failed}
	s.Finds(ended, want...)
	s.Finds(by("args.c", "1"), want...)
	_, err = s.Store.Edit(s.Ctx, by("args.gone", "1"), sojourn.Edit{Action: sojourn.EditFail})
	s.Refused(err, sojourn.CodeInvalid, "an edit by a path without an index")

	if _, ok := s.Store.(operation.Store); !ok {
		return
	}
	ops := operation.Of(sojourn.NewClient(s.Store))
	id := operation.NewID()
	_, err = ops.Start(s.Ctx, operation.Spec{ID: id, Filter: by("args.c", "1"), Edit: sojourn.Edit{Action: sojourn.EditRedrive}})
	s.Must(err, "start an operation")
	for range 20 {
		s.Sweep()
		if st, err := ops.Get(s.Ctx, id); err == nil && st.State == operation.Completed {
			break
		}
		s.Advance(time.Second)
	}
	st, err := ops.Get(s.Ctx, id)
	s.Must(err, "get the operation")
	kit.Same(s, "operation", fmt.Sprintf("%s %d/%d %s", st.State, st.Changed, st.Total, st.Problem), "completed 3/3 ")
	for _, id := range want {
		s.State(id, sojourn.Ready)
	}
	s.State(other, sojourn.Ready)
}

func tenants(s *kit.Scene) {
	s.Keeper()
	index(s, "alice", "args.c")
	index(s, "bob", "args.c", "args.secret")
	args := kit.Args(`{"c": 1, "secret": 7}`)
	mine := s.Enqueue(sojourn.Queue("alice"), args)
	s.Enqueue(sojourn.Queue("bob"), args)
	grant := func(queue string, verbs ...access.Verb) access.Grant {
		return access.Grant{Verbs: verbs, Queue: queue, Kind: "*"}
	}
	f := by("args.c", "1")
	f.Queue = "alice"
	reader := s.Tenant("reader", grant("alice", access.VerbRead, access.VerbReadArgs))
	if _, far := s.Store.(kit.Distant); far { // grants of reads are checked by the server
		reader.Finds(f, mine)
		for what, f := range map[string]sojourn.Filter{
			"all queues":                {Fields: f.Fields},
			"another queue":             {Fields: f.Fields, Queue: "bob"},
			"another queue by ids":      {Fields: f.Fields, Queue: "bob", IDs: []sojourn.ID{mine}},
			"the index of another one":  {Fields: map[string]string{"args.secret": "7"}},
			"the job by id, all queues": {Fields: f.Fields, IDs: []sojourn.ID{mine}},
		} {
			_, err := reader.Store.Find(reader.Ctx, f)
			s.Refused(err, access.CodeScope, what)
		}
		blind := s.Tenant("blind", grant("alice", access.VerbRead, access.VerbOperate))
		_, err := blind.Store.Find(blind.Ctx, f)
		s.Refused(err, access.CodeScope, "without read:args")
		_, err = blind.Store.Edit(blind.Ctx, f, sojourn.Edit{Action: sojourn.EditCancel, DryRun: true})
		s.Refused(err, access.CodeScope, "an edit without read:args")
	}
	if _, ok := s.Store.(operation.Store); !ok {
		return
	}
	blind := s.Tenant("blind2", grant("alice", access.VerbRead, access.VerbOperate))
	_, err := operation.Of(sojourn.NewClient(blind.Store)).Start(blind.Ctx, operation.Spec{ID: operation.NewID(), Filter: f, Edit: sojourn.Edit{Action: sojourn.EditCancel}})
	if err == nil || sojourn.ErrorCode(err) != access.CodeScope {
		s.Errorf("an operation without read:args: %v", err)
	}
}

// busy changes the index of a queue while several callers work in it.
func busy(s *kit.Scene) {
	const callers, rounds = 4, 30
	s.SetQueue(kit.Queue, sojourn.QueueSettings{})
	var ids [callers][]sojourn.ID
	for i := range ids {
		for range rounds {
			ids[i] = append(ids[i], s.ID())
		}
	}
	var work sync.WaitGroup
	for i := range callers {
		work.Go(func() {
			r := driver.ClaimRequest{Worker: fmt.Sprintf("busy-%d", i), Queues: []string{kit.Queue}, Kinds: []string{"busy"}, Max: 1, Capacity: 1, Lease: time.Hour}
			for n, id := range ids[i] {
				j := *sojourn.NewJob("busy", []byte(fmt.Sprintf(`{"c": %d}`, n%2)), sojourn.Queue(kit.Queue))
				j.ID = id
				if _, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false); err != nil {
					s.Errorf("enqueue: %v", err)
					return
				}
				if n%3 == 0 {
					continue
				}
				r.Number++
				claimed, err := s.Store.Claim(s.Ctx, r)
				if err == nil && len(claimed) == 1 {
					_, err = s.Store.Finish(s.Ctx, []sojourn.Outcome{{Lease: claimed[0].Lease, Type: sojourn.OutcomeCompleted, Result: []byte(`{"id": "r"}`)}})
				}
				if err != nil {
					s.Errorf("step: %v", err)
					return
				}
			}
		})
	}
	for _, paths := range [][]string{{"args.c"}, {"result.id", "args.c"}, {"args.none"}, {"args.c", "result.id"}} {
		s.SetQueue(kit.Queue, sojourn.QueueSettings{Index: paths})
	}
	work.Wait()
	for range 2 { // before and after the results are indexed
		s.Sweep()
		for value, want := range map[string]int{"0": callers * rounds / 2, "1": callers * rounds / 2} {
			f := by("args.c", value)
			f.Limit = sojourn.MaxFind
			kit.Same(s, "jobs with "+value, len(s.Find(f)), want)
		}
		done := sojourn.Filter{Queue: kit.Queue, States: []sojourn.State{sojourn.Completed}, Limit: sojourn.MaxFind}
		f := by("result.id", "r")
		f.Limit = sojourn.MaxFind
		kit.Same(s, "jobs with the result", len(s.Find(f)), len(s.Find(done)))
		s.Advance(time.Minute)
	}
}
