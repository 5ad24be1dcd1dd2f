package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var historyTrials = []trial{
	{"the history of a life", "Each step and each change leaves one entry, numbered without gaps, with who, when, what and why.",
		"spec:J17 spec:X14 spec:R13 spec:J16 inv:S1 rules:E1 rules:A2", historyOfLife},
	{"a long history", "A history keeps its order and its numbers over many steps.", "spec:J17 inv:S1", historyLong},
	{"the bound of a history", "The first and the newest 100 entries of a history are kept; the entry behind a gap counts what was dropped.", "spec:J17 spec:X14 inv:S1", historyBound},
	{"a history page by page", "Pages of a history give every entry once, in order.", "spec:X14", historyPages},
	{"updated_at", "Every change sets updated_at, and nothing does after the end.", "spec:J14", updatedAt},
}

func historyOfLife(s *scene) {
	id := s.enqueue(sojourn.Key("k"), steady(time.Second), sojourn.Timeout(time.Hour))
	t0 := s.now()
	tick := func() { s.advance(time.Second) }
	c := s.claim()
	tick()
	s.finish(failure(c), sojourn.Scheduled)
	tick()
	s.claim(by("w2"))
	s.advance(lease)
	s.sweep()
	c = s.claim(by("w3"))
	tick()
	s.finish(await(c, 0), sojourn.Awaiting)
	tick()
	s.respond("k")
	c = s.claim(by("w4"))
	tick()
	s.finish(completed(c), sojourn.Completed)
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
		{"lost", 2, 2, sojourn.PurposeStart, "w2", sojourn.Ready, 2 * sec, 2*sec + lease},
		{"await", 3, 3, sojourn.PurposeStart, "w3", sojourn.Awaiting, 2*sec + lease, 3*sec + lease},
		{"responded", 0, 3, sojourn.NoPurpose, "", sojourn.Ready, -1, 4*sec + lease},
		{"completed", 4, 3, sojourn.PurposeResume, "w4", sojourn.Completed, 4*sec + lease, 5*sec + lease},
	}
	as := s.history(id)
	same(s, "entries", len(as), len(want))
	for i, a := range as {
		w := want[i]
		got := entry{a.Outcome, a.Epoch, a.Attempt, a.Purpose, a.Worker, a.State, w.began, a.EndedAt.Sub(t0)}
		same(s, "an entry", got, w)
		if w.began >= 0 {
			s.at("began_at", a.BeganAt, t0.Add(w.began))
		}
		same(s, "generation", a.Generation, 1)
	}
}

func historyLong(s *scene) {
	id := s.enqueue(policy(sojourn.Policy{MaxAttempts: sojourn.Unlimited}))
	for range 100 {
		s.finish(released(s.claim()), sojourn.Ready)
	}
	want := strings.Fields(strings.Repeat("released ", 100))
	as := s.happened(id, want...)
	same(s, "the last epoch", as[99].Epoch, 100)
}

func updatedAt(s *scene) {
	id := s.enqueue(sojourn.Key("k"), steady(time.Second))
	changed := func(what string) {
		s.Helper()
		s.at("updated_at after "+what, s.get(id).UpdatedAt, s.now())
		s.advance(time.Second)
	}
	changed("the enqueue")
	c := s.claim()
	changed("a claim")
	s.finish(failure(c), sojourn.Scheduled)
	changed("an error")
	c = s.claim()
	s.finish(await(c, 0), sojourn.Awaiting)
	changed("an await")
	s.respond("k")
	changed("a response")
	c = s.claim()
	s.finish(completed(c), sojourn.Completed)
	at := s.now()
	s.advance(time.Hour)
	s.respond("k")
	s.sweep()
	s.at("updated_at after the end", s.get(id).UpdatedAt, at)
}

// busy makes a job with so many entries in its history.
func (s *scene) busy(entries int) sojourn.ID {
	s.Helper()
	id := s.enqueue()
	for i := range entries {
		p := int32(i)
		s.edit(id, sojourn.Edit{Action: sojourn.EditChange, By: fmt.Sprint("change ", i+1), Change: sojourn.Change{Priority: &p}})
	}
	return id
}

// holdsHistory wants the history to be the first entry and the newest ones up to last, and to count
// the dropped entries.
func (s *scene) holdsHistory(id sojourn.ID, last int32) []sojourn.Attempt {
	s.Helper()
	h := s.history(id)
	want := min(int(last), sojourn.MaxHistory+1)
	if len(h) != want || h[0].Seq != 1 || h[want-1].Seq != last {
		s.Fatalf("the history has %d entries, from %d to %d, want %d, from 1 to %d", len(h), h[0].Seq, h[len(h)-1].Seq, want, last)
	}
	if dropped := last - int32(want); h[1].Dropped != dropped {
		s.Fatalf("the second entry counts %d as dropped, want %d", h[1].Dropped, dropped)
	}
	return h
}

func historyBound(s *scene) {
	const bound = sojourn.MaxHistory + 1
	id := s.busy(bound)
	s.holdsHistory(id, bound)
	c := s.claim()
	o := snooze(c, time.Minute)
	s.finish(o, sojourn.Scheduled)
	s.holdsHistory(id, bound+1)
	same(s, "the first", s.history(id)[0].By, "change 1")
	s.reports(o, driver.FinishRepeated) // the remaining entries still answer a repeated call
	s.advance(time.Minute)
	for range 3 {
		c = s.claim()
		s.finish(released(c), sojourn.Ready)
	}
	o = abort(s.claim())
	s.finish(o, sojourn.Failed)
	s.holdsHistory(id, bound+5)
	s.reports(o, driver.FinishRepeated)
	s.edited(id, redriveEdit, sojourn.Ready)
	h := s.holdsHistory(id, bound+6)
	same(s, "the newest", h[len(h)-1].Outcome, "redriven")
	same(s, "the one before", h[len(h)-2].Outcome, "abort")
	o = completed(s.claim())
	s.finish(o, sojourn.Completed)
	s.holdsHistory(id, bound+7)
	s.reports(o, driver.FinishRepeated)
}

func historyPages(s *scene) {
	id := s.busy(sojourn.MaxHistory + 20)
	whole := s.history(id)
	var got []sojourn.Attempt
	for after := int32(0); ; after = got[len(got)-1].Seq {
		page, err := s.store.History(s.ctx, id, after, 17)
		s.must(err, "History")
		if got = append(got, page...); len(page) < 17 {
			break
		}
	}
	same(s, "the pages", text(got), text(whole))
	page, err := s.store.History(s.ctx, id, 0, 0)
	s.must(err, "History")
	same(s, "the default limit", len(page), 100)
	for _, bad := range []struct {
		after int32
		limit int
	}{{-1, 0}, {0, -1}, {0, sojourn.MaxFind + 1}} {
		_, err := s.store.History(s.ctx, id, bad.after, bad.limit)
		s.refused(err, sojourn.CodeInvalid, "a bad page")
	}
	_, err = s.store.History(s.ctx, 1<<40, 0, 0)
	s.is(err, sojourn.ErrNotFound, "the history of an unknown job")
}
