package outcomes

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var historyTrials = []kit.Trial{
	{Name: "the history of a life", Law: "Each step and each change leaves one entry, numbered without gaps, with who, when, what and why.",
		Covers: "spec:J17 spec:X14 spec:R13 spec:J16 inv:S1 rules:E1 rules:A2", Run: historyOfLife},
	{Name: "a long history", Law: "A history keeps its order and its numbers over many steps.", Covers: "spec:J17 inv:S1", Run: historyLong},
	{Name: "the bound of a history", Law: "The first and the newest 100 entries of a history are kept; the entry behind a gap counts what was dropped.",
		Covers: "spec:J17 spec:X14 inv:S1", Run: historyBound},
	{Name: "a history page by page", Law: "Pages of a history give every entry once, in order.", Covers: "spec:X14", Run: historyPages},
	{Name: "updated_at", Law: "Every change sets updated_at, and nothing does after the end.", Covers: "spec:J14", Run: updatedAt},
}

func historyOfLife(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("k"), kit.Steady(time.Second), sojourn.Timeout(time.Hour))
	t0 := s.Now()
	tick := func() { s.Advance(time.Second) }
	c := s.Claim()
	tick()
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	tick()
	s.Claim(kit.By("w2"))
	s.Advance(kit.LeaseTime)
	s.Sweep()
	c = s.Claim(kit.By("w3"))
	tick()
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	tick()
	s.Respond("k")
	c = s.Claim(kit.By("w4"))
	tick()
	s.Finish(kit.Completed(c), sojourn.Completed)
	type entry struct {
		outcome string
		epoch   int64
		attempt int32
		purpose sojourn.Purpose
		worker  string
		state   sojourn.State
		began   time.Duration // since t0; 0 = not a step, except for the first
		ended   time.Duration
	}
	sec := time.Second
	want := []entry{
		{"error", 1, 1, sojourn.PurposeStart, "w1", sojourn.Scheduled, 0, sec},
		{"lost", 2, 2, sojourn.PurposeStart, "w2", sojourn.Ready, 2 * sec, 2*sec + kit.LeaseTime},
		{"await", 3, 3, sojourn.PurposeStart, "w3", sojourn.Awaiting, 2*sec + kit.LeaseTime, 3*sec + kit.LeaseTime},
		{"responded", 0, 3, sojourn.NoPurpose, "", sojourn.Ready, -1, 4*sec + kit.LeaseTime},
		{"completed", 4, 3, sojourn.PurposeResume, "w4", sojourn.Completed, 4*sec + kit.LeaseTime, 5*sec + kit.LeaseTime},
	}
	as := s.History(id)
	kit.Same(s, "entries", len(as), len(want))
	for i, a := range as {
		w := want[i]
		got := entry{a.Outcome, a.Epoch, a.Attempt, a.Purpose, a.Worker, a.State, w.began, a.EndedAt.Sub(t0)}
		kit.Same(s, "an entry", got, w)
		if w.began >= 0 {
			s.At("began_at", a.BeganAt, t0.Add(w.began))
		}
		kit.Same(s, "generation", a.Generation, 1)
	}
}

func historyLong(s *kit.Scene) {
	id := s.Enqueue(kit.Policy(sojourn.Policy{MaxAttempts: sojourn.Unlimited}))
	for range 100 {
		s.Finish(kit.Released(s.Claim()), sojourn.Ready)
	}
	want := strings.Fields(strings.Repeat("released ", 100))
	as := s.Happened(id, want...)
	kit.Same(s, "the last epoch", as[99].Epoch, 100)
}

func updatedAt(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("k"), kit.Steady(time.Second))
	changed := func(what string) {
		s.Helper()
		s.At("updated_at after "+what, s.Get(id).UpdatedAt, s.Now())
		s.Advance(time.Second)
	}
	changed("the enqueue")
	c := s.Claim()
	changed("a claim")
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	changed("an error")
	c = s.Claim()
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	changed("an await")
	s.Respond("k")
	changed("a response")
	c = s.Claim()
	s.Finish(kit.Completed(c), sojourn.Completed)
	at := s.Now()
	s.Advance(time.Hour)
	s.Respond("k")
	s.Sweep()
	s.At("updated_at after the end", s.Get(id).UpdatedAt, at)
}

// busy makes a job with so many entries in its history.
func busy(s *kit.Scene, entries int) sojourn.ID {
	s.Helper()
	id := s.Enqueue()
	for i := range entries {
		p := int32(i)
		s.Edit(id, sojourn.Edit{Action: sojourn.EditChange, By: fmt.Sprint("change ", i+1), Priority: &p})
	}
	return id
}

// holdsHistory wants the history to be the first entry and the newest ones up to last, and to count
// the dropped entries.
func holdsHistory(s *kit.Scene, id sojourn.ID, last int32) []sojourn.HistoryEntry {
	s.Helper()
	h := s.History(id)
	want := min(int(last), sojourn.MaxHistory+1)
	if len(h) != want || h[0].Seq != 1 || h[want-1].Seq != last {
		s.Fatalf("the history has %d entries, from %d to %d, want %d, from 1 to %d", len(h), h[0].Seq, h[len(h)-1].Seq, want, last)
	}
	if dropped := last - int32(want); h[1].Dropped != dropped {
		s.Fatalf("the second entry counts %d as dropped, want %d", h[1].Dropped, dropped)
	}
	return h
}

func historyBound(s *kit.Scene) {
	const bound = sojourn.MaxHistory + 1
	id := busy(s, bound)
	holdsHistory(s, id, bound)
	c := s.Claim()
	o := kit.Snooze(c, time.Minute)
	s.Finish(o, sojourn.Scheduled)
	holdsHistory(s, id, bound+1)
	kit.Same(s, "the first", s.History(id)[0].By, "change 1")
	s.Reports(o, driver.FinishRepeated) // the remaining entries still answer a repeated call
	s.Advance(time.Minute)
	for range 3 {
		c = s.Claim()
		s.Finish(kit.Released(c), sojourn.Ready)
	}
	o = kit.Abort(s.Claim())
	s.Finish(o, sojourn.Failed)
	holdsHistory(s, id, bound+5)
	s.Reports(o, driver.FinishRepeated)
	s.Edited(id, kit.RedriveEdit, sojourn.Ready)
	h := holdsHistory(s, id, bound+6)
	kit.Same(s, "the newest", h[len(h)-1].Outcome, "redriven")
	kit.Same(s, "the one before", h[len(h)-2].Outcome, "abort")
	o = kit.Completed(s.Claim())
	s.Finish(o, sojourn.Completed)
	holdsHistory(s, id, bound+7)
	s.Reports(o, driver.FinishRepeated)
}

func historyPages(s *kit.Scene) {
	id := busy(s, sojourn.MaxHistory+20)
	whole := s.History(id)
	var got []sojourn.HistoryEntry
	for after := int32(0); ; after = got[len(got)-1].Seq {
		page, err := s.Store.History(s.Ctx, id, after, 17)
		s.Must(err, "History")
		if got = append(got, page...); len(page) < 17 {
			break
		}
	}
	kit.Same(s, "the pages", kit.Text(got), kit.Text(whole))
	page, err := s.Store.History(s.Ctx, id, 0, 0)
	s.Must(err, "History")
	kit.Same(s, "the default limit", len(page), 100)
	for _, bad := range []struct {
		after int32
		limit int
	}{{-1, 0}, {0, -1}, {0, sojourn.MaxFind + 1}} {
		_, err := s.Store.History(s.Ctx, id, bad.after, bad.limit)
		s.Refused(err, sojourn.CodeInvalid, "a bad page")
	}
	_, err = s.Store.History(s.Ctx, 1<<40, 0, 0)
	s.Is(err, sojourn.ErrNotFound, "the history of an unknown job")
}
