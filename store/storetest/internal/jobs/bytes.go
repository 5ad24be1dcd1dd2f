package jobs

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var bytesTrials = []kit.Trial{
	{Name: "bytes come back as they are", Law: "Args, result, checkpoint, response body and error text round-trip byte for byte.",
		Covers: "inv:C6 spec:J3 spec:J23 spec:D1 spec:H1 spec:R13", Run: bytesRoundTrip},
	{Name: "random bytes come back as they are", Law: "Any bytes of any length round-trip.", Covers: "inv:C6 spec:J3 inv:N3", Run: bytesRandom},
	{Name: "every text can be stored", Law: "No reason, error, progress or log line is a ground to refuse an outcome.",
		Covers: "inv:C6 inv:C3 inv:P4 tr:F2", Run: textsStored},
}

var limitTrials = []kit.Trial{
	{Name: "limits of bytes", Law: "Each of args, result, checkpoint and body is taken at the limit and refused above it.",
		Covers: "inv:N3 inv:C3 spec:J3 tr:F15", Run: limits},
	{Name: "large bytes", Law: "A store opened for 16 MiB takes them, and gives them back in a claim.", Covers: "inv:N3 spec:J3", Run: limitLarge},
}

// nasty are bytes that have broken stores.
var nasty = []string{
	"", "\x00", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "\xc0\x80", `"\ud800"`, "null", "{}", `{"a":1,"a":2}`, `{"n":12345678901234567890.10}`, " \r\n\t ",
	"'; DROP TABLE jobs; --", "%s %d \\ \" '", "\u202e\u0000\U0001F600", "\xef\xbb\xbf{}", strings.Repeat("[", 2000), strings.Repeat("\x00", 5000),
	"ÄÖÜ ﷺ \u0301\u0301", "$1 ? :a @b",
}

// roundTrip takes bytes through the whole life of a job.
func roundTrip(s *kit.Scene, b []byte) {
	s.Helper()
	is := func(what string, got []byte) {
		s.Helper()
		if !bytes.Equal(got, b) {
			s.Fatalf("%s of %d bytes came back as %d: %.60q became %.60q (seed %d)", what, len(b), len(got), b, got, s.Seed)
		}
	}
	own := bytes.Clone(b)
	id := s.Enqueue(sojourn.Key("k"), kit.Typed(plain), func(j *sojourn.Job) { j.Args = own })
	c := s.Claim()
	is("claimed args", c.Job.Args)
	s.Must(s.Save(driver.Saved{Lease: c.Lease, Checkpoint: bytes.Clone(b)}), "Save")
	is("checkpoint", s.Get(id).Checkpoint)
	o := kit.Failure(c)
	o.Text, o.Verdict.Delay = string(b), sojourn.Now
	s.Report(o)
	is("error text", []byte(s.Get(id).Error))
	is("error text in the history", []byte(s.History(id)[0].Error))
	c = s.Claim()
	is("claimed checkpoint", c.Job.Checkpoint)
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	s.Respond("k", func(r *sojourn.Response) { r.Body = bytes.Clone(b) })
	is("body in the inbox", s.Inbox(sojourn.InboxFilter{Job: id, Limit: 1})[0].Body)
	c = s.Claim()
	is("body in hand", s.ClaimedResponse(c).Body)
	o = kit.Completed(c)
	o.Result = bytes.Clone(b)
	s.Finish(o, sojourn.Completed)
	j := s.Get(id)
	is("result", j.Result)
	is("args", j.Args)
	is("checkpoint", j.Checkpoint)
	is("the caller's own bytes", own)
}

func bytesRoundTrip(s *kit.Scene) {
	for _, b := range nasty {
		roundTrip(s, []byte(b))
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	roundTrip(s, all)
}

func bytesRandom(s *kit.Scene) {
	for range 25 {
		b := make([]byte, s.Random(1<<s.Random(16)+1))
		for i := range b {
			b[i] = byte(s.Random(256))
		}
		roundTrip(s, b)
	}
}

func textsStored(s *kit.Scene) {
	for i, b := range nasty {
		id := s.Enqueue(sojourn.MaxAttempts(1))
		c := s.Claim()
		progress := b
		s.Must(s.Save(driver.Saved{Lease: c.Lease, Progress: &progress, Log: []sojourn.LogLine{{Level: "INFO", Text: b}}}), "Save of text %d", i)
		o := kit.Failure(c)
		o.Reason, o.Text = b, b
		o.Log = []sojourn.LogLine{{Level: "ERROR", Text: b}}
		s.Finish(o, sojourn.Failed)
		kit.Same(s, "lines", len(s.LogLines(id)), 2)
		kit.Same(s, "error", s.Get(id).Error, b)
	}
}

func limits(s *kit.Scene) {
	const limit = 1000
	s.Open(kit.Options{MaxBytes: limit})
	st, err := s.Store.Status(s.Ctx)
	s.Must(err, "Status")
	kit.Same(s, "the limit told", st.MaxBytes, limit)
	exact, more := strings.Repeat("x", limit), strings.Repeat("x", limit+1)
	j := s.Job(kit.Args(more))
	_, err = s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
	e := s.Refused(err, sojourn.CodeTooLarge, "args above the limit")
	for _, number := range []int{limit, limit + 1} {
		if !strings.Contains(e.Message, fmt.Sprint(number)) {
			s.Errorf("the error %q does not name %d", e.Message, number)
		}
	}
	s.Gone(j.ID)
	a := []byte(more)
	id := s.Enqueue(kit.Args(exact))
	if _, err := s.Store.Edit(s.Ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, sojourn.Edit{Action: sojourn.EditChange, Args: &a}); err == nil {
		s.Fatal("an edit took args above the limit")
	} else {
		s.Refused(err, sojourn.CodeTooLarge, "an edit's args above the limit")
	}
	s.Cancel(id)
	roundTrip(s, []byte(exact))
}

func limitLarge(s *kit.Scene) {
	s.Open(kit.Options{MaxBytes: sojourn.MaxMaxBytes})
	big := bytes.Repeat([]byte{0, 1, 2, 0xff}, sojourn.MaxMaxBytes/4)
	id := s.Enqueue(func(j *sojourn.Job) { j.Args = big })
	c := s.Claim()
	kit.Same(s, "job", c.Job.ID, id)
	kit.Same(s, "args are equal", bytes.Equal(c.Job.Args, big), true)
	o := kit.Completed(c)
	o.Result = big
	s.Finish(o, sojourn.Completed)
	kit.Same(s, "result is equal", bytes.Equal(s.Get(id).Result, big), true)
}
