package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/schedule"
	"github.com/sojourn-queue/sojourn/store/failure"
	"github.com/sojourn-queue/sojourn/workflow"
)

// carriers are the types whose values may be hidden.
var carriers = []reflect.Type{reflect.TypeFor[sojourn.Job](), reflect.TypeFor[sojourn.Response](), reflect.TypeFor[sojourn.HistoryEntry](), reflect.TypeFor[failure.Group](), reflect.TypeFor[driver.Claimed]()}

// carries reports whether an answer of a type can have args, results or the like in it.
func carries(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	if slices.Contains(carriers, t) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return carries(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "Args" || carries(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// TestRedactedRoutes lists the operations whose answers can have hidden values, by their types. A
// new one has to be added to redact.Paths.Answer and to the test below.
func TestRedactedRoutes(t *testing.T) {
	var got []string
	for _, r := range routes {
		if r.out != nil && carries(r.out, map[reflect.Type]bool{}) || r.out == reflect.TypeFor[bytesAnswer]() {
			got = append(got, r.id)
		}
	}
	want := []string{"listJobs", "findJobs", "getJob", "getArgs", "getResult", "getHistory", "listInbox", "claim", "listFailures", "getFailure", "muteFailure",
		"listSchedules", "setSchedule", "declareSchedule", "testSchedule", "pauseSchedule", "resumeSchedule", "runSchedule", "deleteSchedule"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// secret is in every value that is hidden.
const secret = "4111-SECRET"

// vault fills a server with jobs whose args, result, checkpoint, response and error detail have a
// secret.
func vault(t *testing.T, open bool) (s *site, failed, completed sojourn.ID) {
	t.Helper()
	var done sojourn.Enqueued
	s = newSite(t, Options{Open: open, Redact: []string{"args.card.number", "result.token", "checkpoint.token", "response.token", "error_detail.token"}})
	hidden := []byte(fmt.Sprintf(`{"token":%q,"shown":"SHOWN"}`, secret))
	input := []byte(fmt.Sprintf(`{"card":{"number":%q,"name":"SHOWN"}}`, secret))
	store := driver.Of(s.client)
	e, err := s.client.Enqueue(t.Context(), sojourn.NewJob("charge", input, sojourn.Queue("pay"), sojourn.Key("order-1")))
	if err != nil {
		t.Fatal(err)
	}
	step := func(o sojourn.Outcome) {
		t.Helper()
		got, err := store.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Name: "w", Queues: []string{"pay"}, Kinds: []string{"charge"}, Max: 1, Capacity: 10})
		if err != nil || len(got) != 1 {
			t.Fatalf("claimed %d: %v", len(got), err)
		}
		if _, err := store.Save(t.Context(), []driver.Saved{{Lease: got[0].Lease, Checkpoint: hidden}}); err != nil {
			t.Fatal(err)
		}
		o.Lease = got[0].Lease
		if _, err := store.Finish(t.Context(), []sojourn.Outcome{o}); err != nil {
			t.Fatal(err)
		}
	}
	step(sojourn.OutcomeOf(sojourn.Await(time.Hour)))
	for _, key := range []string{"order-1", "nobody"} {
		if _, err := s.client.Respond(t.Context(), &sojourn.Response{Kind: "charge", Key: key, Source: "bank", MessageID: key, Body: hidden}); err != nil {
			t.Fatal(err)
		}
	}
	step(sojourn.OutcomeOf(sojourn.Abort(sojourn.WithDetail(json.RawMessage(hidden), errors.New("declined")))))
	if _, err := schedule.Of(s.client).Set(t.Context(), schedule.Schedule{Name: "s", Every: time.Hour, Job: sojourn.NewJob("charge", input, sojourn.Queue("pay"))}); err != nil {
		t.Fatal(err)
	}
	if done, err = s.client.Enqueue(t.Context(), sojourn.NewJob("charge", input, sojourn.Queue("pay"))); err != nil {
		t.Fatal(err)
	}
	step(sojourn.Outcome{Type: sojourn.OutcomeCompleted, Result: hidden})
	if _, err := workflow.Of(s.client).Start(t.Context(), workflow.New("w").Add("a", sojourn.NewJob("later", input))); err != nil {
		t.Fatal(err)
	}
	return s, e.ID, done.ID
}

// TestRedacted: no read answer has a hidden value, for any token but one with read:redacted for the
// queue, nor on a server without tokens. Other values keep their bytes. Workers get all.
func TestRedacted(t *testing.T) {
	for _, open := range []bool{true, false} {
		s, failed, completed := vault(t, open)
		groups, err := failure.Of(s.client).List(t.Context(), failure.Query{})
		if err != nil || len(groups) != 1 {
			t.Fatalf("%d groups: %v", len(groups), err)
		}
		reads := []string{"/v1/jobs?full=true&queue=pay&kind=charge", fmt.Sprintf("/v1/jobs/%d", failed), fmt.Sprintf("/v1/jobs/%d/args", failed), fmt.Sprintf("/v1/jobs/%d/result", completed),
			fmt.Sprintf("/v1/jobs/%d/history", failed), "/v1/inbox", "/v1/inbox/near?kind=charge&key=nobod", "/v1/failures", "/v1/failures/" + groups[0].ID, "/v1/schedules",
			"/v1/workflows", "/v1/workflows/w/members", "/v1/queues", "/v1/stats"}
		tokens := map[string]string{"nobody": "X-Nothing: 1"}
		if !open {
			all := []access.Verb{access.VerbRead, access.VerbReadArgs, access.VerbOperate, access.VerbRespond}
			tokens = map[string]string{
				"reader": s.token(time.Hour, access.Grant{Verbs: all}),
				"other":  s.token(time.Hour, access.Grant{Verbs: all}, access.Grant{Verbs: []access.Verb{access.VerbAdmin}, Queue: "another"}),
				"sees":   s.token(time.Hour, access.Grant{Verbs: append(all, access.VerbReadRedacted)}),
				"admin":  s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbAdmin}}),
			}
		}
		for name, header := range tokens {
			found, shown, sees := 0, 0, name == "sees" || name == "admin"
			for _, path := range reads {
				got := s.send(http.MethodGet, path, "", header)
				if got.status != http.StatusOK {
					t.Errorf("%s reads %s: %d %s", name, path, got.status, got.body)
				}
				found, shown = found+strings.Count(got.body, secret), shown+strings.Count(got.body, "SHOWN")
				if !sees && strings.Contains(got.body, secret) {
					t.Errorf("%s reads %s: %s", name, path, got.body)
				}
			}
			if shown < 12 || sees && found != shown {
				t.Errorf("%s has seen %d values, %d of them secret", name, shown, found)
			}
		}
	}
}

// TestRedactedWork: a worker gets the values that are hidden from readers.
func TestRedactedWork(t *testing.T) {
	s := newSite(t, Options{Open: true, Redact: []string{"args.card"}})
	s.want("enqueue", s.send(http.MethodPost, "/v1/jobs", `{"kind":"charge","args":{"card":"`+secret+`"}}`), http.StatusCreated, "")
	got := s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["default"],"kinds":["charge"],"max":1,"capacity":1}`)
	if !strings.Contains(got.body, secret) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if _, err := New(t.Context(), driver.Of(s.client), Options{Open: true, Redact: []string{"card"}}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("a malformed path: %v", err)
	}
}

// TestRedactedSearch: who does not see a value does not find jobs by it, in no call that takes a
// filter (spec:O17).
func TestRedactedSearch(t *testing.T) {
	for _, open := range []bool{true, false} {
		s := newSite(t, Options{Open: open, Redact: []string{"args.card"}})
		if err := s.client.Queues().Set(t.Context(), "pay", sojourn.QueueSettings{Index: []string{"args.card.number", "args.Card", "args.plain"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.Enqueue(t.Context(), sojourn.NewJob("charge", []byte(`{"card": {"number": 7}, "plain": 1}`), sojourn.Queue("pay"))); err != nil {
			t.Fatal(err)
		}
		tokens := map[string]string{"nobody": "X-Nothing: 1"}
		if !open {
			verbs := []access.Verb{access.VerbRead, access.VerbReadArgs, access.VerbOperate}
			tokens = map[string]string{
				"reader": s.token(time.Hour, access.Grant{Verbs: verbs}),
				"sees":   s.token(time.Hour, access.Grant{Verbs: append(verbs, access.VerbReadRedacted)}),
			}
		}
		for name, header := range tokens {
			for where, hidden := range map[string]bool{"args.card.number:7": true, "args.Card:7": true, "queue:pay kind:charge args.card.number:7 args.plain:1": true, "args.plain:1": false} {
				for _, call := range []struct{ method, path, body string }{
					{http.MethodGet, "/v1/jobs?where=" + url.QueryEscape(where), ""},
					{http.MethodPost, "/v1/jobs/find", `{"where": "` + where + `"}`},
					{http.MethodPost, "/v1/jobs/edit", `{"filter": {"where": "` + where + `"}, "edit": {"action": "cancel", "dry_run": true}}`},
					{http.MethodPost, "/v1/operations", `{"filter": {"where": "` + where + `"}, "edit": {"action": "cancel", "dry_run": true}}`},
				} {
					got := s.send(call.method, call.path, call.body, header)
					if refused := got.status == http.StatusForbidden; refused != (hidden && name != "sees") || !refused && got.status >= 300 {
						t.Errorf("%s: %s %s %s: %d %s", name, call.method, call.path, call.body, got.status, got.body)
					}
				}
			}
		}
	}
}
