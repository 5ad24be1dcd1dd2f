package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

var queueTrials = []trial{
	{"list queues", "Queues are listed in the order in which they were first seen, or as named.", "spec:A5 spec:O13 spec:A9", queueList},
	{"count jobs", "A queue counts its jobs by state, and what is resumed, stalled and in flight.", "spec:O13 spec:A11", queueCounts},
	{"defaults of a queue", "What neither option nor kind says comes from the queue, at the enqueue.", "spec:A12 spec:J11 spec:J12", queueDefaults},
	{"settings of a queue", "Settings are stored whole, checked, and make the queue.", "spec:A5 spec:A9 spec:A16 spec:X13", queueSettings},
	{"declare a queue", "A declaration replaces what programs have declared before, and writes nothing if that is the same.", "spec:X15", declareQueue},
	{"declare below an operator", "A setting of an operator stays in force whatever is declared, until it is reset.", "spec:X15", declareBelow},
	{"update single settings", "An update changes the settings that it names, to none as well, and refuses a revision that has passed.", "spec:X15", updateQueue},
	{"reset a setting", "A setting that is reset is what is declared now.", "spec:X15", resetSettings},
	{"a pause is no setting", "Neither a declaration nor an update nor a reset ends a pause, of a queue or a kind.", "tr:O7 rules:C8 spec:X15 spec:K9", pauseStays},
	{"settings set as a whole", "What differs from the declared settings becomes the operator's.", "spec:X15", setWhole},
	{"settings that do not fit together", "A change is refused whole if its settings do not fit with those of the other layer.", "spec:X15", layersThatClash},
	{"concurrent changes of settings", "Of concurrent updates with one revision a single one succeeds, and updates of different settings all stay.", "spec:X15", concurrentSettings},
	{"settings need a grant", "A token without the verb admin for a queue can neither declare, update nor pause it.", "spec:X15 spec:H7", settingsOfTenants},
	{"forget a queue", "Only an empty queue is forgotten.", "spec:A5", queueForget},
}

var pauseTrials = []trial{
	{"rules:C8 pause", "A paused queue hands out nothing for any purpose, and loses nothing.", "tr:O7 rules:C8 spec:K9 inv:W5", pause},
	{"rules:C8 what goes on in a pause", "Responses match, waits time out and leases end in a paused queue.", "tr:O7 rules:C8 inv:W5", pauseGoesOn},
	{"rules:C1 no decision by default in a pause", "decide_within stands while the queue is paused.", "tr:O7 tr:W7 rules:C1 rules:C8", pauseDecide},
	{"pause only one queue", "A pause of one queue leaves the others alone.", "tr:O7 spec:K9", pauseOne},
}

func queueList(s *scene) {
	for _, name := range []string{"zebra", "apple", "Mango"} {
		s.enqueue(sojourn.Queue(name))
	}
	s.setQueue("banana", sojourn.QueueSettings{})
	s.enqueue(sojourn.Queue("apple"))
	qs, err := s.store.Queues(s.ctx)
	s.must(err, "Queues")
	var names []string
	for _, q := range qs {
		names = append(names, q.Name)
	}
	same(s, "the queues", text(names), text([]string{"zebra", "apple", "Mango", "banana"}))
	for _, names := range [][]string{{"unknown"}, {"banana", "unknown", "zebra"}, {""}, {"a b"}} {
		_, err = s.store.Queues(s.ctx, names...)
		s.is(err, sojourn.ErrNotFound, "a queue that does not exist: "+text(names))
	}
	_, err = s.store.Queues(s.ctx, sojourn.AllQueues) // the settings for all queues always exist
	s.must(err, "Queues of all queues")
	qs, err = s.store.Queues(s.ctx, "banana", "zebra", "banana")
	s.must(err, "Queues")
	same(s, "the named queues", len(qs), 2)
	for _, q := range qs {
		if q.Name != "banana" && q.Name != "zebra" {
			s.Fatalf("Queues gave %s, which was not named", q.Name)
		}
	}
}

func queueCounts(s *scene) {
	s.errored(sojourn.Key("e"))
	s.running(sojourn.Key("stalled"))
	s.advance(lease + time.Second)
	s.running(ofKind("b")) // a claim handles overdue jobs in its own way
	s.awaiting(ofKind("c"))
	s.final(sojourn.Completed, ofKind("d"))
	s.final(sojourn.Completed, ofKind("d"))
	s.final(sojourn.Failed, ofKind("d"))
	s.final(sojourn.Cancelled, ofKind("d"))
	s.enqueueMany(3, sojourn.Delay(time.Hour))
	s.sweep()
	q := s.queue(line)
	for state, want := range map[sojourn.State]int64{sojourn.Errored: 1, sojourn.Ready: 1, sojourn.Running: 1, sojourn.Awaiting: 1,
		sojourn.Completed: 2, sojourn.Failed: 1, sojourn.Cancelled: 1, sojourn.Scheduled: 3} {
		same(s, "jobs that are "+state.String(), q.Counts[state], want)
	}
	same(s, "states", len(q.Counts), 8)
	same(s, "in flight", q.InFlight, 2)
	running := s.find(sojourn.Filter{Queue: line, States: []sojourn.State{sojourn.Running}})
	same(s, "jobs in the list of the running", len(running), 1)
	same(s, "state of the job in it", s.get(running[0]).State, sojourn.Running)
	same(s, "resumed", q.Resumed, 0)
	same(s, "stalled", q.Stalled, 0)
	ready := s.now() // since the queue has ready jobs, or before
	s.advance(lease + time.Second)
	q = s.queue(line)
	if q.OldestReady.IsZero() || q.OldestReady.After(ready) {
		s.Fatalf("the oldest ready job is ready since %v, it was so at %v", q.OldestReady, ready)
	}
	same(s, "stalled before the sweep", q.Stalled, 1)
	same(s, "in flight before the sweep", q.InFlight, 2) // a lease past its end counts until it is ended
	s.sweep()
	same(s, "stalled after the sweep", s.queue(line).Stalled, 0)
	s.resumed("r", ofKind(charge), sojourn.Priority(-1))
	same(s, "resumed", s.queue(line).Resumed, 1)
}

func queueDefaults(s *scene) {
	p, w := int32(5), int32(0)
	before := s.enqueue(sojourn.Queue("q"))
	s.setQueue("q", sojourn.QueueSettings{Defaults: sojourn.QueueDefaults{Priority: &p, Weight: &w,
		Policy: sojourn.Policy{MaxAttempts: 2, Timeout: time.Hour, Backoff: sojourn.Backoff{First: time.Second}}}})
	j := s.get(s.enqueue(sojourn.Queue("q")))
	same(s, "priority", j.Priority, 5)
	same(s, "weight", j.Weight, 0)
	same(s, "max_attempts", j.Policy.MaxAttempts, 2)
	same(s, "timeout", j.Policy.Timeout, time.Hour)
	same(s, "backoff", j.Policy.Backoff.First, time.Second)
	same(s, "max_crashes", j.Policy.MaxCrashes, sojourn.DefaultMaxCrashes)
	j = s.get(s.enqueue(sojourn.Queue("q"), sojourn.Priority(100), sojourn.Weight(1), sojourn.MaxAttempts(5)))
	same(s, "priority, given", j.Priority, 100)
	same(s, "weight, given", j.Weight, 1)
	same(s, "max_attempts, given", j.Policy.MaxAttempts, 5)
	same(s, "timeout", j.Policy.Timeout, time.Hour)
	same(s, "priority of a job that was there before", s.get(before).Priority, sojourn.DefaultPriority)
	same(s, "priority in another queue", s.get(s.enqueue()).Priority, sojourn.DefaultPriority)
}

func queueSettings(s *scene) {
	p := int32(5)
	all := sojourn.QueueSettings{Paused: true, Defaults: sojourn.QueueDefaults{Priority: &p, Policy: sojourn.Policy{KeepKey: time.Hour}},
		Retention: sojourn.Retention{Age: time.Hour, Count: 10, FailedAge: time.Minute, FailedCount: 5}}
	s.setQueue("q", all)
	same(s, "settings", text(s.queue("q").Settings), text(all))
	s.setQueue("q", sojourn.QueueSettings{Retention: sojourn.Retention{Age: -1}})
	same(s, "settings", text(s.queue("q").Settings), text(sojourn.QueueSettings{Retention: sojourn.Retention{Age: -1}}))
	w := int32(-1)
	for what, bad := range inOrder(map[string]sojourn.QueueSettings{
		"weight":          {Defaults: sojourn.QueueDefaults{Weight: &w}},
		"policy":          {Defaults: sojourn.QueueDefaults{Policy: sojourn.Policy{Timeout: -1}}},
		"retention age":   {Retention: sojourn.Retention{Age: -2}},
		"retention count": {Retention: sojourn.Retention{Count: -2}},
	}) {
		s.refused(sojourn.NewClient(s.store).Queues().Set(s.ctx, "q", bad), sojourn.CodeInvalid, what)
	}
	s.refused(sojourn.NewClient(s.store).Queues().Set(s.ctx, "a b", sojourn.QueueSettings{}), sojourn.CodeInvalid, "a bad name")
	same(s, "paused after the refusals", s.queue("q").Settings.Paused, false)
}

// program and operator are clients over the store of a scene.
func program(s *scene) *sojourn.Client { return sojourn.NewClient(s.store) }
func operator(s *scene) sojourn.Queues { return program(s).Queues() }

// declared declares settings, and wants the answer to be what the queue then is.
func declared(s *scene, name string, settings sojourn.QueueSettings) sojourn.QueueStatus {
	s.Helper()
	q, err := program(s).DeclareQueue(s.ctx, name, settings)
	s.must(err, "DeclareQueue")
	return asStored(s, q)
}

// updated changes settings for an operator, and wants the answer to be what the queue then is.
func updated(s *scene, name string, p sojourn.QueuePatch) sojourn.QueueStatus {
	s.Helper()
	q, err := operator(s).Update(s.ctx, name, p)
	s.must(err, "Update")
	return asStored(s, q)
}

func asStored(s *scene, answer sojourn.QueueStatus) sojourn.QueueStatus {
	s.Helper()
	q := s.queue(answer.Name)
	layersOf := func(q sojourn.QueueStatus) string { return text(q.Settings) + text(q.Declared) + text(q.Overrides) }
	same(s, "the layers in the answer", layersOf(answer), layersOf(q))
	same(s, "the revision in the answer", answer.Revision, q.Revision)
	return q
}

func declareQueue(s *scene) {
	all := sojourn.QueueSettings{Limit: 10, GroupLimit: 2, Shares: map[string]float64{"a": .5}, Rate: &sojourn.Rate{Count: 5, Per: time.Second},
		Retention: sojourn.Retention{Age: time.Hour}, Throttle: ""}
	q := declared(s, "q", all)
	same(s, "settings", text(q.Settings), text(all))
	same(s, "declared", text(q.Declared), text(all))
	same(s, "overrides", len(q.Overrides.Fields()), 0)
	for range 2 { // as two programs do
		same(s, "the revision after the same declaration", declared(s, "q", all).Revision, q.Revision)
	}
	less := declared(s, "q", sojourn.QueueSettings{GroupLimit: 2})
	same(s, "settings after a field was dropped", text(less.Settings), text(sojourn.QueueSettings{GroupLimit: 2}))
	if less.Revision <= q.Revision {
		s.Fatalf("the revision went from %d to %d", q.Revision, less.Revision)
	}
	empty := declared(s, "empty", sojourn.QueueSettings{})
	same(s, "settings of a queue with the defaults", text(empty.Settings), text(sojourn.QueueSettings{}))
	for what, bad := range inOrder(map[string]sojourn.QueueSettings{
		"a pause": {Paused: true}, "a paused kind": {PausedKinds: []string{"k"}}, "shares without a limit": {Shares: map[string]float64{"a": 1}},
	}) {
		_, err := program(s).DeclareQueue(s.ctx, "bad", bad)
		s.refused(err, sojourn.CodeInvalid, what)
	}
	_, err := program(s).DeclareQueue(s.ctx, sojourn.AllQueues, sojourn.QueueSettings{})
	s.refused(err, sojourn.CodeInvalid, "a declaration for all queues")
	_, err = s.store.Queues(s.ctx, "bad")
	s.is(err, sojourn.ErrNotFound, "a queue of which every declaration was refused")
}

func declareBelow(s *scene) {
	declared(s, line, sojourn.QueueSettings{Limit: 10, MaxDepth: 7})
	updated(s, line, sojourn.QueuePatch{Limit: new(int64(1))})
	q := declared(s, line, sojourn.QueueSettings{Limit: 20, MaxDepth: 8})
	same(s, "limit", q.Settings.Limit, 1)
	same(s, "declared limit", q.Declared.Limit, 20)
	same(s, "max depth", q.Settings.MaxDepth, 8)
	same(s, "the operator's settings", text(q.Overrides.Fields()), text([]string{"limit"}))
	s.enqueueMany(2)
	same(s, "jobs started", len(s.claimMany(upTo(2))), 1)
	updated(s, line, sojourn.QueuePatch{Reset: []string{"limit"}})
	same(s, "jobs started after the reset", len(s.claimMany(upTo(2))), 1)
}

func updateQueue(s *scene) {
	q := updated(s, "q", sojourn.QueuePatch{Limit: new(int64(5)), Rate: &sojourn.Rate{Count: 1, Per: time.Second}, Breaker: &sojourn.Breaker{Failures: 3}})
	next := updated(s, "q", sojourn.QueuePatch{Fair: new(true), Revision: q.Revision})
	want := q.Settings
	want.Fair = true
	same(s, "settings", text(next.Settings), text(want))
	_, err := operator(s).Update(s.ctx, "q", sojourn.QueuePatch{Limit: new(int64(6)), Revision: q.Revision})
	if s.is(err, sojourn.ErrConflict, "a revision that has passed"); !strings.Contains(err.Error(), text(next.Revision)) {
		s.Fatalf("the error does not name the revision %d: %v", next.Revision, err)
	}
	same(s, "limit after the conflict", s.queue("q").Settings.Limit, 5)
	_, err = operator(s).Update(s.ctx, "new", sojourn.QueuePatch{Revision: 1})
	s.is(err, sojourn.ErrConflict, "a revision of a queue that does not exist")
	declared(s, "q", sojourn.QueueSettings{Limit: 9, Rate: &sojourn.Rate{Count: 9, Per: time.Second}, Breaker: &sojourn.Breaker{Failures: 9}, Fair: true,
		Shares: map[string]float64{"a": 1}})
	none := updated(s, "q", sojourn.QueuePatch{Limit: new(int64(0)), Rate: &sojourn.Rate{}, Breaker: &sojourn.Breaker{}, Fair: new(false), Shares: new(map[string]float64)})
	same(s, "settings that are all none", text(none.Settings), text(sojourn.QueueSettings{}))
	same(s, "the operator's settings", text(none.Overrides.Fields()), text([]string{"limit", "shares", "fair", "rate", "breaker"}))
	same(s, "the revision after an update with the same", updated(s, "q", sojourn.QueuePatch{Fair: new(false)}).Revision, none.Revision)
}

func resetSettings(s *scene) {
	was := declared(s, "q", sojourn.QueueSettings{Limit: 10, Retention: sojourn.Retention{Age: time.Hour, Count: 5}})
	updated(s, "q", sojourn.QueuePatch{Limit: new(int64(1)), MaxDepth: new(int64(2)), Retention: &sojourn.Retention{FailedAge: time.Minute}})
	q := updated(s, "q", sojourn.QueuePatch{Reset: []string{"limit", "fair"}, GroupLimit: new(int64(3))})
	same(s, "settings", text(q.Settings), text(sojourn.QueueSettings{Limit: 10, MaxDepth: 2, GroupLimit: 3, Retention: sojourn.Retention{FailedAge: time.Minute}}))
	q = updated(s, "q", sojourn.QueuePatch{Reset: []string{"*"}})
	same(s, "settings after all are reset", text(q.Settings), text(was.Settings))
	same(s, "the operator's settings", len(q.Overrides.Fields()), 0)
	_, err := operator(s).Update(s.ctx, "q", sojourn.QueuePatch{Reset: []string{"limits"}})
	s.refused(err, sojourn.CodeInvalid, "a reset of an unknown setting")
	_, err = operator(s).Update(s.ctx, "q", sojourn.QueuePatch{Reset: []string{"limit"}, Limit: new(int64(1))})
	s.refused(err, sojourn.CodeInvalid, "a setting that is set and reset")
}

func pauseStays(s *scene) {
	s.is(operator(s).Pause(s.ctx, line), sojourn.ErrNotFound, "a pause of a queue that does not exist")
	declared(s, line, sojourn.QueueSettings{Limit: 10})
	s.must(operator(s).Pause(s.ctx, line), "Pause")
	s.must(operator(s).Pause(s.ctx, line, "a", "b"), "Pause of kinds")
	declared(s, line, sojourn.QueueSettings{Limit: 20})
	updated(s, line, sojourn.QueuePatch{MaxDepth: new(int64(100)), Reset: []string{"limit"}})
	q := updated(s, line, sojourn.QueuePatch{Reset: []string{"*"}})
	same(s, "settings", text(q.Settings), text(sojourn.QueueSettings{Paused: true, PausedKinds: []string{"a", "b"}, Limit: 20}))
	before := q.Revision
	s.must(operator(s).Pause(s.ctx, line, "b"), "Pause again")
	same(s, "the revision after the same pause", s.queue(line).Revision, before)
	s.enqueueMany(1)
	s.claimNone("the queue is paused")
	s.must(operator(s).Resume(s.ctx, line), "Resume")
	s.must(operator(s).Resume(s.ctx, line, "a"), "Resume of a kind")
	same(s, "paused kinds", text(s.queue(line).Settings.PausedKinds), text([]string{"b"}))
	s.claim()
	same(s, "limit", s.queue(line).Settings.Limit, 20)
	s.must(operator(s).Pause(s.ctx, sojourn.AllQueues), "Pause of all queues")
	s.enqueueMany(1)
	s.claimNone("all queues are paused")
	s.must(operator(s).Resume(s.ctx, sojourn.AllQueues), "Resume of all queues")
	s.claim()
}

func setWhole(s *scene) {
	declared(s, "q", sojourn.QueueSettings{Limit: 10, MaxDepth: 5, Rate: &sojourn.Rate{Count: 5, Per: time.Second}})
	s.setQueue("q", sojourn.QueueSettings{Limit: 10, GroupLimit: 3, Paused: true})
	q := s.queue("q")
	same(s, "settings", text(q.Settings), text(sojourn.QueueSettings{Limit: 10, GroupLimit: 3, Paused: true}))
	same(s, "the operator's settings", text(q.Overrides.Fields()), text([]string{"max_depth", "group_limit", "rate"}))
	q = declared(s, "q", sojourn.QueueSettings{Limit: 11, MaxDepth: 6})
	same(s, "settings", text(q.Settings), text(sojourn.QueueSettings{Limit: 11, GroupLimit: 3, Paused: true}))
}

func layersThatClash(s *scene) {
	shared := sojourn.QueueSettings{Limit: 10, Shares: map[string]float64{"a": .5}}
	declared(s, "q", shared)
	_, err := operator(s).Update(s.ctx, "q", sojourn.QueuePatch{Limit: new(int64(0)), MaxDepth: new(int64(1))})
	s.refused(err, sojourn.CodeInvalid, "no limit, where shares are declared")
	same(s, "max depth after the refusal", s.queue("q").Settings.MaxDepth, 0)
	updated(s, "q", sojourn.QueuePatch{Shares: &map[string]float64{"b": .5}})
	_, err = program(s).DeclareQueue(s.ctx, "q", sojourn.QueueSettings{MaxDepth: 1})
	s.is(err, sojourn.ErrConflict, "a declaration without the limit that the operator's shares need")
	same(s, "declared after the refusal", text(s.queue("q").Declared), text(shared))
}

func concurrentSettings(s *scene) {
	revision := declared(s, "q", sojourn.QueueSettings{}).Revision
	const callers = 4
	patches := [callers]sojourn.QueuePatch{{Limit: new(int64(1))}, {MaxDepth: new(int64(2))}, {GroupLimit: new(int64(3))}, {Fair: new(true)}}
	together := func(queue string, revision int64) (won int) {
		var all sync.WaitGroup
		var errs [callers]error
		for i, p := range patches {
			p.Revision = revision
			all.Go(func() { _, errs[i] = operator(s).Update(s.ctx, queue, p) })
		}
		all.Wait()
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				s.is(err, sojourn.ErrConflict, "an update of a revision that has passed")
			}
		}
		return won
	}
	same(s, "updates of one revision that succeeded", together("q", revision), 1)
	same(s, "the operator's settings", len(s.queue("q").Overrides.Fields()), 1)
	same(s, "updates of a new queue that succeeded", together("new", 0), callers)
	same(s, "its settings", len(s.queue("new").Overrides.Fields()), callers)
}

// settingsOfTenants concerns stores that check grants: those behind a server.
func settingsOfTenants(s *scene) {
	declared(s, "pay-cards", sojourn.QueueSettings{Limit: 10})
	if _, checks := s.store.(Distant); !checks {
		return
	}
	pay := s.tenant("pay", access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: "pay-*"})
	mail := s.tenant("mail", access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: "mail-*"},
		access.Grant{Verbs: []access.Verb{access.VerbOperate, access.VerbRead}, Queue: "pay-*"})
	for what, change := range inOrder(map[string]sojourn.QueueChange{
		"declare": {Declare: &sojourn.QueueSettings{Limit: 5}}, "update": {Update: &sojourn.QueuePatch{Limit: new(int64(5))}},
		"pause": {Paused: new(true)}, "set": {Set: &sojourn.QueueSettings{Limit: 5}},
	}) {
		_, err := mail.store.ChangeQueue(mail.ctx, "pay-cards", change)
		s.refused(err, "insufficient_scope", what)
		same(s, "settings after a refused "+what, text(s.queue("pay-cards").Settings), text(sojourn.QueueSettings{Limit: 10}))
	}
	updated(pay, "pay-cards", sojourn.QueuePatch{Limit: new(int64(5))})
	same(s, "limit", declared(pay, "pay-cards", sojourn.QueueSettings{Limit: 11}).Settings.Limit, 5)
	declared(mail, "mail-out", sojourn.QueueSettings{Limit: 1})
}

func queueForget(s *scene) {
	s.setQueue("empty", sojourn.QueueSettings{Paused: true})
	s.must(s.store.ForgetQueue(s.ctx, "empty"), "ForgetQueue")
	_, err := s.store.Queues(s.ctx, "empty")
	s.is(err, sojourn.ErrNotFound, "a forgotten queue")
	c := s.running(sojourn.Queue("used"))
	s.is(s.store.ForgetQueue(s.ctx, "used"), sojourn.ErrConflict, "forgetting a queue with a running job")
	s.finish(completed(c), sojourn.Completed)
	s.is(s.store.ForgetQueue(s.ctx, "used"), sojourn.ErrConflict, "forgetting a queue with a final job")
	s.advance(sojourn.IDLife + time.Second)
	s.edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditPurge})
	s.must(s.store.ForgetQueue(s.ctx, "used"), "ForgetQueue")
	s.enqueue(sojourn.Queue("empty")) // it comes back without its old settings
	same(s, "paused", s.queue("empty").Settings.Paused, false)
}

func pause(s *scene) {
	errored := s.errored().Job.ID
	ready := s.enqueue(sojourn.Key("plain"))
	open := s.claim()
	s.finish(released(open), sojourn.Ready)
	resumed := s.awaiting(sojourn.Key("k"), sojourn.Priority(-1)).Job.ID
	s.respond("k")
	s.paused(true)
	s.claimNone("the queue is paused", deciding)
	due := s.enqueue(sojourn.Delay(time.Second))
	s.advance(time.Minute)
	s.sweep()
	s.claimNone("the queue is paused", deciding)
	s.state(due, sojourn.Ready)
	for _, id := range []sojourn.ID{ready, resumed} {
		s.state(id, sojourn.Ready)
	}
	s.state(errored, sojourn.Errored)
	s.paused(false)
	same(s, "jobs after the pause", len(s.claimMany(upTo(10), deciding)), 4)
}

func pauseGoesOn(s *scene) {
	a := s.awaiting(sojourn.Key("a"))
	b := s.running(steady(time.Hour))
	s.finish(await(b, time.Minute), sojourn.Awaiting)
	c, d, e := s.running(), s.running(), s.running(sojourn.Deadline(time.Hour))
	s.finish(released(e), sojourn.Ready)
	s.paused(true)
	s.became(s.respond("a"), sojourn.Applied, a.Job.ID)
	s.finish(completed(d), sojourn.Completed) // a running step may still report
	s.swept(2*time.Hour, driver.Swept{Lost: 1, TimedOut: 1, Deadlines: 1, Due: 0})
	same(s, "resumed", s.state(a.Job.ID, sojourn.Ready).Resumed, true)
	s.state(b.Job.ID, sojourn.Scheduled)
	s.state(c.Job.ID, sojourn.Ready)
	same(s, "reason", s.state(e.Job.ID, sojourn.Failed).Reason, sojourn.ReasonDeadline)
	s.cancel(c.Job.ID)
	s.enqueue()
	s.claimNone("the queue is paused")
}

func pauseDecide(s *scene) {
	c := s.errored()
	s.paused(true)
	s.swept(time.Hour, driver.Swept{})
	s.state(c.Job.ID, sojourn.Errored)
	s.paused(false)
	s.advance(sojourn.DefaultDecideWithin)
	s.sweep()
	if j := s.get(c.Job.ID); j.State == sojourn.Errored {
		s.Fatalf("job %d is still errored, long after the pause", j.ID)
	}
}

func pauseOne(s *scene) {
	s.enqueue(sojourn.Queue("a"))
	b := s.enqueue(sojourn.Queue("b"))
	s.setQueue("a", sojourn.QueueSettings{Paused: true})
	same(s, "job", s.claim(from("a", "b"), upTo(2)).Job.ID, b)
	s.claimNone("a is paused", from("a", "b"))
	s.setQueue("a", sojourn.QueueSettings{})
	s.claim(from("a"))
}
