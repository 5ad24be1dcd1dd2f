package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var policyTrials = []trial{
	{"an option takes a default back", "What a job says wins over its kind and its queue, also where it says none, retry or false.", "spec:A12 spec:J7", policyBack},
	{"a change takes a policy back", "A change of a policy sets none, retry and false over what the job has.", "spec:A12 tr:O5 spec:P9", policyChangedBack},
}

// strictest sets every value that can be reset.
var strictest = sojourn.Policy{RunTimeout: time.Minute, Deadline: time.Hour, KeepKey: time.Hour, OnLost: sojourn.Fail, OnPanic: sojourn.Fail,
	LateResponse: sojourn.InboxLate, NoExtend: new(true), StopAtWindowEnd: new(true), Windows: []sojourn.Windows{{{Start: "00:00", End: "23:00"}}}}

// mildest resets all of these values.
var mildest = sojourn.Policy{RunTimeout: sojourn.None, Deadline: sojourn.None, KeepKey: sojourn.None, OnLost: sojourn.Retry, OnPanic: sojourn.Retry,
	LateResponse: sojourn.AcceptLate, NoExtend: new(false), StopAtWindowEnd: new(false), Windows: []sojourn.Windows{}}

// mild wants the policy to have nothing of strictest.
func (s *scene) mild(what string, p sojourn.Policy) {
	s.Helper()
	if p.RunTimeout != 0 || p.Deadline != 0 || p.KeepKey != 0 || p.OnLost != sojourn.Retry || p.OnPanic != sojourn.Retry ||
		p.LateResponse != sojourn.AcceptLate || p.Strict() || p.Stops() || len(p.Windows) > 0 {
		s.Fatalf("%s has the policy %s, want that of a job of which nothing is said", what, text(p))
	}
}

func policyBack(s *scene) {
	k := sojourn.Kind[int]{Name: charge, Policy: strictest}
	store := func(j *sojourn.Job) sojourn.Job {
		j.ID = s.id()
		return s.get(s.put(*j).ID)
	}
	same(s, "the kind's own", store(k.New(1)).Policy.Strict(), true)
	s.mild("over the kind", store(k.New(1, policy(mildest))).Policy)
	ofQueue := strictest
	ofQueue.Windows = nil // a queue has windows of its own
	s.setQueue("strict", sojourn.QueueSettings{Defaults: sojourn.QueueDefaults{Policy: ofQueue}})
	same(s, "the queue's own", store(sojourn.NewJob(charge, nil, sojourn.Queue("strict"))).Policy.OnLost, sojourn.Fail)
	s.mild("over the queue", store(sojourn.NewJob(charge, nil, sojourn.Queue("strict"), policy(mildest))).Policy)
	s.mild("over both", store(k.New(1, sojourn.Queue("strict"), policy(mildest))).Policy)
	mild := sojourn.Kind[int]{Name: charge, Queue: "strict", Policy: mildest}
	s.mild("a kind over the queue", store(mild.New(1)).Policy)
	same(s, "an option over such a kind", store(mild.New(1, policy(strictest))).Policy.Deadline, time.Hour)
	c := s.claim()
	same(s, "the kind's job", c.Job.Policy.Strict(), true)
	for _, p := range []sojourn.Policy{{Timeout: sojourn.None}, {DecideWithin: sojourn.None}, {Deadline: -2}} {
		j := s.job(policy(p))
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		s.refused(err, sojourn.CodeInvalid, "a time that every job has")
	}
}

func policyChangedBack(s *scene) {
	id := s.enqueue(policy(strictest))
	j := s.get(id)
	same(s, "strict", j.Policy.Strict() && j.Policy.Stops() && j.Policy.OnLost == sojourn.Fail, true)
	j = s.change(id, sojourn.Change{Policy: &mildest}, sojourn.Ready)
	s.mild("the changed job", j.Policy)
	s.swept(2*time.Hour, driver.Swept{}) // the deadline is gone
	c := s.claim()
	s.mild("the claimed job", c.Job.Policy)
	same(s, "deadline left", c.Deadline, 0)
	s.advance(lease / 2)
	s.extends(c.Lease, true)
	s.swept(lease*2/3, driver.Swept{}) // it was extended
}
