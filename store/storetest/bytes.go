package storetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var bytesTrials = []trial{
	{"bytes come back as they are", "Args, result, checkpoint, response body and error text round-trip byte for byte.",
		"inv:C6 spec:J3 spec:J23 spec:D1 spec:H1 spec:R13", bytesRoundTrip},
	{"random bytes come back as they are", "Any bytes of any length round-trip.", "inv:C6 spec:J3 inv:N3", bytesRandom},
	{"every text can be stored", "No reason, error, progress or log line is a ground to refuse an outcome.", "inv:C6 inv:C3 inv:P4 tr:F2", textsStored},
}

var limitTrials = []trial{
	{"limits of bytes", "Each of args, result, checkpoint and body is taken at the limit and refused above it.", "inv:N3 inv:C3 spec:J3 tr:F15", limits},
	{"large bytes", "A store opened for 16 MiB takes them, and gives them back in a claim.", "inv:N3 spec:J3", limitLarge},
}

// nasty are bytes that have broken stores.
var nasty = []string{
	"", "\x00", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "\xc0\x80", `"\ud800"`, "null", "{}", `{"a":1,"a":2}`, `{"n":12345678901234567890.10}`, " \r\n\t ",
	"'; DROP TABLE jobs; --", "%s %d \\ \" '", "\u202e\u0000\U0001F600", "\xef\xbb\xbf{}", strings.Repeat("[", 2000), strings.Repeat("\x00", 5000),
	"ÄÖÜ ﷺ \u0301\u0301", "$1 ? :a @b",
}

// roundTrip takes bytes through the whole life of a job.
func (s *scene) roundTrip(b []byte) {
	s.Helper()
	is := func(what string, got []byte) {
		s.Helper()
		if !bytes.Equal(got, b) {
			s.Fatalf("%s of %d bytes came back as %d: %.60q became %.60q (seed %d)", what, len(b), len(got), b, got, s.seed)
		}
	}
	own := bytes.Clone(b)
	id := s.enqueue(sojourn.Key("k"), typed(plain), func(j *sojourn.Job) { j.Args = own })
	c := s.claim()
	is("claimed args", c.Job.Args)
	s.must(s.save(driver.Saved{Lease: c.Lease, Checkpoint: bytes.Clone(b)}), "Save")
	is("checkpoint", s.get(id).Checkpoint)
	o := failure(c)
	o.Text, o.Verdict.Delay = string(b), sojourn.Now
	s.report(o)
	is("error text", []byte(s.get(id).Error))
	is("error text in the history", []byte(s.history(id)[0].Error))
	c = s.claim()
	is("claimed checkpoint", c.Job.Checkpoint)
	s.finish(await(c, 0), sojourn.Awaiting)
	s.respond("k", func(r *sojourn.Response) { r.Body = bytes.Clone(b) })
	is("body in the inbox", s.inbox(sojourn.InboxFilter{Job: id, Limit: 1})[0].Body)
	c = s.claim()
	is("body in hand", s.inHand(c).Body)
	o = completed(c)
	o.Result = bytes.Clone(b)
	s.finish(o, sojourn.Completed)
	j := s.get(id)
	is("result", j.Result)
	is("args", j.Args)
	is("checkpoint", j.Checkpoint)
	is("the caller's own bytes", own)
}

func bytesRoundTrip(s *scene) {
	for _, b := range nasty {
		s.roundTrip([]byte(b))
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	s.roundTrip(all)
}

func bytesRandom(s *scene) {
	for range 25 {
		b := make([]byte, s.random(1<<s.random(16)+1))
		for i := range b {
			b[i] = byte(s.random(256))
		}
		s.roundTrip(b)
	}
}

func textsStored(s *scene) {
	for i, b := range nasty {
		id := s.enqueue(sojourn.MaxAttempts(1))
		c := s.claim()
		progress := b
		s.must(s.save(driver.Saved{Lease: c.Lease, Progress: &progress, Log: []sojourn.LogLine{{Level: "INFO", Text: b}}}), "Save of text %d", i)
		o := failure(c)
		o.Reason, o.Text = b, b
		o.Log = []sojourn.LogLine{{Level: "ERROR", Text: b}}
		s.finish(o, sojourn.Failed)
		same(s, "lines", len(s.logLines(id)), 2)
		same(s, "error", s.get(id).Error, b)
	}
}

func limits(s *scene) {
	const limit = 1000
	s.open(options{MaxBytes: limit})
	st, err := s.store.Status(s.ctx)
	s.must(err, "Status")
	same(s, "the limit told", st.MaxBytes, limit)
	exact, more := strings.Repeat("x", limit), strings.Repeat("x", limit+1)
	j := s.job(args(more))
	_, err = s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
	e := s.refused(err, sojourn.CodeTooLarge, "args above the limit")
	for _, number := range []int{limit, limit + 1} {
		if !strings.Contains(e.Message, fmt.Sprint(number)) {
			s.Errorf("the error %q does not name %d", e.Message, number)
		}
	}
	s.gone(j.ID)
	a := []byte(more)
	id := s.enqueue(args(exact))
	if _, err := s.store.Edit(s.ctx, sojourn.Filter{IDs: []sojourn.ID{id}}, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Args: &a}}); err == nil {
		s.Fatal("an edit took args above the limit")
	} else {
		s.refused(err, sojourn.CodeTooLarge, "an edit's args above the limit")
	}
	s.cancel(id)
	s.roundTrip([]byte(exact))
}

func limitLarge(s *scene) {
	s.open(options{MaxBytes: sojourn.MaxMaxBytes})
	big := bytes.Repeat([]byte{0, 1, 2, 0xff}, sojourn.MaxMaxBytes/4)
	id := s.enqueue(func(j *sojourn.Job) { j.Args = big })
	c := s.claim()
	same(s, "job", c.Job.ID, id)
	same(s, "args are equal", bytes.Equal(c.Job.Args, big), true)
	o := completed(c)
	o.Result = big
	s.finish(o, sojourn.Completed)
	same(s, "result is equal", bytes.Equal(s.get(id).Result, big), true)
}
