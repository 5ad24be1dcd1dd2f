package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

// token stores a token and gives the header with it.
func (s *site) token(life time.Duration, grants ...sojourn.Grant) string {
	s.Helper()
	t, bearer := NewToken("test", life, grants)
	if err := s.client.Store().(sojourn.AccessStore).SetAccessToken(s.Context(), t); err != nil {
		s.Fatal(err)
	}
	s.forget()
	return "Authorization: Bearer " + bearer
}

// forget makes the server read the tokens again.
func (s *site) forget() {
	d := s.server.door
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = time.Time{}
}

// operations are those of the committed description.
func operations(t *testing.T) map[string]struct{ method, path, verb string } {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			ID   string `json:"operationId"`
			Verb string `json:"x-sojourn-verb"`
		}
	}
	if err := json.Unmarshal(specification(), &doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]struct{ method, path, verb string }{}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			path := strings.NewReplacer("{id}", "1", "{queue}", "q").Replace(path)
			all[o.ID] = struct{ method, path, verb string }{strings.ToUpper(method), path, o.Verb}
		}
	}
	if len(all) != len(routes) {
		t.Fatalf("the description has %d operations, the server %d", len(all), len(routes))
	}
	return all
}

// TestEveryRouteAndToken tries every operation of the description with every sort of token.
func TestEveryRouteAndToken(t *testing.T) {
	s := newSite(t, Options{})
	everywhere := func(v sojourn.Verb) sojourn.Grant { return sojourn.Grant{Verbs: []sojourn.Verb{v}} }
	bad := map[string]string{
		"none": "X-Nothing: 1", "empty": "Authorization: Bearer ", "basic": "Authorization: Basic c2o6c2o=", "unknown": "Authorization: Bearer sj_abcdefghij_XXXXXXXX",
		"garbage": "Authorization: Bearer ~~", "expired": s.token(-time.Second, everywhere(sojourn.VerbAdmin)),
		"cut": strings.TrimRight(s.token(time.Hour, everywhere(sojourn.VerbAdmin)), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
	}
	revoked, bearer := NewToken("revoked", time.Hour, []sojourn.Grant{everywhere(sojourn.VerbAdmin)})
	revoked.RevokedAt = time.Now().Add(-time.Second)
	if err := s.client.Store().(sojourn.AccessStore).SetAccessToken(t.Context(), revoked); err != nil {
		t.Fatal(err)
	}
	bad["revoked"] = "Authorization: Bearer " + bearer
	good := map[sojourn.Verb]string{}
	for _, v := range sojourn.Verbs {
		good[v] = s.token(time.Hour, everywhere(v))
	}
	for id, o := range operations(t) {
		body := "{}"
		if o.method == http.MethodGet || o.method == http.MethodDelete || id == "checkStore" {
			body = ""
		}
		unauthorizedBody := ""
		for sort, header := range bad {
			a := s.send(o.method, o.path, body, header)
			s.want(id+" with "+sort, a, http.StatusUnauthorized, "unauthorized")
			if a.head.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %s: no WWW-Authenticate", id, sort)
			}
			plain := strings.ReplaceAll(a.body, a.head.Get("X-Request-Id"), "")
			if unauthorizedBody != "" && plain != unauthorizedBody {
				t.Errorf("%s with %s: the answer tells more: %s", id, sort, a.body)
			}
			unauthorizedBody = plain
		}
		for verb, header := range good {
			a := s.send(o.method, o.path, body, header)
			if string(verb) == o.verb || verb == sojourn.VerbAdmin {
				if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || a.status == http.StatusInternalServerError {
					t.Errorf("%s with %s: answered %d %s", id, verb, a.status, a.body)
				}
				continue
			}
			s.want(id+" with "+string(verb), a, http.StatusForbidden, "insufficient_scope")
		}
	}
}

// TestScopes tries what a token may do with jobs of other queues and kinds.
func TestScopes(t *testing.T) {
	s := newSite(t, Options{})
	all := []sojourn.Verb{sojourn.VerbEnqueue, sojourn.VerbRespond, sojourn.VerbWork, sojourn.VerbRead, sojourn.VerbReadArgs, sojourn.VerbOperate}
	pay := s.token(time.Hour, sojourn.Grant{Verbs: all, Queue: "pay*", Kind: "charge_*"})
	admin := s.token(time.Hour, sojourn.Grant{Verbs: []sojourn.Verb{sojourn.VerbAdmin}})
	mail := s.send(http.MethodPost, "/v1/jobs", `{"kind":"send_mail","queue":"mail","key":"m","args":{"secret":1}}`, admin)
	s.want("another's job", mail, 201, "")
	s.want("my job", s.send(http.MethodPost, "/v1/jobs", `{"kind":"charge_card","queue":"payments","args":{"n":1}}`, pay), 201, "")
	var other struct{ ID json.Number }
	if err := json.Unmarshal([]byte(mail.body), &other); err != nil {
		t.Fatal(err)
	}
	missing := s.send(http.MethodGet, "/v1/jobs/999", "", pay)
	id := other.ID.String()
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/v1/jobs", `{"kind":"charge_card","queue":"mail"}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs", `{"kind":"send_mail","queue":"payments"}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs", `{"kind":"charge_card"}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs/batch", `{"jobs":[{"kind":"charge_card","queue":"pay"},{"kind":"send_mail","queue":"pay"}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs/raw?kind=send_mail&queue=pay", "x", 403, "insufficient_scope"},
		{"GET", "/v1/jobs/" + id, "", 404, "not_found"}, {"GET", "/v1/jobs/" + id + "/args", "", 404, "not_found"},
		{"GET", "/v1/jobs/" + id + "/result", "", 404, "not_found"}, {"GET", "/v1/jobs/" + id + "/history", "", 404, "not_found"},
		{"GET", "/v1/jobs/" + id + "/log", "", 404, "not_found"}, {"GET", "/v1/jobs/" + id + "/why", "", 404, "not_found"},
		{"GET", "/v1/jobs", "", 403, "insufficient_scope"}, {"GET", "/v1/jobs?queue=mail&kind=charge_card", "", 403, "insufficient_scope"},
		{"GET", "/v1/jobs?queue=payments&kind=charge_card&full=true", "", 200, ""},
		{"GET", "/v1/jobs?id=" + id, "", 200, ""},
		{"POST", "/v1/jobs/edit", `{"filter":{},"edit":{"action":"cancel"}}`, 403, "insufficient_scope"},
		{"POST", "/v1/jobs/edit", `{"filter":{"ids":[` + id + `]},"edit":{"action":"cancel"}}`, 404, "not_found"},
		{"POST", "/v1/jobs/edit", `{"filter":{"ids":[2]},"edit":{"action":"purge"}}`, 404, "not_found"},
		{"POST", "/v1/jobs/edit", `{"filter":{"ids":[2]},"edit":{"action":"change","change":{"queue":"mail"}}}`, 403, "insufficient_scope"},
		{"POST", "/v1/claim", `{"worker":"w","queues":["payments","mail"],"kinds":["charge_card"],"max":1}`, 403, "insufficient_scope"},
		{"POST", "/v1/claim", `{"worker":"w","queues":["payments"],"kinds":["charge_card","send_mail"],"max":1}`, 403, "insufficient_scope"},
		{"POST", "/v1/extend", `{"leases":[{"id":1,"epoch":1,"worker":"w"}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/save", `{"items":[{"lease":{"id":1,"epoch":1,"worker":"w"}}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/finish", `{"outcomes":[{"lease":{"id":1,"epoch":1,"worker":"w"},"type":"completed"}]}`, 403, "insufficient_scope"},
		{"POST", "/v1/responses", `{"kind":"send_mail","key":"m"}`, 403, "insufficient_scope"},
		{"POST", "/v1/responses", `{"job":` + id + `}`, 404, "not_found"},
		{"GET", "/v1/inbox", "", 403, "insufficient_scope"},
		{"POST", "/v1/queues/mail/hold", `{"for":"1m"}`, 403, "insufficient_scope"},
		{"GET", "/v1/queues/mail/why", "", 403, "insufficient_scope"},
		{"GET", "/v1/audit", "", 403, "insufficient_scope"},
	} {
		a := s.send(c.method, c.path, c.body, pay)
		s.want(c.method+" "+c.path+" "+c.body, a, c.status, c.code)
		if strings.Contains(a.body, "secret") || strings.Contains(a.body, `"key":"m"`) {
			t.Errorf("%s %s tells of another's job: %s", c.method, c.path, a.body)
		}
		if c.path == "/v1/jobs/"+id {
			got := strings.NewReplacer(id, "N", a.head.Get("X-Request-Id"), "").Replace(a.body)
			want := strings.NewReplacer("999", "N", missing.head.Get("X-Request-Id"), "").Replace(missing.body)
			if got != want {
				t.Errorf("another's job answers %s, one that does not exist %s", got, want)
			}
		}
	}
	if a := s.send(http.MethodGet, "/v1/queues", "", pay); strings.Contains(a.body, `"mail"`) {
		t.Errorf("the list of queues shows others: %s", a.body)
	}
	s.leasesOfOthers(pay, admin)
}

// leasesOfOthers: a token reports only on the leases that it holds, and what operators do stands in the audit log.
func (s *site) leasesOfOthers(pay, admin string) {
	s.Helper()
	a := s.send(http.MethodPost, "/v1/claim", `{"worker":"w","queues":["payments"],"kinds":["charge_card"],"max":1}`, pay)
	var claimed struct {
		Jobs []struct{ Lease json.RawMessage }
	}
	if err := json.Unmarshal([]byte(a.body), &claimed); err != nil || len(claimed.Jobs) != 1 {
		s.Fatalf("claim answered %d %s", a.status, a.body)
	}
	outcome := `{"outcomes":[{"lease":` + string(claimed.Jobs[0].Lease) + `,"type":"completed","result":"done"}]}`
	other := s.token(time.Hour, sojourn.Grant{Verbs: []sojourn.Verb{sojourn.VerbWork}, Queue: "pay*"})
	s.want("finish with another token", s.send(http.MethodPost, "/v1/finish", outcome, other), 403, "insufficient_scope")
	if a := s.send(http.MethodPost, "/v1/finish", outcome, pay); !strings.Contains(a.body, `"applied"`) {
		s.Errorf("finish answered %d %s", a.status, a.body)
	}
	s.want("settings", s.send(http.MethodPut, "/v1/queues/mail", `{"paused":true}`, admin), 200, "")
	log := s.send(http.MethodGet, "/v1/audit", "", admin).body
	for _, want := range []string{`"action":"setQueue"`, `"target":"/v1/queues/mail"`, `paused`, `"code":"insufficient_scope"`, `"action":"editJobs"`} {
		if !strings.Contains(log, want) {
			s.Errorf("the audit log has no %s: %s", want, log)
		}
	}
}
