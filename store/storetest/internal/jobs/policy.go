package jobs

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var policyTrials = []kit.Trial{
	{Name: "an option takes a default back", Law: "What a job says wins over its kind and its queue, also where it says none, retry or false.",
		Covers: "spec:A12 spec:J7", Run: policyBack},
	{Name: "a change takes a policy back", Law: "A change of a policy sets none, retry and false over what the job has.",
		Covers: "spec:A12 tr:O5 spec:P9", Run: policyChangedBack},
}

// strictest sets every value that can be reset.
var strictest = sojourn.Policy{RunTimeout: time.Minute, Deadline: time.Hour, KeepKey: time.Hour, OnLost: sojourn.Fail, OnPanic: sojourn.Fail,
	LateToInbox: new(true), NoExtend: new(true), StopAtWindowEnd: new(true), Windows: []sojourn.Windows{{{Start: "00:00", End: "23:00"}}}}

// mildest resets all of these values.
var mildest = sojourn.Policy{RunTimeout: sojourn.None, Deadline: sojourn.None, KeepKey: sojourn.None, OnLost: sojourn.Retry, OnPanic: sojourn.Retry,
	LateToInbox: new(false), NoExtend: new(false), StopAtWindowEnd: new(false), Windows: []sojourn.Windows{}}

// mild wants the policy to have nothing of strictest.
func mild(s *kit.Scene, what string, p sojourn.Policy) {
	s.Helper()
	if p.RunTimeout != 0 || p.Deadline != 0 || p.KeepKey != 0 || p.OnLost != sojourn.Retry || p.OnPanic != sojourn.Retry ||
		p.InboxLate() || p.Strict() || p.Stops() || len(p.Windows) > 0 {
		s.Fatalf("%s has the policy %s, want that of a job of which nothing is said", what, kit.Text(p))
	}
}

func policyBack(s *kit.Scene) {
	k := sojourn.Kind[int]{Name: kit.Kind, Policy: strictest}
	store := func(j *sojourn.Job) sojourn.Job {
		j.ID = s.ID()
		return s.Get(s.Put(*j).ID)
	}
	kit.Same(s, "the kind's own", store(k.New(1)).Policy.Strict(), true)
	mild(s, "over the kind", store(k.New(1, kit.Policy(mildest))).Policy)
	ofQueue := strictest
	ofQueue.Windows = nil // a queue has windows of its own
	s.SetQueue("strict", sojourn.QueueSettings{Defaults: ofQueue})
	kit.Same(s, "the queue's own", store(sojourn.NewJob(kit.Kind, nil, sojourn.Queue("strict"))).Policy.OnLost, sojourn.Fail)
	mild(s, "over the queue", store(sojourn.NewJob(kit.Kind, nil, sojourn.Queue("strict"), kit.Policy(mildest))).Policy)
	mild(s, "over both", store(k.New(1, sojourn.Queue("strict"), kit.Policy(mildest))).Policy)
	mildKind := sojourn.Kind[int]{Name: kit.Kind, Queue: "strict", Policy: mildest}
	mild(s, "a kind over the queue", store(mildKind.New(1)).Policy)
	kit.Same(s, "an option over such a kind", store(mildKind.New(1, kit.Policy(strictest))).Policy.Deadline, time.Hour)
	c := s.Claim()
	kit.Same(s, "the kind's job", c.Job.Policy.Strict(), true)
	for _, p := range []sojourn.Policy{{Timeout: sojourn.None}, {DecideWithin: sojourn.None}, {Deadline: -2}} {
		j := s.Job(kit.Policy(p))
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		s.Refused(err, sojourn.CodeInvalid, "a time that every job has")
	}
}

func policyChangedBack(s *kit.Scene) {
	id := s.Enqueue(kit.Policy(strictest))
	j := s.Get(id)
	kit.Same(s, "strict", j.Policy.Strict() && j.Policy.Stops() && j.Policy.OnLost == sojourn.Fail, true)
	j = s.Change(id, sojourn.Edit{Policy: &mildest}, sojourn.Ready)
	mild(s, "the changed job", j.Policy)
	s.Swept(2*time.Hour, driver.Swept{}) // the deadline is gone
	c := s.Claim()
	mild(s, "the claimed job", c.Job.Policy)
	kit.Same(s, "deadline left", c.Deadline, 0)
	s.Advance(kit.LeaseTime / 2)
	s.Extends(c.Lease, true)
	s.Swept(kit.LeaseTime*2/3, driver.Swept{}) // it was extended
}
