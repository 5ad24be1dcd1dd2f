package storetest

import (
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
)

var inboxTrials = []trial{
	{"list the inbox", "The inbox lists every response, newest first, by each field of a filter and page by page.", "spec:H4 spec:H5 inv:U4", inboxList},
	{"what a response carries", "A stored response keeps what was sent and says what became of it.", "tr:R5 spec:H1", inboxFields},
	{"a parked message", "A message that its source could not read lies in the inbox under its reason, once, and no job ever gets it by itself.", "inv:U4 spec:H2", inboxParked},
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
	finds(sojourn.InboxFilter{Limit: 2, Before: seqs[3]}, 2, 1)
	finds(sojourn.InboxFilter{Limit: 2, Before: seqs[1]}, 0)
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
	s.respond("k")                                    // applied
	s.respond("k", message("test", "m1"))             // its duplicate
	s.respond("k")                                    // early: behind the one in hand
	s.respond("nobody")                               // early: for nobody
	s.finish(completed(s.claim()), sojourn.Completed) // the kept one becomes late
	s.respond("k")                                    // late
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

// inboxParked: neither an enqueue nor an Await nor a sweep takes it, and its own id is not that of the message that a better rule reads later.
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
