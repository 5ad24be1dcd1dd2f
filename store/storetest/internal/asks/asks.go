// Package asks has the cases about questions for people.
package asks

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/ask"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return []kit.Trial{
		{Name: "a question", Law: "A capability shows the question of its wait, and afterwards its answer and when it came.", Covers: "spec:H13", Run: question},
		{Name: "questions of two waits", Law: "A capability shows the question of its own wait, never that of the next one.", Covers: "spec:H13 spec:H6", Run: two},
		{Name: "the question of another attempt", Law: "The link of an attempt that is over shows neither the question nor the answer of the next attempt.", Covers: "spec:H13 spec:H6", Run: attempts},
		{Name: "a question that is answered otherwise", Law: "An answer by key, by id or by a poll step is not shown by the link.", Covers: "spec:H13", Run: elsewhere},
		{Name: "a question that ends without an answer", Law: "A question that was cancelled, has expired or has ended says so, and shows no details any more.", Covers: "spec:H13", Run: ends},
		{Name: "a late answer to a question", Law: "A question stays open as long as an answer by its link would be accepted.", Covers: "spec:H13 tr:M3", Run: late},
		{Name: "questions of others", Law: "A capability that the store has not issued tells nothing, and neither does one without a question.", Covers: "spec:H13", Run: unknown},
		{Name: "bad questions", Law: "A question that cannot be shown is refused with its outcome, and the step goes on.", Covers: "spec:H13", Run: bad},
		{Name: "questions go with their job", Law: "A question is deleted with its job.", Covers: "spec:H13 inv:R1", Run: deleted},
	}
}

// asking is the question of most cases.
var asking = ask.Question{Title: "May we pay?", Text: "1.200 € to Acme <Ltd>", Comment: "Why", Brand: ask.Brand{Name: "Acme", Color: "#0b6e6e"},
	Choices: []ask.Choice{{Value: "yes", Label: "Pay", Style: ask.Primary}, {Value: "no", Style: ask.Danger}}}

// await is an outcome that waits with a question.
func await(s *kit.Scene, c driver.Claimed, q ask.Question, within time.Duration) sojourn.Outcome {
	s.Helper()
	o := kit.Await(c, within)
	b, err := json.Marshal(q)
	s.Must(err, "Marshal")
	o.Ask = b
	return o
}

// asked is a new job that waits with a question.
func asked(s *kit.Scene, within time.Duration, options ...sojourn.Option) driver.Claimed {
	s.Helper()
	c := s.Running(options...)
	s.Finish(await(s, c, asking, within), sojourn.Awaiting)
	return c
}

func read(s *kit.Scene, token string) (ask.Status, error) {
	s.Helper()
	if _, ok := s.Store.(ask.Store); !ok {
		s.Skip("this store has no questions")
	}
	return ask.Read(s.Ctx, sojourn.NewClient(s.Store), token)
}

// shows wants a question to be in a state, with a title.
func shows(s *kit.Scene, token string, want ask.State, title string) ask.Status {
	s.Helper()
	got, err := read(s, token)
	s.Must(err, "Read")
	if got.State != want || got.Question.Title != title {
		s.Fatalf("the question is %q and %s, want %q and %s", got.Question.Title, got.State, title, want)
	}
	if complete := want == ask.Open || want == ask.Answered; title != "" && complete != (len(got.Question.Choices) > 0) {
		s.Errorf("the question is %s and has %d choices", got.State, len(got.Question.Choices))
	}
	if want != ask.Answered && got.Answer != nil {
		s.Errorf("the question is %s and has the answer %v", want, got.Answer)
	}
	return got
}

// choose answers by a link, as the page does.
func choose(s *kit.Scene, token, value string) sojourn.Responded {
	s.Helper()
	b, err := json.Marshal(ask.Answer{Value: value, Comment: "because"})
	s.Must(err, "Marshal")
	return s.Respond("", kit.Token(token), kit.Body(string(b)))
}

func question(s *kit.Scene) {
	c := s.Running(sojourn.Key("k"))
	token := c.Job.Token
	before, err := read(s, token)
	s.Must(err, "Read")
	kit.Same(s, "before the wait", before.State, ask.NotAsked)
	began := s.Now()
	s.Finish(await(s, c, asking, time.Hour), sojourn.Awaiting)
	s.Advance(time.Minute)
	got := shows(s, token, ask.Open, asking.Title)
	kit.Same(s, "the question", kit.Text(got.Question), kit.Text(asking))
	s.At("asked", got.AskedAt, began)
	s.At("until", got.Until, began.Add(time.Hour))
	for range 3 { // reading answers nothing
		shows(s, token, ask.Open, asking.Title)
	}
	s.State(c.Job.ID, sojourn.Awaiting)
	expiring, err := access.Expiring(token, began.Add(10*time.Minute))
	s.Must(err, "Expiring")
	s.At("until of a link that expires", shows(s, expiring, ask.Open, asking.Title).Until, began.Add(10*time.Minute).Truncate(time.Second))
	answered := s.Now()
	s.Became(choose(s, expiring, "yes"), sojourn.Applied, c.Job.ID)
	check := func(when string) {
		s.Helper()
		for _, link := range []string{token, expiring} {
			got := shows(s, link, ask.Answered, asking.Title)
			if got.Answer == nil || *got.Answer != (ask.Answer{Value: "yes", Comment: "because"}) || !got.Until.IsZero() {
				s.Errorf("%s the answer is %+v", when, got)
			}
			s.At(when, got.EndedAt, answered)
		}
	}
	check("at once")
	d := s.Claim()
	s.Advance(time.Hour) // the link has expired
	check("while the job runs")
	s.Finish(kit.Completed(d), sojourn.Completed)
	check("after the end")
	s.Became(choose(s, token, "no"), sojourn.Late, c.Job.ID)
	check("after a second answer")
}

func two(s *kit.Scene) {
	c := asked(s, 0)
	s.Became(choose(s, c.Job.Token, "no"), sojourn.Applied, c.Job.ID)
	d := s.Claim()
	next := asking
	next.Title = "And now?"
	shows(s, d.Job.Token, ask.NotAsked, "")
	s.Finish(await(s, d, next, 0), sojourn.Awaiting)
	kit.Same(s, "the first answer", shows(s, c.Job.Token, ask.Answered, asking.Title).Answer.Value, "no")
	shows(s, d.Job.Token, ask.Open, "And now?")
	s.Became(choose(s, c.Job.Token, "yes"), sojourn.Stale, c.Job.ID)
	shows(s, d.Job.Token, ask.Open, "And now?")
	s.Became(choose(s, d.Job.Token, "yes"), sojourn.Applied, c.Job.ID)
	kit.Same(s, "the first answer", shows(s, c.Job.Token, ask.Answered, asking.Title).Answer.Value, "no")
	kit.Same(s, "the second answer", shows(s, d.Job.Token, ask.Answered, "And now?").Answer.Value, "yes")
	e := s.Claim()
	s.Finish(kit.Advance(e, ""), sojourn.Ready) // the next stage counts its attempts anew
	f := s.Claim()
	s.Finish(await(s, f, next, 0), sojourn.Awaiting)
	s.Became(choose(s, f.Job.Token, "no"), sojourn.Applied, c.Job.ID)
	kit.Same(s, "the first answer after the next stage", shows(s, c.Job.Token, ask.Answered, asking.Title).Answer.Value, "no")
	kit.Same(s, "the answer of the next stage", shows(s, f.Job.Token, ask.Answered, "And now?").Answer.Value, "no")
}

func attempts(s *kit.Scene) {
	c := asked(s, time.Minute, kit.Steady(time.Minute))
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.Advance(time.Minute)
	d := s.Claim()
	shows(s, c.Job.Token, ask.Replaced, asking.Title)
	next := asking
	next.Title = "Again"
	s.Finish(await(s, d, next, 0), sojourn.Awaiting)
	shows(s, c.Job.Token, ask.Replaced, asking.Title)
	s.Became(choose(s, d.Job.Token, "yes"), sojourn.Applied, c.Job.ID)
	shows(s, c.Job.Token, ask.Replaced, asking.Title)
	shows(s, d.Job.Token, ask.Answered, "Again")
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	shows(s, c.Job.Token, ask.Expired, asking.Title)
	shows(s, d.Job.Token, ask.Answered, "Again")
	// A response by the link of the first attempt that the second one takes is not its own.
	e := asked(s, time.Minute, kit.Policy(sojourn.Policy{LateToInbox: new(true)}), kit.Steady(time.Minute))
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.Became(choose(s, e.Job.Token, "no"), sojourn.Early, e.Job.ID)
	shows(s, e.Job.Token, ask.Answered, asking.Title)
	s.Advance(time.Minute)
	f := s.Claim()
	s.Finish(await(s, f, next, 0), sojourn.Ready)
	shows(s, f.Job.Token, ask.Elsewhere, "Again")
}

func elsewhere(s *kit.Scene) {
	c := asked(s, 0, sojourn.Key("k"))
	s.Respond("k", kit.Body(`{"value":"yes","comment":"secret"}`))
	shows(s, c.Job.Token, ask.Elsewhere, asking.Title)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	shows(s, c.Job.Token, ask.Elsewhere, asking.Title)
	c = asked(s, 0)
	s.Respond("", kit.ToJob(c.Job.ID), kit.Body(`{"value":"yes"}`))
	shows(s, c.Job.Token, ask.Elsewhere, asking.Title)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	c = asked(s, 0, sojourn.Key("l"))
	s.Respond("l", kit.Failing("broken"))
	shows(s, c.Job.Token, ask.Elsewhere, asking.Title)
	s.Cancel(c.Job.ID)
	c = s.Running(sojourn.Key("m"), kit.Steady(time.Minute))
	o := await(s, c, asking, 0)
	o.Wait.Poll = kit.Every(10 * time.Second)
	s.Finish(o, sojourn.Awaiting)
	s.Advance(10 * time.Second)
	p := s.Claim(kit.Polling)
	shows(s, c.Job.Token, ask.Open, asking.Title)
	s.Finish(kit.NoAnswer(p), sojourn.Awaiting)
	shows(s, c.Job.Token, ask.Open, asking.Title)
	s.Advance(20 * time.Second)
	s.Finish(kit.Answers(s.Claim(kit.Polling), `{"value":"yes"}`), sojourn.Ready)
	shows(s, c.Job.Token, ask.Elsewhere, asking.Title)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	c = asked(s, 0) // a response by the link that is no answer of the page
	s.Became(s.Respond("", kit.Token(c.Job.Token), kit.Body("secret")), sojourn.Applied, c.Job.ID)
	if got := shows(s, c.Job.Token, ask.Answered, asking.Title); got.Answer != nil {
		s.Errorf("the answer is %+v", got.Answer)
	}
}

func ends(s *kit.Scene) {
	c := asked(s, 0)
	s.Cancel(c.Job.ID)
	shows(s, c.Job.Token, ask.Cancelled, asking.Title)
	s.Became(choose(s, c.Job.Token, "yes"), sojourn.Late, c.Job.ID)
	shows(s, c.Job.Token, ask.Cancelled, asking.Title)
	c = asked(s, time.Minute, kit.Policy(sojourn.Policy{MaxAttempts: 1}))
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.State(c.Job.ID, sojourn.Failed)
	s.At("the end", shows(s, c.Job.Token, ask.Expired, asking.Title).EndedAt, s.Now())
	c = asked(s, 0)
	until := s.Now().Add(time.Minute)
	link, err := access.Expiring(c.Job.Token, until)
	s.Must(err, "Expiring")
	s.Advance(2 * time.Minute)
	s.At("the end of a link", shows(s, link, ask.Expired, asking.Title).EndedAt, until.Truncate(time.Second))
	shows(s, c.Job.Token, ask.Open, asking.Title) // the wait goes on
	s.Cancel(c.Job.ID)
	s.Edited(c.Job.ID, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	shows(s, c.Job.Token, ask.Replaced, asking.Title)
	shows(s, s.Claim().Job.Token, ask.NotAsked, "")
}

func late(s *kit.Scene) {
	c := asked(s, time.Minute, kit.Steady(time.Hour))
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.State(c.Job.ID, sojourn.Scheduled)
	shows(s, c.Job.Token, ask.Open, asking.Title)
	s.Became(choose(s, c.Job.Token, "yes"), sojourn.Applied, c.Job.ID)
	kit.Same(s, "the answer", shows(s, c.Job.Token, ask.Answered, asking.Title).Answer.Value, "yes")
}

func unknown(s *kit.Scene) {
	c := asked(s, 0)
	plain := s.Awaiting()
	shows(s, plain.Job.Token, ask.NotAsked, "")
	s.Cancel(plain.Job.ID)
	token := c.Job.Token
	other, err := access.Expiring(access.NewCapability([]byte("another secret"), c.Job.ID, 1, 1, 0), s.Now().Add(time.Hour))
	s.Must(err, "Expiring")
	cut := strings.LastIndexByte(token, '.')
	text := ""
	for _, bad := range []string{"", "x", other, token[:len(token)-1], token + "A", token[:cut], "1" + token, strings.Replace(token, ".", ".9", 1),
		access.NewCapability([]byte("another secret"), c.Job.ID, c.Job.Generation, c.Job.Attempt, 0), plain.Job.Token, strings.Repeat("1.", 300)} {
		_, err := read(s, bad)
		refused := s.Refused(err, sojourn.CodeNotFound, "the capability "+bad)
		if text == "" {
			text = refused.Message
		}
		kit.Same(s, "the error", refused.Message, text)
	}
	tenant := s.Tenant("t", access.Grant{Verbs: []access.Verb{access.VerbRespond}, Queue: "theirs"})
	shows(tenant, token, ask.Open, asking.Title) // the capability is the permission
}

func bad(s *kit.Scene) {
	c := s.Running()
	many := asking
	many.Choices = make([]ask.Choice, ask.MaxChoices+1)
	for _, q := range []func(*ask.Question){
		func(q *ask.Question) { q.Title = "" }, func(q *ask.Question) { q.Title = " " }, func(q *ask.Question) { q.Title = strings.Repeat("x", ask.MaxTitle+1) },
		func(q *ask.Question) { q.Title = "a\nb" }, func(q *ask.Question) { q.Text = "pay \u202e001" }, func(q *ask.Question) { q.Choices = nil },
		func(q *ask.Question) { q.Choices = many.Choices }, func(q *ask.Question) { q.Choices = []ask.Choice{{Label: "a"}} },
		func(q *ask.Question) { q.Choices = []ask.Choice{{Value: "a"}, {Value: "a"}} }, func(q *ask.Question) { q.Choices = []ask.Choice{{Value: "a", Style: "red"}} },
		func(q *ask.Question) { q.Brand.Color = "red" }, func(q *ask.Question) { q.Brand.Color = "#12345g" }, func(q *ask.Question) { q.Brand.Color = "#000;}" },
	} {
		bad := asking
		q(&bad)
		f := s.Reports(await(s, c, bad, 0), driver.FinishRefused)
		s.Refused(f.Err, sojourn.CodeInvalid, kit.Text(bad))
	}
	large := asking
	large.Text = strings.Repeat("é", ask.MaxQuestion-1000)
	s.Refused(s.Reports(await(s, c, large, 0), driver.FinishRefused).Err, sojourn.CodeTooLarge, "a large question")
	all := await(s, c, asking, 0)
	all.Wait.Mode, all.Wait.Keys = sojourn.WaitAll, []string{"a", "b"}
	s.Refused(s.Reports(all, driver.FinishRefused).Err, sojourn.CodeInvalid, "a question for all of several keys")
	done := kit.Completed(c)
	done.Ask = await(s, c, asking, 0).Ask
	s.Refused(s.Reports(done, driver.FinishRefused).Err, sojourn.CodeInvalid, "a question of a completed step")
	notJSON := kit.Await(c, 0)
	notJSON.Ask = []byte(`"no object"`)
	s.Refused(s.Reports(notJSON, driver.FinishRefused).Err, sojourn.CodeInvalid, "a text")
	s.State(c.Job.ID, sojourn.Running)
	shows(s, c.Job.Token, ask.NotAsked, "")
	s.Finish(await(s, c, asking, 0), sojourn.Awaiting)
	shows(s, c.Job.Token, ask.Open, asking.Title)
}

func deleted(s *kit.Scene) {
	c := asked(s, 0)
	s.Cancel(c.Job.ID)
	s.Advance(sojourn.IDLife + time.Second)
	s.Edit(c.Job.ID, sojourn.Edit{Action: sojourn.EditPurge})
	s.Gone(c.Job.ID)
	_, err := read(s, c.Job.Token)
	s.Refused(err, sojourn.CodeNotFound, "a deleted job")
}
