package storetest

import (
	"reflect"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var respondTrials = []trial{
	{"a response for nobody", "A response that no job has asked for is kept as early, without a job.", "tr:R2 spec:H4 inv:U4 rules:H3", respondNobody},
	{"duplicates", "A message is stored once by (source, message id): a repeat is only counted, whatever became of the first.",
		"tr:R1 spec:H5 rules:B8 inv:U4", respondDuplicate},
	{"a late response", "A response for a key that only final jobs have is late, names the newest, and touches nothing.",
		"tr:R3 spec:H5 inv:S2 rules:B5", respondLate},
	{"a late response for an older job of the key", "When the newest final job of a key is gone, the one before it is named, by Respond and by Find.",
		"tr:R3 tr:O8 tr:W10 spec:H5 spec:P12", respondLateOlder},
	{"rules:B5 what is left over when a job ends", "Everything a job has kept becomes late with its end, and is never given to the next job of the key.",
		"rules:B5 tr:F1 tr:F8 tr:F9 tr:O1 tr:W6 spec:H5", respondLeftOver},
	{"rules:B5 an answer in hand that no handler was given", "An answer in hand becomes late with the job if no handler was given it, and stays applied if one was.",
		"rules:B5 tr:O1 tr:F1", respondHandLate},
	{"rules:B4 a response between request and Await", "A response that comes after the crash of a first attempt is given to its retry.",
		"rules:B4 rules:B1 tr:M3 tr:W1", respondAfterCrash},
	{"a response to a waiting retry", "A response that comes while a retry waits makes it ready at once, as a plain job with the answer in hand.",
		"tr:M3 rules:B3 rules:B1 spec:H4", respondRetry},
	{"a response to a waiting retry, kind says inbox", "With InboxLate only the next Await takes the response.", "tr:M3 rules:B4 tr:F5", respondInboxLate},
	{"rules:B6 an error response to a waiting retry", "An error response that finds a waiting retry is late: the attempt it could end has ended.",
		"tr:M4 rules:B6", respondErrorRetry},
	{"rules:B1 whenever a step ends", "A kept answer is found by every way in which a step ends with a retry that waits.",
		"rules:B1 tr:M3 tr:F2 tr:F7 tr:F11 tr:W1 tr:W5 inv:U4", respondEveryEnd},
	{"rules:B8 two messages", "Two messages with different ids are two answers, even with the same bytes.", "rules:B8 tr:R5 tr:M1", respondTwice},
	{"responses of one call to one job", "Each response of a call finds the job as those before it have left it: in hand, answered, failed; the newest progress stays.",
		"tr:R1 tr:R3 tr:R5 tr:R6 tr:M1 tr:M2 tr:M4 inv:U4", respondTogether},
}

func respondNobody(s *scene) {
	r := s.respond("nobody", body("hello"))
	lies := s.became(r, sojourn.Early, 0)
	same(s, "kind", lies.Kind, charge)
	same(s, "key", lies.Key, "nobody")
	same(s, "source", lies.Source, "test")
	same(s, "message id", lies.MessageID, "m1")
	same(s, "body", string(lies.Body), "hello")
	same(s, "content type", lies.ContentType, "text/plain")
	s.at("received_at", lies.ReceivedAt, s.now())
	s.at("expires_at", lies.ExpiresAt, s.now().Add(sojourn.DefaultInboxTTL))
	id := s.enqueue(sojourn.Key("nobody")) // an enqueue does not touch the inbox
	s.lies(r.Seq, sojourn.Early)
	s.state(id, sojourn.Ready)
	s.enqueue(ofKind("refund"), sojourn.Key("nobody"))
}

func respondDuplicate(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	first := s.respond("k", message("webhook", "evt_1"), body("one"))
	s.became(first, sojourn.Applied, c.Job.ID)
	look := func() string { // without the count
		j := s.get(c.Job.ID)
		j.Response.Duplicates, j.Responses = 0, nil
		return text(j)
	}
	before := look()
	for i := range 2 {
		again := s.respond("k", message("webhook", "evt_1"), body("one"))
		same(s, "outcome", again.Outcome, sojourn.Duplicate)
		same(s, "the first one", again.Seq, first.Seq)
		same(s, "counted", s.lies(first.Seq, sojourn.Applied).Duplicates, int32(i+1))
	}
	same(s, "the job", look(), before)
	other := s.respond("k", message("kafka", "evt_1"))
	s.became(other, sojourn.Early, c.Job.ID) // the same id of another source is another message
	d := s.claim()
	s.finish(await(d, 0), sojourn.Ready)
	same(s, "outcome", s.respond("k", message("webhook", "evt_1"), body("one")).Outcome, sojourn.Duplicate)
	s.finish(completed(s.claim()), sojourn.Completed)
	same(s, "outcome after the end", s.respond("k", message("webhook", "evt_1"), body("one")).Outcome, sojourn.Duplicate)
	s.conflicts(s.answer("l", message("webhook", "evt_1"), body("one")), "another key")
	same(s, "responses", len(s.inbox(sojourn.InboxFilter{})), 2)
}

func respondLate(s *scene) {
	s.final(sojourn.Completed, sojourn.Key("k"))
	s.advance(time.Second)
	c := s.final(sojourn.Failed, sojourn.Key("k"))
	s.advance(time.Second)
	before := text(s.get(c.Job.ID))
	for _, marks := range [][]mark{nil, {failing("no")}} {
		s.became(s.respond("k", marks...), sojourn.Late, c.Job.ID)
	}
	same(s, "the final job", text(s.get(c.Job.ID)), before)
	late := s.inbox(sojourn.InboxFilter{Job: c.Job.ID})
	same(s, "responses shown beside the job", len(late), 2)
	d := s.running(sojourn.Key("k")) // the next job of the key gets none of them
	s.finish(await(d, 0), sojourn.Awaiting)
}

func respondLateOlder(s *scene) {
	older := s.final(sojourn.Failed, sojourn.Key("k")).Job.ID // kept without a limit
	s.advance(time.Second)
	newer := s.final(sojourn.Completed, sojourn.Key("k")).Job.ID
	s.became(s.respond("k"), sojourn.Late, newer)
	s.swept(sojourn.DefaultRetentionAge+time.Hour, driver.Swept{Pruned: 1})
	s.gone(newer)
	s.finds(sojourn.Filter{Kind: charge, Key: "k"}, older)
	s.became(s.respond("k"), sojourn.Late, older)
}

func respondLeftOver(s *scene) {
	ways := map[string]func(c driver.Claimed){
		"complete": func(c driver.Claimed) { s.finish(completed(c), sojourn.Completed) },
		"abort":    func(c driver.Claimed) { s.finish(abort(c), sojourn.Failed) },
		"cancel": func(c driver.Claimed) {
			s.finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled}, sojourn.Cancelled)
		},
		"edit":     func(c driver.Claimed) { s.cancel(c.Job.ID) },
		"error":    func(c driver.Claimed) { s.finish(failure(c), sojourn.Failed) },
		"crash":    func(driver.Claimed) { s.swept(lease, driver.Swept{Lost: 1}) },
		"deadline": func(c driver.Claimed) { s.outlive(c.Lease, driver.Swept{Deadlines: 1}) },
	}
	for way, end := range inOrder(ways) {
		c := s.running(sojourn.Key(way), sojourn.MaxAttempts(1), sojourn.MaxCrashes(1), sojourn.Deadline(time.Minute))
		if way == "deadline" {
			s.advance(lease)
			s.extends(c.Lease, true)
		}
		r := s.respond(way)
		s.became(r, sojourn.Early, c.Job.ID)
		end(c)
		same(s, "kept after "+way, s.get(c.Job.ID).Kept, 0)
		s.lies(r.Seq, sojourn.Late)
		d := s.running(sojourn.Key(way))
		s.finish(await(d, 0), sojourn.Awaiting)
		s.cancel(d.Job.ID)
	}
}

func respondHandLate(s *scene) {
	c := s.resumed("k")
	answer := s.inbox(sojourn.InboxFilter{Job: c.Job.ID})[0].Seq
	s.cancel(c.Job.ID)
	s.lies(answer, sojourn.Late)
	d := s.resumed("k")
	answer = s.inbox(sojourn.InboxFilter{Job: d.Job.ID})[0].Seq
	e := s.claim()
	more := s.respond("k")
	s.became(more, sojourn.Early, d.Job.ID)
	s.finish(completed(e), sojourn.Completed)
	s.lies(answer, sojourn.Applied)
	s.lies(more.Seq, sojourn.Late)
	f := s.resumed("k")
	answer = s.inbox(sojourn.InboxFilter{Job: f.Job.ID})[0].Seq
	s.finish(released(s.claim()), sojourn.Ready) // a release undoes the claim: nothing was done with it
	s.cancel(f.Job.ID)
	s.lies(answer, sojourn.Late)
}

func respondAfterCrash(s *scene) {
	c := s.running(sojourn.Key("k")) // sends its request, then dies
	s.swept(lease, driver.Swept{Lost: 1})
	s.became(s.respond("k", body("in time")), sojourn.Applied, c.Job.ID)
	j := s.state(c.Job.ID, sojourn.Ready)
	same(s, "resumed", j.Resumed, false)
	d := s.claim(by("w2"))
	same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	same(s, "the answer", string(s.inHand(d).Body), "in time")
	s.counters(c.Job.ID, 2, 0, 1)
}

func respondRetry(s *scene) {
	c := s.awaiting(sojourn.Key("k"), sojourn.Timeout(time.Minute), steady(time.Hour))
	s.swept(time.Minute, driver.Swept{TimedOut: 1})
	s.advance(time.Second)
	s.became(s.respond("k", body("at last")), sojourn.Applied, c.Job.ID)
	j := s.state(c.Job.ID, sojourn.Ready)
	same(s, "resumed", j.Resumed, false)
	s.at("run_at", j.RunAt, s.now())
	s.inFlight(0, "a retry holds no weight")
	more := s.respond("k", body("once more")) // queues behind the one taken
	s.became(more, sojourn.Early, c.Job.ID)
	d := s.claim()
	same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	same(s, "the answer", string(s.inHand(d).Body), "at last")
	same(s, "answers", len(d.Job.Responses), 1)
	s.counters(c.Job.ID, 2, 1, 0)
	s.happened(c.Job.ID, "await", "timed_out", "responded")
}

func respondInboxLate(s *scene) {
	c := s.retrying(sojourn.Key("k"), policy(sojourn.Policy{LateResponse: sojourn.InboxLate}))
	r := s.respond("k", body("late"))
	s.became(r, sojourn.Early, c.Job.ID)
	s.state(c.Job.ID, sojourn.Scheduled)
	s.advance(10 * time.Second)
	d := s.claim()
	same(s, "response", d.Job.Response == nil, true)
	j := s.finish(await(d, 0), sojourn.Ready)
	same(s, "resumed", j.Resumed, true)
	same(s, "the answer", string(s.inHand(s.claim()).Body), "late")
}

func respondErrorRetry(s *scene) {
	c := s.retrying(sojourn.Key("k"))
	s.became(s.respond("k", failing("declined")), sojourn.Late, c.Job.ID)
	j := s.state(c.Job.ID, sojourn.Scheduled)
	same(s, "reason", j.Reason, "gateway")
	s.counters(c.Job.ID, 1, 1, 0)
	same(s, "kept", j.Kept, 0)
	// The same when the retry finds it: it came while the step ran, and the step ends with an
	// error.
	d := s.running(sojourn.Key("l"), steady(time.Minute))
	r := s.respond("l", failing("declined"))
	s.became(r, sojourn.Early, d.Job.ID)
	s.finish(failure(d), sojourn.Scheduled)
	s.lies(r.Seq, sojourn.Late)
	s.counters(d.Job.ID, 1, 1, 0)
}

func respondEveryEnd(s *scene) {
	again := func(c driver.Claimed) sojourn.Outcome {
		o := failure(c)
		o.Verdict.Again = true
		return o
	}
	ways := map[string]func(c driver.Claimed){
		"error":   func(c driver.Claimed) { s.finish(failure(c), sojourn.Ready) },
		"again":   func(c driver.Claimed) { s.finish(again(c), sojourn.Ready) },
		"snooze":  func(c driver.Claimed) { s.finish(snooze(c, time.Hour), sojourn.Ready) },
		"release": func(c driver.Claimed) { s.finish(released(c), sojourn.Ready) },
		"crash":   func(driver.Claimed) { s.swept(lease, driver.Swept{Lost: 1}) },
		"timeout": func(c driver.Claimed) { s.outlive(c.Lease, driver.Swept{TimedOut: 1}) },
	}
	for way, end := range inOrder(ways) {
		c := s.running(sojourn.Key(way), steady(time.Hour), sojourn.Timeout(lease))
		r := s.respond(way, body("for "+way))
		s.became(r, sojourn.Early, c.Job.ID)
		end(c)
		j := s.state(c.Job.ID, sojourn.Ready)
		same(s, "resumed after "+way, j.Resumed, false)
		same(s, "kept after "+way, j.Kept, 0)
		s.lies(r.Seq, sojourn.Applied)
		same(s, "the answer after "+way, string(s.inHand(s.claim()).Body), "for "+way)
		s.cancel(c.Job.ID)
	}
}

func respondTwice(s *scene) {
	c := s.awaiting(sojourn.Key("k"))
	s.became(s.respond("k", body("same")), sojourn.Applied, c.Job.ID)
	s.became(s.respond("k", body("same")), sojourn.Early, c.Job.ID)
}

func respondTogether(s *scene) {
	all := s.running(sojourn.Key("all"))
	s.finish(awaitAll(all, time.Hour, "x", "y"), sojourn.Awaiting)
	one := s.awaiting(sojourn.Key("one"))
	last := s.running(sojourn.Key("last"), sojourn.MaxAttempts(1))
	s.finish(await(last, 0), sojourn.Awaiting)
	retried := s.running(sojourn.Key("retried"), steady(time.Minute))
	s.finish(await(retried, 0), sojourn.Awaiting)
	first, repeated := s.answer("x", body("x")), s.answer("nobody")
	cases := []struct {
		r    sojourn.Response
		want sojourn.ResponseOutcome
		lies sojourn.ResponseOutcome
		job  sojourn.ID
	}{
		{s.answer("all", lively("a little")), sojourn.Applied, sojourn.Applied, all.Job.ID},
		{first, sojourn.Early, sojourn.Applied, all.Job.ID}, // until the other one comes
		{s.answer("all", lively("half")), sojourn.Applied, sojourn.Applied, all.Job.ID},
		{repeated, sojourn.Early, sojourn.Early, 0},
		{s.answer("y", body("y")), sojourn.Applied, sojourn.Applied, all.Job.ID},
		{s.answer("x"), sojourn.Early, sojourn.Early, all.Job.ID}, // for its next wait
		{first, sojourn.Duplicate, sojourn.Applied, all.Job.ID},
		{repeated, sojourn.Duplicate, sojourn.Early, 0},
		{repeated, sojourn.Duplicate, sojourn.Early, 0},
		{s.answer("all", lively("too late")), sojourn.Late, sojourn.Late, all.Job.ID}, // it neither runs nor awaits
		{s.answer("one"), sojourn.Applied, sojourn.Applied, one.Job.ID},
		{s.answer("one", failing("no")), sojourn.Early, sojourn.Early, one.Job.ID},
		{s.answer("last", failing("no")), sojourn.Applied, sojourn.Applied, last.Job.ID},
		{s.answer("last"), sojourn.Late, sojourn.Late, last.Job.ID}, // it has failed
		{s.answer("retried", failing("no")), sojourn.Applied, sojourn.Applied, retried.Job.ID},
		{s.answer("retried", failing("no")), sojourn.Late, sojourn.Late, retried.Job.ID}, // the attempt it could end has ended
		{s.answer("retried"), sojourn.Applied, sojourn.Applied, retried.Job.ID},
	}
	rs := make([]sojourn.Response, len(cases))
	for i, c := range cases {
		rs[i] = c.r
	}
	as, err := s.store.Respond(s.ctx, rs)
	s.must(err, "Respond")
	for i, c := range cases {
		if as[i].Outcome != c.want || as[i].Job != c.job {
			s.Fatalf("response %d was answered %s for job %d, want %s for job %d", i, as[i].Outcome, as[i].Job, c.want, c.job)
		}
		s.lies(as[i].Seq, c.lies)
	}
	same(s, "repeats inside the call", s.lies(as[3].Seq, sojourn.Early).Duplicates, int32(2))
	j := s.get(all.Job.ID)
	same(s, "progress", j.Progress, "half")
	same(s, "kept", j.Kept, 1)
	s.state(last.Job.ID, sojourn.Failed)
	s.state(retried.Job.ID, sojourn.Ready)
	got := map[sojourn.ID][]string{}
	for _, c := range s.claimMany(upTo(10)) {
		for _, r := range c.Job.Responses {
			got[c.Job.ID] = append(got[c.Job.ID], string(r.Body))
		}
	}
	want := map[sojourn.ID][]string{all.Job.ID: {"x", "y"}, one.Job.ID: {string(rs[10].Body)}, retried.Job.ID: {string(rs[16].Body)}}
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("the handlers were given %v, want %v", got, want)
	}
}
