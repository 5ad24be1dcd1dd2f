package responses

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var messageTrials = []kit.Trial{
	{Name: "links with one message id", Law: "A message id that came by a link says nothing about another job's link, or the next wait's.",
		Covers: "tr:R1 spec:H5 rules:B8", Run: messagesOfLinks},
	{Name: "tokens with one message id", Law: "A message id belongs to the access token that sent it: another token's message, and a source's, are their own.",
		Covers: "tr:R1 spec:H5 rules:B8", Run: messagesOfHolders},
	{Name: "an access token names a configured source", Law: "What a token calls its source never equals the name of a configured source, and no caller may use reserved names.",
		Covers: "tr:R1 spec:H5 spec:H7", Run: messagesPretend},
	{Name: "one message id, another content", Law: "The same message id with another key, job, outcome or body is a conflict, never a duplicate, and the first stays as it was.",
		Covers: "tr:R1 tr:R7 spec:H5 rules:B8", Run: messagesConflict},
	{Name: "one message id twice in a call", Law: "Of two contents under one message id in one call, the call is refused; other calls are not.",
		Covers: "tr:R7 spec:H5 inv:N3", Run: messagesConflictTogether},
	{Name: "a conflict is kept", Law: "With KeepConflict a response whose message id came before with another content lies in the inbox as conflict, once, and no job gets it by itself.",
		Covers: "tr:R7 spec:H5 inv:U4", Run: messagesKept},
	{Name: "a conflict is matched by hand", Law: "What lies in the inbox as conflict is matched, tried again or discarded like what is late.",
		Covers: "tr:R7 tr:O9", Run: messagesByHand},
	{Name: "message ids per key", Law: "With PerKey a message id says nothing about another key of its source; the same id and key with another body is a conflict.",
		Covers: "tr:R1 tr:R7 spec:H5", Run: messagesPerKey},
	{Name: "a message id outlives its response", Law: "A message id is known as long as its own retention, also after the job and the response are gone.",
		Covers: "tr:R1 tr:R7 rules:B8", Run: messagesOutlive},
}

// heldBy lets the holder of an access token store one response.
func heldBy(s *kit.Scene, token string) func(r sojourn.Response) (sojourn.Responded, error) {
	holder := s.Tenant(token, access.Grant{Verbs: []access.Verb{access.VerbRespond}})
	return respondingBy(holder.Ctx, s, holder.Store)
}

func respondingBy(ctx context.Context, s *kit.Scene, store driver.Store) func(r sojourn.Response) (sojourn.Responded, error) {
	return func(r sojourn.Response) (sojourn.Responded, error) {
		as, err := store.Respond(ctx, []sojourn.Response{r})
		if err != nil {
			return sojourn.Responded{}, err
		}
		return as[0], nil
	}
}

func messagesOfLinks(s *kit.Scene) {
	a, b := s.Awaiting(), s.Awaiting()
	first := s.Answer("", kit.Token(a.Job.Token), kit.Message("capability", "1"))
	s.Became(s.Send(first), sojourn.Applied, a.Job.ID)
	s.Became(s.Respond("", kit.Token(b.Job.Token), kit.Message("capability", "1"), kit.Body("of another job")), sojourn.Applied, b.Job.ID)
	kit.Same(s, "the same again", s.Send(first).Outcome, sojourn.Duplicate)
	s.Became(s.Respond("", kit.Token(a.Job.Token), kit.Message("capability", "2"), kit.Body("a second click")), sojourn.Stale, a.Job.ID)
	next := s.Claim()
	s.Finish(kit.Await(next, 0), sojourn.Awaiting)
	s.Became(s.Respond("", kit.Token(next.Job.Token), kit.Message("capability", "1"), kit.Body("of the next wait")), sojourn.Applied, next.Job.ID)
	other := first
	other.Body = []byte("no")
	conflicts(s, other, "a link that is used again with another answer")
}

func messagesOfHolders(s *kit.Scene) {
	a, b := s.Awaiting(sojourn.Key("a")), s.Awaiting(sojourn.Key("b"))
	one, two := heldBy(s, "tokenone"), heldBy(s, "tokentwo")
	for _, source := range []string{"", "shop"} {
		first := s.Answer("a", kit.Message(source, "evt_1"))
		r, err := one(first)
		s.Must(err, "Respond of the first token")
		kit.Same(s, "the job of the first", r.Job, a.Job.ID)
		r, err = two(s.Answer("b", kit.Message(source, "evt_1")))
		s.Must(err, "Respond of the second token")
		kit.Same(s, "the job of the second", r.Job, b.Job.ID)
		if r.Outcome == sojourn.Duplicate {
			s.Fatalf("source %q: the response of the second token is called a duplicate of the first's", source)
		}
		r, err = one(first)
		s.Must(err, "Respond of the first token again")
		kit.Same(s, "the first again", r.Outcome, sojourn.Duplicate)
		r = s.Respond("b", kit.Message(source, "evt_1"))
		if r.Outcome == sojourn.Duplicate {
			s.Fatalf("source %q: the response of the application is called a duplicate of a token's", source)
		}
	}
	kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{})), 6)
}

func messagesPretend(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	one := heldBy(s, "tokenone")
	taken, err := one(s.Answer("other", kit.Message("bank", "replies/0@17"), kit.Body("forged")))
	s.Must(err, "Respond of a token that names a source")
	if got := s.Stored(taken.Seq, sojourn.Early).Source; got == "bank" {
		s.Fatalf("the response of a token lies in the inbox as one of source %q", got)
	}
	s.Became(s.Respond("k", kit.Message("bank", "replies/0@17"), kit.Body("paid")), sojourn.Applied, c.Job.ID)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "paid")
	for _, source := range []string{"token:tokenone", "token:tokenone/bank", "link:1.1.1.0", "conflict:bank"} {
		_, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("k", kit.Message(source, "1"))})
		s.Refused(err, sojourn.CodeInvalid, "the source "+source)
	}
}

// conflicts wants a response to be refused because its message id was used for another content.
func conflicts(s *kit.Scene, r sojourn.Response, what string) {
	s.Helper()
	before := kit.Text(s.Inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind}))
	_, err := s.Store.Respond(s.Ctx, []sojourn.Response{r})
	s.Refused(err, sojourn.CodeConflict, what)
	kit.Same(s, "the inbox after "+what, kit.Text(s.Inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind})), before)
}

func messagesConflict(s *kit.Scene) {
	c, other := s.Awaiting(sojourn.Key("k")), s.Awaiting(sojourn.Key("l"))
	first := s.Answer("k", kit.Message("bank", "evt_1"), kit.Body("paid"))
	s.Became(s.Send(first), sojourn.Applied, c.Job.ID)
	for what, change := range kit.InOrder(map[string]kit.ResponseOption{
		"another body":       kit.Body("not paid"),
		"no body":            kit.Body(""),
		"another key":        func(r *sojourn.Response) { r.Key = "l" },
		"another kind":       func(r *sojourn.Response) { r.Kind = "refund" },
		"a job":              kit.ToJob(other.Job.ID),
		"an error response":  kit.Failing("declined"),
		"progress":           func(r *sojourn.Response) { r.Progress = true },
		"parts joined apart": func(r *sojourn.Response) { r.Key, r.Body = "kp", []byte("aid") },
	}) {
		r := first
		change(&r)
		conflicts(s, r, what)
	}
	s.State(other.Job.ID, sojourn.Awaiting)
	again := first
	again.ContentType, again.TTL = "application/octet-stream", sojourn.MinInboxTTL // not in the content
	r := s.Send(again)
	kit.Same(s, "the same again", r.Outcome, sojourn.Duplicate)
	kit.Same(s, "the first", string(s.Stored(r.Seq, sojourn.Applied).Body), "paid")
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "paid")
	failed := s.Answer("l", kit.Message("bank", "evt_2"), kit.Failing("declined"))
	s.Became(s.Send(failed), sojourn.Applied, other.Job.ID)
	failed.Error = "another text"
	conflicts(s, failed, "an error response with another text")
}

func messagesConflictTogether(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	first := s.Answer("k", kit.Message("bank", "evt_1"), kit.Body("paid"))
	second := s.Answer("l", kit.Message("bank", "evt_1"), kit.Body("not paid"))
	_, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("m"), first, second})
	if e := s.Refused(err, sojourn.CodeConflict, "two contents in one call"); e.Index != 2 {
		s.Fatalf("the error names item %d, want 2: %v", e.Index, err)
	}
	kit.Same(s, "responses stored", len(s.Inbox(sojourn.InboxFilter{})), 0)
	s.State(c.Job.ID, sojourn.Awaiting)
	s.Became(s.Send(first), sojourn.Applied, c.Job.ID)
}

func messagesOutlive(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	first := s.Answer("k", kit.Message("bank", "evt_1"), kit.Body("paid"))
	s.Became(s.Send(first), sojourn.Applied, c.Job.ID)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	s.Swept(sojourn.DefaultRetentionAge+time.Hour, driver.Swept{Pruned: 1})
	s.Gone(c.Job.ID)
	kit.Same(s, "responses left", len(s.Inbox(sojourn.InboxFilter{})), 0)
	kit.Same(s, "the same after the job is gone", s.Send(first).Outcome, sojourn.Duplicate)
	other := first
	other.Body = []byte("not paid")
	conflicts(s, other, "another body after the job is gone")
}

func keepConflict(r *sojourn.Response) { r.KeepConflict = true }

func perKey(r *sojourn.Response) { r.PerKey = true }

func messagesKept(s *kit.Scene) {
	c, other := s.Awaiting(sojourn.Key("k")), s.Awaiting(sojourn.Key("l"))
	first := s.Answer("k", kit.Message("bank", "evt_1"), kit.Body("paid"), keepConflict)
	second := s.Answer("l", kit.Message("bank", "evt_1"), kit.Body("not paid"), keepConflict)
	third := s.Answer("nobody", kit.Message("bank", "evt_1"), kit.Failing("declined"), keepConflict)
	s.Became(s.Send(first), sojourn.Applied, c.Job.ID)
	r := s.Send(second)
	lies := s.Became(r, sojourn.Conflicting, other.Job.ID)
	kit.Same(s, "message id", lies.MessageID, "evt_1")
	kit.Same(s, "source", lies.Source, "bank")
	kit.Same(s, "key", lies.Key, "l")
	kit.Same(s, "body", string(lies.Body), "not paid")
	for i := range 2 {
		again := s.Send(second)
		kit.Same(s, "outcome again", again.Outcome, sojourn.Conflicting)
		kit.Same(s, "number again", again.Seq, r.Seq)
		kit.Same(s, "counted", s.Stored(r.Seq, sojourn.Conflicting).Duplicates, int32(i+1))
	}
	as, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("m"), third, second, first, third, s.Answer("n")})
	s.Must(err, "Respond")
	for i, want := range []sojourn.ResponseOutcome{sojourn.Early, sojourn.Conflicting, sojourn.Conflicting, sojourn.Duplicate, sojourn.Conflicting, sojourn.Early} {
		if as[i].Outcome != want {
			s.Fatalf("response %d was answered %s, want %s", i, as[i].Outcome, want)
		}
	}
	kit.Same(s, "the third again", as[4].Seq, as[1].Seq)
	kit.Same(s, "its reason", s.Stored(as[1].Seq, sojourn.Conflicting).Reason, "declined")
	kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{})), 5)
	kit.Same(s, "conflicts", len(s.Inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Conflicting}})), 2)
	s.State(other.Job.ID, sojourn.Awaiting)
	kit.Same(s, "kept by the other job", s.Get(other.Job.ID).Kept, 0)
	d := s.Running(kit.OfKind("refund"), sojourn.Key("k")) // a message that comes late, stored as a conflict with one that was stored in the same call
	as, err = s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("p", kit.Message("bank", "evt_2"), keepConflict), s.Answer("k", kit.Message("bank", "evt_2"), keepConflict,
		func(r *sojourn.Response) { r.Kind = "refund" })})
	s.Must(err, "Respond")
	s.Became(as[0], sojourn.Early, 0)
	s.Became(as[1], sojourn.Conflicting, d.Job.ID)
}

func messagesByHand(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	s.Respond("nobody", kit.Message("bank", "evt_1"), keepConflict)
	conflict := s.Respond("k", kit.Message("bank", "evt_1"), kit.Body("yes"), keepConflict)
	s.Became(conflict, sojourn.Conflicting, c.Job.ID)
	s.Became(editInbox(s, rules.InboxEdit{Seq: conflict.Seq, Action: sojourn.InboxRetry, By: "ann"}), sojourn.Applied, c.Job.ID)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "yes")
	other := s.Awaiting(sojourn.Key("l"))
	conflict = s.Respond("k", kit.Message("bank", "evt_1"), kit.Body("no"), keepConflict)
	s.Became(editInbox(s, rules.InboxEdit{Seq: conflict.Seq, Action: sojourn.InboxMatch, Job: other.Job.ID, By: "ann"}), sojourn.Applied, other.Job.ID)
	conflict = s.Respond("k", kit.Message("bank", "evt_1"), kit.Body("perhaps"), keepConflict)
	s.Became(editInbox(s, rules.InboxEdit{Seq: conflict.Seq, Action: sojourn.InboxDiscard, By: "ann"}), sojourn.Discarded, c.Job.ID)
	counts, err := s.Store.CountInbox(s.Ctx)
	s.Must(err, "CountInbox")
	kit.Same(s, "conflicts", counts.Lying[sojourn.Conflicting], 2)
}

func messagesPerKey(s *kit.Scene) {
	a, b := s.Awaiting(sojourn.Key("a")), s.Awaiting(sojourn.Key("b"))
	first := s.Answer("a", kit.Message("hooks", "1"), kit.Body("paid"), perKey)
	s.Became(s.Send(first), sojourn.Applied, a.Job.ID)
	s.Became(s.Respond("b", kit.Message("hooks", "1"), kit.Body("paid"), perKey), sojourn.Applied, b.Job.ID)
	kit.Same(s, "the same again", s.Send(first).Outcome, sojourn.Duplicate)
	conflicts(s, s.Answer("a", kit.Message("hooks", "1"), kit.Body("not paid"), perKey), "another body for the same key")
	s.Became(s.Respond("", kit.ToJob(a.Job.ID), kit.Message("hooks", "1"), perKey), sojourn.Early, a.Job.ID)
	s.Became(s.Respond("", kit.ToJob(b.Job.ID), kit.Message("hooks", "1"), perKey), sojourn.Early, b.Job.ID)
	s.Became(s.Respond("c", kit.Message("hooks", "1"), func(r *sojourn.Response) { r.Kind = "refund" }, perKey), sojourn.Early, 0)
}
