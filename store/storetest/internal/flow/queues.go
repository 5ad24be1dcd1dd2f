package flow

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var queueTrials = []kit.Trial{
	{Name: "list queues", Law: "Queues are listed in the order in which they were first seen, or as named.", Covers: "spec:A5 spec:O13 spec:A9", Run: queueList},
	{Name: "count jobs", Law: "A queue counts its jobs by state, and what is resumed, stalled and in flight.", Covers: "spec:O13 spec:A11", Run: queueCounts},
	{Name: "counts follow every change", Law: "The counts of queues follow an end, a redrive, a move to another queue and a purge.", Covers: "spec:O13", Run: countChanges},
	{Name: "defaults of a queue", Law: "What neither option nor kind says comes from the queue, at the enqueue.",
		Covers: "spec:A12 spec:J11 spec:J12", Run: queueDefaults},
	{Name: "settings of a queue", Law: "Settings are stored whole, checked, and make the queue.", Covers: "spec:A5 spec:A9 spec:A16 spec:X13", Run: queueSettings},
	{Name: "declare a queue", Law: "A declaration replaces what programs have declared before, and writes nothing if that is the same.",
		Covers: "spec:X15", Run: declareQueue},
	{Name: "declare below an operator", Law: "A setting of an operator stays in force whatever is declared, until it is reset.", Covers: "spec:X15", Run: declareBelow},
	{Name: "update single settings", Law: "An update changes the settings that it names, to none as well, and refuses a revision that has passed.",
		Covers: "spec:X15", Run: updateQueue},
	{Name: "reset a setting", Law: "A setting that is reset is what is declared now.", Covers: "spec:X15", Run: resetSettings},
	{Name: "a pause is no setting", Law: "Neither a declaration nor an update nor a reset ends a pause, of a queue or a kind.",
		Covers: "tr:O7 rules:C8 spec:X15 spec:K9", Run: pauseStays},
	{Name: "settings set as a whole", Law: "What differs from the declared settings becomes the operator's.", Covers: "spec:X15", Run: setWhole},
	{Name: "settings that do not fit together", Law: "A change is refused whole if its settings do not fit with those of the other layer.",
		Covers: "spec:X15", Run: layersThatClash},
	{Name: "concurrent changes of settings", Law: "Of concurrent updates with one revision a single one succeeds, and updates of different settings all stay.",
		Covers: "spec:X15", Run: concurrentSettings},
	{Name: "settings need a grant", Law: "A token without the verb admin for a queue can neither declare, update nor pause it.",
		Covers: "spec:X15 spec:H7", Run: settingsOfTenants},
	{Name: "forget a queue", Law: "Only an empty queue is forgotten.", Covers: "spec:A5", Run: queueForget},
}

var pauseTrials = []kit.Trial{
	{Name: "rules:C8 pause", Law: "A paused queue hands out nothing for any purpose, and loses nothing.", Covers: "tr:O7 rules:C8 spec:K9 inv:W5", Run: pause},
	{Name: "rules:C8 what goes on in a pause", Law: "Responses match, waits time out and leases end in a paused queue.",
		Covers: "tr:O7 rules:C8 inv:W5", Run: pauseGoesOn},
	{Name: "rules:C1 no decision by default in a pause", Law: "decide_within stands while the queue is paused.",
		Covers: "tr:O7 tr:W7 rules:C1 rules:C8", Run: pauseDecide},
	{Name: "pause only one queue", Law: "A pause of one queue leaves the others alone.", Covers: "tr:O7 spec:K9", Run: pauseOne},
}

func queueList(s *kit.Scene) {
	for _, name := range []string{"zebra", "apple", "Mango"} {
		s.Enqueue(sojourn.Queue(name))
	}
	s.SetQueue("banana", sojourn.QueueSettings{})
	s.Enqueue(sojourn.Queue("apple"))
	qs, err := s.Store.Queues(s.Ctx)
	s.Must(err, "Queues")
	var names []string
	for _, q := range qs {
		names = append(names, q.Name)
	}
	kit.Same(s, "the queues", kit.Text(names), kit.Text([]string{"zebra", "apple", "Mango", "banana"}))
	for _, names := range [][]string{{"unknown"}, {"banana", "unknown", "zebra"}, {""}, {"a b"}} {
		_, err = s.Store.Queues(s.Ctx, names...)
		s.Is(err, sojourn.ErrNotFound, "a queue that does not exist: "+kit.Text(names))
	}
	_, err = s.Store.Queues(s.Ctx, sojourn.AllQueues) // the settings for all queues always exist
	s.Must(err, "Queues of all queues")
	qs, err = s.Store.Queues(s.Ctx, "banana", "zebra", "banana")
	s.Must(err, "Queues")
	kit.Same(s, "the named queues", len(qs), 2)
	for _, q := range qs {
		if q.Name != "banana" && q.Name != "zebra" {
			s.Fatalf("Queues gave %s, which was not named", q.Name)
		}
	}
}

func queueCounts(s *kit.Scene) {
	s.Errored(sojourn.Key("e"))
	s.Running(sojourn.Key("stalled"))
	s.Advance(kit.LeaseTime + time.Second)
	s.Running(kit.OfKind("b")) // a claim handles overdue jobs in its own way
	s.Awaiting(kit.OfKind("c"))
	s.Final(sojourn.Completed, kit.OfKind("d"))
	s.Final(sojourn.Completed, kit.OfKind("d"))
	s.Final(sojourn.Failed, kit.OfKind("d"))
	s.Final(sojourn.Cancelled, kit.OfKind("d"))
	s.EnqueueMany(3, sojourn.Delay(time.Hour))
	s.Sweep()
	q := s.Queue(kit.Queue)
	for state, want := range map[sojourn.State]int64{sojourn.Errored: 1, sojourn.Ready: 1, sojourn.Running: 1, sojourn.Awaiting: 1,
		sojourn.Completed: 2, sojourn.Failed: 1, sojourn.Cancelled: 1, sojourn.Scheduled: 3} {
		kit.Same(s, "jobs that are "+state.String(), q.Counts[state], want)
	}
	kit.Same(s, "states", len(q.Counts), 8)
	kit.Same(s, "in flight", q.InFlight, 2)
	running := s.Find(sojourn.Filter{Queue: kit.Queue, States: []sojourn.State{sojourn.Running}})
	kit.Same(s, "jobs in the list of the running", len(running), 1)
	kit.Same(s, "state of the job in it", s.Get(running[0]).State, sojourn.Running)
	kit.Same(s, "resumed", q.Resumed, 0)
	kit.Same(s, "stalled", q.Stalled, 0)
	ready := s.Now() // since the queue has ready jobs, or before
	s.Advance(kit.LeaseTime + time.Second)
	q = s.Queue(kit.Queue)
	if q.OldestReady.IsZero() || q.OldestReady.After(ready) {
		s.Fatalf("the oldest ready job is ready since %v, it was so at %v", q.OldestReady, ready)
	}
	kit.Same(s, "stalled before the sweep", q.Stalled, 1)
	kit.Same(s, "in flight before the sweep", q.InFlight, 2) // a lease past its end counts until it is ended
	s.Sweep()
	kit.Same(s, "stalled after the sweep", s.Queue(kit.Queue).Stalled, 0)
	s.Resumed("r", kit.OfKind(kit.Kind), sojourn.Priority(-1))
	kit.Same(s, "resumed", s.Queue(kit.Queue).Resumed, 1)
}

// countChanges compares the counts of two queues after each change. The checks that follow every
// case compare them with a recount.
func countChanges(s *kit.Scene) {
	counts := func(queue string) string { return fmt.Sprint(s.Queue(queue).Counts) }
	c := s.Final(sojourn.Failed)
	s.Enqueue(sojourn.Queue("other"), kit.OfKind("b"))
	kit.Same(s, "counts after a failure", counts(kit.Queue), "map[failed:1]")
	other := "other"
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	kit.Same(s, "counts after a redrive", counts(kit.Queue), "map[ready:1]")
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditChange, Queue: &other}, sojourn.Ready)
	kit.Same(s, "counts of the queue that the job has left", counts(kit.Queue), "map[]")
	kit.Same(s, "counts of its new queue", counts(other), "map[ready:2]")
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditCancel}, sojourn.Cancelled)
	kit.Same(s, "counts after a cancel", counts(other), "map[ready:1 cancelled:1]")
	s.Advance(sojourn.IDLife + time.Second)
	s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditPurge})
	kit.Same(s, "counts after a purge", counts(other), "map[ready:1]")
}

func queueDefaults(s *kit.Scene) {
	p, w := int32(5), int32(0)
	before := s.Enqueue(sojourn.Queue("q"))
	s.SetQueue("q", sojourn.QueueSettings{Defaults: sojourn.Policy{Priority: &p, Weight: &w,
		MaxAttempts: 2, Timeout: time.Hour, Backoff: sojourn.Backoff{First: time.Second}}})
	j := s.Get(s.Enqueue(sojourn.Queue("q")))
	kit.Same(s, "priority", j.Priority, 5)
	kit.Same(s, "weight", j.Weight, 0)
	kit.Same(s, "max_attempts", j.Policy.MaxAttempts, 2)
	kit.Same(s, "timeout", j.Policy.Timeout, time.Hour)
	kit.Same(s, "backoff", j.Policy.Backoff.First, time.Second)
	kit.Same(s, "max_crashes", j.Policy.MaxCrashes, sojourn.DefaultMaxCrashes)
	j = s.Get(s.Enqueue(sojourn.Queue("q"), sojourn.Priority(100), sojourn.Weight(1), sojourn.MaxAttempts(5)))
	kit.Same(s, "priority, given", j.Priority, 100)
	kit.Same(s, "weight, given", j.Weight, 1)
	kit.Same(s, "max_attempts, given", j.Policy.MaxAttempts, 5)
	kit.Same(s, "timeout", j.Policy.Timeout, time.Hour)
	kit.Same(s, "priority of a job that was there before", s.Get(before).Priority, sojourn.DefaultPriority)
	kit.Same(s, "priority in another queue", s.Get(s.Enqueue()).Priority, sojourn.DefaultPriority)
}

func queueSettings(s *kit.Scene) {
	p := int32(5)
	all := sojourn.QueueSettings{Paused: true, Defaults: sojourn.Policy{Priority: &p, KeepKey: time.Hour},
		Retention: sojourn.Retention{Age: time.Hour, Count: 10, FailedAge: time.Minute, FailedCount: 5}}
	s.SetQueue("q", all)
	kit.Same(s, "settings", kit.Text(s.Queue("q").Settings), kit.Text(all))
	s.SetQueue("q", sojourn.QueueSettings{Retention: sojourn.Retention{Age: -1}})
	kit.Same(s, "settings", kit.Text(s.Queue("q").Settings), kit.Text(sojourn.QueueSettings{Retention: sojourn.Retention{Age: -1}}))
	w := int32(-1)
	for what, bad := range kit.InOrder(map[string]sojourn.QueueSettings{
		"weight":          {Defaults: sojourn.Policy{Weight: &w}},
		"policy":          {Defaults: sojourn.Policy{Timeout: -1}},
		"retention age":   {Retention: sojourn.Retention{Age: -2}},
		"retention count": {Retention: sojourn.Retention{Count: -2}},
	}) {
		s.Refused(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, "q", bad), sojourn.CodeInvalid, what)
	}
	s.Refused(sojourn.NewClient(s.Store).Queues().Set(s.Ctx, "a b", sojourn.QueueSettings{}), sojourn.CodeInvalid, "a bad name")
	kit.Same(s, "paused after the refusals", s.Queue("q").Settings.Paused, false)
}

// program and operator are clients over the store of a scene.
func program(s *kit.Scene) *sojourn.Client { return sojourn.NewClient(s.Store) }
func operator(s *kit.Scene) sojourn.Queues { return program(s).Queues() }

// declared declares settings, and wants the answer to be what the queue then is.
func declared(s *kit.Scene, name string, settings sojourn.QueueSettings) sojourn.QueueStatus {
	s.Helper()
	q, err := program(s).DeclareQueue(s.Ctx, name, settings)
	s.Must(err, "DeclareQueue")
	return asStored(s, q)
}

// updated changes settings for an operator, and wants the answer to be what the queue then is.
func updated(s *kit.Scene, name string, p sojourn.QueuePatch) sojourn.QueueStatus {
	s.Helper()
	q, err := operator(s).Update(s.Ctx, name, p)
	s.Must(err, "Update")
	return asStored(s, q)
}

func asStored(s *kit.Scene, answer sojourn.QueueStatus) sojourn.QueueStatus {
	s.Helper()
	q := s.Queue(answer.Name)
	layersOf := func(q sojourn.QueueStatus) string {
		return kit.Text(q.Settings) + kit.Text(q.Declared) + kit.Text(q.Overrides)
	}
	kit.Same(s, "the layers in the answer", layersOf(answer), layersOf(q))
	kit.Same(s, "the revision in the answer", answer.Revision, q.Revision)
	return q
}

func declareQueue(s *kit.Scene) {
	all := sojourn.QueueSettings{Limit: 10, GroupLimit: 2, Shares: map[string]float64{"a": .5}, Rate: &sojourn.Rate{Count: 5, Per: time.Second},
		Retention: sojourn.Retention{Age: time.Hour}, Throttle: ""}
	q := declared(s, "q", all)
	kit.Same(s, "settings", kit.Text(q.Settings), kit.Text(all))
	kit.Same(s, "declared", kit.Text(q.Declared), kit.Text(all))
	kit.Same(s, "overrides", len(q.Overrides.Fields()), 0)
	for range 2 { // as two programs do
		kit.Same(s, "the revision after the same declaration", declared(s, "q", all).Revision, q.Revision)
	}
	less := declared(s, "q", sojourn.QueueSettings{GroupLimit: 2})
	kit.Same(s, "settings after a field was dropped", kit.Text(less.Settings), kit.Text(sojourn.QueueSettings{GroupLimit: 2}))
	if less.Revision <= q.Revision {
		s.Fatalf("the revision went from %d to %d", q.Revision, less.Revision)
	}
	empty := declared(s, "empty", sojourn.QueueSettings{})
	kit.Same(s, "settings of a queue with the defaults", kit.Text(empty.Settings), kit.Text(sojourn.QueueSettings{}))
	for what, bad := range kit.InOrder(map[string]sojourn.QueueSettings{
		"a pause": {Paused: true}, "a paused kind": {PausedKinds: []string{"k"}}, "shares without a limit": {Shares: map[string]float64{"a": 1}},
	}) {
		_, err := program(s).DeclareQueue(s.Ctx, "bad", bad)
		s.Refused(err, sojourn.CodeInvalid, what)
	}
	_, err := program(s).DeclareQueue(s.Ctx, sojourn.AllQueues, sojourn.QueueSettings{})
	s.Refused(err, sojourn.CodeInvalid, "a declaration for all queues")
	_, err = s.Store.Queues(s.Ctx, "bad")
	s.Is(err, sojourn.ErrNotFound, "a queue of which every declaration was refused")
}

func declareBelow(s *kit.Scene) {
	declared(s, kit.Queue, sojourn.QueueSettings{Limit: 10, MaxDepth: 7})
	updated(s, kit.Queue, sojourn.QueuePatch{Limit: new(int64(1))})
	q := declared(s, kit.Queue, sojourn.QueueSettings{Limit: 20, MaxDepth: 8})
	kit.Same(s, "limit", q.Settings.Limit, 1)
	kit.Same(s, "declared limit", q.Declared.Limit, 20)
	kit.Same(s, "max depth", q.Settings.MaxDepth, 8)
	kit.Same(s, "the operator's settings", kit.Text(q.Overrides.Fields()), kit.Text([]string{"limit"}))
	s.EnqueueMany(2)
	kit.Same(s, "jobs started", len(s.ClaimMany(kit.UpTo(2))), 1)
	updated(s, kit.Queue, sojourn.QueuePatch{Reset: []string{"limit"}})
	kit.Same(s, "jobs started after the reset", len(s.ClaimMany(kit.UpTo(2))), 1)
}

func updateQueue(s *kit.Scene) {
	q := updated(s, "q", sojourn.QueuePatch{Limit: new(int64(5)), Rate: &sojourn.Rate{Count: 1, Per: time.Second}, Breaker: &sojourn.Breaker{Failures: 3}})
	next := updated(s, "q", sojourn.QueuePatch{Fair: new(true), Revision: q.Revision})
	want := q.Settings
	want.Fair = true
	kit.Same(s, "settings", kit.Text(next.Settings), kit.Text(want))
	_, err := operator(s).Update(s.Ctx, "q", sojourn.QueuePatch{Limit: new(int64(6)), Revision: q.Revision})
	if s.Is(err, sojourn.ErrConflict, "a revision that has passed"); !strings.Contains(err.Error(), kit.Text(next.Revision)) {
		s.Fatalf("the error does not name the revision %d: %v", next.Revision, err)
	}
	kit.Same(s, "limit after the conflict", s.Queue("q").Settings.Limit, 5)
	_, err = operator(s).Update(s.Ctx, "new", sojourn.QueuePatch{Revision: 1})
	s.Is(err, sojourn.ErrConflict, "a revision of a queue that does not exist")
	declared(s, "q", sojourn.QueueSettings{Limit: 9, Rate: &sojourn.Rate{Count: 9, Per: time.Second}, Breaker: &sojourn.Breaker{Failures: 9}, Fair: true,
		Shares: map[string]float64{"a": 1}})
	none := updated(s, "q", sojourn.QueuePatch{Limit: new(int64(0)), Rate: &sojourn.Rate{}, Breaker: &sojourn.Breaker{}, Fair: new(false), Shares: new(map[string]float64)})
	kit.Same(s, "settings that are all none", kit.Text(none.Settings), kit.Text(sojourn.QueueSettings{}))
	kit.Same(s, "the operator's settings", kit.Text(none.Overrides.Fields()), kit.Text([]string{"limit", "shares", "fair", "rate", "breaker"}))
	kit.Same(s, "the revision after an update with the same", updated(s, "q", sojourn.QueuePatch{Fair: new(false)}).Revision, none.Revision)
}

func resetSettings(s *kit.Scene) {
	was := declared(s, "q", sojourn.QueueSettings{Limit: 10, Retention: sojourn.Retention{Age: time.Hour, Count: 5}})
	updated(s, "q", sojourn.QueuePatch{Limit: new(int64(1)), MaxDepth: new(int64(2)), Retention: &sojourn.Retention{FailedAge: time.Minute}})
	q := updated(s, "q", sojourn.QueuePatch{Reset: []string{"limit", "fair"}, GroupLimit: new(int64(3))})
	kit.Same(s, "settings", kit.Text(q.Settings), kit.Text(sojourn.QueueSettings{Limit: 10, MaxDepth: 2, GroupLimit: 3, Retention: sojourn.Retention{FailedAge: time.Minute}}))
	q = updated(s, "q", sojourn.QueuePatch{Reset: []string{"*"}})
	kit.Same(s, "settings after all are reset", kit.Text(q.Settings), kit.Text(was.Settings))
	kit.Same(s, "the operator's settings", len(q.Overrides.Fields()), 0)
	_, err := operator(s).Update(s.Ctx, "q", sojourn.QueuePatch{Reset: []string{"limits"}})
	s.Refused(err, sojourn.CodeInvalid, "a reset of an unknown setting")
	_, err = operator(s).Update(s.Ctx, "q", sojourn.QueuePatch{Reset: []string{"limit"}, Limit: new(int64(1))})
	s.Refused(err, sojourn.CodeInvalid, "a setting that is set and reset")
}

func pauseStays(s *kit.Scene) {
	s.Is(operator(s).Pause(s.Ctx, kit.Queue), sojourn.ErrNotFound, "a pause of a queue that does not exist")
	declared(s, kit.Queue, sojourn.QueueSettings{Limit: 10})
	s.Must(operator(s).Pause(s.Ctx, kit.Queue), "Pause")
	s.Must(operator(s).Pause(s.Ctx, kit.Queue, "a", "b"), "Pause of kinds")
	declared(s, kit.Queue, sojourn.QueueSettings{Limit: 20})
	updated(s, kit.Queue, sojourn.QueuePatch{MaxDepth: new(int64(100)), Reset: []string{"limit"}})
	q := updated(s, kit.Queue, sojourn.QueuePatch{Reset: []string{"*"}})
	kit.Same(s, "settings", kit.Text(q.Settings), kit.Text(sojourn.QueueSettings{Paused: true, PausedKinds: []string{"a", "b"}, Limit: 20}))
	before := q.Revision
	s.Must(operator(s).Pause(s.Ctx, kit.Queue, "b"), "Pause again")
	kit.Same(s, "the revision after the same pause", s.Queue(kit.Queue).Revision, before)
	s.EnqueueMany(1)
	s.ClaimNone("the queue is paused")
	s.Must(operator(s).Resume(s.Ctx, kit.Queue), "Resume")
	s.Must(operator(s).Resume(s.Ctx, kit.Queue, "a"), "Resume of a kind")
	kit.Same(s, "paused kinds", kit.Text(s.Queue(kit.Queue).Settings.PausedKinds), kit.Text([]string{"b"}))
	s.Claim()
	kit.Same(s, "limit", s.Queue(kit.Queue).Settings.Limit, 20)
	s.Must(operator(s).Pause(s.Ctx, sojourn.AllQueues), "Pause of all queues")
	s.EnqueueMany(1)
	s.ClaimNone("all queues are paused")
	s.Must(operator(s).Resume(s.Ctx, sojourn.AllQueues), "Resume of all queues")
	s.Claim()
}

func setWhole(s *kit.Scene) {
	declared(s, "q", sojourn.QueueSettings{Limit: 10, MaxDepth: 5, Rate: &sojourn.Rate{Count: 5, Per: time.Second}})
	s.SetQueue("q", sojourn.QueueSettings{Limit: 10, GroupLimit: 3, Paused: true})
	q := s.Queue("q")
	kit.Same(s, "settings", kit.Text(q.Settings), kit.Text(sojourn.QueueSettings{Limit: 10, GroupLimit: 3, Paused: true}))
	kit.Same(s, "the operator's settings", kit.Text(q.Overrides.Fields()), kit.Text([]string{"max_depth", "group_limit", "rate"}))
	q = declared(s, "q", sojourn.QueueSettings{Limit: 11, MaxDepth: 6})
	kit.Same(s, "settings", kit.Text(q.Settings), kit.Text(sojourn.QueueSettings{Limit: 11, GroupLimit: 3, Paused: true}))
}

func layersThatClash(s *kit.Scene) {
	shared := sojourn.QueueSettings{Limit: 10, Shares: map[string]float64{"a": .5}}
	declared(s, "q", shared)
	_, err := operator(s).Update(s.Ctx, "q", sojourn.QueuePatch{Limit: new(int64(0)), MaxDepth: new(int64(1))})
	s.Refused(err, sojourn.CodeInvalid, "no limit, where shares are declared")
	kit.Same(s, "max depth after the refusal", s.Queue("q").Settings.MaxDepth, 0)
	updated(s, "q", sojourn.QueuePatch{Shares: &map[string]float64{"b": .5}})
	_, err = program(s).DeclareQueue(s.Ctx, "q", sojourn.QueueSettings{MaxDepth: 1})
	s.Is(err, sojourn.ErrConflict, "a declaration without the limit that the operator's shares need")
	kit.Same(s, "declared after the refusal", kit.Text(s.Queue("q").Declared), kit.Text(shared))
}

func concurrentSettings(s *kit.Scene) {
	revision := declared(s, "q", sojourn.QueueSettings{}).Revision
	const callers = 4
	patches := [callers]sojourn.QueuePatch{{Limit: new(int64(1))}, {MaxDepth: new(int64(2))}, {GroupLimit: new(int64(3))}, {Fair: new(true)}}
	together := func(queue string, revision int64) (won int) {
		var all sync.WaitGroup
		var errs [callers]error
		for i, p := range patches {
			p.Revision = revision
			all.Go(func() { _, errs[i] = operator(s).Update(s.Ctx, queue, p) })
		}
		all.Wait()
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				s.Is(err, sojourn.ErrConflict, "an update of a revision that has passed")
			}
		}
		return won
	}
	kit.Same(s, "updates of one revision that succeeded", together("q", revision), 1)
	kit.Same(s, "the operator's settings", len(s.Queue("q").Overrides.Fields()), 1)
	kit.Same(s, "updates of a new queue that succeeded", together("new", 0), callers)
	kit.Same(s, "its settings", len(s.Queue("new").Overrides.Fields()), callers)
}

// settingsOfTenants concerns stores that check grants: those behind a server.
func settingsOfTenants(s *kit.Scene) {
	declared(s, "pay-cards", sojourn.QueueSettings{Limit: 10})
	if _, checks := s.Store.(kit.Distant); !checks {
		return
	}
	pay := s.Tenant("pay", access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: "pay-*"})
	mail := s.Tenant("mail", access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: "mail-*"},
		access.Grant{Verbs: []access.Verb{access.VerbOperate, access.VerbRead}, Queue: "pay-*"})
	const queue = "pay-cards"
	for what, change := range kit.InOrder(map[string]func() (sojourn.QueueStatus, error){
		"declare": func() (sojourn.QueueStatus, error) {
			return mail.Store.DeclareQueue(mail.Ctx, queue, sojourn.QueueSettings{Limit: 5})
		},
		"update": func() (sojourn.QueueStatus, error) {
			return mail.Store.UpdateQueue(mail.Ctx, queue, sojourn.QueuePatch{Limit: new(int64(5))})
		},
		"pause": func() (sojourn.QueueStatus, error) { return mail.Store.PauseQueue(mail.Ctx, queue, true) },
		"set": func() (sojourn.QueueStatus, error) {
			return mail.Store.SetQueue(mail.Ctx, queue, sojourn.QueueSettings{Limit: 5})
		},
	}) {
		_, err := change()
		s.Refused(err, "insufficient_scope", what)
		kit.Same(s, "settings after a refused "+what, kit.Text(s.Queue("pay-cards").Settings), kit.Text(sojourn.QueueSettings{Limit: 10}))
	}
	updated(pay, "pay-cards", sojourn.QueuePatch{Limit: new(int64(5))})
	kit.Same(s, "limit", declared(pay, "pay-cards", sojourn.QueueSettings{Limit: 11}).Settings.Limit, 5)
	declared(mail, "mail-out", sojourn.QueueSettings{Limit: 1})
}

func queueForget(s *kit.Scene) {
	s.SetQueue("empty", sojourn.QueueSettings{Paused: true})
	s.Must(s.Forget("empty"), "ForgetQueue")
	_, err := s.Store.Queues(s.Ctx, "empty")
	s.Is(err, sojourn.ErrNotFound, "a forgotten queue")
	c := s.Running(sojourn.Queue("used"))
	s.Is(s.Forget("used"), sojourn.ErrConflict, "forgetting a queue with a running job")
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Is(s.Forget("used"), sojourn.ErrConflict, "forgetting a queue with a final job")
	s.Advance(sojourn.IDLife + time.Second)
	s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditPurge})
	s.Must(s.Forget("used"), "ForgetQueue")
	s.Enqueue(sojourn.Queue("empty")) // it comes back without its old settings
	kit.Same(s, "paused", s.Queue("empty").Settings.Paused, false)
}

func pause(s *kit.Scene) {
	errored := s.Errored().Job.ID
	ready := s.Enqueue(sojourn.Key("plain"))
	open := s.Claim()
	s.Finish(kit.Released(open), sojourn.Ready)
	resumed := s.Awaiting(sojourn.Key("k"), sojourn.Priority(-1)).Job.ID
	s.Respond("k")
	s.Paused(true)
	s.ClaimNone("the queue is paused", kit.Deciding)
	due := s.Enqueue(sojourn.Delay(time.Second))
	s.Advance(time.Minute)
	s.Sweep()
	s.ClaimNone("the queue is paused", kit.Deciding)
	s.State(due, sojourn.Ready)
	for _, id := range []sojourn.ID{ready, resumed} {
		s.State(id, sojourn.Ready)
	}
	s.State(errored, sojourn.Errored)
	s.Paused(false)
	kit.Same(s, "jobs after the pause", len(s.ClaimMany(kit.UpTo(10), kit.Deciding)), 4)
}

func pauseGoesOn(s *kit.Scene) {
	a := s.Awaiting(sojourn.Key("a"))
	b := s.Running(kit.Steady(time.Hour))
	s.Finish(kit.Await(b, time.Minute), sojourn.Awaiting)
	c, d, e := s.Running(), s.Running(), s.Running(sojourn.Deadline(time.Hour))
	s.Finish(kit.Released(e), sojourn.Ready)
	s.Paused(true)
	s.Became(s.Respond("a"), sojourn.Applied, a.Job.ID)
	s.Finish(kit.Completed(d), sojourn.Completed) // a running step may still report
	s.Swept(2*time.Hour, driver.Swept{Lost: 1, TimedOut: 1, Deadlines: 1, Due: 0})
	kit.Same(s, "resumed", s.State(a.Job.ID, sojourn.Ready).Resumed, true)
	s.State(b.Job.ID, sojourn.Scheduled)
	s.State(c.Job.ID, sojourn.Ready)
	kit.Same(s, "reason", s.State(e.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
	s.Cancel(c.Job.ID)
	s.Enqueue()
	s.ClaimNone("the queue is paused")
}

func pauseDecide(s *kit.Scene) {
	c := s.Errored()
	s.Paused(true)
	s.Swept(time.Hour, driver.Swept{})
	s.State(c.Job.ID, sojourn.Errored)
	s.Paused(false)
	s.Advance(sojourn.DefaultDecideWithin)
	s.Sweep()
	if j := s.Get(c.Job.ID); j.State == sojourn.Errored {
		s.Fatalf("job %d is still errored, long after the pause", j.ID)
	}
}

func pauseOne(s *kit.Scene) {
	s.Enqueue(sojourn.Queue("a"))
	b := s.Enqueue(sojourn.Queue("b"))
	s.SetQueue("a", sojourn.QueueSettings{Paused: true})
	kit.Same(s, "job", s.Claim(kit.From("a", "b"), kit.UpTo(2)).Job.ID, b)
	s.ClaimNone("a is paused", kit.From("a", "b"))
	s.SetQueue("a", sojourn.QueueSettings{})
	s.Claim(kit.From("a"))
}
