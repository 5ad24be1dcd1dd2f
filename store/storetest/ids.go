package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var idTrials = []trial{
	{"id blocks", "Blocks of ids are consecutive, positive, below 2^53 and never overlap.", "spec:J1 inv:N2", idBlocks},
	{"reserved ids", "A client reserves ids for its jobs; they are its own, fresh, and not drawn for other jobs.", "spec:J1 rules:A6 inv:N2", idsReserved},
	{"ids outside a block", "An id that was never leased is refused and stores nothing.", "spec:J1 rules:A6", idOutside},
	{"an id block expires", "The ids of a block are good for IDLife after it was leased; known ids go on naming their jobs.",
		"rules:A6 spec:J1 tr:N4", idExpires},
	{"rules:A6 an id is inserted once", "No job is purged or pruned while its id could still be inserted, and its id is never used again.",
		"rules:A6 tr:O8 tr:W10 inv:R1", idOnce},
	{"rules:A8 what is handed to the outside", "IdempotencyKey is the same over all attempts of a generation; Fence rises with every claim.",
		"rules:A8 spec:S6 inv:F6", idempotencyKey},
}

func idBlocks(s *scene) {
	var end sojourn.ID
	for _, n := range []int{1, 10_000, 3, 1} {
		first, err := s.store.IDs(s.ctx, n)
		s.must(err, "IDs(%d)", n)
		if first <= 0 || first < end || first+sojourn.ID(n) > 1<<53 {
			s.Fatalf("IDs(%d) gave %d; the block before ended at %d", n, first, end)
		}
		end = first + sojourn.ID(n)
	}
	for _, n := range []int{0, -1, 10_001} {
		_, err := s.store.IDs(s.ctx, n)
		s.refused(err, sojourn.CodeInvalid, "a block out of range")
	}
}

func idsReserved(s *scene) {
	c := sojourn.NewClient(s.store)
	_, err := c.Enqueue(s.ctx, sojourn.NewJob(charge, nil))
	s.must(err, "Enqueue")
	s.advance(sojourn.IDLife - time.Minute) // the client's block is old
	ids, err := c.Reserve(s.ctx, 3)
	s.must(err, "Reserve")
	same(s, "ids", len(ids), 3)
	other, err := c.Enqueue(s.ctx, sojourn.NewJob(charge, nil))
	s.must(err, "Enqueue")
	s.advance(sojourn.IDLife - time.Minute)
	for i, id := range ids {
		job := sojourn.NewJob(charge, nil, sojourn.WithID(id))
		for repeat := range 2 {
			e, err := c.Enqueue(s.ctx, job)
			s.must(err, "Enqueue with a reserved id")
			same(s, "id", e.ID, id)
			same(s, "duplicate", e.Duplicate, repeat > 0)
		}
		if id == other.ID || i > 0 && id <= ids[i-1] {
			s.Fatalf("the reserved ids %v, and %d of another job", ids, other.ID)
		}
	}
	for _, n := range []int{0, 10_001} {
		_, err := c.Reserve(s.ctx, n)
		s.refused(err, sojourn.CodeInvalid, "ids out of range")
	}
}

func idOutside(s *scene) {
	first, err := s.store.IDs(s.ctx, 1)
	s.must(err, "IDs")
	for _, id := range []sojourn.ID{first + 1_000_000, 1<<53 - 1} {
		j := s.job()
		j.ID = id
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		if code := sojourn.ErrorCode(err); code != sojourn.CodeInvalid && code != sojourn.CodeIDExpired {
			s.Fatalf("the id %d, which nobody leased, gave the error %v", id, err)
		}
		s.gone(id)
	}
}

func idExpires(s *scene) {
	first, err := s.store.IDs(s.ctx, 5)
	s.must(err, "IDs")
	jobs := make([]sojourn.Job, 5)
	for i := range jobs {
		jobs[i] = *sojourn.NewJob(charge, nil)
		jobs[i].ID = first + sojourn.ID(i)
	}
	s.advance(sojourn.IDLife - time.Second)
	s.put(jobs[0])
	s.advance(2 * time.Second)
	_, err = s.store.Enqueue(s.ctx, jobs[1:2], false)
	s.refused(err, sojourn.CodeIDExpired, "an id of an old block")
	s.gone(jobs[1].ID)
	if e := s.put(jobs[0]); !e.Duplicate || e.ID != jobs[0].ID {
		s.Fatalf("the repeated enqueue of a known id answered %+v", e)
	}
	fresh := s.job()
	es, err := s.store.Enqueue(s.ctx, []sojourn.Job{jobs[2], fresh}, true)
	s.must(err, "Enqueue, partial")
	s.refused(es[0].Err, sojourn.CodeIDExpired, "an id of an old block, partial")
	s.must(es[1].Err, "a fresh id beside it")
	s.state(fresh.ID, sojourn.Ready)
}

func idOnce(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Retention: sojourn.Retention{Age: time.Second, Count: 1}})
	purged, pruned := s.job(sojourn.Key("a")), s.job(sojourn.Key("b"))
	for _, j := range []sojourn.Job{purged, pruned} {
		s.put(j)
	}
	w0 := s.claim()
	for _, j := range []sojourn.Job{purged, pruned} {
		s.cancel(j.ID)
	}
	s.advance(sojourn.IDLife - 2*time.Second)
	s.sweep()
	s.state(pruned.ID, sojourn.Cancelled)
	if item := s.edit(purged.ID, sojourn.Edit{Action: sojourn.EditPurge}); item.Changed || item.Err == nil {
		s.Fatalf("purge within IDLife answered %+v, want it refused", item)
	}
	s.again(purged, sojourn.Cancelled)
	s.advance(4 * time.Second)
	if item := s.edit(purged.ID, sojourn.Edit{Action: sojourn.EditPurge}); !item.Changed || item.Err != nil {
		s.Fatalf("purge after IDLife answered %+v", item)
	}
	s.sweep()
	for _, j := range []sojourn.Job{purged, pruned} {
		s.gone(j.ID)
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		s.refused(err, sojourn.CodeIDExpired, "the id of a job that is gone")
		s.gone(j.ID)
	}
	s.reports(completed(w0), driver.FinishLost)
}

func idempotencyKey(s *scene) {
	c := s.running(steady(time.Second))
	key := c.Job.IdempotencyKey()
	s.finish(failure(c), sojourn.Scheduled)
	s.advance(time.Second)
	d := s.claim(by("w2"))
	same(s, "the key in the second attempt", d.Job.IdempotencyKey(), key)
	same(s, "attempt", d.Job.Attempt, 2)
	same(s, "the rise of the fence", d.Job.Fence()-c.Job.Fence(), 1)
	s.finish(abort(d), sojourn.Failed)
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	e := s.claim()
	if e.Job.IdempotencyKey() == key {
		s.Fatalf("the key is %s again after a redrive", key)
	}
	same(s, "the rise of the fence over a redrive", e.Job.Fence()-d.Job.Fence(), 1)
	st, err := s.store.Status(s.ctx)
	s.must(err, "Status")
	same(s, "the instance", e.Job.Instance, st.Instance)
}
