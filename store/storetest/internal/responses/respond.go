package responses

import (
	"reflect"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var respondTrials = []kit.Trial{
	{Name: "a response for nobody", Law: "A response that no job has asked for is kept as early, without a job.",
		Covers: "tr:R2 spec:H4 inv:U4 rules:H3", Run: respondNobody},
	{Name: "duplicates", Law: "A message is stored once by (source, message id): a repeat is only counted, whatever became of the first.",
		Covers: "tr:R1 spec:H5 rules:B8 inv:U4", Run: respondDuplicate},
	{Name: "a late response", Law: "A response for a key that only final jobs have is late, names the newest, and touches nothing.",
		Covers: "tr:R3 spec:H5 inv:S2 rules:B5", Run: respondLate},
	{Name: "a late response for an older job of the key", Law: "When the newest final job of a key is gone, the one before it is named, by Respond and by Find.",
		Covers: "tr:R3 tr:O8 tr:W10 spec:H5 spec:P12", Run: respondLateOlder},
	{Name: "rules:B5 what is left over when a job ends", Law: "Everything a job has kept becomes late with its end, and is never given to the next job of the key.",
		Covers: "rules:B5 tr:F1 tr:F8 tr:F9 tr:O1 tr:W6 spec:H5", Run: respondLeftOver},
	{Name: "rules:B5 an answer in hand that no handler was given", Law: "An answer in hand becomes late with the job if no handler was given it, and stays applied if one was.",
		Covers: "rules:B5 tr:O1 tr:F1", Run: respondHandLate},
	{Name: "rules:B4 a response between request and Await", Law: "A response that comes after the crash of a first attempt is given to its retry.",
		Covers: "rules:B4 rules:B1 tr:M3 tr:W1", Run: respondAfterCrash},
	{Name: "a response to a waiting retry", Law: "A response that comes while a retry waits makes it ready at once, as a plain job with the answer in hand.",
		Covers: "tr:M3 rules:B3 rules:B1 spec:H4", Run: respondRetry},
	{Name: "a response to a waiting retry, kind says inbox", Law: "With InboxLate only the next Await takes the response.",
		Covers: "tr:M3 rules:B4 tr:F5", Run: respondInboxLate},
	{Name: "rules:B6 an error response to a waiting retry", Law: "An error response that finds a waiting retry is late: the attempt it could end has ended.",
		Covers: "tr:M4 rules:B6", Run: respondErrorRetry},
	{Name: "rules:B1 whenever a step ends", Law: "A kept answer is found by every way in which a step ends with a retry that waits.",
		Covers: "rules:B1 tr:M3 tr:F2 tr:F7 tr:F11 tr:W1 tr:W5 inv:U4", Run: respondEveryEnd},
	{Name: "the next answer while one is in hand", Law: "An answer that came during a step is in hand in the step after its Await, and the one before it is not.",
		Covers: "tr:M1 tr:F5 tr:R5 inv:U4", Run: respondNext},
	{Name: "rules:B8 two messages", Law: "Two messages with different ids are two answers, even with the same bytes.", Covers: "rules:B8 tr:R5 tr:M1", Run: respondTwice},
	{Name: "responses of one call to one job", Law: "Each response of a call finds the job as those before it have left it: in hand, answered, failed; the newest progress stays.",
		Covers: "tr:R1 tr:R3 tr:R5 tr:R6 tr:M1 tr:M2 tr:M4 inv:U4", Run: respondTogether},
}

func respondNobody(s *kit.Scene) {
	r := s.Respond("nobody", kit.Body("hello"))
	lies := s.Became(r, sojourn.Early, 0)
	kit.Same(s, "kind", lies.Kind, kit.Kind)
	kit.Same(s, "key", lies.Key, "nobody")
	kit.Same(s, "source", lies.Source, "test")
	kit.Same(s, "message id", lies.MessageID, "m1")
	kit.Same(s, "body", string(lies.Body), "hello")
	kit.Same(s, "content type", lies.ContentType, "text/plain")
	s.At("received_at", lies.ReceivedAt, s.Now())
	s.At("expires_at", lies.ExpiresAt, s.Now().Add(sojourn.DefaultInboxTTL))
	id := s.Enqueue(sojourn.Key("nobody")) // an enqueue does not touch the inbox
	s.Stored(r.Seq, sojourn.Early)
	s.State(id, sojourn.Ready)
	s.Enqueue(kit.OfKind("refund"), sojourn.Key("nobody"))
}

func respondDuplicate(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	first := s.Respond("k", kit.Message("webhook", "evt_1"), kit.Body("one"))
	s.Became(first, sojourn.Applied, c.Job.ID)
	look := func() string { // without the count
		j := s.Get(c.Job.ID)
		j.Response.Duplicates, j.Responses = 0, nil
		return kit.Text(j)
	}
	before := look()
	for i := range 2 {
		again := s.Respond("k", kit.Message("webhook", "evt_1"), kit.Body("one"))
		kit.Same(s, "outcome", again.Outcome, sojourn.Duplicate)
		kit.Same(s, "the first one", again.Seq, first.Seq)
		kit.Same(s, "counted", s.Stored(first.Seq, sojourn.Applied).Duplicates, int32(i+1))
	}
	kit.Same(s, "the job", look(), before)
	other := s.Respond("k", kit.Message("kafka", "evt_1"))
	s.Became(other, sojourn.Early, c.Job.ID) // the same id of another source is another message
	d := s.Claim()
	s.Finish(kit.Await(d, 0), sojourn.Ready)
	kit.Same(s, "outcome", s.Respond("k", kit.Message("webhook", "evt_1"), kit.Body("one")).Outcome, sojourn.Duplicate)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	kit.Same(s, "outcome after the end", s.Respond("k", kit.Message("webhook", "evt_1"), kit.Body("one")).Outcome, sojourn.Duplicate)
	conflicts(s, s.Answer("l", kit.Message("webhook", "evt_1"), kit.Body("one")), "another key")
	kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{})), 2)
}

func respondLate(s *kit.Scene) {
	s.Final(sojourn.Completed, sojourn.Key("k"))
	s.Advance(time.Second)
	c := s.Final(sojourn.Failed, sojourn.Key("k"))
	s.Advance(time.Second)
	before := kit.Text(s.Get(c.Job.ID))
	for _, marks := range [][]kit.ResponseOption{nil, {kit.Failing("no")}} {
		s.Became(s.Respond("k", marks...), sojourn.Late, c.Job.ID)
	}
	kit.Same(s, "the final job", kit.Text(s.Get(c.Job.ID)), before)
	late := s.Inbox(sojourn.InboxFilter{Job: c.Job.ID})
	kit.Same(s, "responses shown beside the job", len(late), 2)
	d := s.Running(sojourn.Key("k")) // the next job of the key gets none of them
	s.Finish(kit.Await(d, 0), sojourn.Awaiting)
}

func respondLateOlder(s *kit.Scene) {
	older := s.Final(sojourn.Failed, sojourn.Key("k")).Job.ID // kept without a limit
	s.Advance(time.Second)
	newer := s.Final(sojourn.Completed, sojourn.Key("k")).Job.ID
	s.Became(s.Respond("k"), sojourn.Late, newer)
	s.Swept(sojourn.DefaultRetentionAge+time.Hour, driver.Swept{Pruned: 1})
	s.Gone(newer)
	s.Finds(sojourn.Filter{Kind: kit.Kind, Key: "k"}, older)
	s.Became(s.Respond("k"), sojourn.Late, older)
}

func respondLeftOver(s *kit.Scene) {
	ways := map[string]func(c driver.Claimed){
		"complete": func(c driver.Claimed) { s.Finish(kit.Completed(c), sojourn.Completed) },
		"abort":    func(c driver.Claimed) { s.Finish(kit.Abort(c), sojourn.Failed) },
		"cancel": func(c driver.Claimed) {
			s.Finish(sojourn.Outcome{Lease: c.Lease, Type: sojourn.OutcomeCancelled}, sojourn.Cancelled)
		},
		"edit":     func(c driver.Claimed) { s.Cancel(c.Job.ID) },
		"error":    func(c driver.Claimed) { s.Finish(kit.Failure(c), sojourn.Failed) },
		"crash":    func(driver.Claimed) { s.Swept(kit.LeaseTime, driver.Swept{Lost: 1}) },
		"deadline": func(c driver.Claimed) { s.Outlive(c.Lease, driver.Swept{Deadlines: 1}) },
	}
	for way, end := range kit.InOrder(ways) {
		c := s.Running(sojourn.Key(way), sojourn.MaxAttempts(1), sojourn.MaxCrashes(1), sojourn.Deadline(time.Minute))
		if way == "deadline" {
			s.Advance(kit.LeaseTime)
			s.Extends(c.Lease, true)
		}
		r := s.Respond(way)
		s.Became(r, sojourn.Early, c.Job.ID)
		end(c)
		kit.Same(s, "kept after "+way, s.Get(c.Job.ID).Kept, 0)
		s.Stored(r.Seq, sojourn.Late)
		d := s.Running(sojourn.Key(way))
		s.Finish(kit.Await(d, 0), sojourn.Awaiting)
		s.Cancel(d.Job.ID)
	}
}

func respondHandLate(s *kit.Scene) {
	c := s.Resumed("k")
	answer := s.Inbox(sojourn.InboxFilter{Job: c.Job.ID})[0].Seq
	s.Cancel(c.Job.ID)
	s.Stored(answer, sojourn.Late)
	d := s.Resumed("k")
	answer = s.Inbox(sojourn.InboxFilter{Job: d.Job.ID})[0].Seq
	e := s.Claim()
	more := s.Respond("k")
	s.Became(more, sojourn.Early, d.Job.ID)
	s.Finish(kit.Completed(e), sojourn.Completed)
	s.Stored(answer, sojourn.Applied)
	s.Stored(more.Seq, sojourn.Late)
	f := s.Resumed("k")
	answer = s.Inbox(sojourn.InboxFilter{Job: f.Job.ID})[0].Seq
	s.Finish(kit.Released(s.Claim()), sojourn.Ready) // a release undoes the claim: nothing was done with it
	s.Cancel(f.Job.ID)
	s.Stored(answer, sojourn.Late)
}

func respondAfterCrash(s *kit.Scene) {
	c := s.Running(sojourn.Key("k")) // sends its request, then dies
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.Became(s.Respond("k", kit.Body("in time")), sojourn.Applied, c.Job.ID)
	j := s.State(c.Job.ID, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, false)
	d := s.Claim(kit.By("w2"))
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "in time")
	s.Counters(c.Job.ID, 2, 0, 1)
}

func respondRetry(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"), sojourn.Timeout(time.Minute), kit.Steady(time.Hour))
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.Advance(time.Second)
	s.Became(s.Respond("k", kit.Body("at last")), sojourn.Applied, c.Job.ID)
	j := s.State(c.Job.ID, sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, false)
	s.At("run_at", j.RunAt, s.Now())
	s.InFlight(0, "a retry holds no weight")
	more := s.Respond("k", kit.Body("once more")) // queues behind the one taken
	s.Became(more, sojourn.Early, c.Job.ID)
	d := s.Claim()
	kit.Same(s, "purpose", d.Purpose, sojourn.PurposeStart)
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "at last")
	kit.Same(s, "answers", len(d.Job.Responses), 1)
	s.Counters(c.Job.ID, 2, 1, 0)
	s.Happened(c.Job.ID, "await", "timed_out", "responded")
}

func respondInboxLate(s *kit.Scene) {
	c := s.Retrying(sojourn.Key("k"), kit.Policy(sojourn.Policy{LateToInbox: new(true)}))
	r := s.Respond("k", kit.Body("late"))
	s.Became(r, sojourn.Early, c.Job.ID)
	s.State(c.Job.ID, sojourn.Scheduled)
	s.Advance(10 * time.Second)
	d := s.Claim()
	kit.Same(s, "response", d.Job.Response == nil, true)
	j := s.Finish(kit.Await(d, 0), sojourn.Ready)
	kit.Same(s, "resumed", j.Resumed, true)
	kit.Same(s, "the answer", string(s.ClaimedResponse(s.Claim()).Body), "late")
}

func respondErrorRetry(s *kit.Scene) {
	c := s.Retrying(sojourn.Key("k"))
	s.Became(s.Respond("k", kit.Failing("declined")), sojourn.Late, c.Job.ID)
	j := s.State(c.Job.ID, sojourn.Scheduled)
	kit.Same(s, "reason", j.Reason, "gateway")
	s.Counters(c.Job.ID, 1, 1, 0)
	kit.Same(s, "kept", j.Kept, 0)
	// The same when the retry finds it: it came while the step ran, and the step ends with an
	// error.
	d := s.Running(sojourn.Key("l"), kit.Steady(time.Minute))
	r := s.Respond("l", kit.Failing("declined"))
	s.Became(r, sojourn.Early, d.Job.ID)
	s.Finish(kit.Failure(d), sojourn.Scheduled)
	s.Stored(r.Seq, sojourn.Late)
	s.Counters(d.Job.ID, 1, 1, 0)
}

func respondEveryEnd(s *kit.Scene) {
	again := func(c driver.Claimed) sojourn.Outcome {
		o := kit.Failure(c)
		o.Verdict.Again = true
		return o
	}
	ways := map[string]func(c driver.Claimed){
		"error":   func(c driver.Claimed) { s.Finish(kit.Failure(c), sojourn.Ready) },
		"again":   func(c driver.Claimed) { s.Finish(again(c), sojourn.Ready) },
		"snooze":  func(c driver.Claimed) { s.Finish(kit.Snooze(c, time.Hour), sojourn.Ready) },
		"release": func(c driver.Claimed) { s.Finish(kit.Released(c), sojourn.Ready) },
		"crash":   func(driver.Claimed) { s.Swept(kit.LeaseTime, driver.Swept{Lost: 1}) },
		"timeout": func(c driver.Claimed) { s.Outlive(c.Lease, driver.Swept{TimedOut: 1}) },
	}
	for way, end := range kit.InOrder(ways) {
		c := s.Running(sojourn.Key(way), kit.Steady(time.Hour), sojourn.Timeout(kit.LeaseTime))
		r := s.Respond(way, kit.Body("for "+way))
		s.Became(r, sojourn.Early, c.Job.ID)
		end(c)
		j := s.State(c.Job.ID, sojourn.Ready)
		kit.Same(s, "resumed after "+way, j.Resumed, false)
		kit.Same(s, "kept after "+way, j.Kept, 0)
		s.Stored(r.Seq, sojourn.Applied)
		kit.Same(s, "the answer after "+way, string(s.ClaimedResponse(s.Claim()).Body), "for "+way)
		s.Cancel(c.Job.ID)
	}
}

func respondNext(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	first := s.Respond("k", kit.Body("first"))
	d := s.Claim()
	kit.Same(s, "the answer", string(s.ClaimedResponse(d).Body), "first")
	next := s.Respond("k", kit.Body("next"))
	s.Became(next, sojourn.Early, c.Job.ID)
	s.Finish(kit.Await(d, time.Hour), sojourn.Ready)
	s.Stored(first.Seq, sojourn.Applied)
	s.Stored(next.Seq, sojourn.Applied)
	e := s.Claim()
	kit.Same(s, "the answer after it", string(s.ClaimedResponse(e).Body), "next")
	kit.Same(s, "answers", len(e.Job.Responses), 1)
}

func respondTwice(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"))
	s.Became(s.Respond("k", kit.Body("same")), sojourn.Applied, c.Job.ID)
	s.Became(s.Respond("k", kit.Body("same")), sojourn.Early, c.Job.ID)
}

func respondTogether(s *kit.Scene) {
	all := s.Running(sojourn.Key("all"))
	s.Finish(kit.AwaitAll(all, time.Hour, "x", "y"), sojourn.Awaiting)
	one := s.Awaiting(sojourn.Key("one"))
	last := s.Running(sojourn.Key("last"), sojourn.MaxAttempts(1))
	s.Finish(kit.Await(last, 0), sojourn.Awaiting)
	retried := s.Running(sojourn.Key("retried"), kit.Steady(time.Minute))
	s.Finish(kit.Await(retried, 0), sojourn.Awaiting)
	first, repeated := s.Answer("x", kit.Body("x")), s.Answer("nobody")
	cases := []struct {
		r    sojourn.Response
		want sojourn.ResponseOutcome
		lies sojourn.ResponseOutcome
		job  sojourn.ID
	}{
		{s.Answer("all", kit.Progress("a little")), sojourn.Applied, sojourn.Applied, all.Job.ID},
		{first, sojourn.Early, sojourn.Applied, all.Job.ID}, // until the other one comes
		{s.Answer("all", kit.Progress("half")), sojourn.Applied, sojourn.Applied, all.Job.ID},
		{repeated, sojourn.Early, sojourn.Early, 0},
		{s.Answer("y", kit.Body("y")), sojourn.Applied, sojourn.Applied, all.Job.ID},
		{s.Answer("x"), sojourn.Early, sojourn.Early, all.Job.ID}, // for its next wait
		{first, sojourn.Duplicate, sojourn.Applied, all.Job.ID},
		{repeated, sojourn.Duplicate, sojourn.Early, 0},
		{repeated, sojourn.Duplicate, sojourn.Early, 0},
		{s.Answer("all", kit.Progress("too late")), sojourn.Late, sojourn.Late, all.Job.ID}, // it neither runs nor awaits
		{s.Answer("one"), sojourn.Applied, sojourn.Applied, one.Job.ID},
		{s.Answer("one", kit.Failing("no")), sojourn.Early, sojourn.Early, one.Job.ID},
		{s.Answer("last", kit.Failing("no")), sojourn.Applied, sojourn.Applied, last.Job.ID},
		{s.Answer("last"), sojourn.Late, sojourn.Late, last.Job.ID}, // it has failed
		{s.Answer("retried", kit.Failing("no")), sojourn.Applied, sojourn.Applied, retried.Job.ID},
		{s.Answer("retried", kit.Failing("no")), sojourn.Late, sojourn.Late, retried.Job.ID}, // the attempt it could end has ended
		{s.Answer("retried"), sojourn.Applied, sojourn.Applied, retried.Job.ID},
	}
	rs := make([]sojourn.Response, len(cases))
	for i, c := range cases {
		rs[i] = c.r
	}
	as, err := s.Store.Respond(s.Ctx, rs)
	s.Must(err, "Respond")
	for i, c := range cases {
		if as[i].Outcome != c.want || as[i].Job != c.job {
			s.Fatalf("response %d was answered %s for job %d, want %s for job %d", i, as[i].Outcome, as[i].Job, c.want, c.job)
		}
		s.Stored(as[i].Seq, c.lies)
	}
	kit.Same(s, "repeats inside the call", s.Stored(as[3].Seq, sojourn.Early).Duplicates, int32(2))
	j := s.Get(all.Job.ID)
	kit.Same(s, "progress", j.Progress, "half")
	kit.Same(s, "kept", j.Kept, 1)
	s.State(last.Job.ID, sojourn.Failed)
	s.State(retried.Job.ID, sojourn.Ready)
	got := map[sojourn.ID][]string{}
	for _, c := range s.ClaimMany(kit.UpTo(10)) {
		for _, r := range c.Job.Responses {
			got[c.Job.ID] = append(got[c.Job.ID], string(r.Body))
		}
	}
	want := map[sojourn.ID][]string{all.Job.ID: {"x", "y"}, one.Job.ID: {string(rs[10].Body)}, retried.Job.ID: {string(rs[16].Body)}}
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("the handlers were given %v, want %v", got, want)
	}
}
