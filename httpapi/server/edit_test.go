package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/access"
)

// TestEditFilter sends edits with an empty list and without a condition. The difference must
// survive JSON.
func TestEditFilter(t *testing.T) {
	s := newSite(t, Options{Open: true})
	s.want("a job", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 201, "")
	edit := func(filter, edit string) answer {
		return s.send(http.MethodPost, "/v1/jobs/edit", `{"filter":`+filter+`,"edit":`+edit+`}`)
	}
	for _, f := range []string{`{"ids":[]}`, `{"states":[]}`, `{"ids":[],"queue":"default"}`} {
		for _, e := range []string{`{"action":"cancel"}`, `{"action":"change","change":{"tags":["t"]}}`, `{"action":"redrive"}`, `{"action":"release"}`, `{"action":"purge"}`, `{"action":"fail"}`} {
			s.contains("an empty list "+f+e, edit(f, e), 200, `"changed":0,"items":[]`)
		}
		s.contains("find "+f, s.send(http.MethodPost, "/v1/jobs/find", f), 200, `"jobs":[]`)
	}
	for _, f := range []string{`{}`, `{"ids":null}`, `{"limit":10,"newest":true,"after":1}`} {
		s.want("no condition "+f, edit(f, `{"action":"cancel"}`), 422, "invalid")
	}
	s.want("all and some", edit(`{"ids":[1]}`, `{"action":"cancel","all":true}`), 422, "invalid")
	s.want("an empty id", s.send(http.MethodGet, "/v1/jobs?id=", ""), 422, "invalid")
	s.contains("a dry run", edit(`{"queue":"default"}`, `{"action":"cancel","dry_run":true}`), 200, `"matched":1,"changed":0,"items":[]`)
	s.contains("all of them", edit(`{}`, `{"action":"cancel","all":true}`), 200, `"changed":1`)
}

// TestEditHidden compares the answer about a job that a token may not edit with that about a job
// that does not exist.
func TestEditHidden(t *testing.T) {
	s := newSite(t, Options{})
	pay := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbOperate}, Queue: "pay*"})
	admin := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbAdmin}})
	var jobs [2]struct{ ID json.Number }
	for i, queue := range []string{"mail", "pay"} {
		a := s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"`+queue+`"}`, admin)
		if err := json.Unmarshal([]byte(a.body), &jobs[i]); err != nil {
			t.Fatal(err, a.body)
		}
	}
	edit := func(ids, more string) string {
		return s.send(http.MethodPost, "/v1/jobs/edit", `{"filter":{"ids":[`+ids+`]`+more+`},"edit":{"action":"cancel"}}`, pay).body
	}
	hidden, mine := jobs[0].ID.String(), jobs[1].ID.String()
	for _, more := range []string{"", `,"states":["ready"]`, `,"queue":"pay"`} {
		if got, want := strings.ReplaceAll(edit(hidden, more), hidden, "N"), strings.ReplaceAll(edit("99999", more), "99999", "N"); got != want || !strings.Contains(got, "not_found") {
			t.Errorf("another's job answers %s, one that does not exist %s", got, want)
		}
	}
	if got := edit(hidden+`,99999,`+mine, ""); strings.Count(got, "not_found") != 2 || !strings.Contains(got, `"changed":1`) {
		t.Errorf("two jobs that are hidden or missing, and one of its own: %s", got)
	}
}

// TestReleaseHidden: a token without the verb, or for another queue, does not end a lease; it gets
// the answer of a job that does not exist.
func TestReleaseHidden(t *testing.T) {
	s := newSite(t, Options{})
	admin := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbAdmin}})
	operator := s.token(time.Hour, access.Grant{Verbs: []access.Verb{access.VerbOperate}, Queue: "pay", Kind: "k"})
	var job struct{ ID json.Number }
	a := s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"pay"}`, admin)
	if err := json.Unmarshal([]byte(a.body), &job); err != nil {
		t.Fatal(err, a.body)
	}
	s.contains("a claim", s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["pay"],"kinds":["k"],"max":1}`, admin), 200, `"epoch":1`)
	release := `{"filter":{"ids":[` + job.ID.String() + `]},"edit":{"action":"release"}}`
	for what, g := range map[string]access.Grant{
		"another queue": {Verbs: []access.Verb{access.VerbOperate}, Queue: "mail"},
		"another kind":  {Verbs: []access.Verb{access.VerbOperate}, Queue: "pay", Kind: "other"},
	} {
		s.contains(what, s.send(http.MethodPost, "/v1/jobs/edit", release, s.token(time.Hour, g)), 200, `not_found`)
	}
	for _, verb := range []access.Verb{access.VerbRead, access.VerbWork, access.VerbEnqueue} {
		token := s.token(time.Hour, access.Grant{Verbs: []access.Verb{verb}, Queue: "pay"})
		s.want(string(verb), s.send(http.MethodPost, "/v1/jobs/edit", release, token), 403, "insufficient_scope")
	}
	s.contains("still running", s.send(http.MethodGet, "/v1/jobs/"+job.ID.String(), "", admin), 200, `"state":"running"`)
	s.contains("the verb for the queue and the kind", s.send(http.MethodPost, "/v1/jobs/edit", release, operator), 200, `"changed":1`)
	s.contains("ready", s.send(http.MethodGet, "/v1/jobs/"+job.ID.String(), "", admin), 200, `"state":"ready"`)
}
