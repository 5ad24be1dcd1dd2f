package responses

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var capabilityTrials = []kit.Trial{
	{Name: "a double click on a link", Law: "A token answers one wait: once it has ended, the same token is stale, and the next wait of the attempt has another.",
		Covers: "tr:R4 tr:M1 rules:B7 spec:H6", Run: linkTwice},
	{Name: "a double click before the Await", Law: "Of two answers by one token that are kept, the Await takes the first, and the other is stale at once.",
		Covers: "tr:M1 tr:M5 rules:B7", Run: linkTwiceBefore},
	{Name: "a double click on a link of a retry", Law: "An answer by token that a waiting retry takes ends the wait that the token names.",
		Covers: "tr:M3 tr:M5 tr:R4 rules:B7 rules:B4", Run: linkTwiceRetry},
	{Name: "a link and a poll that answers", Law: "The answer of a poll ends the wait that tokens name, and leaves those by key kept.",
		Covers: "tr:P2 tr:M5 tr:R4 rules:B7", Run: linkAfterPoll},
	{Name: "a link of a wait that goes on", Law: "Steps that end without an answer keep the token: release, snooze, a lost poll step, a timeout while resumed.",
		Covers: "tr:R4 tr:F10 tr:F11 tr:W3 tr:W8 rules:B7", Run: linkKept},
	{Name: "progress by a link", Law: "Progress by the token of a wait that has ended is stale too.", Covers: "tr:R4 tr:R6", Run: linkProgress},
}

func linkTwice(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Body("yes")), sojourn.Applied, c.Job.ID)
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Body("yes")), sojourn.Stale, c.Job.ID) // before the handler has run
	d := s.Claim()
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Body("yes")), sojourn.Stale, c.Job.ID) // while it runs
	s.Became(s.Respond("", kit.Token(d.Job.Token), kit.Body("soon")), sojourn.Early, c.Job.ID)
	if d.Job.Token == c.Job.Token {
		s.Fatal("the second question has the token of the first")
	}
	s.Finish(kit.Await(d, 0), sojourn.Ready)
	e := s.Claim()
	kit.Same(s, "the second answer", string(s.ClaimedResponse(e).Body), "soon")
	s.Finish(kit.Await(e, 0), sojourn.Awaiting)
	for _, old := range []driver.Claimed{c, d} {
		s.Became(s.Respond("", kit.Token(old.Job.Token), kit.Body("yes")), sojourn.Stale, c.Job.ID) // after the next question was asked
	}
	j := s.State(c.Job.ID, sojourn.Awaiting)
	kit.Same(s, "kept", j.Kept, 0)
	s.Became(s.Respond("", kit.Token(e.Job.Token), kit.Body("third")), sojourn.Applied, c.Job.ID)
	s.Counters(c.Job.ID, 1, 0, 0)
}

func linkTwiceBefore(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	first := s.Respond("", kit.Token(c.Job.Token), kit.Body("yes"))
	second := s.Respond("", kit.Token(c.Job.Token), kit.Body("no"))
	byKey := s.Respond("k", kit.Body("by key"))
	s.Stored(second.Seq, sojourn.Early)
	j := s.Finish(kit.Await(c, 0), sojourn.Ready)
	kit.Same(s, "kept", j.Kept, 1)
	s.Stored(first.Seq, sojourn.Applied)
	s.Stored(second.Seq, sojourn.Stale)
	s.Stored(byKey.Seq, sojourn.Early)
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "yes")
	s.Finish(kit.Await(d, 0), sojourn.Ready)
	kit.Same(s, "the next answer", string(s.ClaimedResponse(s.Claim()).Body), "by key")
}

func linkTwiceRetry(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"), kit.Steady(time.Minute))
	first := s.Respond("", kit.Token(c.Job.Token), kit.Body("yes"))
	second := s.Respond("", kit.Token(c.Job.Token), kit.Body("yes"))
	s.Finish(kit.Failure(c), sojourn.Ready)
	s.Stored(first.Seq, sojourn.Applied)
	s.Stored(second.Seq, sojourn.Stale)
	s.Became(s.Respond("", kit.Token(c.Job.Token)), sojourn.Stale, c.Job.ID) // the attempt has the number of the token still
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "yes")
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(d.Job.Token)), sojourn.Applied, c.Job.ID)
	s.Cancel(c.Job.ID)
	// An unused response of an attempt is for the next Await, and ends with it.
	e := s.Running(sojourn.Key("l"), kit.Policy(sojourn.Policy{LateToInbox: new(true)}), kit.Steady(time.Minute))
	for range 2 {
		s.Became(s.Respond("", kit.Token(e.Job.Token)), sojourn.Early, e.Job.ID)
	}
	s.Finish(kit.Failure(e), sojourn.Scheduled)
	s.Advance(time.Minute)
	f := s.Claim()
	kit.Same(s, "kept", s.Finish(kit.Await(f, 0), sojourn.Ready).Kept, 0)
}

func linkAfterPoll(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"x", "y"}, Poll: kit.Every(10 * time.Second)}},
		sojourn.Awaiting)
	kept := s.Respond("", kit.Token(c.Job.Token)) // by token it answers none of several keys
	byKey := s.Respond("x")
	s.Became(kept, sojourn.Early, c.Job.ID)
	s.Advance(10 * time.Second)
	p := s.Claim(kit.Polling)
	kit.Same(s, "the token of a poll step", p.Job.Token, c.Job.Token)
	kit.Same(s, "kept", s.Finish(kit.Answers(p, "polled"), sojourn.Ready).Kept, 1)
	s.Stored(kept.Seq, sojourn.Stale)
	s.Stored(byKey.Seq, sojourn.Early)
	s.Became(s.Respond("", kit.Token(c.Job.Token)), sojourn.Stale, c.Job.ID)
	d := s.Claim()
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(d.Job.Token)), sojourn.Applied, c.Job.ID)
}

func linkKept(s *kit.Scene) {
	c := s.UnderPoll("k", sojourn.Timeout(time.Hour))
	url := c.Job.Token
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1}) // the poll step
	s.State(c.Job.ID, sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(url)), sojourn.Applied, c.Job.ID)
	c = s.Claim()
	url = c.Job.Token
	s.Finish(kit.Released(c), sojourn.Ready)
	kit.Same(s, "the token after a release", s.Claim().Job.Token, url)
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1}) // another attempt begins
	s.Advance(time.Minute)
	d := s.Claim()
	s.Became(s.Respond("", kit.Token(url)), sojourn.Stale, c.Job.ID)
	s.Finish(kit.Snooze(d, time.Second), sojourn.Scheduled)
	s.Advance(time.Second)
	e := s.Claim()
	kit.Same(s, "the token after a snooze", e.Job.Token, d.Job.Token)
	s.Finish(kit.Await(e, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(d.Job.Token)), sojourn.Applied, c.Job.ID)
	s.Sweep()
	s.Advance(2 * time.Hour)
	s.Sweep() // resumed too long
	f := s.Claim()
	kit.Same(s, "purpose", f.Purpose, sojourn.PurposeStart)
	s.Became(s.Respond("", kit.Token(e.Job.Token)), sojourn.Stale, c.Job.ID)
	s.Finish(kit.Await(f, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(f.Job.Token)), sojourn.Applied, c.Job.ID)
}

func linkProgress(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Progress("half")), sojourn.Applied, c.Job.ID)
	s.Became(s.Respond("", kit.Token(c.Job.Token)), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Progress("late")), sojourn.Stale, c.Job.ID)
	kit.Same(s, "progress", s.Get(c.Job.ID).Progress, "half")
	s.Became(s.Respond("", kit.Token(d.Job.Token), kit.Progress("all")), sojourn.Applied, c.Job.ID)
}
