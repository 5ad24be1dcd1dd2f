package jobs

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var idTrials = []kit.Trial{
	{Name: "id blocks", Law: "Blocks of ids are consecutive, positive, below 2^53 and never overlap.", Covers: "spec:J1 inv:N2", Run: idBlocks},
	{Name: "reserved ids", Law: "A client reserves ids for its jobs; they are its own, fresh, and not drawn for other jobs.",
		Covers: "spec:J1 rules:A6 inv:N2", Run: idsReserved},
	{Name: "ids outside a block", Law: "An id that was never leased is refused and stores nothing.", Covers: "spec:J1 rules:A6", Run: idOutside},
	{Name: "an id block expires", Law: "The ids of a block are good for IDLife after it was leased; known ids go on naming their jobs.",
		Covers: "rules:A6 spec:J1 tr:N4", Run: idExpires},
	{Name: "rules:A6 an id is inserted once", Law: "No job is purged or pruned while its id could still be inserted, and its id is never used again.",
		Covers: "rules:A6 tr:O8 tr:W10 inv:R1", Run: idOnce},
	{Name: "rules:A8 what is handed to the outside", Law: "IdempotencyKey is the same over all attempts of a generation; Fence rises with every claim.",
		Covers: "rules:A8 spec:S6 inv:F6", Run: idempotencyKey},
}

func idBlocks(s *kit.Scene) {
	var end sojourn.ID
	for _, n := range []int{1, 10_000, 3, 1} {
		first, err := s.Store.IDs(s.Ctx, n)
		s.Must(err, "IDs(%d)", n)
		if first <= 0 || first < end || first+sojourn.ID(n) > 1<<53 {
			s.Fatalf("IDs(%d) gave %d; the block before ended at %d", n, first, end)
		}
		end = first + sojourn.ID(n)
	}
	for _, n := range []int{0, -1, 10_001} {
		_, err := s.Store.IDs(s.Ctx, n)
		s.Refused(err, sojourn.CodeInvalid, "a block out of range")
	}
}

func idsReserved(s *kit.Scene) {
	c := sojourn.NewClient(s.Store)
	_, err := c.Enqueue(s.Ctx, sojourn.NewJob(kit.Kind, nil))
	s.Must(err, "Enqueue")
	s.Advance(sojourn.IDLife - time.Minute) // the client's block is old
	ids, err := c.Reserve(s.Ctx, 3)
	s.Must(err, "Reserve")
	kit.Same(s, "ids", len(ids), 3)
	other, err := c.Enqueue(s.Ctx, sojourn.NewJob(kit.Kind, nil))
	s.Must(err, "Enqueue")
	s.Advance(sojourn.IDLife - time.Minute)
	for i, id := range ids {
		job := sojourn.NewJob(kit.Kind, nil, sojourn.WithID(id))
		for repeat := range 2 {
			e, err := c.Enqueue(s.Ctx, job)
			s.Must(err, "Enqueue with a reserved id")
			kit.Same(s, "id", e.ID, id)
			kit.Same(s, "duplicate", e.Duplicate, repeat > 0)
		}
		if id == other.ID || i > 0 && id <= ids[i-1] {
			s.Fatalf("the reserved ids %v, and %d of another job", ids, other.ID)
		}
	}
	for _, n := range []int{0, 10_001} {
		_, err := c.Reserve(s.Ctx, n)
		s.Refused(err, sojourn.CodeInvalid, "ids out of range")
	}
}

func idOutside(s *kit.Scene) {
	first, err := s.Store.IDs(s.Ctx, 1)
	s.Must(err, "IDs")
	for _, id := range []sojourn.ID{first + 1_000_000, 1<<53 - 1} {
		j := s.Job()
		j.ID = id
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		if code := sojourn.ErrorCode(err); code != sojourn.CodeInvalid && code != sojourn.CodeIDExpired {
			s.Fatalf("the id %d, which nobody leased, gave the error %v", id, err)
		}
		s.Gone(id)
	}
}

func idExpires(s *kit.Scene) {
	first, err := s.Store.IDs(s.Ctx, 5)
	s.Must(err, "IDs")
	jobs := make([]sojourn.Job, 5)
	for i := range jobs {
		jobs[i] = *sojourn.NewJob(kit.Kind, nil)
		jobs[i].ID = first + sojourn.ID(i)
	}
	s.Advance(sojourn.IDLife - time.Second)
	s.Put(jobs[0])
	s.Advance(2 * time.Second)
	_, err = s.Store.Enqueue(s.Ctx, jobs[1:2], false)
	s.Refused(err, sojourn.CodeIDExpired, "an id of an old block")
	s.Gone(jobs[1].ID)
	if e := s.Put(jobs[0]); !e.Duplicate || e.ID != jobs[0].ID {
		s.Fatalf("the repeated enqueue of a known id answered %+v", e)
	}
	fresh := s.Job()
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{jobs[2], fresh}, true)
	s.Must(err, "Enqueue, partial")
	s.Refused(es[0].Err, sojourn.CodeIDExpired, "an id of an old block, partial")
	s.Must(es[1].Err, "a fresh id beside it")
	s.State(fresh.ID, sojourn.Ready)
}

func idOnce(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Retention: sojourn.Retention{Age: time.Second, Count: 1}})
	purged, pruned := s.Job(sojourn.Key("a")), s.Job(sojourn.Key("b"))
	for _, j := range []sojourn.Job{purged, pruned} {
		s.Put(j)
	}
	w0 := s.Claim()
	for _, j := range []sojourn.Job{purged, pruned} {
		s.Cancel(j.ID)
	}
	s.Advance(sojourn.IDLife - 2*time.Second)
	s.Sweep()
	s.State(pruned.ID, sojourn.Cancelled)
	if item := s.Edit(purged.ID, sojourn.Edit{Action: sojourn.EditPurge}); item.Changed || item.Err == nil {
		s.Fatalf("purge within IDLife answered %+v, want it refused", item)
	}
	again(s, purged, sojourn.Cancelled)
	s.Advance(4 * time.Second)
	if item := s.Edit(purged.ID, sojourn.Edit{Action: sojourn.EditPurge}); !item.Changed || item.Err != nil {
		s.Fatalf("purge after IDLife answered %+v", item)
	}
	s.Sweep()
	for _, j := range []sojourn.Job{purged, pruned} {
		s.Gone(j.ID)
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		s.Refused(err, sojourn.CodeIDExpired, "the id of a job that is gone")
		s.Gone(j.ID)
	}
	s.Reports(kit.Completed(w0), driver.FinishLost)
}

func idempotencyKey(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Second))
	key := c.Job.IdempotencyKey()
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Advance(time.Second)
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "the key in the second attempt", d.Job.IdempotencyKey(), key)
	kit.Same(s, "attempt", d.Job.Attempt, 2)
	kit.Same(s, "the rise of the fence", d.Job.Fence()-c.Job.Fence(), 1)
	s.Finish(kit.Abort(d), sojourn.Failed)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	e := s.Claim()
	if e.Job.IdempotencyKey() == key {
		s.Fatalf("the key is %s again after a redrive", key)
	}
	kit.Same(s, "the rise of the fence over a redrive", e.Job.Fence()-d.Job.Fence(), 1)
	st, err := s.Store.Status(s.Ctx)
	s.Must(err, "Status")
	kit.Same(s, "the instance", e.Job.Instance, st.Instance)
}
