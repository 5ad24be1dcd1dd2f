package tenants

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var workerTrials = []kit.Trial{
	{Name: "workers are listed", Law: "A store knows who asks it for jobs: what they are called, what they ask for, what they run, when they were last seen.",
		Covers: "spec:W2 spec:W3 spec:W5", Run: workersListed},
	{Name: "a drained worker gets nothing", Law: "A drained worker gets no jobs any more, also if it waits for one; what it runs goes on, and others get the jobs.",
		Covers: "spec:W3", Run: workerDrained},
}

func called(name string) kit.ClaimOption { return func(r *driver.ClaimRequest) { r.Name = name } }

// workerIDs are the ids of workers, in order.
func workerIDs(ws []sojourn.WorkerStatus) string {
	var ids []string
	for _, w := range ws {
		ids = append(ids, w.Worker)
	}
	return strings.Join(ids, " ")
}

func workersListed(s *kit.Scene) {
	kit.Same(s, "workers of a new store", len(s.Workers("", 0)), 0)
	s.EnqueueMany(2)
	began := s.Now()
	c := s.Claim(kit.By("w2"), called("east-7"), kit.Kinds("b", kit.Kind))
	s.ClaimNone("none of this kind", kit.By("w1"), kit.Kinds("c"))
	s.ClaimNone("none of this queue", kit.By("w1"), kit.From("q"), kit.Kinds("c"))
	s.ClaimNone("a server that looks whether claims come through", kit.By("w0"), kit.From(sojourn.ProbeQueue))
	s.Claim(kit.By("w3"), func(r *driver.ClaimRequest) { r.Number = 0 })
	all := s.Workers("", 0)
	kit.Same(s, "workers", workerIDs(all), "w1 w2 w3")
	kit.Same(s, "the queues of w1", strings.Join(all[0].Queues, " "), kit.Queue+" q")
	kit.Same(s, "what w1 runs", all[0].Running, int64(0))
	kit.Same(s, "the name of w2", all[1].Name, "east-7")
	kit.Same(s, "the kinds of w2", strings.Join(all[1].Kinds, " "), "b "+kit.Kind)
	kit.Same(s, "what w2 runs", all[1].Running, int64(1))
	kit.Same(s, "what w3 runs", all[2].Running, int64(1))
	s.At("w2 was seen", all[1].SeenAt, began)
	kit.Same(s, "a page", workerIDs(s.Workers("w1", 1)), "w2")
	_, err := s.Store.Workers(s.Ctx, "", -1)
	s.Refused(err, sojourn.CodeInvalid, "a page of -1")

	s.Advance(kit.LeaseTime / 2)
	_, err = s.Store.Extend(s.Ctx, []sojourn.Lease{c.Lease})
	s.Must(err, "Extend")
	one := s.Workers("", 0, "w2", "w9")
	kit.Same(s, "the one asked for", workerIDs(one), "w2")
	kit.Same(s, "its jobs", kit.Text(one[0].Jobs), kit.Text([]sojourn.ID{c.Job.ID}))
	s.At("an extended lease is a sign of life", one[0].SeenAt, s.Now())
	s.Advance(kit.LeaseTime/2 + time.Second)
	kit.Same(s, "a lease past its end", s.Workers("", 0, "w3")[0].Stalled, int64(1))
	s.Sweep()
	kit.Same(s, "after the sweep", workerIDs(s.Workers("", 0, "w3")), "w3")
	s.Advance(sojourn.WorkerLife + time.Second)
	s.Sweep()
	kit.Same(s, "after a day", len(s.Workers("", 0)), 0)
}

func workerDrained(s *kit.Scene) {
	k := s.Store
	s.Is(k.DrainWorker(s.Ctx, "w1"), sojourn.ErrNotFound, "a worker that nobody knows")
	first := s.Enqueue()
	mine := s.Claim(kit.By("w1"))
	ended := make(chan error, 1)
	go func() {
		_, err := s.Store.Claim(s.Ctx, driver.ClaimRequest{Worker: "w1", Number: 1000, Queues: []string{kit.Queue}, Kinds: []string{kit.Kind}, Max: 1, Capacity: 1, Wait: kit.Patience})
		ended <- err
	}()
	for end := time.After(kit.Patience); !s.Workers("", 0, "w1")[0].Waiting; {
		select {
		case <-end:
			s.Fatal("a claim that waits is not shown")
		default:
		}
	}
	s.Must(k.DrainWorker(s.Ctx, "w1"), "DrainWorker")
	s.Must(k.DrainWorker(s.Ctx, "w1"), "DrainWorker again")
	select {
	case err := <-ended:
		s.Refused(err, sojourn.CodeDrained, "a claim that waited")
	case <-time.After(kit.Patience):
		s.Fatal("the claim of a drained worker goes on waiting")
	}
	second := s.Enqueue()
	for number := int64(0); number < 3000; number += 2000 { // without a number too
		_, err := s.Store.Claim(s.Ctx, driver.ClaimRequest{Worker: "w1", Number: number, Queues: []string{kit.Queue}, Kinds: []string{kit.Kind}, Max: 1, Capacity: 1})
		s.Refused(err, sojourn.CodeDrained, "a claim")
	}
	kit.Same(s, "it is shown", s.Workers("", 0, "w1")[0].Drained, true)
	kit.Same(s, "the job that it runs", mine.Job.ID, first)
	s.Finish(kit.Completed(mine), sojourn.Completed)
	kit.Same(s, "what another worker gets", s.Claim(kit.By("w2")).Job.ID, second)
	s.Advance(sojourn.WorkerLife / 2)
	_, err := s.Store.Claim(s.Ctx, driver.ClaimRequest{Worker: "w1", Queues: []string{kit.Queue}, Kinds: []string{kit.Kind}, Max: 1, Capacity: 1})
	s.Refused(err, sojourn.CodeDrained, "a claim half a day later")
	s.Advance(sojourn.WorkerLife - time.Hour)
	s.Sweep()
	_, err = s.Store.Claim(s.Ctx, driver.ClaimRequest{Worker: "w1", Queues: []string{kit.Queue}, Kinds: []string{kit.Kind}, Max: 1, Capacity: 1})
	s.Refused(err, sojourn.CodeDrained, "a claim a day after that: it goes on asking, so it is not forgotten")
	kit.Same(s, "it is shown as drained a day later", s.Workers("", 0, "w1")[0].Drained, true)
}
