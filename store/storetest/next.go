package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var nextTrials = []trial{
	{"complete with next", "Jobs that a completion carries along are stored in its transaction, once.", "tr:F1 spec:D2 inv:C1 rules:H2", nextOnce},
	{"complete with next of the same key", "The key of a job that completes is free for the job that follows it.", "tr:F1 spec:D2 inv:U2", nextSameKey},
	{"complete with a next that is invalid", "What the store cannot take is refused, and the lease stands.", "tr:F15 rules:C7 inv:P4", nextInvalid},
}

var peekTrials = []trial{
	{"peek", "The next jobs of a queue are listed in the order of claims, and nothing changes.", "spec:O2 spec:O4", peek},
	{"peek at what is due", "The next jobs of a queue include those that the next claim makes ready first: due ones, and those whose lease was lost.", "spec:O2 spec:O4 tr:W1", peekDue},
	{"ready jobs that nobody asks for", "A queue reports the ready jobs of kinds for which no worker has asked.", "spec:A10", unhandled},
	{"a light job behind heavy ones", "A job that does not fit is passed over, and the next that fits is taken.", "spec:W9 spec:J12", passedOver},
}

func nextOnce(s *scene) {
	c := s.running()
	next := s.job(ofKind("receipt"), sojourn.Delay(time.Minute))
	o := follow(c, next)
	s.finish(o, sojourn.Completed)
	s.state(next.ID, sojourn.Scheduled)
	s.reports(o, driver.FinishRepeated)
	d := s.running()
	late := s.job(ofKind("receipt"))
	s.cancel(d.Job.ID)
	s.reports(follow(d, late), driver.FinishLost)
	s.gone(late.ID)
	s.advance(time.Minute)
	same(s, "the next job", s.claim(kinds("receipt")).Job.ID, next.ID)
}

func nextSameKey(s *scene) {
	c := s.running(sojourn.Key("k"))
	next := s.job(sojourn.Key("k"))
	s.finish(follow(c, next), sojourn.Completed)
	s.state(next.ID, sojourn.Ready)
	s.finds(sojourn.Filter{Kind: charge, Key: "k"}, next.ID)
	d := s.claim()
	s.became(s.respond("k"), sojourn.Early, next.ID)
	other := s.running(ofKind("b"), sojourn.Key("k")) // another kind
	same := s.job(sojourn.Key("k"))
	s.finish(follow(other, same), sojourn.Completed) // held by d: the existing job is meant
	s.gone(same.ID)
	s.finish(await(d, 0), sojourn.Ready)
}

func nextInvalid(s *scene) {
	c := s.running()
	withoutID := *sojourn.NewJob(charge, nil)
	never := s.job()
	never.ID = 1 << 50
	good := s.job()
	for what, bad := range map[string]sojourn.Job{"without an id": withoutID, "with an id that was not leased": never} {
		f := s.reports(follow(c, good, bad), driver.FinishRefused)
		s.refused(f.Err, sojourn.CodeInvalid, what)
	}
	s.state(c.Job.ID, sojourn.Running)
	s.gone(good.ID)
	s.finish(follow(c, good), sojourn.Completed)
	s.state(good.ID, sojourn.Ready)
}

func peek(s *scene) {
	resumed := s.resumed("r").Job.ID
	late := s.enqueue(sojourn.Priority(200))
	first := s.enqueue(ofKind("b"), sojourn.Priority(1))
	mid := s.enqueue()
	s.enqueue(sojourn.Delay(time.Hour))
	s.enqueue(sojourn.Queue("other"))
	next := func(f sojourn.Filter) (ids []sojourn.ID) {
		f.Next, f.Queue = true, line
		jobs, err := s.store.Find(s.ctx, f)
		s.must(err, "Find of the next jobs")
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		return ids
	}
	same(s, "the next jobs", text(next(sojourn.Filter{})), text([]sojourn.ID{resumed, first, mid, late}))
	same(s, "the next two", text(next(sojourn.Filter{Limit: 2})), text([]sojourn.ID{resumed, first}))
	same(s, "the next of a kind", text(next(sojourn.Filter{Kind: charge})), text([]sojourn.ID{resumed, mid, late}))
	_, err := s.store.Find(s.ctx, sojourn.Filter{Next: true})
	s.refused(err, sojourn.CodeInvalid, "next without a queue")
	same(s, "claimed first", s.claim(kinds(charge, "b")).Job.ID, resumed)
	same(s, "claimed then", s.claim(kinds(charge, "b")).Job.ID, first)
}

func peekDue(s *scene) {
	lost := s.running(sojourn.Priority(50))
	due := s.enqueue(sojourn.Priority(20), sojourn.Delay(time.Minute))
	s.enqueue(sojourn.Delay(time.Hour), sojourn.Priority(1))
	ready := s.enqueue()
	s.advance(time.Minute)
	want := []sojourn.ID{due, lost.Job.ID, ready}
	peeked := s.find(sojourn.Filter{Next: true, Queue: line})
	for range 2 { // it is the order of the claims, and looking changes nothing
		s.finds(sojourn.Filter{Next: true, Queue: line}, peekOrder(s, peeked, want)...)
	}
	s.finds(sojourn.Filter{Next: true, Queue: line, Limit: 1}, due)
	s.finds(sojourn.Filter{Next: true, Queue: line, Kind: "other"})
	for _, id := range want {
		same(s, "claimed next", s.claim(by("w2")).Job.ID, id)
	}
}

func peekOrder(s *scene, got, want []sojourn.ID) []sojourn.ID {
	s.Helper()
	same(s, "the next jobs", text(got), text(want))
	return want
}

func unhandled(s *scene) {
	s.enqueueMany(2)
	s.enqueue(ofKind("b"))
	s.enqueue(ofKind("b"), sojourn.Delay(time.Hour))
	same(s, "before any worker", text(s.queue(line).Unhandled), text(map[string]int64{charge: 2, "b": 1}))
	s.claimMany(from("elsewhere"))
	same(s, "a worker of another queue", text(s.queue(line).Unhandled), text(map[string]int64{charge: 2, "b": 1}))
	s.claim()
	same(s, "a worker of one kind", text(s.queue(line).Unhandled), text(map[string]int64{"b": 1}))
	s.claimNone("nothing of this kind", by("w2"), kinds("b", "c"), room(0))
	same(s, "a worker that has no room", len(s.queue(line).Unhandled), 0)
	s.advance(25 * time.Hour)
	same(s, "a day later", len(s.queue(line).Unhandled), 2)
}

func passedOver(s *scene) {
	s.enqueueMany(3, sojourn.Weight(10))
	light := s.enqueue(sojourn.Weight(2))
	heavier := s.enqueue(sojourn.Weight(3))
	cs := s.claimMany(upTo(10), room(5))
	same(s, "jobs that fit", len(cs), 2)
	same(s, "the first", cs[0].Job.ID, light)
	same(s, "the second", cs[1].Job.ID, heavier)
}
