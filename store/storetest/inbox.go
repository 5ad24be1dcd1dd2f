package storetest

import (
	"slices"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
)

var inboxTrials = []trial{
	{"list the inbox", "The inbox lists every response, newest first, by each field of a filter and page by page.", "spec:H4 spec:H5 inv:U4", inboxList},
	{"what a response carries", "A stored response keeps what was sent and says what became of it.", "tr:R5 spec:H1", inboxFields},
	{"a parked message", "A message that its source could not read lies in the inbox under its reason, once, and no job ever gets it by itself.", "inv:U4 spec:H2", inboxParked},
	{"a time to live of its own", "A response may say how long it lies early.", "tr:W9 inv:U4", inboxOwnTTL},
	{"tr:O9 match by hand", "A person gives a response that nobody took to a job: a new response, once for each target; the old one names it.", "tr:O9 inv:U4", inboxMatch},
	{"tr:O9 try again", "A person sends an unmatched, late or stale response again to where it came for.", "tr:O9 inv:U4", inboxRetry},
	{"tr:O9 not what a job has", "What a job has taken or keeps cannot be matched with another.", "tr:O9 inv:U4", inboxBelongs},
	{"discard by hand", "A discarded response stays visible, is given to nobody, and leaves the job that kept it.", "inv:U4", inboxDiscard},
	{"counts of the inbox", "Counts by outcome and by source.", "inv:U4", inboxCounts},
	{"near misses", "What lies under nearly the same key is found, in both directions.", "inv:U4", inboxNear},
	{"the inbox counts what it did", "Outcomes in the inbox add up to the responses stored.", "tr:R1 tr:R2 tr:R3 tr:R4 tr:R5 inv:U4", inboxAddsUp},
}

func inboxList(s *scene) {
	id := s.awaiting(sojourn.Key("k")).Job.ID
	var seqs []int64
	add := func(r sojourn.Responded) { seqs = append(seqs, r.Seq) }
	add(s.respond("nobody"))
	add(s.respond("k"))
	s.advance(time.Second)
	add(s.respond("k", message("webhook", "evt_1")))
	add(s.respond("", toJob(id)))
	r := s.answer("nobody")
	r.Kind = "refund"
	add(s.send(r))
	finds := func(f sojourn.InboxFilter, want ...int) {
		s.Helper()
		var got, wanted []int64
		for _, r := range s.inbox(f) {
			got = append(got, r.Seq)
		}
		for _, i := range want {
			wanted = append(wanted, seqs[i])
		}
		if !slices.Equal(got, wanted) {
			s.Fatalf("Inbox(%s) gave %v, want %v", text(f), got, wanted)
		}
	}
	finds(sojourn.InboxFilter{}, 4, 3, 2, 1, 0)
	finds(sojourn.InboxFilter{Limit: 2}, 4, 3)
	finds(sojourn.InboxFilter{Limit: 2, After: strconv.FormatInt(seqs[3], 10)}, 2, 1)
	finds(sojourn.InboxFilter{Limit: 2, After: strconv.FormatInt(seqs[1], 10)}, 0)
	finds(sojourn.InboxFilter{Job: id}, 3, 2, 1)
	finds(sojourn.InboxFilter{Source: "webhook"}, 2)
	finds(sojourn.InboxFilter{Kind: "refund"}, 4)
	finds(sojourn.InboxFilter{Kind: charge, Key: "nobody"}, 0)
	finds(sojourn.InboxFilter{Key: "nobody"}, 4, 0)
	finds(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Applied}}, 1)
	finds(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Early}, Job: id}, 3, 2)
	finds(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Late, sojourn.Stale}})
	for i, seq := range seqs[1:] {
		if seq <= seqs[i] {
			s.Fatalf("the numbers of the responses do not rise: %v", seqs)
		}
	}
}

func inboxFields(s *scene) {
	id := s.enqueue(sojourn.Key("k"))
	s.advance(time.Minute)
	r := s.respond("k", message("kafka/eu", "p0-o17"), body("{}"), failing("declined"))
	lies := s.became(r, sojourn.Early, id)
	same(s, "job", lies.Job, id)
	same(s, "source", lies.Source, "kafka/eu")
	same(s, "message id", lies.MessageID, "p0-o17")
	same(s, "body", string(lies.Body), "{}")
	same(s, "content type", lies.ContentType, "text/plain")
	same(s, "failed", lies.Failed, true)
	same(s, "reason", lies.Reason, "declined")
	same(s, "error", lies.Error, "the other side says declined")
	same(s, "generation", lies.Generation, 1)
	s.at("received_at", lies.ReceivedAt, s.now())
}

func inboxAddsUp(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	old := c.Job.Token
	s.respond("k")                                          // applied
	s.respond("k", message("test", "m1"), body("answer 1")) // its duplicate
	s.respond("k")                                          // early: behind the one taken
	s.respond("nobody")                                     // early: for no job
	s.finish(completed(s.claim()), sojourn.Completed)       // the kept one becomes late
	s.respond("k")                                          // late
	d := s.retrying(sojourn.Key("k"))
	s.advance(10 * time.Second)
	s.claim()
	s.respond("", token(d.Job.Token)) // stale
	s.respond("", token(old))         // late: its job has ended
	counts := map[sojourn.ResponseOutcome]int{}
	for _, r := range s.inbox(sojourn.InboxFilter{}) {
		counts[r.Outcome]++
	}
	want := map[sojourn.ResponseOutcome]int{sojourn.Applied: 1, sojourn.Early: 1, sojourn.Late: 3, sojourn.Stale: 1}
	same(s, "the outcomes", text(counts), text(want))
}

// inboxParked: neither an enqueue nor an Await nor a sweep takes it, and its own id is not that of
// the message that a better rule reads later.
func inboxParked(s *scene) {
	park := sojourn.Response{Park: true, Source: "bank", MessageID: "m", Body: []byte("{"), Reason: "undecodable", Error: "unexpected end"}
	r := s.send(park)
	lies := s.became(r, sojourn.Parked, 0)
	same(s, "reason", lies.Reason, "undecodable")
	same(s, "error", lies.Error, "unexpected end")
	same(s, "body", string(lies.Body), "{")
	same(s, "failed", lies.Failed, false)
	s.at("expires_at", lies.ExpiresAt, s.now().Add(sojourn.DefaultInboxKeep))
	same(s, "repeated", s.send(park).Outcome, sojourn.Duplicate)
	same(s, "counted", s.lies(r.Seq, sojourn.Parked).Duplicates, int32(1))
	c := s.awaiting(sojourn.Key("k"))
	s.lies(r.Seq, sojourn.Parked)
	s.cancel(c.Job.ID)
	same(s, "listed", len(s.inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Parked}})), 1)
	for _, bad := range []sojourn.Response{{Kind: charge, Key: "k"}, {Job: c.Job.ID}, {Token: c.Job.Token}, {Kind: charge}} {
		bad.Park, bad.Source, bad.MessageID = true, "bank", "n"
		_, err := s.store.Respond(s.ctx, []sojourn.Response{bad})
		s.refused(err, sojourn.CodeInvalid, "a parked response with an address")
	}
	s.advance(sojourn.DefaultInboxTTL + time.Second)
	s.sweep()
	s.lies(r.Seq, sojourn.Parked)
	s.advance(sojourn.DefaultInboxKeep)
	s.sweep()
	same(s, "kept", len(s.inbox(sojourn.InboxFilter{Source: "bank"})), 0)
}

func (s *scene) editInbox(e sojourn.InboxEdit) sojourn.Responded {
	s.Helper()
	r, err := s.store.EditInbox(s.ctx, e)
	s.must(err, "EditInbox")
	return r
}

func (s *scene) inboxRefuses(code string, e sojourn.InboxEdit) {
	s.Helper()
	_, err := s.store.EditInbox(s.ctx, e)
	s.refused(err, code, text(e))
}

func inboxOwnTTL(s *scene) {
	r := s.answer("k")
	r.TTL = time.Minute
	short, usual := s.send(r), s.respond("l")
	s.at("expires_at", s.lies(short.Seq, sojourn.Early).ExpiresAt, s.now().Add(time.Minute))
	s.advance(time.Minute)
	s.sweep()
	s.lies(short.Seq, sojourn.Unmatched)
	s.lies(usual.Seq, sojourn.Early)
	for _, ttl := range []time.Duration{time.Millisecond, -time.Second, sojourn.MaxHorizon + 1} {
		bad := s.answer("k")
		bad.TTL = ttl
		_, err := s.store.Respond(s.ctx, []sojourn.Response{bad})
		s.refused(err, sojourn.CodeInvalid, "a time to live of "+ttl.String())
	}
}

func inboxMatch(s *scene) {
	wrong := s.respond("INV-43", message("bank", "evt_1"), body("paid"))
	c := s.awaiting(sojourn.Key("inv-43"))
	e := sojourn.InboxEdit{Seq: wrong.Seq, Action: sojourn.InboxMatch, Job: c.Job.ID, By: "anna"}
	got := s.editInbox(e)
	s.became(got, sojourn.Applied, c.Job.ID)
	old := s.lies(wrong.Seq, sojourn.Unmatched) // it was early, and no job may get it again
	same(s, "replay", old.Replay, got.Seq)
	same(s, "by", old.By, "anna")
	same(s, "repeated", s.editInbox(e).Outcome, sojourn.Duplicate)
	c = s.claim()
	hand := s.inHand(c)
	same(s, "body", string(hand.Body), "paid")
	same(s, "source", hand.Source, "bank")
	same(s, "content type", hand.ContentType, "text/plain")
	// The same one for a key that a job awaits among others.
	s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}}}, sojourn.Awaiting)
	e.Job, e.Kind, e.Key = 0, charge, "a"
	s.became(s.editInbox(e), sojourn.Early, c.Job.ID)
	same(s, "repeated", s.editInbox(e).Outcome, sojourn.Duplicate)
	e.Key = "b"
	s.became(s.editInbox(e), sojourn.Applied, c.Job.ID)
	s.cancel(c.Job.ID)
	parked := s.send(sojourn.Response{Park: true, Source: "bank", MessageID: "evt_2", Body: []byte("{"), Reason: "undecodable", Error: "end"})
	d := s.awaiting(sojourn.Key("k"))
	s.became(s.editInbox(sojourn.InboxEdit{Seq: parked.Seq, Action: sojourn.InboxMatch, Job: d.Job.ID}), sojourn.Applied, d.Job.ID)
	same(s, "reason", s.inHand(s.claim()).Reason, "")
	s.inboxRefuses(sojourn.CodeNotFound, sojourn.InboxEdit{Seq: 1 << 40, Action: sojourn.InboxMatch, Job: d.Job.ID})
	s.inboxRefuses(sojourn.CodeNotFound, sojourn.InboxEdit{Seq: parked.Seq, Action: sojourn.InboxMatch, Job: 1 << 40})
	for _, bad := range []sojourn.InboxEdit{{Action: sojourn.InboxMatch, Job: 1}, {Seq: 1, Action: sojourn.InboxMatch}, {Seq: 1, Action: "give"},
		{Seq: 1, Action: sojourn.InboxMatch, Job: 1, Key: "k", Kind: charge}, {Seq: 1, Action: sojourn.InboxDiscard, Job: 1}, {Seq: 1, Action: sojourn.InboxMatch, Key: "k"}} {
		s.inboxRefuses(sojourn.CodeInvalid, bad)
	}
}

func inboxRetry(s *scene) {
	lone := s.respond("k", failing("declined"))
	retry := sojourn.InboxEdit{Seq: lone.Seq, Action: sojourn.InboxRetry}
	s.inboxRefuses(sojourn.CodeConflict, retry) // it is early: a job gets it by itself
	s.advance(sojourn.DefaultInboxTTL)
	s.sweep()
	s.lies(lone.Seq, sojourn.Unmatched)
	c := s.awaiting(sojourn.Key("k"))
	got := s.editInbox(retry)
	s.became(got, sojourn.Applied, c.Job.ID)
	same(s, "the old one", s.lies(lone.Seq, sojourn.Unmatched).Replay, got.Seq)
	same(s, "repeated", s.editInbox(retry).Outcome, sojourn.Duplicate)
	s.cancel(c.Job.ID)
	late := s.respond("", toJob(c.Job.ID))
	s.became(late, sojourn.Late, c.Job.ID)
	s.became(s.editInbox(sojourn.InboxEdit{Seq: late.Seq, Action: sojourn.InboxRetry}), sojourn.Late, c.Job.ID)
	d := s.retrying(sojourn.Key("l"))
	old := d.Job.Token
	s.advance(10 * time.Second)
	d = s.claim()
	stale := s.respond("", token(old))
	s.finish(await(d, 0), sojourn.Awaiting)
	s.became(s.editInbox(sojourn.InboxEdit{Seq: stale.Seq, Action: sojourn.InboxRetry}), sojourn.Applied, d.Job.ID)
	s.lies(stale.Seq, sojourn.Stale)
	parked := s.send(sojourn.Response{Park: true, Source: "bank", MessageID: "evt_2", Reason: "undecodable"})
	s.inboxRefuses(sojourn.CodeConflict, sojourn.InboxEdit{Seq: parked.Seq, Action: sojourn.InboxRetry})
}

func inboxBelongs(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	applied, kept := s.respond("k"), s.respond("k")
	other := s.enqueue(sojourn.Key("l"))
	before := []string{text(s.get(c.Job.ID)), text(s.get(other)), text(s.inbox(sojourn.InboxFilter{}))}
	for _, seq := range []int64{applied.Seq, kept.Seq} {
		s.inboxRefuses(sojourn.CodeConflict, sojourn.InboxEdit{Seq: seq, Action: sojourn.InboxMatch, Job: other})
		s.inboxRefuses(sojourn.CodeConflict, sojourn.InboxEdit{Seq: seq, Action: sojourn.InboxRetry})
	}
	s.inboxRefuses(sojourn.CodeConflict, sojourn.InboxEdit{Seq: applied.Seq, Action: sojourn.InboxDiscard})
	same(s, "everything", text([]string{text(s.get(c.Job.ID)), text(s.get(other)), text(s.inbox(sojourn.InboxFilter{}))}), text(before))
}

func inboxDiscard(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	s.respond("k")
	kept, early := s.respond("k"), s.respond("nobody")
	same(s, "kept", s.get(c.Job.ID).Kept, 1)
	for _, seq := range []int64{kept.Seq, early.Seq} {
		for range 2 {
			r := s.editInbox(sojourn.InboxEdit{Seq: seq, Action: sojourn.InboxDiscard, By: "anna"})
			same(s, "outcome", r.Outcome, sojourn.Discarded)
		}
		same(s, "by", s.lies(seq, sojourn.Discarded).By, "anna")
	}
	same(s, "kept", s.get(c.Job.ID).Kept, 0)
	d := s.claim()
	s.finish(await(d, time.Hour), sojourn.Awaiting) // the discarded one does not end it
	n := s.awaiting(sojourn.Key("nobody"))
	s.became(s.editInbox(sojourn.InboxEdit{Seq: early.Seq, Action: sojourn.InboxRetry}), sojourn.Applied, n.Job.ID) // a mistake can be undone
	same(s, "listed", len(s.inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Discarded}})), 2)
	s.cancel(c.Job.ID)
	s.lies(kept.Seq, sojourn.Discarded)
	s.advance(sojourn.DefaultInboxKeep)
	s.sweep()
	for _, r := range s.inbox(sojourn.InboxFilter{}) {
		if r.Seq == early.Seq {
			s.Fatal("a discarded response outlives the inbox")
		}
	}
}

func inboxCounts(s *scene) {
	s.advance(time.Second)
	c := s.awaiting(sojourn.Key("k"))
	first := s.now()
	s.respond("k", message("bank", "m1"), body("one"))
	s.advance(time.Second)
	s.respond("k", message("bank", "m1"), body("one"))
	s.respond("nobody")
	gone := s.respond("nobody")
	s.editInbox(sojourn.InboxEdit{Seq: gone.Seq, Action: sojourn.InboxDiscard})
	s.finish(completed(s.claim()), sojourn.Completed)
	s.respond("k", message("bank", "m2"))
	counts, err := s.store.CountInbox(s.ctx)
	s.must(err, "CountInbox")
	same(s, "lying", text(counts.Lying), text(map[sojourn.ResponseOutcome]int64{sojourn.Early: 1, sojourn.Late: 1, sojourn.Stale: 0, sojourn.Unmatched: 0,
		sojourn.Parked: 0, sojourn.Discarded: 1, sojourn.Conflicting: 0}))
	same(s, "recent", text(counts.Recent), text([]sojourn.SourceCount{{Source: "bank", Outcome: sojourn.Applied, Responses: 1, Duplicates: 1},
		{Source: "bank", Outcome: sojourn.Late, Responses: 1}, {Source: "test", Outcome: sojourn.Early, Responses: 1},
		{Source: "test", Outcome: sojourn.Discarded, Responses: 1}}))
	s.at("since", counts.Since, first)
	same(s, "job", s.state(c.Job.ID, sojourn.Completed).ID, c.Job.ID)
}

func inboxNear(s *scene) {
	lower := s.enqueue(sojourn.Key("inv-43"))
	gone := s.enqueue(sojourn.Key("inv-0043"))
	s.cancel(gone)
	s.enqueue(sojourn.Key("inv-57"))
	s.enqueue(sojourn.Key("inv-43"), ofKind("refund"))
	upper := s.respond("INV_43")
	near := func(key string, want ...sojourn.NearMiss) {
		s.Helper()
		got, err := s.store.NearMisses(s.ctx, charge, key)
		s.must(err, "NearMisses")
		if !slices.Equal(got, want) {
			s.Fatalf("near %s is %v, want %v", key, got, want)
		}
	}
	near("INV-43", sojourn.NearMiss{Key: "inv-43", Job: lower}, sojourn.NearMiss{Key: "INV_43", Seq: upper.Seq})
	near("INV_43", sojourn.NearMiss{Key: "inv-43", Job: lower})
	s.advance(sojourn.DefaultInboxTTL)
	s.sweep()
	near("inv-43", sojourn.NearMiss{Key: "INV_43", Seq: s.lies(upper.Seq, sojourn.Unmatched).Seq})
	near("other")
	_, err := s.store.NearMisses(s.ctx, charge, "")
	s.refused(err, sojourn.CodeInvalid, "no key")
}
