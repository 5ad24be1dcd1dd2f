package responses

import (
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var addressTrials = []kit.Trial{
	{Name: "respond by id", Law: "A response may name its job by id, in every state.", Covers: "tr:R5 tr:R3 spec:H1", Run: respondByID},
	{Name: "respond by token", Law: "A token answers the wait it was given to, and nothing else.", Covers: "tr:R5 tr:R4 spec:H1 spec:H6 rules:B7", Run: respondByToken},
	{Name: "rules:B7 a token outlives a step", Law: "A token names (id, generation, attempt, wait): snooze and release keep it.",
		Covers: "tr:R4 rules:B7 spec:H6", Run: tokenSurvives},
	{Name: "a stale token", Law: "A token of an earlier attempt or generation is stale: recorded, and nothing changes.",
		Covers: "tr:R4 rules:B7 spec:H6", Run: tokenStale},
	{Name: "a token that has expired", Law: "A token with a time is good until then, by the store's clock, and stale after it: recorded, and nothing changes.",
		Covers: "tr:R4 spec:H6", Run: tokenExpires},
	{Name: "a token that nobody gave out", Law: "A forged or broken token is refused and nothing is stored.", Covers: "tr:R4 spec:A16", Run: tokenForged},
	{Name: "respond refuses bad input", Law: "A malformed response is refused with a code, and the whole call with it.",
		Covers: "spec:A3 spec:A16 inv:N3", Run: respondBad},
}

func respondByID(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("k"))
	s.Became(s.Respond("", kit.ToJob(id), kit.Body("1")), sojourn.Early, id)
	c := s.Claim()
	s.Became(s.Respond("k", kit.Body("2")), sojourn.Early, id)
	s.Finish(kit.Await(c, 0), sojourn.Ready)
	c = s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(c).Body), "1")
	s.Finish(kit.Await(c, 0), sojourn.Ready)
	c = s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(c).Body), "2")
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.ToJob(id), kit.Failing("no")), sojourn.Applied, id)
	s.Cancel(id)
	s.Became(s.Respond("", kit.ToJob(id)), sojourn.Late, id)
	// The id names the job, not the key: a new live job of the key is not meant.
	fresh := s.Enqueue(sojourn.Key("k"))
	s.Became(s.Respond("", kit.ToJob(id)), sojourn.Late, id)
	kit.Same(s, "kept by the new job", s.State(fresh, sojourn.Ready).Kept, 0)
}

func respondByToken(s *kit.Scene) {
	c := s.Running()
	if c.Job.Token == "" {
		s.Fatal("the claimed job has no token")
	}
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Body("early")), sojourn.Early, c.Job.ID)
	s.Finish(kit.Await(c, 0), sojourn.Ready)
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "early")
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(d.Job.Token)), sojourn.Applied, c.Job.ID)
	other := s.Running(kit.OfKind("refund"))
	if other.Job.Token == c.Job.Token {
		s.Fatal("two jobs have one token")
	}
	s.Finish(kit.Completed(other), sojourn.Completed)
	s.Became(s.Respond("", kit.Token(other.Job.Token)), sojourn.Late, other.Job.ID)
}

func tokenSurvives(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	url := c.Job.Token
	s.Finish(kit.Released(c), sojourn.Ready)
	c = s.Claim(kit.By("w2"))
	kit.Same(s, "the token after a release", c.Job.Token, url)
	s.Finish(kit.Snooze(c, time.Second), sojourn.Scheduled)
	s.Advance(time.Second)
	c = s.Claim()
	kit.Same(s, "the token after a snooze", c.Job.Token, url)
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(url)), sojourn.Applied, c.Job.ID)
}

func tokenStale(s *kit.Scene) {
	c := s.Retrying(sojourn.Key("k"))
	old := c.Job.Token
	s.Advance(10 * time.Second)
	d := s.Claim()
	if d.Job.Token == old {
		s.Fatal("the second attempt has the token of the first")
	}
	before := s.Get(c.Job.ID)
	for range 2 {
		stale := s.Became(s.Respond("", kit.Token(old)), sojourn.Stale, c.Job.ID)
		kit.Same(s, "the job shown", stale.Job, c.Job.ID)
	}
	s.Became(s.Respond("", kit.Token(old), kit.Failing("no")), sojourn.Stale, c.Job.ID)
	kit.Same(s, "the job", kit.Text(s.Get(c.Job.ID)), kit.Text(before))
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(old)), sojourn.Stale, c.Job.ID)
	s.State(c.Job.ID, sojourn.Awaiting)
	s.Cancel(c.Job.ID)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	e := s.Claim()
	kit.Same(s, "attempt", e.Job.Attempt, 1)
	s.Became(s.Respond("", kit.Token(old)), sojourn.Stale, c.Job.ID) // the same attempt number, another generation
	s.Became(s.Respond("", kit.Token(e.Job.Token)), sojourn.Early, c.Job.ID)
}

func tokenExpires(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	narrow, err := access.Expiring(c.Job.Token, s.Now().Add(time.Minute))
	s.Must(err, "ExpiringToken")
	s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
	s.Advance(59 * time.Second)
	s.Became(s.Respond("", kit.Token(narrow)), sojourn.Applied, c.Job.ID)
	c = s.Claim()
	narrow, err = access.Expiring(c.Job.Token, s.Now().Add(time.Second))
	s.Must(err, "ExpiringToken")
	s.Finish(kit.Await(c, time.Hour), sojourn.Awaiting)
	s.Advance(time.Second)
	before := s.Get(c.Job.ID)
	s.Became(s.Respond("", kit.Token(narrow)), sojourn.Stale, c.Job.ID)
	kit.Same(s, "the job", kit.Text(s.Get(c.Job.ID)), kit.Text(before))
	s.Became(s.Respond("", kit.Token(c.Job.Token)), sojourn.Applied, c.Job.ID) // the one without a time still stands
	s.Cancel(c.Job.ID)
	s.Became(s.Respond("", kit.Token(narrow)), sojourn.Late, c.Job.ID)
}

func tokenForged(s *kit.Scene) {
	c := s.Awaiting()
	good := c.Job.Token
	parts := strings.Split(good, ".")
	narrow, err := access.Expiring(good, s.Now().Add(time.Minute))
	s.Must(err, "ExpiringToken")
	later := strings.Split(narrow, ".")
	later[4] += "0"
	forged := []string{"garbage", strings.Join(later, "."), "1.2.3.4.5", strings.Join(slices.Delete(strings.Split(good, "."), 3, 4), "."), good + "x", strings.Replace(good, parts[0]+".", "9"+parts[0]+".", 1), strings.ToUpper(good) + ".", "....",
		strings.Repeat("1", 300)}
	for _, f := range forged {
		_, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("ok"), s.Answer("", kit.Token(f))})
		s.Refused(err, sojourn.CodeInvalid, "the token "+f)
	}
	kit.Same(s, "responses stored", len(s.Inbox(sojourn.InboxFilter{})), 0)
	s.State(c.Job.ID, sojourn.Awaiting)
}

func respondBad(s *kit.Scene) {
	s.Open(kit.Options{MaxBytes: 1000})
	c := s.Awaiting(sojourn.Key("k"))
	for what, spoil := range kit.InOrder(map[string]kit.ResponseOption{
		"no address":            kit.ToJob(0),
		"two addresses":         func(r *sojourn.Response) { r.Job = c.Job.ID },
		"no kind":               func(r *sojourn.Response) { r.Kind = "" },
		"bad kind":              func(r *sojourn.Response) { r.Kind = "a b" },
		"bad key":               func(r *sojourn.Response) { r.Key = "a\x00" },
		"long key":              func(r *sojourn.Response) { r.Key = strings.Repeat("k", sojourn.MaxKey+1) },
		"negative job":          kit.ToJob(-1),
		"long message id":       func(r *sojourn.Response) { r.MessageID = strings.Repeat("m", sojourn.MaxKey+1) },
		"control characters":    func(r *sojourn.Response) { r.Source = "a\nb" },
		"an id beyond any":      kit.ToJob(1 << 53),
		"a message id with NUL": func(r *sojourn.Response) { r.MessageID = "\x00" },
	}) {
		_, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("k"), s.Answer("k", spoil)})
		s.Refused(err, sojourn.CodeInvalid, what)
	}
	_, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("k"), s.Answer("k", kit.Body(strings.Repeat("x", 1001)))})
	s.Refused(err, sojourn.CodeTooLarge, "a body above the limit")
	_, err = s.Store.Respond(s.Ctx, make([]sojourn.Response, sojourn.MaxBatch+1))
	s.Refused(err, sojourn.CodeInvalid, "1,001 responses")
	kit.Same(s, "responses stored", len(s.Inbox(sojourn.InboxFilter{})), 0)
	s.State(c.Job.ID, sojourn.Awaiting)
	s.Became(s.Respond("k", kit.Body(strings.Repeat("x", 1000))), sojourn.Applied, c.Job.ID)
}
