package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var queueTrials = []trial{
	{"list queues", "Queues are listed in the order in which they were first seen, or as named.", "spec:A5 spec:O13 spec:A9", queueList},
	{"count jobs", "A queue counts its jobs by state, and what is resumed, stalled and in flight.", "spec:O13 spec:A11", queueCounts},
	{"defaults of a queue", "What neither option nor kind says comes from the queue, at the enqueue.", "spec:A12 spec:J11 spec:J12", queueDefaults},
	{"settings of a queue", "Settings are stored whole, checked, and make the queue.", "spec:A5 spec:A9 spec:A16 spec:X13", queueSettings},
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
		s.refused(s.store.SetQueue(s.ctx, "q", bad), sojourn.CodeInvalid, what)
	}
	s.refused(s.store.SetQueue(s.ctx, "a b", sojourn.QueueSettings{}), sojourn.CodeInvalid, "a bad name")
	same(s, "paused after the refusals", s.queue("q").Settings.Paused, false)
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

func (s *scene) paused(on bool) { s.Helper(); s.setQueue(line, sojourn.QueueSettings{Paused: on}) }

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
