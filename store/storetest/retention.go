package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var retentionTrials = []trial{
	{"retention by age", "Completed and cancelled jobs go when they are older than their queue's age; failed ones stay.",
		"tr:W10 spec:X8 spec:X9 inv:R1 spec:R10", retentionAge},
	{"retention by default", "Without settings completed jobs go after 7 days.", "tr:W10 spec:X9", retentionDefault},
	{"retention by count", "Of each outcome the newest count of a queue stay.", "tr:W10 spec:X8 spec:X9 inv:R1", retentionCount},
	{"retention by count of jobs that ended together", "The count holds also among jobs that one call has ended: no more go than lie above it.",
		"tr:W10 spec:X9 inv:R1", retentionTogether},
	{"retention leaves nothing behind", "With a job go its log, checkpoint, history, responses and keys.", "tr:W10 spec:J17 inv:R1", retentionWhole},
	{"retention of failed jobs", "Failed jobs go by age or count only where a cap is set.", "tr:W10 spec:X9 spec:R3", retentionFailed},
	{"retention for ever", "With -1 nothing goes.", "tr:W10 spec:X9", retentionForever},
	{"retention only of final jobs", "Retention never touches a live job, however old.", "tr:W10 inv:R1", retentionLive},
	{"rules:A6 retention within IDLife", "Nothing goes within IDLife of its end, so of its enqueue, whatever the settings.", "tr:W10 rules:A6", retentionIDLife},
	{"message ids outlive their jobs", "A repeated message is a duplicate even after its job is gone.", "tr:W10 tr:R1 tr:O8 rules:B8", retentionMessages},
	{"retention in bounded steps", "A sweep prunes at most limit jobs.", "tr:W10 inv:R3 inv:L4", retentionBounded},
	{"purge", "Purge deletes final jobs for good and no others.", "tr:O8 spec:S10 spec:P8", purge},
}

func (s *scene) retain(r sojourn.Retention) {
	s.Helper()
	s.setQueue(line, sojourn.QueueSettings{Retention: r})
}

func retentionAge(s *scene) {
	s.retain(sojourn.Retention{Age: time.Hour})
	done, cancelled, failed := s.final(sojourn.Completed), s.final(sojourn.Cancelled), s.final(sojourn.Failed)
	other := s.final(sojourn.Completed, sojourn.Queue("other"))
	s.swept(time.Hour-time.Second, driver.Swept{})
	s.swept(2*time.Second, driver.Swept{Pruned: 2})
	s.gone(done.Job.ID)
	s.gone(cancelled.Job.ID)
	s.state(failed.Job.ID, sojourn.Failed)
	s.state(other.Job.ID, sojourn.Completed)
	s.swept(365*24*time.Hour, driver.Swept{Pruned: 1})
	s.state(failed.Job.ID, sojourn.Failed)
}

func retentionDefault(s *scene) {
	c := s.final(sojourn.Completed)
	s.swept(sojourn.DefaultRetentionAge-time.Second, driver.Swept{})
	s.swept(2*time.Second, driver.Swept{Pruned: 1})
	s.gone(c.Job.ID)
}

func retentionCount(s *scene) {
	s.retain(sojourn.Retention{Count: 3})
	var done, cancelled []sojourn.ID
	for range 5 {
		s.advance(time.Second)
		done = append(done, s.final(sojourn.Completed).Job.ID)
	}
	for range 2 {
		s.advance(time.Second)
		cancelled = append(cancelled, s.final(sojourn.Cancelled).Job.ID)
	}
	failed := s.final(sojourn.Failed)
	s.swept(sojourn.IDLife+time.Second, driver.Swept{Pruned: 2})
	s.gone(done[0])
	s.gone(done[1])
	for _, id := range done[2:] {
		s.state(id, sojourn.Completed)
	}
	for _, id := range cancelled {
		s.state(id, sojourn.Cancelled)
	}
	s.state(failed.Job.ID, sojourn.Failed)
	s.retain(sojourn.Retention{Count: 1})
	s.swept(time.Second, driver.Swept{Pruned: 3})
	s.state(done[4], sojourn.Completed)
}

func retentionTogether(s *scene) {
	s.retain(sojourn.Retention{Count: 3})
	s.enqueueMany(5)
	var os []sojourn.Outcome
	for _, c := range s.claimMany(upTo(5)) {
		os = append(os, completed(c))
	}
	_, err := s.store.Finish(s.ctx, os)
	s.must(err, "Finish")
	s.swept(sojourn.IDLife+time.Second, driver.Swept{Pruned: 2})
	same(s, "jobs left", len(s.find(sojourn.Filter{})), 3)
}

func retentionFailed(s *scene) {
	s.retain(sojourn.Retention{FailedAge: time.Hour})
	a := s.final(sojourn.Failed)
	s.advance(50 * time.Minute)
	b, done := s.final(sojourn.Failed), s.final(sojourn.Completed)
	s.swept(11*time.Minute, driver.Swept{Pruned: 1})
	s.gone(a.Job.ID)
	s.state(b.Job.ID, sojourn.Failed)
	s.retain(sojourn.Retention{FailedCount: 1})
	c := s.final(sojourn.Failed)
	s.swept(20*time.Minute, driver.Swept{Pruned: 1})
	s.gone(b.Job.ID)
	s.state(c.Job.ID, sojourn.Failed)
	s.state(done.Job.ID, sojourn.Completed)
}

func retentionForever(s *scene) {
	s.retain(sojourn.Retention{Age: -1, Count: -1})
	c := s.final(sojourn.Completed)
	s.swept(10*365*24*time.Hour, driver.Swept{})
	s.state(c.Job.ID, sojourn.Completed)
}

func retentionLive(s *scene) {
	s.retain(sojourn.Retention{Age: time.Second, Count: 1, FailedAge: time.Second, FailedCount: 1})
	ready := s.enqueue(ofKind("a"))
	scheduled := s.enqueue(sojourn.Delay(1000 * time.Hour))
	awaiting := s.awaiting(ofKind("b"), sojourn.Timeout(1000*time.Hour)).Job.ID
	done := s.final(sojourn.Completed).Job.ID
	s.swept(100*time.Hour, driver.Swept{Pruned: 1})
	s.gone(done)
	for id, want := range map[sojourn.ID]sojourn.State{ready: sojourn.Ready, scheduled: sojourn.Scheduled, awaiting: sojourn.Awaiting} {
		s.state(id, want)
	}
}

func retentionIDLife(s *scene) {
	s.retain(sojourn.Retention{Age: time.Second, Count: 1})
	a, b := s.job(), s.job()
	for _, j := range []sojourn.Job{a, b} {
		s.put(j)
	}
	s.advance(time.Minute)
	for range 2 {
		s.finish(completed(s.claim()), sojourn.Completed)
	}
	s.swept(sojourn.IDLife-time.Second, driver.Swept{})
	s.again(a, sojourn.Completed)
	s.swept(2*time.Second, driver.Swept{Pruned: 2})
}

func retentionMessages(s *scene) {
	s.retain(sojourn.Retention{Age: time.Hour})
	c := s.awaiting(sojourn.Key("k"))
	r := s.respond("k", message("webhook", "evt_1"), body("one"))
	s.finish(completed(s.claim()), sojourn.Completed)
	s.swept(2*time.Hour, driver.Swept{Pruned: 1})
	s.gone(c.Job.ID)
	again := s.respond("k", message("webhook", "evt_1"), body("one"))
	same(s, "outcome", again.Outcome, sojourn.Duplicate)
	same(s, "the first one", again.Seq, r.Seq)
	s.became(s.respond("k", message("webhook", "evt_2")), sojourn.Early, 0) // no job has the key any more
}

func retentionBounded(s *scene) {
	s.retain(sojourn.Retention{Age: time.Hour})
	s.enqueueMany(10)
	for _, c := range s.claimMany(upTo(10)) {
		s.finish(completed(c), sojourn.Completed)
	}
	s.advance(2 * time.Hour)
	sum := 0
	for range 20 {
		w, err := s.store.Sweep(s.ctx, 4)
		s.must(err, "Sweep")
		if w.Pruned > 4 {
			s.Fatalf("a sweep with limit 4 pruned %d jobs", w.Pruned)
		}
		sum += w.Pruned
	}
	same(s, "pruned", sum, 10)
}

func purge(s *scene) {
	done, live := s.final(sojourn.Completed, sojourn.Key("k")), s.enqueue(sojourn.Key("l"))
	s.respond("k")
	s.advance(sojourn.IDLife + time.Second)
	if item := s.edit(live, sojourn.Edit{Action: sojourn.EditPurge}); item.Changed {
		s.Fatal("a live job was purged")
	} else {
		s.is(item.Err, sojourn.ErrConflict, "purge of a live job")
	}
	s.state(live, sojourn.Ready)
	item := s.edit(done.Job.ID, sojourn.Edit{Action: sojourn.EditPurge, By: "ops"})
	if !item.Changed || item.Err != nil {
		s.Fatalf("purge answered %+v", item)
	}
	s.gone(done.Job.ID)
	ed, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{done.Job.ID}}, sojourn.Edit{Action: sojourn.EditPurge})
	s.must(err, "Edit")
	same(s, "changed by a repeated purge", ed.Changed, 0)
	s.extends(done.Lease, false)
	s.reports(completed(done), driver.FinishLost)
	s.is(s.save(driver.Saved{Lease: done.Lease, Checkpoint: []byte("x")}), sojourn.ErrLeaseLost, "Save for a purged job")
	s.gone(done.Job.ID)
	s.becameEarly("k")
}

// becameEarly wants a response to find neither a live nor a final job.
func (s *scene) becameEarly(key string) {
	s.Helper()
	s.became(s.respond(key), sojourn.Early, 0)
}

func retentionWhole(s *scene) {
	c := s.running(sojourn.Key("k"))
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte("half"), Log: []sojourn.LogLine{{Level: "INFO", Text: "line"}}}), "Save")
	s.respond("k", body("kept"))
	s.finish(completed(c), sojourn.Completed)
	s.swept(sojourn.DefaultRetentionAge+time.Second, driver.Swept{Pruned: 1})
	s.gone(c.Job.ID)
	same(s, "responses", len(s.inbox(sojourn.InboxFilter{Job: c.Job.ID})), 0)
	s.finds(sojourn.Filter{Kind: charge, Key: "k"})
	// The store's own Check finds leftovers without a job: see audit.
}
