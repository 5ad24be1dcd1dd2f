package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

var addressTrials = []trial{
	{"respond by id", "A response may name its job by id, in every state.", "tr:R5 tr:R3 spec:H1", respondByID},
	{"respond by token", "A token answers the wait it was given to, and nothing else.", "tr:R5 tr:R4 spec:H1 spec:H6 rules:B7", respondByToken},
	{"rules:B7 a token outlives a step", "A token names (id, generation, attempt, wait): snooze and release keep it.", "tr:R4 rules:B7 spec:H6", tokenSurvives},
	{"a stale token", "A token of an earlier attempt or generation is stale: recorded, and nothing changes.", "tr:R4 rules:B7 spec:H6", tokenStale},
	{"a token that has expired", "A token with a time is good until then, by the store's clock, and stale after it: recorded, and nothing changes.", "tr:R4 spec:H6", tokenExpires},
	{"a token that nobody gave out", "A forged or broken token is refused and nothing is stored.", "tr:R4 spec:A16", tokenForged},
	{"respond refuses bad input", "A malformed response is refused with a code, and the whole call with it.", "spec:A3 spec:A16 inv:N3", respondBad},
}

func respondByID(s *scene) {
	id := s.enqueue(sojourn.Key("k"))
	s.became(s.respond("", toJob(id), body("1")), sojourn.Early, id)
	c := s.claim()
	s.became(s.respond("k", body("2")), sojourn.Early, id)
	s.finish(await(c, 0), sojourn.Ready)
	c = s.claim()
	same(s, "the answer", string(s.inHand(c).Body), "1")
	s.finish(await(c, 0), sojourn.Ready)
	c = s.claim()
	same(s, "the answer", string(s.inHand(c).Body), "2")
	s.finish(await(c, 0), sojourn.Awaiting)
	s.became(s.respond("", toJob(id), failing("no")), sojourn.Applied, id)
	s.cancel(id)
	s.became(s.respond("", toJob(id)), sojourn.Late, id)
	// The id names the job, not the key: a new live job of the key is not meant.
	fresh := s.enqueue(sojourn.Key("k"))
	s.became(s.respond("", toJob(id)), sojourn.Late, id)
	same(s, "kept by the new job", s.state(fresh, sojourn.Ready).Kept, 0)
}

func respondByToken(s *scene) {
	c := s.running()
	if c.Job.Token == "" {
		s.Fatal("the claimed job has no token")
	}
	s.became(s.respond("", token(c.Job.Token), body("early")), sojourn.Early, c.Job.ID)
	s.finish(await(c, 0), sojourn.Ready)
	d := s.claim()
	same(s, "the answer", string(s.inHand(d).Body), "early")
	s.finish(await(d, 0), sojourn.Awaiting)
	s.became(s.respond("", token(d.Job.Token)), sojourn.Applied, c.Job.ID)
	other := s.running(ofKind("refund"))
	if other.Job.Token == c.Job.Token {
		s.Fatal("two jobs have one token")
	}
	s.finish(completed(other), sojourn.Completed)
	s.became(s.respond("", token(other.Job.Token)), sojourn.Late, other.Job.ID)
}

func tokenSurvives(s *scene) {
	c := s.running(sojourn.Key("k"))
	url := c.Job.Token
	s.finish(released(c), sojourn.Ready)
	c = s.claim(by("w2"))
	same(s, "the token after a release", c.Job.Token, url)
	s.finish(snooze(c, time.Second), sojourn.Scheduled)
	s.advance(time.Second)
	c = s.claim()
	same(s, "the token after a snooze", c.Job.Token, url)
	s.finish(await(c, 0), sojourn.Awaiting)
	s.became(s.respond("", token(url)), sojourn.Applied, c.Job.ID)
}

func tokenStale(s *scene) {
	c := s.retrying(sojourn.Key("k"))
	old := c.Job.Token
	s.advance(10 * time.Second)
	d := s.claim()
	if d.Job.Token == old {
		s.Fatal("the second attempt has the token of the first")
	}
	before := s.get(c.Job.ID)
	for range 2 {
		stale := s.became(s.respond("", token(old)), sojourn.Stale, c.Job.ID)
		same(s, "the job shown", stale.Job, c.Job.ID)
	}
	s.became(s.respond("", token(old), failing("no")), sojourn.Stale, c.Job.ID)
	same(s, "the job", text(s.get(c.Job.ID)), text(before))
	s.finish(await(d, 0), sojourn.Awaiting)
	s.became(s.respond("", token(old)), sojourn.Stale, c.Job.ID)
	s.state(c.Job.ID, sojourn.Awaiting)
	s.cancel(c.Job.ID)
	s.edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	e := s.claim()
	same(s, "attempt", e.Job.Attempt, 1)
	s.became(s.respond("", token(old)), sojourn.Stale, c.Job.ID) // the same attempt number, another generation
	s.became(s.respond("", token(e.Job.Token)), sojourn.Early, c.Job.ID)
}

func tokenExpires(s *scene) {
	c := s.running(sojourn.Key("k"))
	narrow, err := access.Expiring(c.Job.Token, s.now().Add(time.Minute))
	s.must(err, "ExpiringToken")
	s.finish(await(c, time.Hour), sojourn.Awaiting)
	s.advance(59 * time.Second)
	s.became(s.respond("", token(narrow)), sojourn.Applied, c.Job.ID)
	c = s.claim()
	narrow, err = access.Expiring(c.Job.Token, s.now().Add(time.Second))
	s.must(err, "ExpiringToken")
	s.finish(await(c, time.Hour), sojourn.Awaiting)
	s.advance(time.Second)
	before := s.get(c.Job.ID)
	s.became(s.respond("", token(narrow)), sojourn.Stale, c.Job.ID)
	same(s, "the job", text(s.get(c.Job.ID)), text(before))
	s.became(s.respond("", token(c.Job.Token)), sojourn.Applied, c.Job.ID) // the one without a time still stands
	s.cancel(c.Job.ID)
	s.became(s.respond("", token(narrow)), sojourn.Late, c.Job.ID)
}

func tokenForged(s *scene) {
	c := s.awaiting()
	good := c.Job.Token
	parts := strings.Split(good, ".")
	narrow, err := access.Expiring(good, s.now().Add(time.Minute))
	s.must(err, "ExpiringToken")
	later := strings.Split(narrow, ".")
	later[4] += "0"
	forged := []string{"garbage", strings.Join(later, "."), "1.2.3.4.5", strings.Join(slices.Delete(strings.Split(good, "."), 3, 4), "."), good + "x", strings.Replace(good, parts[0]+".", "9"+parts[0]+".", 1), strings.ToUpper(good) + ".", "....",
		strings.Repeat("1", 300)}
	for _, f := range forged {
		_, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("ok"), s.answer("", token(f))})
		s.refused(err, sojourn.CodeInvalid, "the token "+f)
	}
	same(s, "responses stored", len(s.inbox(sojourn.InboxFilter{})), 0)
	s.state(c.Job.ID, sojourn.Awaiting)
}

func respondBad(s *scene) {
	s.open(options{MaxBytes: 1000})
	c := s.awaiting(sojourn.Key("k"))
	for what, spoil := range inOrder(map[string]mark{
		"no address":            toJob(0),
		"two addresses":         func(r *sojourn.Response) { r.Job = c.Job.ID },
		"no kind":               func(r *sojourn.Response) { r.Kind = "" },
		"bad kind":              func(r *sojourn.Response) { r.Kind = "a b" },
		"bad key":               func(r *sojourn.Response) { r.Key = "a\x00" },
		"long key":              func(r *sojourn.Response) { r.Key = strings.Repeat("k", sojourn.MaxKey+1) },
		"negative job":          toJob(-1),
		"long message id":       func(r *sojourn.Response) { r.MessageID = strings.Repeat("m", sojourn.MaxKey+1) },
		"control characters":    func(r *sojourn.Response) { r.Source = "a\nb" },
		"an id beyond any":      toJob(1 << 53),
		"a message id with NUL": func(r *sojourn.Response) { r.MessageID = "\x00" },
	}) {
		_, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("k"), s.answer("k", spoil)})
		s.refused(err, sojourn.CodeInvalid, what)
	}
	_, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("k"), s.answer("k", body(strings.Repeat("x", 1001)))})
	s.refused(err, sojourn.CodeTooLarge, "a body above the limit")
	_, err = s.store.Respond(s.ctx, make([]sojourn.Response, sojourn.MaxBatch+1))
	s.refused(err, sojourn.CodeInvalid, "1,001 responses")
	same(s, "responses stored", len(s.inbox(sojourn.InboxFilter{})), 0)
	s.state(c.Job.ID, sojourn.Awaiting)
	s.became(s.respond("k", body(strings.Repeat("x", 1000))), sojourn.Applied, c.Job.ID)
}
