package storetest

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var capabilityTrials = []trial{
	{"a double click on a link", "A token answers one wait: once it has ended, the same token is stale, and the next wait of the attempt has another.",
		"tr:R4 tr:M1 rules:B7 spec:H6", linkTwice},
	{"a double click before the Await", "Of two answers by one token that are kept, the Await takes the first, and the other is stale at once.",
		"tr:M1 tr:M5 rules:B7", linkTwiceBefore},
	{"a double click on a link of a retry", "An answer by token that a waiting retry takes ends the wait that the token names.", "tr:M3 tr:M5 tr:R4 rules:B7 rules:B4", linkTwiceRetry},
	{"a link and a poll that answers", "The answer of a poll ends the wait that tokens name, and leaves those by key kept.", "tr:P2 tr:M5 tr:R4 rules:B7", linkAfterPoll},
	{"a link of a wait that goes on", "Steps that end without an answer keep the token: release, snooze, a lost poll step, a timeout while resumed.",
		"tr:R4 tr:F10 tr:F11 tr:W3 tr:W8 rules:B7", linkKept},
	{"progress by a link", "Progress by the token of a wait that has ended is stale too.", "tr:R4 tr:R6", linkProgress},
}

func linkTwice(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	s.became(s.respond("", token(c.Job.Token), body("yes")), sojourn.Applied, c.Job.ID)
	s.became(s.respond("", token(c.Job.Token), body("yes")), sojourn.Stale, c.Job.ID) // before the handler has run
	d := s.claim()
	s.became(s.respond("", token(c.Job.Token), body("yes")), sojourn.Stale, c.Job.ID) // while it runs
	s.became(s.respond("", token(d.Job.Token), body("soon")), sojourn.Early, c.Job.ID)
	if d.Job.Token == c.Job.Token {
		s.Fatal("the second question has the token of the first")
	}
	s.finish(await(d, 0), sojourn.Ready)
	e := s.claim()
	same(s, "the second answer", string(s.inHand(e).Body), "soon")
	s.finish(await(e, 0), sojourn.Awaiting)
	for _, old := range []driver.Claimed{c, d} {
		s.became(s.respond("", token(old.Job.Token), body("yes")), sojourn.Stale, c.Job.ID) // after the next question was asked
	}
	j := s.state(c.Job.ID, sojourn.Awaiting)
	same(s, "kept", j.Kept, 0)
	s.became(s.respond("", token(e.Job.Token), body("third")), sojourn.Applied, c.Job.ID)
	s.counters(c.Job.ID, 1, 0, 0)
}

func linkTwiceBefore(s *scene) {
	c := s.running(sojourn.Key("k"))
	first := s.respond("", token(c.Job.Token), body("yes"))
	second := s.respond("", token(c.Job.Token), body("no"))
	byKey := s.respond("k", body("by key"))
	s.lies(second.Seq, sojourn.Early)
	j := s.finish(await(c, 0), sojourn.Ready)
	same(s, "kept", j.Kept, 1)
	s.lies(first.Seq, sojourn.Applied)
	s.lies(second.Seq, sojourn.Stale)
	s.lies(byKey.Seq, sojourn.Early)
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "yes")
	s.finish(await(d, 0), sojourn.Ready)
	same(s, "the next answer", string(s.inHand(s.claim()).Body), "by key")
}

func linkTwiceRetry(s *scene) {
	c := s.running(sojourn.Key("k"), steady(time.Minute))
	first := s.respond("", token(c.Job.Token), body("yes"))
	second := s.respond("", token(c.Job.Token), body("yes"))
	s.finish(failure(c), sojourn.Ready)
	s.lies(first.Seq, sojourn.Applied)
	s.lies(second.Seq, sojourn.Stale)
	s.became(s.respond("", token(c.Job.Token)), sojourn.Stale, c.Job.ID) // the attempt has the number of the token still
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "yes")
	s.finish(await(d, 0), sojourn.Awaiting)
	s.became(s.respond("", token(d.Job.Token)), sojourn.Applied, c.Job.ID)
	s.cancel(c.Job.ID)
	// An unused response of an attempt is for the next Await, and ends with it.
	e := s.running(sojourn.Key("l"), policy(sojourn.Policy{LateResponse: sojourn.InboxLate}), steady(time.Minute))
	for range 2 {
		s.became(s.respond("", token(e.Job.Token)), sojourn.Early, e.Job.ID)
	}
	s.finish(failure(e), sojourn.Scheduled)
	s.advance(time.Minute)
	f := s.claim()
	same(s, "kept", s.finish(await(f, 0), sojourn.Ready).Kept, 0)
}

func linkAfterPoll(s *scene) {
	c := s.running(sojourn.Key("k"))
	s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"x", "y"}, Poll: every(10 * time.Second)}},
		sojourn.Awaiting)
	kept := s.respond("", token(c.Job.Token)) // by token it answers none of several keys
	byKey := s.respond("x")
	s.became(kept, sojourn.Early, c.Job.ID)
	s.advance(10 * time.Second)
	p := s.claim(polling)
	same(s, "the token of a poll step", p.Job.Token, c.Job.Token)
	same(s, "kept", s.finish(answers(p, "polled"), sojourn.Ready).Kept, 1)
	s.lies(kept.Seq, sojourn.Stale)
	s.lies(byKey.Seq, sojourn.Early)
	s.became(s.respond("", token(c.Job.Token)), sojourn.Stale, c.Job.ID)
	d := s.claim()
	s.finish(await(d, 0), sojourn.Awaiting)
	s.became(s.respond("", token(d.Job.Token)), sojourn.Applied, c.Job.ID)
}

func linkKept(s *scene) {
	c := s.underPoll("k", sojourn.Timeout(time.Hour))
	url := c.Job.Token
	s.swept(lease, driver.Swept{Lost: 1}) // the poll step
	s.state(c.Job.ID, sojourn.Awaiting)
	s.became(s.respond("", token(url)), sojourn.Applied, c.Job.ID)
	c = s.claim()
	url = c.Job.Token
	s.finish(released(c), sojourn.Ready)
	same(s, "the token after a release", s.claim().Job.Token, url)
	s.swept(lease, driver.Swept{Lost: 1}) // another attempt begins
	s.advance(time.Minute)
	d := s.claim()
	s.became(s.respond("", token(url)), sojourn.Stale, c.Job.ID)
	s.finish(snooze(d, time.Second), sojourn.Scheduled)
	s.advance(time.Second)
	e := s.claim()
	same(s, "the token after a snooze", e.Job.Token, d.Job.Token)
	s.finish(await(e, 0), sojourn.Awaiting)
	s.became(s.respond("", token(d.Job.Token)), sojourn.Applied, c.Job.ID)
	s.sweep()
	s.advance(2 * time.Hour)
	s.sweep() // resumed too long
	f := s.claim()
	same(s, "purpose", f.Purpose, sojourn.PurposeStart)
	s.became(s.respond("", token(e.Job.Token)), sojourn.Stale, c.Job.ID)
	s.finish(await(f, 0), sojourn.Awaiting)
	s.became(s.respond("", token(f.Job.Token)), sojourn.Applied, c.Job.ID)
}

func linkProgress(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	s.became(s.respond("", token(c.Job.Token), lively("half")), sojourn.Applied, c.Job.ID)
	s.became(s.respond("", token(c.Job.Token)), sojourn.Applied, c.Job.ID)
	d := s.claim()
	s.became(s.respond("", token(c.Job.Token), lively("late")), sojourn.Stale, c.Job.ID)
	same(s, "progress", s.get(c.Job.ID).Progress, "half")
	s.became(s.respond("", token(d.Job.Token), lively("all")), sojourn.Applied, c.Job.ID)
}
