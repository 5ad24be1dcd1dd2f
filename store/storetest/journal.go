package storetest

import (
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

var historyTrials = []trial{
	{"the history of a life", "Each step and each change leaves one entry, numbered without gaps, with who, when, what and why.",
		"spec:J17 spec:X14 spec:R13 spec:J16 inv:S1 rules:E1 rules:A2", historyOfLife},
	{"a long history", "A history keeps its order and its numbers over many steps.", "spec:J17 inv:S1", historyLong},
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
	for range 150 {
		s.finish(released(s.claim()), sojourn.Ready)
	}
	want := strings.Fields(strings.Repeat("released ", 150))
	as := s.happened(id, want...)
	same(s, "the last epoch", as[149].Epoch, 150)
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
