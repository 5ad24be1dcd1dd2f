package responses

import (
	"slices"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/rules"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var inboxTrials = []kit.Trial{
	{Name: "list the inbox", Law: "The inbox lists every response, newest first, by each field of a filter and page by page.",
		Covers: "spec:H4 spec:H5 inv:U4", Run: inboxList},
	{Name: "what a response carries", Law: "A stored response keeps what was sent and says what became of it.", Covers: "tr:R5 spec:H1", Run: inboxFields},
	{Name: "a parked message", Law: "A message that its source could not read lies in the inbox under its reason, once, and no job ever gets it by itself.",
		Covers: "inv:U4 spec:H2", Run: inboxParked},
	{Name: "a time to live of its own", Law: "A response may say how long it lies early.", Covers: "tr:W9 inv:U4", Run: inboxOwnTTL},
	{Name: "tr:O9 match by hand", Law: "A person gives a response that nobody took to a job: a new response, once for each target; the old one names it.",
		Covers: "tr:O9 inv:U4", Run: inboxMatch},
	{Name: "tr:O9 try again", Law: "A person sends an unmatched, late or stale response again to where it came for.", Covers: "tr:O9 inv:U4", Run: inboxRetry},
	{Name: "tr:O9 not what a job has", Law: "What a job has taken or keeps cannot be matched with another.", Covers: "tr:O9 inv:U4", Run: inboxBelongs},
	{Name: "discard by hand", Law: "A discarded response stays visible, is given to nobody, and leaves the job that kept it.", Covers: "inv:U4", Run: inboxDiscard},
	{Name: "counts of the inbox", Law: "Counts by outcome and by source.", Covers: "inv:U4", Run: inboxCounts},
	{Name: "near misses", Law: "What lies under nearly the same key is found, in both directions.", Covers: "inv:U4", Run: inboxNear},
	{Name: "the inbox counts what it did", Law: "Outcomes in the inbox add up to the responses stored.",
		Covers: "tr:R1 tr:R2 tr:R3 tr:R4 tr:R5 inv:U4", Run: inboxAddsUp},
}

func inboxList(s *kit.Scene) {
	id := s.Awaiting(sojourn.Key("k")).Job.ID
	var seqs []int64
	add := func(r sojourn.Responded) { seqs = append(seqs, r.Seq) }
	add(s.Respond("nobody"))
	add(s.Respond("k"))
	s.Advance(time.Second)
	add(s.Respond("k", kit.Message("webhook", "evt_1")))
	add(s.Respond("", kit.ToJob(id)))
	r := s.Answer("nobody")
	r.Kind = "refund"
	add(s.Send(r))
	finds := func(f sojourn.InboxFilter, want ...int) {
		s.Helper()
		var got, wanted []int64
		for _, r := range s.Inbox(f) {
			got = append(got, r.Seq)
		}
		for _, i := range want {
			wanted = append(wanted, seqs[i])
		}
		if !slices.Equal(got, wanted) {
			s.Fatalf("Inbox(%s) gave %v, want %v", kit.Text(f), got, wanted)
		}
	}
	finds(sojourn.InboxFilter{}, 4, 3, 2, 1, 0)
	finds(sojourn.InboxFilter{Limit: 2}, 4, 3)
	finds(sojourn.InboxFilter{Limit: 2, After: strconv.FormatInt(seqs[3], 10)}, 2, 1)
	finds(sojourn.InboxFilter{Limit: 2, After: strconv.FormatInt(seqs[1], 10)}, 0)
	finds(sojourn.InboxFilter{Job: id}, 3, 2, 1)
	finds(sojourn.InboxFilter{Source: "webhook"}, 2)
	finds(sojourn.InboxFilter{Kind: "refund"}, 4)
	finds(sojourn.InboxFilter{Kind: kit.Kind, Key: "nobody"}, 0)
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

func inboxFields(s *kit.Scene) {
	id := s.Enqueue(sojourn.Key("k"))
	s.Advance(time.Minute)
	r := s.Respond("k", kit.Message("kafka/eu", "p0-o17"), kit.Body("{}"), kit.Failing("declined"))
	lies := s.Became(r, sojourn.Early, id)
	kit.Same(s, "job", lies.Job, id)
	kit.Same(s, "source", lies.Source, "kafka/eu")
	kit.Same(s, "message id", lies.MessageID, "p0-o17")
	kit.Same(s, "body", string(lies.Body), "{}")
	kit.Same(s, "content type", lies.ContentType, "text/plain")
	kit.Same(s, "failed", lies.Failed, true)
	kit.Same(s, "reason", lies.Reason, "declined")
	kit.Same(s, "error", lies.Error, "the other side says declined")
	kit.Same(s, "generation", lies.Generation, 1)
	s.At("received_at", lies.ReceivedAt, s.Now())
}

func inboxAddsUp(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	old := c.Job.Token
	s.Respond("k")                                                  // applied
	s.Respond("k", kit.Message("test", "m1"), kit.Body("answer 1")) // its duplicate
	s.Respond("k")                                                  // early: behind the one taken
	s.Respond("nobody")                                             // early: for no job
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)           // the kept one becomes late
	s.Respond("k")                                                  // late
	d := s.Retrying(sojourn.Key("k"))
	s.Advance(10 * time.Second)
	s.Claim()
	s.Respond("", kit.Token(d.Job.Token)) // stale
	s.Respond("", kit.Token(old))         // late: its job has ended
	counts := map[sojourn.ResponseOutcome]int{}
	for _, r := range s.Inbox(sojourn.InboxFilter{}) {
		counts[r.Outcome]++
	}
	want := map[sojourn.ResponseOutcome]int{sojourn.Applied: 1, sojourn.Early: 1, sojourn.Late: 3, sojourn.Stale: 1}
	kit.Same(s, "the outcomes", kit.Text(counts), kit.Text(want))
}

// inboxParked: neither an enqueue nor an Await nor a sweep takes it, and its own id is not that of
// the message that a better rule reads later.
func inboxParked(s *kit.Scene) {
	park := sojourn.Response{Park: true, Source: "bank", MessageID: "m", Body: []byte("{"), Reason: "undecodable", Error: "unexpected end"}
	r := s.Send(park)
	lies := s.Became(r, sojourn.Parked, 0)
	kit.Same(s, "reason", lies.Reason, "undecodable")
	kit.Same(s, "error", lies.Error, "unexpected end")
	kit.Same(s, "body", string(lies.Body), "{")
	kit.Same(s, "failed", lies.Failed, false)
	s.At("expires_at", lies.ExpiresAt, s.Now().Add(sojourn.DefaultInboxKeep))
	kit.Same(s, "repeated", s.Send(park).Outcome, sojourn.Duplicate)
	kit.Same(s, "counted", s.Stored(r.Seq, sojourn.Parked).Duplicates, int32(1))
	c := s.Awaiting(sojourn.Key("k"))
	s.Stored(r.Seq, sojourn.Parked)
	s.Cancel(c.Job.ID)
	kit.Same(s, "listed", len(s.Inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Parked}})), 1)
	for _, bad := range []sojourn.Response{{Kind: kit.Kind, Key: "k"}, {Job: c.Job.ID}, {Token: c.Job.Token}, {Kind: kit.Kind}} {
		bad.Park, bad.Source, bad.MessageID = true, "bank", "n"
		_, err := s.Store.Respond(s.Ctx, []sojourn.Response{bad})
		s.Refused(err, sojourn.CodeInvalid, "a parked response with an address")
	}
	s.Advance(sojourn.DefaultInboxTTL + time.Second)
	s.Sweep()
	s.Stored(r.Seq, sojourn.Parked)
	s.Advance(sojourn.DefaultInboxKeep)
	s.Sweep()
	kit.Same(s, "kept", len(s.Inbox(sojourn.InboxFilter{Source: "bank"})), 0)
}

func editInbox(s *kit.Scene, e rules.InboxEdit) sojourn.Responded {
	s.Helper()
	r, err := s.Store.EditInbox(s.Ctx, e.Seq, e.Action, e.To())
	s.Must(err, "EditInbox")
	return r
}

func inboxRefuses(s *kit.Scene, code string, e rules.InboxEdit) {
	s.Helper()
	_, err := s.Store.EditInbox(s.Ctx, e.Seq, e.Action, e.To())
	s.Refused(err, code, kit.Text(e))
}

func inboxOwnTTL(s *kit.Scene) {
	r := s.Answer("k")
	r.TTL = time.Minute
	short, usual := s.Send(r), s.Respond("l")
	s.At("expires_at", s.Stored(short.Seq, sojourn.Early).ExpiresAt, s.Now().Add(time.Minute))
	s.Advance(time.Minute)
	s.Sweep()
	s.Stored(short.Seq, sojourn.Unmatched)
	s.Stored(usual.Seq, sojourn.Early)
	for _, ttl := range []time.Duration{time.Millisecond, -time.Second, sojourn.MaxHorizon + 1} {
		bad := s.Answer("k")
		bad.TTL = ttl
		_, err := s.Store.Respond(s.Ctx, []sojourn.Response{bad})
		s.Refused(err, sojourn.CodeInvalid, "a time to live of "+ttl.String())
	}
}

func inboxMatch(s *kit.Scene) {
	wrong := s.Respond("INV-43", kit.Message("bank", "evt_1"), kit.Body("paid"))
	c := s.Awaiting(sojourn.Key("inv-43"))
	e := rules.InboxEdit{Seq: wrong.Seq, Action: sojourn.InboxMatch, Job: c.Job.ID, By: "anna"}
	got := editInbox(s, e)
	s.Became(got, sojourn.Applied, c.Job.ID)
	old := s.Stored(wrong.Seq, sojourn.Unmatched) // it was early, and no job may get it again
	kit.Same(s, "replay", old.Replay, got.Seq)
	kit.Same(s, "by", old.By, "anna")
	kit.Same(s, "repeated", editInbox(s, e).Outcome, sojourn.Duplicate)
	c = s.Claim()
	hand := s.ClaimedResponse(c)
	kit.Same(s, "body", string(hand.Body), "paid")
	kit.Same(s, "source", hand.Source, "bank")
	kit.Same(s, "content type", hand.ContentType, "text/plain")
	// The same one for a key that a job awaits among others.
	s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeAwait, Wait: sojourn.Wait{Mode: sojourn.WaitAll, Keys: []string{"a", "b"}}}, sojourn.Awaiting)
	e.Job, e.Kind, e.Key = 0, kit.Kind, "a"
	s.Became(editInbox(s, e), sojourn.Early, c.Job.ID)
	kit.Same(s, "repeated", editInbox(s, e).Outcome, sojourn.Duplicate)
	e.Key = "b"
	s.Became(editInbox(s, e), sojourn.Applied, c.Job.ID)
	s.Cancel(c.Job.ID)
	parked := s.Send(sojourn.Response{Park: true, Source: "bank", MessageID: "evt_2", Body: []byte("{"), Reason: "undecodable", Error: "end"})
	d := s.Awaiting(sojourn.Key("k"))
	s.Became(editInbox(s, rules.InboxEdit{Seq: parked.Seq, Action: sojourn.InboxMatch, Job: d.Job.ID}), sojourn.Applied, d.Job.ID)
	kit.Same(s, "reason", s.ClaimedResponse(s.Claim()).Reason, "")
	inboxRefuses(s, sojourn.CodeNotFound, rules.InboxEdit{Seq: 1 << 40, Action: sojourn.InboxMatch, Job: d.Job.ID})
	inboxRefuses(s, sojourn.CodeNotFound, rules.InboxEdit{Seq: parked.Seq, Action: sojourn.InboxMatch, Job: 1 << 40})
	for _, bad := range []rules.InboxEdit{{Action: sojourn.InboxMatch, Job: 1}, {Seq: 1, Action: sojourn.InboxMatch}, {Seq: 1, Action: "give"},
		{Seq: 1, Action: sojourn.InboxMatch, Job: 1, Key: "k", Kind: kit.Kind}, {Seq: 1, Action: sojourn.InboxDiscard, Job: 1}, {Seq: 1, Action: sojourn.InboxMatch, Key: "k"}} {
		inboxRefuses(s, sojourn.CodeInvalid, bad)
	}
}

func inboxRetry(s *kit.Scene) {
	lone := s.Respond("k", kit.Failing("declined"))
	retry := rules.InboxEdit{Seq: lone.Seq, Action: sojourn.InboxRetry}
	inboxRefuses(s, sojourn.CodeConflict, retry) // it is early: a job gets it by itself
	s.Advance(sojourn.DefaultInboxTTL)
	s.Sweep()
	s.Stored(lone.Seq, sojourn.Unmatched)
	c := s.Awaiting(sojourn.Key("k"))
	got := editInbox(s, retry)
	s.Became(got, sojourn.Applied, c.Job.ID)
	kit.Same(s, "the old one", s.Stored(lone.Seq, sojourn.Unmatched).Replay, got.Seq)
	kit.Same(s, "repeated", editInbox(s, retry).Outcome, sojourn.Duplicate)
	s.Cancel(c.Job.ID)
	late := s.Respond("", kit.ToJob(c.Job.ID))
	s.Became(late, sojourn.Late, c.Job.ID)
	s.Became(editInbox(s, rules.InboxEdit{Seq: late.Seq, Action: sojourn.InboxRetry}), sojourn.Late, c.Job.ID)
	d := s.Retrying(sojourn.Key("l"))
	old := d.Job.Token
	s.Advance(10 * time.Second)
	d = s.Claim()
	stale := s.Respond("", kit.Token(old))
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
	s.Became(editInbox(s, rules.InboxEdit{Seq: stale.Seq, Action: sojourn.InboxRetry}), sojourn.Applied, d.Job.ID)
	s.Stored(stale.Seq, sojourn.Stale)
	parked := s.Send(sojourn.Response{Park: true, Source: "bank", MessageID: "evt_2", Reason: "undecodable"})
	inboxRefuses(s, sojourn.CodeConflict, rules.InboxEdit{Seq: parked.Seq, Action: sojourn.InboxRetry})
}

func inboxBelongs(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	applied, kept := s.Respond("k"), s.Respond("k")
	other := s.Enqueue(sojourn.Key("l"))
	before := []string{kit.Text(s.Get(c.Job.ID)), kit.Text(s.Get(other)), kit.Text(s.Inbox(sojourn.InboxFilter{}))}
	for _, seq := range []int64{applied.Seq, kept.Seq} {
		inboxRefuses(s, sojourn.CodeConflict, rules.InboxEdit{Seq: seq, Action: sojourn.InboxMatch, Job: other})
		inboxRefuses(s, sojourn.CodeConflict, rules.InboxEdit{Seq: seq, Action: sojourn.InboxRetry})
	}
	inboxRefuses(s, sojourn.CodeConflict, rules.InboxEdit{Seq: applied.Seq, Action: sojourn.InboxDiscard})
	kit.Same(s, "everything", kit.Text([]string{kit.Text(s.Get(c.Job.ID)), kit.Text(s.Get(other)), kit.Text(s.Inbox(sojourn.InboxFilter{}))}), kit.Text(before))
}

func inboxDiscard(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	s.Respond("k")
	kept, early := s.Respond("k"), s.Respond("nobody")
	kit.Same(s, "kept", s.Get(c.Job.ID).Kept, 1)
	for _, seq := range []int64{kept.Seq, early.Seq} {
		for range 2 {
			r := editInbox(s, rules.InboxEdit{Seq: seq, Action: sojourn.InboxDiscard, By: "anna"})
			kit.Same(s, "outcome", r.Outcome, sojourn.Discarded)
		}
		kit.Same(s, "by", s.Stored(seq, sojourn.Discarded).By, "anna")
	}
	kit.Same(s, "kept", s.Get(c.Job.ID).Kept, 0)
	d := s.Claim()
	s.Finish(kit.Await(d, time.Hour), sojourn.Awaiting) // the discarded one does not end it
	n := s.Awaiting(sojourn.Key("nobody"))
	s.Became(editInbox(s, rules.InboxEdit{Seq: early.Seq, Action: sojourn.InboxRetry}), sojourn.Applied, n.Job.ID) // a mistake can be undone
	kit.Same(s, "listed", len(s.Inbox(sojourn.InboxFilter{Outcomes: []sojourn.ResponseOutcome{sojourn.Discarded}})), 2)
	s.Cancel(c.Job.ID)
	s.Stored(kept.Seq, sojourn.Discarded)
	s.Advance(sojourn.DefaultInboxKeep)
	s.Sweep()
	for _, r := range s.Inbox(sojourn.InboxFilter{}) {
		if r.Seq == early.Seq {
			s.Fatal("a discarded response outlives the inbox")
		}
	}
}

func inboxCounts(s *kit.Scene) {
	s.Advance(time.Second)
	c := s.Awaiting(sojourn.Key("k"))
	first := s.Now()
	s.Respond("k", kit.Message("bank", "m1"), kit.Body("one"))
	s.Advance(time.Second)
	s.Respond("k", kit.Message("bank", "m1"), kit.Body("one"))
	s.Respond("nobody")
	gone := s.Respond("nobody")
	editInbox(s, rules.InboxEdit{Seq: gone.Seq, Action: sojourn.InboxDiscard})
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	s.Respond("k", kit.Message("bank", "m2"))
	counts, err := s.Store.CountInbox(s.Ctx)
	s.Must(err, "CountInbox")
	kit.Same(s, "lying", kit.Text(counts.Lying), kit.Text(map[sojourn.ResponseOutcome]int64{sojourn.Early: 1, sojourn.Late: 1, sojourn.Stale: 0, sojourn.Unmatched: 0,
		sojourn.Parked: 0, sojourn.Discarded: 1, sojourn.Conflicting: 0}))
	kit.Same(s, "by source", kit.Text(counts.BySource), kit.Text(map[string]map[sojourn.ResponseOutcome]int64{
		"bank": {sojourn.Applied: 1, sojourn.Duplicate: 1, sojourn.Late: 1}, "test": {sojourn.Early: 1, sojourn.Discarded: 1}}))
	s.At("since", counts.Since, first)
	kit.Same(s, "job", s.State(c.Job.ID, sojourn.Completed).ID, c.Job.ID)
}

func inboxNear(s *kit.Scene) {
	lower := s.Enqueue(sojourn.Key("inv-43"))
	gone := s.Enqueue(sojourn.Key("inv-0043"))
	s.Cancel(gone)
	s.Enqueue(sojourn.Key("inv-57"))
	s.Enqueue(sojourn.Key("inv-43"), kit.OfKind("refund"))
	upper := s.Respond("INV_43")
	near := func(key string, want ...sojourn.NearMiss) {
		s.Helper()
		got, err := s.Store.NearMisses(s.Ctx, kit.Kind, key)
		s.Must(err, "NearMisses")
		if !slices.Equal(got, want) {
			s.Fatalf("near %s is %v, want %v", key, got, want)
		}
	}
	near("INV-43", sojourn.NearMiss{Key: "inv-43", Job: lower}, sojourn.NearMiss{Key: "INV_43", Seq: upper.Seq})
	near("INV_43", sojourn.NearMiss{Key: "inv-43", Job: lower})
	s.Advance(sojourn.DefaultInboxTTL)
	s.Sweep()
	near("inv-43", sojourn.NearMiss{Key: "INV_43", Seq: s.Stored(upper.Seq, sojourn.Unmatched).Seq})
	near("other")
	_, err := s.Store.NearMisses(s.Ctx, kit.Kind, "")
	s.Refused(err, sojourn.CodeInvalid, "no key")
}
