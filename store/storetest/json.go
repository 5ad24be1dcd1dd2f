package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

var jsonTrials = []trial{
	{"args that are no JSON", "Args whose content type is JSON are refused if they do not parse, with the offset; other content types are never parsed.",
		"spec:J3 inv:N3", jsonArgs},
	{"a result that is no JSON", "A result whose type is JSON is refused if it does not parse, and the lease stands.", "spec:J3 tr:F15 rules:C7", jsonResult},
	{"a response that is no JSON", "A response whose body is declared as JSON, by itself or by its job, is refused if it does not parse.", "spec:J3 spec:H1", jsonResponse},
	{"a checkpoint that is no JSON", "A checkpoint of a job whose content type is JSON is refused if it does not parse.", "spec:J3 spec:J4", jsonCheckpoint},
}

// broken are texts that do not parse as JSON, with the offset of the first byte at fault.
var broken = map[string]int{`{"a":1,}`: 7, `{"a":1`: 6, `x`: 0, `{"a":1} x`: 8, "\xff": 0, `"a`: 2, `01`: 1, " ": 1, `NaN`: 0, strings.Repeat("[", 2000): 2000}

const (
	jsonTyped = "application/json"
	plain     = "application/octet-stream"
)

// notJSON wants the error to be about text.
func (s *scene) notJSON(err error, field, text string) {
	s.Helper()
	e := s.refused(err, sojourn.CodeInvalidJSON, fmt.Sprintf("%s %.20q", field, text))
	if e.Field != field || !strings.Contains(e.Message, fmt.Sprintf("at byte %d", broken[text])) {
		s.Fatalf("%s %.20q is refused with field %q and %q, which does not name byte %d", field, text, e.Field, e.Message, broken[text])
	}
}

func jsonArgs(s *scene) {
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		for _, contentType := range []string{jsonTyped, "application/json; charset=utf-8", "Application/JSON", ""} {
			j := s.job(args(b), typed(contentType))
			_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
			s.notJSON(err, "args", b)
			s.gone(j.ID)
		}
		for _, contentType := range []string{plain, "text/plain", "application/jsonl"} {
			s.enqueue(args(b), typed(contentType))
		}
	}
	good, bad := s.job(), s.job(args("{"), typed(jsonTyped))
	es, err := s.store.Enqueue(s.ctx, []sojourn.Job{good, bad}, true)
	s.must(err, "Enqueue each for itself")
	s.must(es[0].Err, "the good job")
	same(s, "the bad job", sojourn.ErrorCode(es[1].Err), sojourn.CodeInvalidJSON)
	for _, b := range []string{"", "null", `{"a":[1,2.5e3,"ü"]}`, " 1\n", `{"a":1,"a":2}`} { // empty bytes are no value
		s.enqueue(args(b), typed(jsonTyped))
	}
	newArgs := []byte(`{"a":`)
	id := s.enqueue(typed(jsonTyped))
	s.refused(s.edit(id, sojourn.Edit{Action: sojourn.EditChange, Change: sojourn.Change{Args: &newArgs}}).Err, sojourn.CodeInvalidJSON, "changed args")
	s.happened(id)
	c := s.running(ofKind("x"))
	f := s.reports(follow(c, s.job(args("{"), typed(jsonTyped))), driver.FinishRefused)
	s.refused(f.Err, sojourn.CodeInvalidJSON, "args of a next job")
	s.finish(completed(c), sojourn.Completed)
}

func jsonResult(s *scene) {
	c := s.running(typed(jsonTyped))
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		for _, resultType := range []string{jsonTyped, ""} { // without a type of its own a result has that of its job
			o := completed(c)
			o.Result, o.ResultType = []byte(b), resultType
			s.notJSON(s.reports(o, driver.FinishRefused).Err, "result", b)
			s.state(c.Job.ID, sojourn.Running)
		}
	}
	s.finish(completed(c), sojourn.Completed) // text/plain
	d := s.running(typed(plain))
	o := completed(d)
	o.Result, o.ResultType = []byte("{"), ""
	s.finish(o, sojourn.Completed)
	same(s, "result", string(s.get(d.Job.ID).Result), "{")
	e := s.running(typed(jsonTyped))
	o = completed(e)
	o.Result, o.ResultType = nil, jsonTyped
	s.finish(o, sojourn.Completed)
}

func jsonResponse(s *scene) {
	c := s.awaiting(sojourn.Key("k"), typed(jsonTyped))
	ofType := func(contentType string) mark { return func(r *sojourn.Response) { r.ContentType = contentType } }
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		for _, m := range [][]mark{{ofType(jsonTyped)}, {ofType("")}, {ofType(""), toJob(c.Job.ID)}, {ofType("application/json;q=1"), failing("no")}} {
			_, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("k", append(m, body(b))...)})
			s.notJSON(err, "body", b)
		}
		_, err := s.store.Respond(s.ctx, []sojourn.Response{s.answer("nobody", ofType(jsonTyped), body(b))})
		s.notJSON(err, "body", b)
		_, err = s.store.Respond(s.ctx, []sojourn.Response{s.answer("k"), s.answer("k", ofType(jsonTyped), body(b))})
		same(s, "index", s.refused(err, sojourn.CodeInvalidJSON, "the second of two").Index, 1)
	}
	same(s, "responses", len(s.inbox(sojourn.InboxFilter{})), 0)
	s.state(c.Job.ID, sojourn.Awaiting)
	r := s.respond("nobody", ofType(""), body("{")) // of its job nothing is known
	s.became(r, sojourn.Early, 0)
	parked := s.answer("", body("{"), ofType(jsonTyped), func(r *sojourn.Response) { r.Kind, r.Park, r.Reason = "", true, "undecodable" })
	same(s, "a parked one", s.send(parked).Outcome, sojourn.Parked)
	s.became(s.respond("k", ofType(""), body("50 %"), func(r *sojourn.Response) { r.Progress = true }), sojourn.Applied, c.Job.ID)
	s.became(s.respond("k", ofType("text/plain"), body("{")), sojourn.Applied, c.Job.ID)
	d := s.awaiting(ofKind("x"), typed(plain))
	s.became(s.respond("", toJob(d.Job.ID), ofType(""), body("{")), sojourn.Applied, d.Job.ID)
	s.became(s.respond("k", ofType(jsonTyped), body("")), sojourn.Early, c.Job.ID) // no bytes are no value
}

func jsonCheckpoint(s *scene) {
	c, d := s.running(steady(0), typed(jsonTyped)), s.running(typed(plain))
	save := func(c driver.Claimed, b string) error {
		return s.save(driver.Saved{Lease: c.Lease, Checkpoint: []byte(b)})
	}
	s.must(save(c, `{"page":3}`), "a checkpoint")
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		s.notJSON(save(c, b), "checkpoint", b)
		s.must(save(d, b), "a checkpoint of another content type")
		o := failure(c)
		o.Verdict.Checkpoint = []byte(b)
		s.notJSON(s.reports(o, driver.FinishRefused).Err, "checkpoint", b)
	}
	same(s, "checkpoint", string(s.get(c.Job.ID).Checkpoint), `{"page":3}`)
	s.must(save(c, ""), "an empty checkpoint")
	same(s, "checkpoint", string(s.get(c.Job.ID).Checkpoint), "")
	o := failure(d)
	o.Verdict.Checkpoint = []byte("{")
	s.report(o)
	same(s, "checkpoint", string(s.get(d.Job.ID).Checkpoint), "{")
}
