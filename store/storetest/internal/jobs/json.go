package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var jsonTrials = []kit.Trial{
	{Name: "args that are no JSON", Law: "Args whose content type is JSON are refused if they do not parse, with the offset; other content types are never parsed.",
		Covers: "spec:J3 inv:N3", Run: jsonArgs},
	{Name: "a result that is no JSON", Law: "A result whose type is JSON is refused if it does not parse, and the lease stands.",
		Covers: "spec:J3 tr:F15 rules:C7", Run: jsonResult},
	{Name: "a response that is no JSON", Law: "A response whose body is declared as JSON, by itself or by its job, is refused if it does not parse.",
		Covers: "spec:J3 spec:H1", Run: jsonResponse},
	{Name: "a checkpoint that is no JSON", Law: "A checkpoint of a job whose content type is JSON is refused if it does not parse.",
		Covers: "spec:J3 spec:J4", Run: jsonCheckpoint},
}

// broken are texts that do not parse as JSON, with the offset of the first byte at fault.
var broken = map[string]int{`{"a":1,}`: 7, `{"a":1`: 6, `x`: 0, `{"a":1} x`: 8, "\xff": 0, `"a`: 2, `01`: 1, " ": 1, `NaN`: 0, strings.Repeat("[", 2000): 2000}

const (
	jsonTyped = "application/json"
	plain     = "application/octet-stream"
)

// notJSON wants the error to be about text.
func notJSON(s *kit.Scene, err error, field, text string) {
	s.Helper()
	e := s.Refused(err, sojourn.CodeInvalidJSON, fmt.Sprintf("%s %.20q", field, text))
	if e.Field != field || !strings.Contains(e.Message, fmt.Sprintf("at byte %d", broken[text])) {
		s.Fatalf("%s %.20q is refused with field %q and %q, which does not name byte %d", field, text, e.Field, e.Message, broken[text])
	}
}

func jsonArgs(s *kit.Scene) {
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		for _, contentType := range []string{jsonTyped, "application/json; charset=utf-8", "Application/JSON", ""} {
			j := s.Job(kit.Args(b), kit.Typed(contentType))
			_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
			notJSON(s, err, "args", b)
			s.Gone(j.ID)
		}
		for _, contentType := range []string{plain, "text/plain", "application/jsonl"} {
			s.Enqueue(kit.Args(b), kit.Typed(contentType))
		}
	}
	good, bad := s.Job(), s.Job(kit.Args("{"), kit.Typed(jsonTyped))
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{good, bad}, true)
	s.Must(err, "Enqueue each for itself")
	s.Must(es[0].Err, "the good job")
	kit.Same(s, "the bad job", sojourn.ErrorCode(es[1].Err), sojourn.CodeInvalidJSON)
	for _, b := range []string{"", "null", `{"a":[1,2.5e3,"ü"]}`, " 1\n", `{"a":1,"a":2}`} { // empty bytes are no value
		s.Enqueue(kit.Args(b), kit.Typed(jsonTyped))
	}
	newArgs := []byte(`{"a":`)
	id := s.Enqueue(kit.Typed(jsonTyped))
	s.Refused(s.Edit(id, sojourn.Edit{Action: sojourn.EditChange, Args: &newArgs}).Err, sojourn.CodeInvalidJSON, "changed args")
	s.Happened(id)
	c := s.Running(kit.OfKind("x"))
	f := s.Reports(kit.Follow(c, s.Job(kit.Args("{"), kit.Typed(jsonTyped))), driver.FinishRefused)
	s.Refused(f.Err, sojourn.CodeInvalidJSON, "args of a next job")
	s.Finish(kit.Completed(c), sojourn.Completed)
}

func jsonResult(s *kit.Scene) {
	c := s.Running(kit.Typed(jsonTyped))
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		for _, resultType := range []string{jsonTyped, ""} { // without a type of its own a result has that of its job
			o := kit.Completed(c)
			o.Result, o.ResultType = []byte(b), resultType
			notJSON(s, s.Reports(o, driver.FinishRefused).Err, "result", b)
			s.State(c.Job.ID, sojourn.Running)
		}
	}
	s.Finish(kit.Completed(c), sojourn.Completed) // text/plain
	d := s.Running(kit.Typed(plain))
	o := kit.Completed(d)
	o.Result, o.ResultType = []byte("{"), ""
	s.Finish(o, sojourn.Completed)
	kit.Same(s, "result", string(s.Get(d.Job.ID).Result), "{")
	e := s.Running(kit.Typed(jsonTyped))
	o = kit.Completed(e)
	o.Result, o.ResultType = nil, jsonTyped
	s.Finish(o, sojourn.Completed)
}

func jsonResponse(s *kit.Scene) {
	c := s.Awaiting(sojourn.Key("k"), kit.Typed(jsonTyped))
	ofType := func(contentType string) kit.ResponseOption {
		return func(r *sojourn.Response) { r.ContentType = contentType }
	}
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		for _, m := range [][]kit.ResponseOption{{ofType(jsonTyped)}, {ofType("")}, {ofType(""), kit.ToJob(c.Job.ID)}, {ofType("application/json;q=1"), kit.Failing("no")}} {
			_, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("k", append(m, kit.Body(b))...)})
			notJSON(s, err, "body", b)
		}
		_, err := s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("nobody", ofType(jsonTyped), kit.Body(b))})
		notJSON(s, err, "body", b)
		_, err = s.Store.Respond(s.Ctx, []sojourn.Response{s.Answer("k"), s.Answer("k", ofType(jsonTyped), kit.Body(b))})
		kit.Same(s, "index", s.Refused(err, sojourn.CodeInvalidJSON, "the second of two").Index, 1)
	}
	kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{})), 0)
	s.State(c.Job.ID, sojourn.Awaiting)
	r := s.Respond("nobody", ofType(""), kit.Body("{")) // of its job nothing is known
	s.Became(r, sojourn.Early, 0)
	parked := s.Answer("", kit.Body("{"), ofType(jsonTyped), func(r *sojourn.Response) { r.Kind, r.Park, r.Reason = "", true, "undecodable" })
	kit.Same(s, "a parked one", s.Send(parked).Outcome, sojourn.Parked)
	s.Became(s.Respond("k", ofType(""), kit.Body("50 %"), func(r *sojourn.Response) { r.Progress = true }), sojourn.Applied, c.Job.ID)
	s.Became(s.Respond("k", ofType("text/plain"), kit.Body("{")), sojourn.Applied, c.Job.ID)
	d := s.Awaiting(kit.OfKind("x"), kit.Typed(plain))
	s.Became(s.Respond("", kit.ToJob(d.Job.ID), ofType(""), kit.Body("{")), sojourn.Applied, d.Job.ID)
	s.Became(s.Respond("k", ofType(jsonTyped), kit.Body("")), sojourn.Early, c.Job.ID) // no bytes are no value
}

func jsonCheckpoint(s *kit.Scene) {
	c, d := s.Running(kit.Steady(0), kit.Typed(jsonTyped)), s.Running(kit.Typed(plain))
	save := func(c driver.Claimed, b string) error {
		return s.Save(driver.Saved{Lease: c.Lease, Checkpoint: []byte(b)})
	}
	s.Must(save(c, `{"page":3}`), "a checkpoint")
	for _, b := range slices.Sorted(maps.Keys(broken)) {
		notJSON(s, save(c, b), "checkpoint", b)
		s.Must(save(d, b), "a checkpoint of another content type")
		o := kit.Failure(c)
		o.Verdict.Checkpoint = []byte(b)
		notJSON(s, s.Reports(o, driver.FinishRefused).Err, "checkpoint", b)
	}
	kit.Same(s, "checkpoint", string(s.Get(c.Job.ID).Checkpoint), `{"page":3}`)
	s.Must(save(c, ""), "an empty checkpoint")
	kit.Same(s, "checkpoint", string(s.Get(c.Job.ID).Checkpoint), "")
	o := kit.Failure(d)
	o.Verdict.Checkpoint = []byte("{")
	s.Report(o)
	kit.Same(s, "checkpoint", string(s.Get(d.Job.ID).Checkpoint), "{")
}
