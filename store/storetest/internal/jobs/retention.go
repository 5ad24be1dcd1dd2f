package jobs

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var retentionTrials = []kit.Trial{
	{Name: "retention by age", Law: "Completed and cancelled jobs go when they are older than their queue's age; failed ones stay.",
		Covers: "tr:W10 spec:X8 spec:X9 inv:R1 spec:R10", Run: retentionAge},
	{Name: "retention by default", Law: "Without settings completed jobs go after 7 days.", Covers: "tr:W10 spec:X9", Run: retentionDefault},
	{Name: "retention by count", Law: "Of each outcome the newest count of a queue stay.", Covers: "tr:W10 spec:X8 spec:X9 inv:R1", Run: retentionCount},
	{Name: "retention by count of jobs that ended together", Law: "The count holds also among jobs that one call has ended: no more go than lie above it.",
		Covers: "tr:W10 spec:X9 inv:R1", Run: retentionTogether},
	{Name: "retention leaves nothing behind", Law: "With a job go its log, checkpoint, history, responses and keys.",
		Covers: "tr:W10 spec:J17 inv:R1", Run: retentionWhole},
	{Name: "retention of failed jobs", Law: "Failed jobs go by age or count only where a cap is set.", Covers: "tr:W10 spec:X9 spec:R3", Run: retentionFailed},
	{Name: "retention for ever", Law: "With -1 nothing goes.", Covers: "tr:W10 spec:X9", Run: retentionForever},
	{Name: "retention only of final jobs", Law: "Retention never touches a live job, however old.", Covers: "tr:W10 inv:R1", Run: retentionLive},
	{Name: "rules:A6 retention within IDLife", Law: "Nothing goes within IDLife of its end, so of its enqueue, whatever the settings.",
		Covers: "tr:W10 rules:A6", Run: retentionIDLife},
	{Name: "message ids outlive their jobs", Law: "A repeated message is a duplicate even after its job is gone.",
		Covers: "tr:W10 tr:R1 tr:O8 rules:B8", Run: retentionMessages},
	{Name: "retention in bounded steps", Law: "A sweep prunes at most limit jobs.", Covers: "tr:W10 inv:R3 inv:L4", Run: retentionBounded},
	{Name: "purge", Law: "Purge deletes final jobs for good and no others.", Covers: "tr:O8 spec:S10 spec:P8", Run: purge},
}

func retain(s *kit.Scene, r sojourn.Retention) {
	s.Helper()
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Retention: r})
}

func retentionAge(s *kit.Scene) {
	retain(s, sojourn.Retention{Age: time.Hour})
	done, cancelled, failed := s.Final(sojourn.Completed), s.Final(sojourn.Cancelled), s.Final(sojourn.Failed)
	other := s.Final(sojourn.Completed, sojourn.Queue("other"))
	s.Swept(time.Hour-time.Second, driver.Swept{})
	s.Swept(2*time.Second, driver.Swept{Pruned: 2})
	s.Gone(done.Job.ID)
	s.Gone(cancelled.Job.ID)
	s.State(failed.Job.ID, sojourn.Failed)
	s.State(other.Job.ID, sojourn.Completed)
	s.Swept(365*24*time.Hour, driver.Swept{Pruned: 1})
	s.State(failed.Job.ID, sojourn.Failed)
}

func retentionDefault(s *kit.Scene) {
	c := s.Final(sojourn.Completed)
	s.Swept(sojourn.DefaultRetentionAge-time.Second, driver.Swept{})
	s.Swept(2*time.Second, driver.Swept{Pruned: 1})
	s.Gone(c.Job.ID)
}

func retentionCount(s *kit.Scene) {
	retain(s, sojourn.Retention{Count: 3})
	var done, cancelled []sojourn.ID
	for range 5 {
		s.Advance(time.Second)
		done = append(done, s.Final(sojourn.Completed).Job.ID)
	}
	for range 2 {
		s.Advance(time.Second)
		cancelled = append(cancelled, s.Final(sojourn.Cancelled).Job.ID)
	}
	failed := s.Final(sojourn.Failed)
	s.Swept(sojourn.IDLife+time.Second, driver.Swept{Pruned: 2})
	s.Gone(done[0])
	s.Gone(done[1])
	for _, id := range done[2:] {
		s.State(id, sojourn.Completed)
	}
	for _, id := range cancelled {
		s.State(id, sojourn.Cancelled)
	}
	s.State(failed.Job.ID, sojourn.Failed)
	retain(s, sojourn.Retention{Count: 1})
	s.Swept(time.Second, driver.Swept{Pruned: 3})
	s.State(done[4], sojourn.Completed)
}

func retentionTogether(s *kit.Scene) {
	retain(s, sojourn.Retention{Count: 3})
	s.EnqueueMany(5)
	var os []sojourn.Outcome
	for _, c := range s.ClaimMany(kit.UpTo(5)) {
		os = append(os, kit.Completed(c))
	}
	_, err := s.Store.Finish(s.Ctx, os)
	s.Must(err, "Finish")
	s.Swept(sojourn.IDLife+time.Second, driver.Swept{Pruned: 2})
	kit.Same(s, "jobs left", len(s.Find(sojourn.Filter{})), 3)
}

func retentionFailed(s *kit.Scene) {
	retain(s, sojourn.Retention{FailedAge: time.Hour})
	a := s.Final(sojourn.Failed)
	s.Advance(50 * time.Minute)
	b, done := s.Final(sojourn.Failed), s.Final(sojourn.Completed)
	s.Swept(11*time.Minute, driver.Swept{Pruned: 1})
	s.Gone(a.Job.ID)
	s.State(b.Job.ID, sojourn.Failed)
	retain(s, sojourn.Retention{FailedCount: 1})
	c := s.Final(sojourn.Failed)
	s.Swept(20*time.Minute, driver.Swept{Pruned: 1})
	s.Gone(b.Job.ID)
	s.State(c.Job.ID, sojourn.Failed)
	s.State(done.Job.ID, sojourn.Completed)
}

func retentionForever(s *kit.Scene) {
	retain(s, sojourn.Retention{Age: -1, Count: -1})
	c := s.Final(sojourn.Completed)
	s.Swept(10*365*24*time.Hour, driver.Swept{})
	s.State(c.Job.ID, sojourn.Completed)
}

func retentionLive(s *kit.Scene) {
	retain(s, sojourn.Retention{Age: time.Second, Count: 1, FailedAge: time.Second, FailedCount: 1})
	ready := s.Enqueue(kit.OfKind("a"))
	scheduled := s.Enqueue(sojourn.Delay(1000 * time.Hour))
	awaiting := s.Awaiting(kit.OfKind("b"), sojourn.Timeout(1000*time.Hour)).Job.ID
	done := s.Final(sojourn.Completed).Job.ID
	s.Swept(100*time.Hour, driver.Swept{Pruned: 1})
	s.Gone(done)
	for id, want := range map[sojourn.ID]sojourn.State{ready: sojourn.Ready, scheduled: sojourn.Scheduled, awaiting: sojourn.Awaiting} {
		s.State(id, want)
	}
}

func retentionIDLife(s *kit.Scene) {
	retain(s, sojourn.Retention{Age: time.Second, Count: 1})
	a, b := s.Job(), s.Job()
	for _, j := range []sojourn.Job{a, b} {
		s.Put(j)
	}
	s.Advance(time.Minute)
	for range 2 {
		s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	}
	s.Swept(sojourn.IDLife-time.Second, driver.Swept{})
	again(s, a, sojourn.Completed)
	s.Swept(2*time.Second, driver.Swept{Pruned: 2})
}

func retentionMessages(s *kit.Scene) {
	retain(s, sojourn.Retention{Age: time.Hour})
	c := s.Awaiting(sojourn.Key("k"))
	r := s.Respond("k", kit.Message("webhook", "evt_1"), kit.Body("one"))
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	s.Swept(2*time.Hour, driver.Swept{Pruned: 1})
	s.Gone(c.Job.ID)
	again := s.Respond("k", kit.Message("webhook", "evt_1"), kit.Body("one"))
	kit.Same(s, "outcome", again.Outcome, sojourn.Duplicate)
	kit.Same(s, "the first one", again.Seq, r.Seq)
	s.Became(s.Respond("k", kit.Message("webhook", "evt_2")), sojourn.Early, 0) // no job has the key any more
}

func retentionBounded(s *kit.Scene) {
	retain(s, sojourn.Retention{Age: time.Hour})
	s.EnqueueMany(10)
	for _, c := range s.ClaimMany(kit.UpTo(10)) {
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
	s.Advance(2 * time.Hour)
	sum := 0
	for range 20 {
		w, err := s.Store.Sweep(s.Ctx, 4)
		s.Must(err, "Sweep")
		if w.Pruned > 4 {
			s.Fatalf("a sweep with limit 4 pruned %d jobs", w.Pruned)
		}
		sum += w.Pruned
	}
	kit.Same(s, "pruned", sum, 10)
}

func purge(s *kit.Scene) {
	done, live := s.Final(sojourn.Completed, sojourn.Key("k")), s.Enqueue(sojourn.Key("l"))
	s.Respond("k")
	s.Advance(sojourn.IDLife + time.Second)
	if item := s.Edit(live, sojourn.Edit{Action: sojourn.EditPurge}); item.Changed {
		s.Fatal("a live job was purged")
	} else {
		s.Is(item.Err, sojourn.ErrConflict, "purge of a live job")
	}
	s.State(live, sojourn.Ready)
	item := s.Edit(done.Job.ID, sojourn.Edit{Action: sojourn.EditPurge, By: "ops"})
	if !item.Changed || item.Err != nil {
		s.Fatalf("purge answered %+v", item)
	}
	s.Gone(done.Job.ID)
	ed, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{done.Job.ID}}, sojourn.Edit{Action: sojourn.EditPurge})
	s.Must(err, "Edit")
	kit.Same(s, "changed by a repeated purge", kit.Changed(ed), 0)
	s.Extends(done.Lease, false)
	s.Reports(kit.Completed(done), driver.FinishLost)
	s.Is(s.Save(driver.Saved{Lease: done.Lease, Checkpoint: []byte("x")}), sojourn.ErrLeaseLost, "Save for a purged job")
	s.Gone(done.Job.ID)
	becameEarly(s, "k")
}

// becameEarly wants a response to find neither a live nor a final job.
func becameEarly(s *kit.Scene, key string) {
	s.Helper()
	s.Became(s.Respond(key), sojourn.Early, 0)
}

func retentionWhole(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("half"), Log: []sojourn.LogLine{{Level: "INFO", Text: "line"}}}), "Save")
	s.Respond("k", kit.Body("kept"))
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Swept(sojourn.DefaultRetentionAge+time.Second, driver.Swept{Pruned: 1})
	s.Gone(c.Job.ID)
	kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{Job: c.Job.ID})), 0)
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "k"})
	// The store's own Check finds leftovers without a job: see audit.
}
