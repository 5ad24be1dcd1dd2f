package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var manyKeysTrials = []trial{
	{"await any of several keys", "With WaitAny the first response under any of the keys ends the wait.", "tr:F5 tr:M1 rules:B10 rules:H4", awaitAnyKeys},
	{"await all of several keys", "With WaitAll the wait ends with one response under each of the keys.", "tr:F5 tr:M1 rules:B10 rules:H4", awaitAllKeys},
	{"awaited keys belong to the job", "An awaited key names its job, for enqueues and responses, until the job is final.", "tr:F5 tr:N5 rules:B10 inv:U1 inv:U2",
		awaitedKeysOwned},
	{"await the key of another job", "An Await of a key that another live job has is an error of the attempt, reason key_conflict, in that item only.",
		"rules:H5 tr:F6 rules:B10 inv:U1 inv:P4", awaitConflict},
	{"await its own key among others", "A job may await its own key beside others, and the same keys again.", "tr:F5 rules:B10 inv:U1", awaitOwnAmong},
	{"an early answer under another of its keys", "An Await attaches the early responses of all keys of its job, not only of those it waits for.", "tr:F5 rules:B9 inv:U4", awaitEarlyOther},
	{"await a key that is named twice", "A key that is named twice needs one response.", "tr:F5 tr:M1 rules:B10", awaitTwice},
	{"an awaited key after its last job", "An answer under an awaited key is late as long as any of the jobs that awaited it is stored, whichever of them goes first.",
		"tr:W10 tr:O8 rules:B5 rules:B10", awaitedKeyOutlives},
	{"an awaited key after a redrive", "A job that was redriven is no earlier holder of the keys that it awaited before.", "tr:O3 rules:B10 inv:U1", awaitedKeyRedriven},
	{"rules:B10 half of the answers", "A retry whose last wait needs all keys is not woken by some of them.", "tr:M3 rules:B10 tr:W4", awaitAllHalf},
	{"an error behind a discarded answer", "When a person discards the first answer under a key, the next one counts: an error ends the wait, in the transaction of the discard.",
		"tr:M2 rules:B6 rules:B10 inv:U4", awaitAllDiscarded},
}

func awaitAnyKeys(s *scene) {
	c := s.running(sojourn.Key("own"))
	s.finish(await(c, 0, "a", "b"), sojourn.Awaiting)
	s.became(s.respond("own"), sojourn.Early, c.Job.ID) // not waited for
	s.state(c.Job.ID, sojourn.Awaiting)
	s.became(s.respond("b", body("b")), sojourn.Applied, c.Job.ID)
	d := s.claim()
	same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	same(s, "the answer", string(s.inHand(d).Body), "b")
	same(s, "its key", s.inHand(d).Key, "b")
	left := s.respond("a")
	s.became(left, sojourn.Early, c.Job.ID)
	s.finish(completed(d), sojourn.Completed)
	s.lies(left.Seq, sojourn.Late)
}

func awaitAllKeys(s *scene) {
	early := s.respond("b", body("b"))
	c := s.running()
	s.finish(awaitAll(c, 0, "a", "b", "c"), sojourn.Awaiting)
	s.lies(early.Seq, sojourn.Early)
	s.became(s.respond("a", body("a")), sojourn.Early, c.Job.ID)
	s.became(s.respond("a", body("a again")), sojourn.Early, c.Job.ID)
	same(s, "kept", s.state(c.Job.ID, sojourn.Awaiting).Kept, 3)
	s.became(s.respond("c", body("c")), sojourn.Applied, c.Job.ID)
	d := s.claim()
	got := map[string]string{}
	for _, r := range d.Job.Responses {
		got[r.Key] = string(r.Body)
	}
	if len(d.Job.Responses) != 3 || got["a"] != "a" || got["b"] != "b" || got["c"] != "c" {
		s.Fatalf("the answers in hand are %v, want one for each key", got)
	}
	s.lies(early.Seq, sojourn.Applied)
	same(s, "kept", s.get(c.Job.ID).Kept, 1)
}

func awaitedKeysOwned(s *scene) {
	c := s.running()
	s.finish(await(c, 0, "a", "b"), sojourn.Awaiting)
	if e := s.put(s.job(sojourn.Key("a"))); e.ID != c.Job.ID || !e.Duplicate {
		s.Fatalf("an enqueue with an awaited key answered %+v, want the job that awaits it", e)
	}
	d := s.running()
	s.is(s.save(driver.Saved{Lease: d.Lease, Key: "b"}), sojourn.ErrConflict, "SetKey of an awaited key")
	s.respond("a")
	e := s.claim()
	if x := s.put(s.job(sojourn.Key("b"))); !x.Duplicate {
		s.Fatalf("a key that was awaited is free while its job lives: %+v", x)
	}
	s.finish(completed(e), sojourn.Completed)
	if x := s.put(s.job(sojourn.Key("a"))); x.Duplicate {
		s.Fatalf("an awaited key is still taken after the end of its job: %+v", x)
	}
}

func awaitConflict(s *scene) {
	other := s.running(sojourn.Key("b"))
	good := s.running(steady(time.Minute))
	bad := s.running(steady(time.Minute))
	fs, err := s.store.Finish(s.ctx, []sojourn.Outcome{await(bad, 0, "a", "b"), await(good, 0, "c")})
	s.must(err, "Finish")
	for i, want := range []sojourn.State{sojourn.Scheduled, sojourn.Awaiting} {
		if fs[i].Status != driver.FinishApplied || fs[i].State != want {
			s.Fatalf("outcome %d was answered %+v, want applied, %s", i, fs[i], want)
		}
	}
	same(s, "reason", s.state(bad.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonKeyConflict)
	s.counters(bad.Job.ID, 1, 1, 0)
	same(s, "reason in the history", s.history(bad.Job.ID)[0].Reason, sojourn.ReasonKeyConflict)
	s.reports(await(bad, 0, "a", "b"), driver.FinishRepeated)
	s.counters(bad.Job.ID, 1, 1, 0)
	s.inFlight(2, "the other two")
	s.became(s.respond("a"), sojourn.Early, 0) // the refused Await has taken no key
	s.became(s.respond("b"), sojourn.Early, other.Job.ID)
	last := s.running(sojourn.MaxAttempts(1))
	s.finish(await(last, 0, "b"), sojourn.Failed)
}

func awaitOwnAmong(s *scene) {
	c := s.running(sojourn.Key("own"))
	s.finish(await(c, 0, "own", "b"), sojourn.Awaiting)
	s.became(s.respond("own"), sojourn.Applied, c.Job.ID)
	d := s.claim()
	s.finish(await(d, 0, "b", "own"), sojourn.Awaiting)
	s.became(s.respond("b"), sojourn.Applied, c.Job.ID)
	d = s.claim()
	s.finish(await(d, 0), sojourn.Awaiting) // the own key again
	s.became(s.respond("own"), sojourn.Applied, c.Job.ID)
	s.counters(c.Job.ID, 1, 0, 0)
}

func awaitTwice(s *scene) {
	c := s.running()
	s.finish(awaitAll(c, 0, "a", "b", "a"), sojourn.Awaiting)
	s.became(s.respond("a"), sojourn.Early, c.Job.ID)
	s.became(s.respond("b"), sojourn.Applied, c.Job.ID)
	same(s, "answers", len(s.claim().Job.Responses), 2)
}

func awaitAllHalf(s *scene) {
	c := s.running(steady(time.Minute))
	s.finish(awaitAll(c, time.Hour, "a", "b"), sojourn.Awaiting)
	half := s.respond("a", body("a"))
	s.became(half, sojourn.Early, c.Job.ID)
	s.swept(time.Hour, driver.Swept{TimedOut: 1})
	j := s.state(c.Job.ID, sojourn.Scheduled)
	same(s, "kept", j.Kept, 1)
	s.became(s.respond("b", body("b")), sojourn.Applied, c.Job.ID)
	j = s.state(c.Job.ID, sojourn.Ready)
	same(s, "resumed", j.Resumed, false)
	d := s.claim()
	same(s, "answers", len(d.Job.Responses), 2)
	s.counters(c.Job.ID, 2, 1, 0)
	s.lies(half.Seq, sojourn.Applied)
}

func awaitAllDiscarded(s *scene) {
	c := s.running(steady(time.Minute))
	s.finish(awaitAll(c, 0, "a", "b"), sojourn.Awaiting)
	good, bad := s.respond("a"), s.respond("a", failing("declined"))
	s.became(good, sojourn.Early, c.Job.ID)
	s.became(bad, sojourn.Early, c.Job.ID)
	same(s, "outcome", s.editInbox(sojourn.InboxEdit{Seq: good.Seq, Action: sojourn.InboxDiscard}).Outcome, sojourn.Discarded)
	j := s.state(c.Job.ID, sojourn.Scheduled)
	same(s, "reason", j.Reason, "declined")
	same(s, "kept", j.Kept, 0)
	s.at("run_at", j.RunAt, s.now().Add(time.Minute))
	s.counters(c.Job.ID, 1, 1, 0)
	s.inFlight(0, "after the error")
	s.lies(good.Seq, sojourn.Discarded)
	s.lies(bad.Seq, sojourn.Applied)
	s.happened(c.Job.ID, "await", "responded")
}

func awaitEarlyOther(s *scene) {
	r := s.respond("k", body("too soon"))
	s.became(r, sojourn.Early, 0)
	c := s.running(sojourn.Key("k"))
	same(s, "kept", s.finish(await(c, 0, "x"), sojourn.Awaiting).Kept, 1)
	s.became(s.respond("x", body("asked for")), sojourn.Applied, c.Job.ID)
	d := s.claim()
	same(s, "in hand", string(s.inHand(d).Body), "asked for")
	s.finish(await(d, 0), sojourn.Ready) // its own key: the early one is there
	same(s, "in hand then", string(s.inHand(s.claim()).Body), "too soon")
}

func awaitedKeyOutlives(s *scene) {
	var jobs []sojourn.ID
	for range 3 {
		c := s.running()
		s.finish(await(c, 0, "a"), sojourn.Awaiting)
		s.cancel(c.Job.ID)
		jobs = append(jobs, c.Job.ID)
	}
	s.advance(sojourn.IDLife)
	for i, holder := range []sojourn.ID{jobs[1], jobs[1], 0} { // after the newest, the oldest and the last one are gone
		gone := jobs[[]int{2, 0, 1}[i]]
		if item := s.edit(gone, sojourn.Edit{Action: sojourn.EditPurge}); !item.Changed {
			s.Fatalf("purge of job %d answered %+v", gone, item)
		}
		if holder == 0 {
			s.became(s.respond("a"), sojourn.Early, 0)
		} else {
			s.became(s.respond("a"), sojourn.Late, holder)
		}
	}
}

func awaitedKeyRedriven(s *scene) {
	c := s.running()
	s.finish(await(c, 0, "a"), sojourn.Awaiting)
	s.cancel(c.Job.ID)
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.finish(snooze(s.claim(), time.Hour), sojourn.Scheduled)
	d := s.running()
	s.finish(await(d, 0, "a"), sojourn.Awaiting)
	s.became(s.respond("a"), sojourn.Applied, d.Job.ID)
	same(s, "kept by the other", s.get(c.Job.ID).Kept, 0)
}
