package jobs

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var nextTrials = []kit.Trial{
	{Name: "complete with next", Law: "Jobs that a completion carries along are stored in its transaction, once.",
		Covers: "tr:F1 spec:D2 inv:C1 rules:H2", Run: nextOnce},
	{Name: "complete with next of the same key", Law: "The key of a job that completes is free for the job that follows it.",
		Covers: "tr:F1 spec:D2 inv:U2", Run: nextSameKey},
	{Name: "complete with a next that is invalid", Law: "What the store cannot take is refused, and the lease stands.",
		Covers: "tr:F15 rules:C7 inv:P4", Run: nextInvalid},
}

var peekTrials = []kit.Trial{
	{Name: "peek", Law: "The next jobs of a queue are listed in the order of claims, and nothing changes.", Covers: "spec:O2 spec:O4", Run: peek},
	{Name: "peek at what is due", Law: "The next jobs of a queue include those that the next claim makes ready first: due ones, and those whose lease was lost.",
		Covers: "spec:O2 spec:O4 tr:W1", Run: peekDue},
	{Name: "ready jobs that nobody asks for", Law: "A queue reports the ready jobs of kinds for which no worker has asked.", Covers: "spec:A10", Run: unhandled},
	{Name: "a light job behind heavy ones", Law: "A job that does not fit is passed over, and the next that fits is taken.", Covers: "spec:W9 spec:J12", Run: passedOver},
}

func nextOnce(s *kit.Scene) {
	c := s.Running()
	next := s.Job(kit.OfKind("receipt"), sojourn.Delay(time.Minute))
	o := kit.Follow(c, next)
	s.Finish(o, sojourn.Completed)
	s.State(next.ID, sojourn.Scheduled)
	s.Reports(o, driver.FinishRepeated)
	d := s.Running()
	late := s.Job(kit.OfKind("receipt"))
	s.Cancel(d.Job.ID)
	s.Reports(kit.Follow(d, late), driver.FinishLost)
	s.Gone(late.ID)
	s.Advance(time.Minute)
	kit.Same(s, "the next job", s.Claim(kit.Kinds("receipt")).Job.ID, next.ID)
}

func nextSameKey(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	next := s.Job(sojourn.Key("k"))
	s.Finish(kit.Follow(c, next), sojourn.Completed)
	s.State(next.ID, sojourn.Ready)
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "k"}, next.ID)
	d := s.Claim()
	s.Became(s.Respond("k"), sojourn.Early, next.ID)
	other := s.Running(kit.OfKind("b"), sojourn.Key("k")) // another kind
	same := s.Job(sojourn.Key("k"))
	s.Finish(kit.Follow(other, same), sojourn.Completed) // held by d: the existing job is meant
	s.Gone(same.ID)
	s.Finish(kit.Await(d, 0), sojourn.Ready)
}

func nextInvalid(s *kit.Scene) {
	c := s.Running()
	negative := s.Job()
	negative.ID = -1
	never := s.Job()
	never.ID = 1 << 50
	good := s.Job()
	for what, bad := range map[string]sojourn.Job{"with a negative id": negative, "with an id that was not leased": never} {
		f := s.Reports(kit.Follow(c, good, bad), driver.FinishRefused)
		s.Refused(f.Err, sojourn.CodeInvalid, what)
	}
	s.State(c.Job.ID, sojourn.Running)
	s.Gone(good.ID)
	s.Finish(kit.Follow(c, good), sojourn.Completed)
	s.State(good.ID, sojourn.Ready)
}

func peek(s *kit.Scene) {
	resumed := s.Resumed("r").Job.ID
	late := s.Enqueue(sojourn.Priority(200))
	first := s.Enqueue(kit.OfKind("b"), sojourn.Priority(1))
	mid := s.Enqueue()
	s.Enqueue(sojourn.Delay(time.Hour))
	s.Enqueue(sojourn.Queue("other"))
	next := func(f sojourn.Filter) (ids []sojourn.ID) {
		f.Next, f.Queue = true, kit.Queue
		jobs, err := s.Store.Find(s.Ctx, f)
		s.Must(err, "Find of the next jobs")
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		return ids
	}
	kit.Same(s, "the next jobs", kit.Text(next(sojourn.Filter{})), kit.Text([]sojourn.ID{resumed, first, mid, late}))
	kit.Same(s, "the next two", kit.Text(next(sojourn.Filter{Limit: 2})), kit.Text([]sojourn.ID{resumed, first}))
	kit.Same(s, "the next of a kind", kit.Text(next(sojourn.Filter{Kind: kit.Kind})), kit.Text([]sojourn.ID{resumed, mid, late}))
	_, err := s.Store.Find(s.Ctx, sojourn.Filter{Next: true})
	s.Refused(err, sojourn.CodeInvalid, "next without a queue")
	kit.Same(s, "claimed first", s.Claim(kit.Kinds(kit.Kind, "b")).Job.ID, resumed)
	kit.Same(s, "claimed then", s.Claim(kit.Kinds(kit.Kind, "b")).Job.ID, first)
}

func peekDue(s *kit.Scene) {
	lost := s.Running(sojourn.Priority(50))
	due := s.Enqueue(sojourn.Priority(20), sojourn.Delay(time.Minute))
	s.Enqueue(sojourn.Delay(time.Hour), sojourn.Priority(1))
	ready := s.Enqueue()
	s.Advance(time.Minute)
	want := []sojourn.ID{due, lost.Job.ID, ready}
	peeked := s.Find(sojourn.Filter{Next: true, Queue: kit.Queue})
	for range 2 { // it is the order of the claims, and looking changes nothing
		s.Finds(sojourn.Filter{Next: true, Queue: kit.Queue}, peekOrder(s, peeked, want)...)
	}
	s.Finds(sojourn.Filter{Next: true, Queue: kit.Queue, Limit: 1}, due)
	s.Finds(sojourn.Filter{Next: true, Queue: kit.Queue, Kind: "other"})
	for _, id := range want {
		kit.Same(s, "claimed next", s.Claim(kit.By("w2")).Job.ID, id)
	}
}

func peekOrder(s *kit.Scene, got, want []sojourn.ID) []sojourn.ID {
	s.Helper()
	kit.Same(s, "the next jobs", kit.Text(got), kit.Text(want))
	return want
}

func unhandled(s *kit.Scene) {
	s.EnqueueMany(2)
	s.Enqueue(kit.OfKind("b"))
	s.Enqueue(kit.OfKind("b"), sojourn.Delay(time.Hour))
	kit.Same(s, "before any worker", kit.Text(s.Queue(kit.Queue).Unhandled), kit.Text(map[string]int64{kit.Kind: 2, "b": 1}))
	s.ClaimMany(kit.From("elsewhere"))
	kit.Same(s, "a worker of another queue", kit.Text(s.Queue(kit.Queue).Unhandled), kit.Text(map[string]int64{kit.Kind: 2, "b": 1}))
	s.Claim()
	kit.Same(s, "a worker of one kind", kit.Text(s.Queue(kit.Queue).Unhandled), kit.Text(map[string]int64{"b": 1}))
	s.ClaimNone("nothing of this kind", kit.By("w2"), kit.Kinds("b", "c"), kit.Room(0))
	kit.Same(s, "a worker that has no room", len(s.Queue(kit.Queue).Unhandled), 0)
	s.Advance(25 * time.Hour)
	kit.Same(s, "a day later", len(s.Queue(kit.Queue).Unhandled), 2)
}

func passedOver(s *kit.Scene) {
	s.EnqueueMany(3, sojourn.Weight(10))
	light := s.Enqueue(sojourn.Weight(2))
	heavier := s.Enqueue(sojourn.Weight(3))
	cs := s.ClaimMany(kit.UpTo(10), kit.Room(5))
	kit.Same(s, "jobs that fit", len(cs), 2)
	kit.Same(s, "the first", cs[0].Job.ID, light)
	kit.Same(s, "the second", cs[1].Job.ID, heavier)
}
