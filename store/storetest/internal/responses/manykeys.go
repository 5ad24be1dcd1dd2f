package responses

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var manyKeysTrials = []kit.Trial{
	{Name: "await any of several keys", Law: "With WaitAny the first response under any of the keys ends the wait.",
		Covers: "tr:F5 tr:M1 rules:B10 rules:H4", Run: awaitAnyKeys},
	{Name: "await all of several keys", Law: "With WaitAll the wait ends with one response under each of the keys.",
		Covers: "tr:F5 tr:M1 rules:B10 rules:H4", Run: awaitAllKeys},
	{Name: "awaited keys belong to the job", Law: "An awaited key names its job, for enqueues and responses, until the job is final.",
		Covers: "tr:F5 tr:N5 rules:B10 inv:U1 inv:U2",
		Run:    awaitedKeysOwned},
	{Name: "await the key of another job", Law: "An Await of a key that another live job has is an error of the attempt, reason key_conflict, in that item only.",
		Covers: "rules:H5 tr:F6 rules:B10 inv:U1 inv:P4", Run: awaitConflict},
	{Name: "await its own key among others", Law: "A job may await its own key beside others, and the same keys again.",
		Covers: "tr:F5 rules:B10 inv:U1", Run: awaitOwnAmong},
	{Name: "an early answer under another of its keys", Law: "An Await attaches the early responses of all keys of its job, not only of those it waits for.",
		Covers: "tr:F5 rules:B9 inv:U4", Run: awaitEarlyOther},
	{Name: "await a key that is named twice", Law: "A key that is named twice needs one response.", Covers: "tr:F5 tr:M1 rules:B10", Run: awaitTwice},
	{Name: "an awaited key after its last job", Law: "An answer under an awaited key is late as long as any of the jobs that awaited it is stored, whichever of them goes first.",
		Covers: "tr:W10 tr:O8 rules:B5 rules:B10", Run: awaitedKeyOutlives},
	{Name: "an awaited key after a redrive", Law: "A job that was redriven is no earlier holder of the keys that it awaited before.",
		Covers: "tr:O3 rules:B10 inv:U1", Run: awaitedKeyRedriven},
	{Name: "rules:B10 half of the answers", Law: "A retry whose last wait needs all keys is not woken by some of them.",
		Covers: "tr:M3 rules:B10 tr:W4", Run: awaitAllHalf},
	{Name: "an error behind a discarded answer", Law: "When a person discards the first answer under a key, the next one counts: an error ends the wait, in the transaction of the discard.",
		Covers: "tr:M2 rules:B6 rules:B10 inv:U4", Run: awaitAllDiscarded},
}

func awaitAnyKeys(s *kit.Scene) {
	c := s.Running(sojourn.Key("own"))
	s.Finish(kit.Await(c, 0, "a", "b"), sojourn.Awaiting)
	s.Became(s.Respond("own"), sojourn.Early, c.Job.ID) // not waited for
	s.State(c.Job.ID, sojourn.Awaiting)
	s.Became(s.Respond("b", kit.Body("b")), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeResume)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "b")
	kit.Same(s, "its key", s.ClaimedResponse(d).Key, "b")
	left := s.Respond("a")
	s.Became(left, sojourn.Early, c.Job.ID)
	s.Finish(kit.Completed(d), sojourn.Completed)
	s.Stored(left.Seq, sojourn.Late)
}

func awaitAllKeys(s *kit.Scene) {
	early := s.Respond("b", kit.Body("b"))
	c := s.Running()
	s.Finish(kit.AwaitAll(c, 0, "a", "b", "c"), sojourn.Awaiting)
	s.Stored(early.Seq, sojourn.Early)
	s.Became(s.Respond("a", kit.Body("a")), sojourn.Early, c.Job.ID)
	s.Became(s.Respond("a", kit.Body("a again")), sojourn.Early, c.Job.ID)
	kit.Same(s, "kept", s.State(c.Job.ID, sojourn.Awaiting).Kept, 3)
	s.Became(s.Respond("c", kit.Body("c")), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	got := map[string]string{}
	for _, r := range d.Job.Responses {
		got[r.Key] = string(r.Body)
	}
	if len(d.Job.Responses) != 3 || got["a"] != "a" || got["b"] != "b" || got["c"] != "c" {
		s.Fatalf("the answers in hand are %v, want one for each key", got)
	}
	s.Stored(early.Seq, sojourn.Applied)
	kit.Same(s, "kept", s.Get(c.Job.ID).Kept, 1)
}

func awaitedKeysOwned(s *kit.Scene) {
	c := s.Running()
	s.Finish(kit.Await(c, 0, "a", "b"), sojourn.Awaiting)
	if e := s.Put(s.Job(sojourn.Key("a"))); e.ID != c.Job.ID || !e.Duplicate {
		s.Fatalf("an enqueue with an awaited key answered %+v, want the job that awaits it", e)
	}
	d := s.Running()
	s.Is(s.Save(driver.Saved{Lease: d.Lease, Key: "b"}), sojourn.ErrConflict, "SetKey of an awaited key")
	s.Respond("a")
	e := s.Claim()
	if x := s.Put(s.Job(sojourn.Key("b"))); !x.Duplicate {
		s.Fatalf("a key that was awaited is free while its job lives: %+v", x)
	}
	s.Finish(kit.Completed(e), sojourn.Completed)
	if x := s.Put(s.Job(sojourn.Key("a"))); x.Duplicate {
		s.Fatalf("an awaited key is still taken after the end of its job: %+v", x)
	}
}

func awaitConflict(s *kit.Scene) {
	other := s.Running(sojourn.Key("b"))
	good := s.Running(kit.Steady(time.Minute))
	bad := s.Running(kit.Steady(time.Minute))
	fs, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{kit.Await(bad, 0, "a", "b"), kit.Await(good, 0, "c")})
	s.Must(err, "Finish")
	for i, want := range []sojourn.State{sojourn.Scheduled, sojourn.Awaiting} {
		if fs[i].Status != driver.FinishApplied || fs[i].State != want {
			s.Fatalf("outcome %d was answered %+v, want applied, %s", i, fs[i], want)
		}
	}
	kit.Same(s, "reason", s.State(bad.Job.ID, sojourn.Scheduled).Reason, sojourn.ReasonKeyConflict)
	s.Counters(bad.Job.ID, 1, 1, 0)
	kit.Same(s, "reason in the history", s.History(bad.Job.ID)[0].Reason, sojourn.ReasonKeyConflict)
	s.Reports(kit.Await(bad, 0, "a", "b"), driver.FinishRepeated)
	s.Counters(bad.Job.ID, 1, 1, 0)
	s.InFlight(2, "the other two")
	s.Became(s.Respond("a"), sojourn.Early, 0) // the refused Await has taken no key
	s.Became(s.Respond("b"), sojourn.Early, other.Job.ID)
	last := s.Running(sojourn.MaxAttempts(1))
	s.Finish(kit.Await(last, 0, "b"), sojourn.Failed)
}

func awaitOwnAmong(s *kit.Scene) {
	c := s.Running(sojourn.Key("own"))
	s.Finish(kit.Await(c, 0, "own", "b"), sojourn.Awaiting)
	s.Became(s.Respond("own"), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	s.Finish(kit.Await(d, 0, "b", "own"), sojourn.Awaiting)
	s.Became(s.Respond("b"), sojourn.Applied, c.Job.ID)
	d = s.Claim()
	s.Finish(kit.Await(d, 0), sojourn.Awaiting) // the own key again
	s.Became(s.Respond("own"), sojourn.Applied, c.Job.ID)
	s.Counters(c.Job.ID, 1, 0, 0)
}

func awaitTwice(s *kit.Scene) {
	c := s.Running()
	s.Finish(kit.AwaitAll(c, 0, "a", "b", "a"), sojourn.Awaiting)
	s.Became(s.Respond("a"), sojourn.Early, c.Job.ID)
	s.Became(s.Respond("b"), sojourn.Applied, c.Job.ID)
	kit.Same(s, "answers", len(s.Claim().Job.Responses), 2)
}

func awaitAllHalf(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Minute))
	s.Finish(kit.AwaitAll(c, time.Hour, "a", "b"), sojourn.Awaiting)
	half := s.Respond("a", kit.Body("a"))
	s.Became(half, sojourn.Early, c.Job.ID)
	s.Swept(time.Hour, driver.Swept{TimedOut: 1})
	j := s.State(c.Job.ID, sojourn.Scheduled)
	kit.Same(s, "kept", j.Kept, 1)
	s.Became(s.Respond("b", kit.Body("b")), sojourn.Applied, c.Job.ID)
	j = s.State(c.Job.ID, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, false)
	d := s.Claim()
	kit.Same(s, "answers", len(d.Job.Responses), 2)
	s.Counters(c.Job.ID, 2, 1, 0)
	s.Stored(half.Seq, sojourn.Applied)
}

func awaitAllDiscarded(s *kit.Scene) {
	c := s.Running(kit.Steady(time.Minute))
	s.Finish(kit.AwaitAll(c, 0, "a", "b"), sojourn.Awaiting)
	good, bad := s.Respond("a"), s.Respond("a", kit.Failing("declined"))
	s.Became(good, sojourn.Early, c.Job.ID)
	s.Became(bad, sojourn.Early, c.Job.ID)
	kit.Same(s, "outcome", editInbox(s, rules.InboxEdit{Seq: good.Seq, Action: sojourn.InboxDiscard}).Outcome, sojourn.Discarded)
	j := s.State(c.Job.ID, sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, "declined")
	kit.Same(s, "kept", j.Kept, 0)
	s.At("run_at", j.RunAt, s.Now().Add(time.Minute))
	s.Counters(c.Job.ID, 1, 1, 0)
	s.InFlight(0, "after the error")
	s.Stored(good.Seq, sojourn.Discarded)
	s.Stored(bad.Seq, sojourn.Applied)
	s.Happened(c.Job.ID, "await", "responded")
}

func awaitEarlyOther(s *kit.Scene) {
	r := s.Respond("k", kit.Body("too soon"))
	s.Became(r, sojourn.Early, 0)
	c := s.Running(sojourn.Key("k"))
	kit.Same(s, "kept", s.Finish(kit.Await(c, 0, "x"), sojourn.Awaiting).Kept, 1)
	s.Became(s.Respond("x", kit.Body("asked for")), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	kit.Same(s, "in hand", string(s.ClaimedResponse(d).Body), "asked for")
	s.Finish(kit.Await(d, 0), sojourn.Ready) // its own key: the early one is there
	kit.Same(s, "in hand then", string(s.ClaimedResponse(s.Claim()).Body), "too soon")
}

func awaitedKeyOutlives(s *kit.Scene) {
	var jobs []sojourn.ID
	for range 3 {
		c := s.Running()
		s.Finish(kit.Await(c, 0, "a"), sojourn.Awaiting)
		s.Cancel(c.Job.ID)
		jobs = append(jobs, c.Job.ID)
	}
	s.Advance(sojourn.IDLife + time.Microsecond)
	for i, holder := range []sojourn.ID{jobs[1], jobs[1], 0} { // after the newest, the oldest and the last one are gone
		gone := jobs[[]int{2, 0, 1}[i]]
		if item := s.Edit(gone, sojourn.Edit{Action: sojourn.EditPurge}); !item.Changed {
			s.Fatalf("purge of job %d answered %+v", gone, item)
		}
		if holder == 0 {
			s.Became(s.Respond("a"), sojourn.Early, 0)
		} else {
			s.Became(s.Respond("a"), sojourn.Late, holder)
		}
	}
}

func awaitedKeyRedriven(s *kit.Scene) {
	c := s.Running()
	s.Finish(kit.Await(c, 0, "a"), sojourn.Awaiting)
	s.Cancel(c.Job.ID)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Finish(kit.Snooze(s.Claim(), time.Hour), sojourn.Scheduled)
	d := s.Running()
	s.Finish(kit.Await(d, 0, "a"), sojourn.Awaiting)
	s.Became(s.Respond("a"), sojourn.Applied, d.Job.ID)
	kit.Same(s, "kept by the other", s.Get(c.Job.ID).Kept, 0)
}
