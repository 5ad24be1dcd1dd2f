package storetest

import (
	"context"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

var messageTrials = []trial{
	{"links with one message id", "A message id that came by a link says nothing about another job's link, or the next wait's.", "tr:R1 spec:H5 rules:B8", messagesOfLinks},
	{"tokens with one message id", "A message id belongs to the access token that sent it: another token's message, and a source's, are their own.",
		"tr:R1 spec:H5 rules:B8", messagesOfHolders},
	{"an access token names a configured source", "What a token calls its source never equals the name of a configured source, and no caller may use reserved names.",
		"tr:R1 spec:H5 spec:H7", messagesPretend},
	{"one message id, another content", "The same message id with another key, job, outcome or body is a conflict, never a duplicate, and the first stays as it was.",
		"tr:R1 tr:R7 spec:H5 rules:B8", messagesConflict},
	{"one message id twice in a call", "Of two contents under one message id in one call, the call is refused; other calls are not.", "tr:R7 spec:H5 inv:N3", messagesConflictTogether},
	{"a conflict is kept", "With KeepConflict a response whose message id came before with another content lies in the inbox as conflict, once, and no job gets it by itself.",
		"tr:R7 spec:H5 inv:U4", messagesKept},
	{"a conflict is matched by hand", "What lies in the inbox as conflict is matched, tried again or discarded like what is late.", "tr:R7 tr:O9", messagesByHand},
	{"message ids per key", "With PerKey a message id says nothing about another key of its source; the same id and key with another body is a conflict.",
		"tr:R1 tr:R7 spec:H5", messagesPerKey},
	{"a message id outlives its response", "A message id is known as long as its own retention, also after the job and the response are gone.",
		"tr:R1 tr:R7 rules:B8", messagesOutlive},
}

// heldBy lets the holder of an access token store one response.
func (s *scene) heldBy(token string) func(r sojourn.Response) (sojourn.Responded, error) {
	holder := s.tenant(token, access.Grant{Verbs: []access.Verb{access.VerbRespond}})
	return s.respondingBy(holder.ctx, holder.store)
}

func (s *scene) respondingBy(ctx context.Context, store driver.Store) func(r sojourn.Response) (sojourn.Responded, error) {
	return func(r sojourn.Response) (sojourn.Responded, error) {
		as, err := store.Respond(ctx, []sojourn.Response{r})
		if err != nil {
			return sojourn.Responded{}, err
		}
		return as[0], nil
	}
}

func messagesOfLinks(s *scene) {
	a, b := s.awaiting(), s.awaiting()
	first := s.answer("", token(a.Job.Token), message("capability", "1"))
	s.became(s.send(first), sojourn.Applied, a.Job.ID)
	s.became(s.respond("", token(b.Job.Token), message("capability", "1"), body("of another job")), sojourn.Applied, b.Job.ID)
	same(s, "the same again", s.send(first).Outcome, sojourn.Duplicate)
	s.became(s.respond("", token(a.Job.Token), message("capability", "2"), body("a second click")), sojourn.Stale, a.Job.ID)
	next := s.claim()
	s.finish(await(next, 0), sojourn.Awaiting)
	s.became(s.respond("", token(next.Job.Token), message("capability", "1"), body("of the next wait")), sojourn.Applied, next.Job.ID)
	other := first
	other.Body = []byte("no")
	s.conflicts(other, "a link that is used again with another answer")
}

func messagesOfHolders(s *scene) {
	a, b := s.awaiting(sojourn.Key("a")), s.awaiting(sojourn.Key("b"))
	one, two := s.heldBy("tokenone"), s.heldBy("tokentwo")
	for _, source := range []string{"", "shop"} {
		first := s.answer("a", message(source, "evt_1"))
		r, err := one(first)
		s.must(err, "Respond of the first token")
		same(s, "the job of the first", r.Job, a.Job.ID)
		r, err = two(s.answer("b", message(source, "evt_1")))
		s.must(err, "Respond of the second token")
		same(s, "the job of the second", r.Job, b.Job.ID)
		if r.Outcome == sojourn.Duplicate {
			s.Fatalf("source %q: the response of the second token is called a duplicate of the first's", source)
		}
		r, err = one(first)
		s.must(err, "Respond of the first token again")
		same(s, "the first again", r.Outcome, sojourn.Duplicate)
		r = s.respond("b", message(source, "evt_1"))
		if r.Outcome == sojourn.Duplicate {
			s.Fatalf("source %q: the response of the application is called a duplicate of a token's", source)
		}
	}
	same(s, "responses", len(s.inbox(sojourn.InboxFilter{})), 6)
}

func messagesPretend(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	one := s.heldBy("tokenone")
	taken, err := one(s.answer("other", message("bank", "replies/0@17"), body("forged")))
	s.must(err, "Respond of a token that names a source")
	if got := s.lies(taken.Seq, sojourn.Early).Source; got == "bank" {
		s.Fatalf("the response of a token lies in the inbox as one of source %q", got)
	}
	s.became(s.respond("k", message("bank", "replies/0@17"), body("paid")), sojourn.Applied, c.Job.ID)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "paid")
	for _, source := range []string{"token:tokenone", "token:tokenone/bank", "link:1.1.1.0", "conflict:bank"} {
		_, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("k", message(source, "1"))})
		s.refused(err, sojourn.CodeInvalid, "the source "+source)
	}
}

// conflicts wants a response to be refused because its message id was used for another content.
func (s *scene) conflicts(r sojourn.Response, what string) {
	s.Helper()
	before := text(s.inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind}))
	_, err := s.store.Respond(s.ctx, []sojourn.Response{r})
	s.refused(err, sojourn.CodeConflict, what)
	same(s, "the inbox after "+what, text(s.inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind})), before)
}

func messagesConflict(s *scene) {
	c, other := s.awaiting(sojourn.Key("k")), s.awaiting(sojourn.Key("l"))
	first := s.answer("k", message("bank", "evt_1"), body("paid"))
	s.became(s.send(first), sojourn.Applied, c.Job.ID)
	for what, change := range inOrder(map[string]mark{
		"another body":       body("not paid"),
		"no body":            body(""),
		"another key":        func(r *sojourn.Response) { r.Key = "l" },
		"another kind":       func(r *sojourn.Response) { r.Kind = "refund" },
		"a job":              toJob(other.Job.ID),
		"an error response":  failing("declined"),
		"progress":           func(r *sojourn.Response) { r.Progress = true },
		"parts joined apart": func(r *sojourn.Response) { r.Key, r.Body = "kp", []byte("aid") },
	}) {
		r := first
		change(&r)
		s.conflicts(r, what)
	}
	s.state(other.Job.ID, sojourn.Awaiting)
	again := first
	again.ContentType, again.TTL = "application/octet-stream", sojourn.MinInboxTTL // not in the content
	r := s.send(again)
	same(s, "the same again", r.Outcome, sojourn.Duplicate)
	same(s, "the first", string(s.lies(r.Seq, sojourn.Applied).Body), "paid")
	same(s, "the answer", string(s.inHand(s.claim()).Body), "paid")
	failed := s.answer("l", message("bank", "evt_2"), failing("declined"))
	s.became(s.send(failed), sojourn.Applied, other.Job.ID)
	failed.Error = "another text"
	s.conflicts(failed, "an error response with another text")
}

func messagesConflictTogether(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	first := s.answer("k", message("bank", "evt_1"), body("paid"))
	second := s.answer("l", message("bank", "evt_1"), body("not paid"))
	_, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("m"), first, second})
	if e := s.refused(err, sojourn.CodeConflict, "two contents in one call"); e.Index != 2 {
		s.Fatalf("the error names item %d, want 2: %v", e.Index, err)
	}
	same(s, "responses stored", len(s.inbox(sojourn.InboxFilter{})), 0)
	s.state(c.Job.ID, sojourn.Awaiting)
	s.became(s.send(first), sojourn.Applied, c.Job.ID)
}

func messagesOutlive(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	first := s.answer("k", message("bank", "evt_1"), body("paid"))
	s.became(s.send(first), sojourn.Applied, c.Job.ID)
	s.finish(completed(s.claim()), sojourn.Completed)
	s.swept(sojourn.DefaultRetentionAge+time.Hour, driver.Swept{Pruned: 1})
	s.gone(c.Job.ID)
	same(s, "responses left", len(s.inbox(sojourn.InboxFilter{})), 0)
	same(s, "the same after the job is gone", s.send(first).Outcome, sojourn.Duplicate)
	other := first
	other.Body = []byte("not paid")
	s.conflicts(other, "another body after the job is gone")
}

func keepConflict(r *sojourn.Response) { r.KeepConflict = true }

func perKey(r *sojourn.Response) { r.PerKey = true }

func messagesKept(s *scene) {
	c, other := s.awaiting(sojourn.Key("k")), s.awaiting(sojourn.Key("l"))
	first := s.answer("k", message("bank", "evt_1"), body("paid"), keepConflict)
	second := s.answer("l", message("bank", "evt_1"), body("not paid"), keepConflict)
	third := s.answer("nobody", message("bank", "evt_1"), failing("declined"), keepConflict)
	s.became(s.send(first), sojourn.Applied, c.Job.ID)
	r := s.send(second)
	lies := s.became(r, sojourn.Conflicting, other.Job.ID)
	same(s, "message id", lies.MessageID, "evt_1")
	same(s, "source", lies.Source, "bank")
	same(s, "key", lies.Key, "l")
	same(s, "body", string(lies.Body), "not paid")
	for i := range 2 {
		again := s.send(second)
		same(s, "outcome again", again.Outcome, sojourn.Conflicting)
		same(s, "number again", again.Seq, r.Seq)
		same(s, "counted", s.lies(r.Seq, sojourn.Conflicting).Duplicates, int32(i+1))
	}
	as, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("m"), third, second, first, third, s.answer("n")})
	s.must(err, "Respond")
	for i, want := range []sojourn.ResponseOutcome{sojourn.Early, sojourn.Conflicting, sojourn.Conflicting, sojourn.Duplicate, sojourn.Conflicting, sojourn.Early} {
		if as[i].Outcome != want {
			s.Fatalf("response %d was answered %s, want %s", i, as[i].Outcome, want)
		}
	}
	same(s, "the third again", as[4].Seq, as[1].Seq)
	same(s, "its reason", s.lies(as[1].Seq, sojourn.Conflicting).Reason, "declined")
	same(s, "responses", len(s.inbox(sojourn.InboxFilter{})), 5)
	same(s, "conflicts", len(s.inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Conflicting}})), 2)
	s.state(other.Job.ID, sojourn.Awaiting)
	same(s, "kept by the other job", s.get(other.Job.ID).Kept, 0)
	d := s.running(ofKind("refund"), sojourn.Key("k")) // a message that comes late, stored as a conflict with one that was stored in the same call
	as, err = s.store.Respond(s.ctx, []sojourn.Response{s.answer("p", message("bank", "evt_2"), keepConflict), s.answer("k", message("bank", "evt_2"), keepConflict,
		func(r *sojourn.Response) { r.Kind = "refund" })})
	s.must(err, "Respond")
	s.became(as[0], sojourn.Early, 0)
	s.became(as[1], sojourn.Conflicting, d.Job.ID)
}

func messagesByHand(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	s.respond("nobody", message("bank", "evt_1"), keepConflict)
	conflict := s.respond("k", message("bank", "evt_1"), body("yes"), keepConflict)
	s.became(conflict, sojourn.Conflicting, c.Job.ID)
	s.became(s.editInbox(sojourn.InboxEdit{Seq: conflict.Seq, Action: sojourn.InboxRetry, By: "ann"}), sojourn.Applied, c.Job.ID)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "yes")
	other := s.awaiting(sojourn.Key("l"))
	conflict = s.respond("k", message("bank", "evt_1"), body("no"), keepConflict)
	s.became(s.editInbox(sojourn.InboxEdit{Seq: conflict.Seq, Action: sojourn.InboxMatch, Job: other.Job.ID, By: "ann"}), sojourn.Applied, other.Job.ID)
	conflict = s.respond("k", message("bank", "evt_1"), body("perhaps"), keepConflict)
	s.became(s.editInbox(sojourn.InboxEdit{Seq: conflict.Seq, Action: sojourn.InboxDiscard, By: "ann"}), sojourn.Discarded, c.Job.ID)
	counts, err := s.store.CountInbox(s.ctx)
	s.must(err, "CountInbox")
	same(s, "conflicts", counts.Lying[sojourn.Conflicting], 2)
}

func messagesPerKey(s *scene) {
	a, b := s.awaiting(sojourn.Key("a")), s.awaiting(sojourn.Key("b"))
	first := s.answer("a", message("hooks", "1"), body("paid"), perKey)
	s.became(s.send(first), sojourn.Applied, a.Job.ID)
	s.became(s.respond("b", message("hooks", "1"), body("paid"), perKey), sojourn.Applied, b.Job.ID)
	same(s, "the same again", s.send(first).Outcome, sojourn.Duplicate)
	s.conflicts(s.answer("a", message("hooks", "1"), body("not paid"), perKey), "another body for the same key")
	s.became(s.respond("", toJob(a.Job.ID), message("hooks", "1"), perKey), sojourn.Early, a.Job.ID)
	s.became(s.respond("", toJob(b.Job.ID), message("hooks", "1"), perKey), sojourn.Early, b.Job.ID)
	s.became(s.respond("c", message("hooks", "1"), func(r *sojourn.Response) { r.Kind = "refund" }, perKey), sojourn.Early, 0)
}
