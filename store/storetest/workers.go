package storetest

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var workerTrials = []trial{
	{"workers are listed", "A store knows who asks it for jobs: what they are called, what they ask for, what they run, when they were last seen.", "spec:W2 spec:W3 spec:W5", workersListed},
	{"a drained worker gets nothing", "A drained worker gets no jobs any more, also if it waits for one; what it runs goes on, and others get the jobs.", "spec:W3", workerDrained},
}

func (s *scene) workers(after string, limit int, ids ...string) []sojourn.WorkerStatus {
	s.Helper()
	ws, err := s.store.Workers(s.ctx, after, limit, ids...)
	s.must(err, "Workers")
	return ws
}

func called(name string) wish { return func(r *driver.ClaimRequest) { r.Name = name } }

// workerIDs are the ids of workers, in order.
func workerIDs(ws []sojourn.WorkerStatus) string {
	var ids []string
	for _, w := range ws {
		ids = append(ids, w.Worker)
	}
	return strings.Join(ids, " ")
}

func workersListed(s *scene) {
	same(s, "workers of a new store", len(s.workers("", 0)), 0)
	s.enqueueMany(2)
	began := s.now()
	c := s.claim(by("w2"), called("east-7"), kinds("b", charge))
	s.claimNone("none of this kind", by("w1"), kinds("c"))
	s.claimNone("none of this queue", by("w1"), from("q"), kinds("c"))
	s.claimNone("a server that looks whether claims come through", by("w0"), from(sojourn.ProbeQueue))
	s.claim(by("w3"), func(r *driver.ClaimRequest) { r.Number = 0 })
	all := s.workers("", 0)
	same(s, "workers", workerIDs(all), "w1 w2 w3")
	same(s, "the queues of w1", strings.Join(all[0].Queues, " "), line+" q")
	same(s, "what w1 runs", all[0].Running, int64(0))
	same(s, "the name of w2", all[1].Name, "east-7")
	same(s, "the kinds of w2", strings.Join(all[1].Kinds, " "), "b "+charge)
	same(s, "what w2 runs", all[1].Running, int64(1))
	same(s, "what w3 runs", all[2].Running, int64(1))
	s.at("w2 was seen", all[1].SeenAt, began)
	same(s, "a page", workerIDs(s.workers("w1", 1)), "w2")
	_, err := s.store.Workers(s.ctx, "", -1)
	s.refused(err, sojourn.CodeInvalid, "a page of -1")

	s.advance(lease / 2)
	_, err = s.store.Extend(s.ctx, []sojourn.Lease{c.Lease})
	s.must(err, "Extend")
	one := s.workers("", 0, "w2", "w9")
	same(s, "the one asked for", workerIDs(one), "w2")
	same(s, "its jobs", text(one[0].Jobs), text([]sojourn.ID{c.Job.ID}))
	s.at("an extended lease is a sign of life", one[0].SeenAt, s.now())
	s.advance(lease/2 + time.Second)
	same(s, "a lease past its end", s.workers("", 0, "w3")[0].Stalled, int64(1))
	s.sweep()
	same(s, "after the sweep", workerIDs(s.workers("", 0, "w3")), "w3")
	s.advance(sojourn.WorkerLife + time.Second)
	s.sweep()
	same(s, "after a day", len(s.workers("", 0)), 0)
}

func workerDrained(s *scene) {
	k := s.store
	s.is(k.DrainWorker(s.ctx, "w1"), sojourn.ErrNotFound, "a worker that nobody knows")
	first := s.enqueue()
	mine := s.claim(by("w1"))
	ended := make(chan error, 1)
	go func() {
		_, err := s.store.Claim(s.ctx, driver.ClaimRequest{Worker: "w1", Number: 1000, Queues: []string{line}, Kinds: []string{charge}, Max: 1, Capacity: 1, Wait: patience})
		ended <- err
	}()
	for end := time.After(patience); !s.workers("", 0, "w1")[0].Waiting; {
		select {
		case <-end:
			s.Fatal("a claim that waits is not shown")
		default:
		}
	}
	s.must(k.DrainWorker(s.ctx, "w1"), "DrainWorker")
	s.must(k.DrainWorker(s.ctx, "w1"), "DrainWorker again")
	select {
	case err := <-ended:
		s.refused(err, sojourn.CodeDrained, "a claim that waited")
	case <-time.After(patience):
		s.Fatal("the claim of a drained worker goes on waiting")
	}
	second := s.enqueue()
	for number := int64(0); number < 3000; number += 2000 { // without a number too
		_, err := s.store.Claim(s.ctx, driver.ClaimRequest{Worker: "w1", Number: number, Queues: []string{line}, Kinds: []string{charge}, Max: 1, Capacity: 1})
		s.refused(err, sojourn.CodeDrained, "a claim")
	}
	same(s, "it is shown", s.workers("", 0, "w1")[0].Drained, true)
	same(s, "the job that it runs", mine.Job.ID, first)
	s.finish(completed(mine), sojourn.Completed)
	same(s, "what another worker gets", s.claim(by("w2")).Job.ID, second)
	s.advance(sojourn.WorkerLife / 2)
	_, err := s.store.Claim(s.ctx, driver.ClaimRequest{Worker: "w1", Queues: []string{line}, Kinds: []string{charge}, Max: 1, Capacity: 1})
	s.refused(err, sojourn.CodeDrained, "a claim half a day later")
	s.advance(sojourn.WorkerLife - time.Hour)
	s.sweep()
	_, err = s.store.Claim(s.ctx, driver.ClaimRequest{Worker: "w1", Queues: []string{line}, Kinds: []string{charge}, Max: 1, Capacity: 1})
	s.refused(err, sojourn.CodeDrained, "a claim a day after that: it goes on asking, so it is not forgotten")
	same(s, "it is shown as drained a day later", s.workers("", 0, "w1")[0].Drained, true)
}
