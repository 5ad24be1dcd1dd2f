package tenants

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/store/workers"
)

var forgetTrials = []kit.Trial{
	{Name: "a dead worker is removed", Law: "An operator removes a worker from the list, and its jobs go on as after its death.", Covers: "spec:W12", Run: deadRemoved},
	{Name: "a worker that lives is removed by force", Law: "A worker that lives is refused; with force its leases end at once, it is told so, and its reports are refused.",
		Covers: "spec:W12", Run: livingRemoved},
	{Name: "a worker with many leases is removed", Law: "All leases of a removed worker end, in several transactions, and those of others stay.", Covers: "spec:W12", Run: manyRemoved},
	{Name: "an idle worker that lives comes back", Law: "A worker that was removed and claims again is listed again.", Covers: "spec:W12", Run: removedReturns},
	{Name: "a stopped worker leaves the list", Law: "A worker that has stopped is no longer listed, nor counted for its kinds. With leases it stays as a draining one until they end; if it claims again it is listed again.",
		Covers: "spec:W12", Run: workerLeaves},
	{Name: "a token lets only its own workers leave", Law: "The worker of one token cannot take that of another off the list.", Covers: "spec:W12 spec:H7", Run: leavesByTenant},
	{Name: "a token removes workers of all queues or none", Law: "A token for one queue ends no lease, because a worker may have leases of any queue.",
		Covers: "spec:W12 spec:H7", Run: removedByTenant},
}

// forget removes a worker.
func forget(s *kit.Scene, worker string, o workers.Forget) (workers.Removed, error) {
	s.Helper()
	if _, ok := s.Store.(workers.Store); !ok {
		s.Skip("this store removes no workers")
	}
	return workers.Of(sojourn.NewClient(s.Store)).Forget(s.Ctx, worker, o)
}

// removed wants a worker to be removed, with so many leases.
func removed(s *kit.Scene, worker string, o workers.Forget, jobs int) {
	s.Helper()
	f, err := forget(s, worker, o)
	s.Must(err, "Forget of worker %s", worker)
	kit.Same(s, "ended leases", f, workers.Removed{Jobs: jobs})
	kit.Same(s, "the worker in the list", len(s.Workers("", 0, worker)), 0)
}

// stateOf is the state of a worker.
func stateOf(s *kit.Scene, worker string) workers.State {
	s.Helper()
	return workers.StateOf(s.Workers("", 0, worker)[0], s.Now())
}

func deadRemoved(s *kit.Scene) {
	_, err := forget(s, "w1", workers.Forget{})
	s.Is(err, sojourn.ErrNotFound, "an unknown worker")
	_, err = forget(s, "", workers.Forget{})
	s.Refused(err, sojourn.CodeInvalid, "no name")
	ids := s.EnqueueMany(3)
	first, second := s.Claim(kit.By("w1")), s.Claim(kit.By("w1"))
	other := s.Claim(kit.By("w2"))
	kit.Same(s, "state", stateOf(s, "w1"), workers.Alive)
	s.Advance(kit.LeaseTime + time.Second)
	s.Extends(other.Lease, true)
	kit.Same(s, "state of a worker without valid leases", stateOf(s, "w1"), workers.Gone)
	removed(s, "w1", workers.Forget{}, 2)
	for _, id := range ids[:2] {
		j := s.State(id, sojourn.Ready)
		kit.Same(s, "crashes", j.Crashes, int32(1))
	}
	s.State(ids[2], sojourn.Running)
	s.Reports(kit.Completed(first), driver.FinishLost)
	s.Reports(kit.Completed(second), driver.FinishLost)
	s.Finish(kit.Completed(other), sojourn.Completed)
	_, err = forget(s, "w1", workers.Forget{})
	s.Is(err, sojourn.ErrNotFound, "a removed worker")
	removed(s, "w2", workers.Forget{}, 0)
}

func livingRemoved(s *kit.Scene) {
	id := s.Enqueue()
	c := s.Claim(kit.By("w1"))
	_, err := forget(s, "w1", workers.Forget{})
	s.Refused(err, sojourn.CodeConflict, "a worker with a lease")
	s.State(id, sojourn.Running)
	s.Must(s.Store.DrainWorker(s.Ctx, "w1"), "DrainWorker")
	kit.Same(s, "state of a drained worker with a lease", stateOf(s, "w1"), workers.Draining)
	removed(s, "w1", workers.Forget{Force: true}, 1)
	s.State(id, sojourn.Ready)
	s.Extends(c.Lease, false)
	kit.Same(s, "who gets the job", s.Claim(kit.By("w2")).Job.ID, id)
	s.Reports(kit.Completed(c), driver.FinishLost)
	s.State(id, sojourn.Running)
}

func manyRemoved(s *kit.Scene) {
	const more = 5
	s.EnqueueMany(sojourn.MaxBatch)
	s.EnqueueMany(more + 1)
	mine := 0
	for mine < sojourn.MaxBatch+more {
		mine += len(s.ClaimMany(kit.By("w1"), kit.UpTo(min(500, sojourn.MaxBatch+more-mine))))
	}
	other := s.Claim(kit.By("w2"))
	s.Advance(kit.LeaseTime / 2)
	_, err := forget(s, "w1", workers.Forget{})
	s.Refused(err, sojourn.CodeConflict, "a worker with leases")
	removed(s, "w1", workers.Forget{Force: true}, sojourn.MaxBatch+more)
	s.Finish(kit.Completed(other), sojourn.Completed)
	ready := 0
	for range 2 {
		ready += len(s.ClaimMany(kit.By("w3"), kit.UpTo(1000)))
	}
	kit.Same(s, "jobs that others get", ready, sojourn.MaxBatch+more)
}

func removedReturns(s *kit.Scene) {
	s.ClaimNone("no job", kit.By("w1"))
	removed(s, "w1", workers.Forget{}, 0)
	s.ClaimNone("no job again", kit.By("w1"))
	kit.Same(s, "the worker that has claimed again", stateOf(s, "w1"), workers.Alive)
	s.Must(s.Store.DrainWorker(s.Ctx, "w1"), "DrainWorker")
	kit.Same(s, "state of a drained worker", stateOf(s, "w1"), workers.Stopped)
	s.Advance(workers.SilentAfter(0) + time.Minute)
	kit.Same(s, "state after a long silence", stateOf(s, "w1"), workers.Gone)
}

func removedByTenant(s *kit.Scene) {
	id := s.Enqueue()
	s.Claim(kit.By("w1"))
	operate := []access.Verb{access.VerbRead, access.VerbOperate}
	for _, g := range []access.Grant{{Verbs: operate, Queue: "other", Kind: "*"}, {Verbs: operate, Queue: kit.Queue, Kind: "*"}} {
		mine := s.Tenant("a", g)
		_, err := forget(mine, "w1", workers.Forget{Force: true})
		s.Refused(err, access.CodeScope, "a token for queue "+g.Queue)
	}
	s.State(id, sojourn.Running)
	all := s.Tenant("b", access.Grant{Verbs: operate})
	_, err := forget(all, "w1", workers.Forget{Force: true})
	s.Must(err, "Forget with a token for all queues")
	s.State(id, sojourn.Ready)
}

// leave takes a worker off the list.
func leave(s *kit.Scene, worker string) error {
	s.Helper()
	l, ok := s.Store.(workers.Leaver)
	if !ok {
		s.Skip("workers do not leave this store")
	}
	return l.LeaveWorker(s.Ctx, worker)
}

func workerLeaves(s *kit.Scene) {
	s.Must(leave(s, "nobody"), "LeaveWorker of an unknown worker")
	s.Refused(leave(s, "no name"), sojourn.CodeInvalid, "a bad id")
	kit.Same(s, "workers", workerIDs(s.Workers("", 0)), "")
	s.EnqueueMany(2)
	s.ClaimNone("another kind", kit.By("w2"), kit.Kinds("other"))
	held := s.Claim(kit.By("w1"), called("east-1"))
	kit.Same(s, "jobs of kinds without a worker", kit.Text(s.Queue(kit.Queue).Unhandled), kit.Text(map[string]int64(nil)))
	for range 2 {
		s.Must(leave(s, "w1"), "LeaveWorker")
		s.Must(leave(s, "w2"), "LeaveWorker")
		kit.Same(s, "workers", workerIDs(s.Workers("", 0)), "w1")
	}
	one := s.Workers("", 0, "w1")[0]
	kit.Same(s, "its name", one.Name, "east-1")
	kit.Same(s, "its state", stateOf(s, "w1"), workers.Draining)
	kit.Same(s, "jobs of kinds without a worker", kit.Text(s.Queue(kit.Queue).Unhandled), kit.Text(map[string]int64{kit.Kind: 1}))
	s.Extends(held.Lease, true)
	s.Finish(kit.Completed(held), sojourn.Completed)
	kit.Same(s, "workers after the last lease", workerIDs(s.Workers("", 0)), "")
	again := s.Claim(kit.By("w1"), called("east-1"))
	kit.Same(s, "the state of a worker that claims again", stateOf(s, "w1"), workers.Alive)
	s.Finish(kit.Completed(again), sojourn.Completed)
	s.ClaimNone("no job", kit.By("w1"))
	kit.Same(s, "workers", workerIDs(s.Workers("", 0)), "w1")
}

func leavesByTenant(s *kit.Scene) {
	work := access.Grant{Verbs: []access.Verb{access.VerbWork}, Queue: kit.Queue, Kind: "*"}
	s.ClaimNone("no job", kit.By("w1"))
	s.ClaimNone("no job", kit.By("a/w1"))
	for _, worker := range []string{"w1", "a/w1"} {
		if err := leave(s.Tenant("b", work), worker); err != nil { // over HTTP it is a worker of this token, which is unknown
			s.Refused(err, access.CodeScope, "a worker of another token")
		}
	}
	kit.Same(s, "workers", workerIDs(s.Workers("", 0)), "a/w1 w1")
	s.Must(leave(s.Tenant("a", work), "a/w1"), "LeaveWorker by its own token")
	kit.Same(s, "workers", workerIDs(s.Workers("", 0)), "w1")
}
